"""The command line: one thin function per command. Parsing and calling, nothing else.

A command's first sentence is its line in `albertine --help`; its docstring ends
with an example. Heavy modules are imported inside the functions, so that
`albertine --help` answers at once.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Group, Parameter

import albertine
from albertine.bench.settings import (
    CorpusBench,
    FinetuneBench,
    GradientBench,
    ModelBench,
    PretrainBench,
    StartupBench,
)
from albertine.command import SETTINGS, SHARED, NoSettings, Shared
from albertine.corpus.settings import CorpusSettings, ShowSettings
from albertine.demo.settings import DemoSettings
from albertine.deploy.settings import ServeSettings
from albertine.errors import InputError
from albertine.pretrain.settings import FillSettings, PretrainSettings, ProbeSettings
from albertine.study.anatomy import InfoSettings
from albertine.tasks.settings import EnsembleSettings, EvaluateSettings, PredictSettings, SweepSettings
from albertine.text.settings import ReadingSettings, VocabularySettings
from albertine.world.settings import TaleSettings, WorldSettings

_LOOK = Group("Look at models", sort_key=1)
_TEXT = Group("From text to samples", sort_key=2)
_TRAIN = Group("Train", sort_key=3)
_TASKS = Group("Tasks", sort_key=4)
_CHECKPOINTS = Group("Checkpoints in and out", sort_key=5)
_MEASURE = Group("Measure", sort_key=6)
_SETUP = Group("Set up", sort_key=8)
_WORLD = Group("Text and tasks to try things on", sort_key=7)

Json = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        help="Print what was found as JSON, with stable keys.",
    ),
]

app = App(
    name="albertine",
    help_format="plaintext",  # a renderer of Markdown takes longer to import than the page to print
    help="ALBERT, whole: from raw text to a served model.",
    version=albertine.__version__,
    help_epilogue="Examples: albertine info albert-large --compare bert-large; "
    "albertine tokenizer train novels/ --out my-tokenizer; "
    "albertine corpus build novels/ --tokenizer my-tokenizer --out my-corpus; "
    "albertine world write my-world; albertine serve judge; albertine convert OLD NEW; "
    "albertine bench startup. "
    "Each command explains itself: albertine info --help",
)
app["--help"].group = _SETUP
app["--version"].group = _SETUP
app.register_install_completion_command(
    group=_SETUP, help="Install completion for the shell in use: albertine --install-completion"
)


@app.command(group=_LOOK)
def info(
    subject: str | None = None,
    /,
    *,
    compare: str | None = None,
    json: Json = False,
    settings: Annotated[InfoSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Count a model's parameters, operations and memory, beside BERT and the paper.

    Without one, the whole family in one table.

    Example: albertine info albert-large --model.share attention

    Parameters
    ----------
    subject
        A model of the family, as in albert-base (`albertine info` lists them), or a checkpoint: its folder
        or its name on the hub.
    compare
        A second model of the family, as published, shown beside the first.
    """
    from albertine.study import anatomy, anatomy_view

    folder = anatomy.folder_of(subject)
    if folder:
        asked = anatomy.asked_of(folder, shared.read(InfoSettings), changed=shared.gives("model"))
    else:
        asked = shared.read(InfoSettings, model=subject)
    if subject or compare or shared.gives("model"):
        anatomy_view.show(anatomy.side_by_side(asked, subject, compare), as_json=json)
    else:
        anatomy_view.show_family(anatomy.family(asked), as_json=json)


tokenizer = App(name="tokenizer", help="Train a vocabulary of your own, or look at one.", group=_TEXT)
app.command(tokenizer)


@tokenizer.command(name="train")
def tokenizer_train(
    *text: str,
    out: Path,
    settings: Annotated[VocabularySettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Learn a vocabulary from text: unigram pieces, as ALBERT has them.

    Example: albertine tokenizer train novels/ --vocab-size 30000 --out my-tokenizer

    Parameters
    ----------
    text
        Files, folders, globs, hub:OWNER/NAME, - for standard input; .txt, .jsonl, .parquet, also .gz, .zst.
    out
        A folder that does not exist yet; `transformers` opens it.
    """
    from albertine.text.vocabulary import make_vocabulary

    make_vocabulary(text, out, shared.read(VocabularySettings))


@tokenizer.command(name="show")
def tokenizer_show(
    folder: Path,
    text: str | None = None,
    /,
    *,
    over: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    json: Json = False,
    settings: Annotated[ReadingSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Show the pieces and ids of a text, or how well a vocabulary fits files.

    Example: albertine tokenizer show my-tokenizer "The cat sat." --over novel.txt

    Parameters
    ----------
    folder
        A tokenizer's folder, or a checkpoint's that has one.
    text
        What to take apart.
    over
        A file, folder or quoted glob to count pieces per word and unknown ones over; may be repeated.
    """
    from albertine.text import view
    from albertine.text.tokenizer import load_tokenizer
    from albertine.text.unicode import refuse_broken

    reading = shared.read(ReadingSettings)
    refuse_broken(text or "", "TEXT")
    tokenizer = load_tokenizer(folder)
    fit = view.fit(tokenizer, over, reading) if over else None
    view.show(folder, tokenizer, text, fit, as_json=json)


corpus = App(name="corpus", help="Turn text into a corpus, look at its samples, check it.", group=_TEXT)
app.command(corpus)


@corpus.command(name="build")
def corpus_build(
    *text: str,
    tokenizer: Path,
    out: Path,
    json: Json = False,
    settings: Annotated[CorpusSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Encode text into shards that samples are drawn from. Broken off, the same command goes on.

    Example: albertine corpus build novels/ --tokenizer my-tokenizer --held-out 0.01 --out my-corpus

    Parameters
    ----------
    text
        Files, folders, globs, hub:OWNER/NAME, - for standard input; .txt, .jsonl, .parquet, also .gz, .zst.
    tokenizer
        A folder with a tokenizer, of your own or of a checkpoint.
    out
        A folder that does not exist yet, or one where a build was broken off.
    """
    from albertine.corpus import view
    from albertine.corpus.build import build_corpus

    manifest = build_corpus(text, tokenizer, out, shared.read(CorpusSettings))
    view.show_manifest(out, manifest, as_json=json)


@corpus.command(name="show")
def corpus_show(
    folder: Path,
    /,
    *,
    json: Json = False,
    settings: Annotated[ShowSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Show samples as the network will see them: segments, order, masked pieces.

    Example: albertine corpus show my-corpus --objective.pair nsp --samples 5

    Parameters
    ----------
    folder
        A corpus.
    """
    from albertine.corpus import view
    from albertine.corpus.corpus import Corpus

    asked = shared.read(ShowSettings)
    view.show_samples(Corpus(folder), asked, as_json=json)


@corpus.command(name="check")
def corpus_check(folder: Path, /, *, json: Json = False, shared: Shared = SHARED) -> None:
    """Verify a corpus: checksums, counts, the order of its parts; a damaged shard is named.

    Example: albertine corpus check my-corpus

    Parameters
    ----------
    folder
        A corpus.
    """
    from albertine.corpus import view
    from albertine.corpus.check import check_corpus

    shared.read(NoSettings)
    view.show_manifest(folder, check_corpus(folder).manifest, as_json=json)


@app.command(group=_CHECKPOINTS)
def convert(source: str, destination: Path, /, *, shared: Shared = SHARED) -> None:
    """Write a checkpoint anew in the layout of `transformers`, and verify what was written.

    Example: albertine convert old-checkpoint new-folder

    Parameters
    ----------
    source
        A checkpoint: a folder of transformers or of Google's TensorFlow code, or a hub name.
    destination
        A folder that does not exist yet.
    """
    from albertine.interop.convert import convert as rewrite

    shared.read(NoSettings)
    rewrite(source, destination)


@app.command(group=_TRAIN)
def pretrain(
    *,
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    plot: Path | None = None,
    settings: Annotated[PretrainSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Pre-train a model on a corpus. Broken off, the same command goes on, bit for bit.

    Example: albertine pretrain --corpus my-corpus --out my-run --model albert-small --train.steps 5000

    Parameters
    ----------
    out
        The folder of the run, a model at any moment; new, or one to go on with.
    resume
        Go on with the run in --out, with the settings it was started with.
    plot
        Draw the curve of a run, under way or done, and stop.
    """
    from albertine.pretrain import plot as drawing
    from albertine.pretrain.run import pretrain as train
    from albertine.train.folder import settings_of

    if plot is not None:
        shared.read(NoSettings)
        drawing.draw(plot)
        return
    before = settings_of(out, PretrainSettings) if resume and out is not None else None
    asked = shared.read(PretrainSettings, before)
    if out is None:
        raise InputError("--out is missing: the folder of the run")
    train(out, asked, shared.given | (before.keys if before else frozenset()))


@app.command(group=_TRAIN)
def probe(
    checkpoint: str,
    /,
    *,
    json: Json = False,
    settings: Annotated[ProbeSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Measure a checkpoint on held-out text: masked pieces, sentence order, next sentence.

    Example: albertine probe my-run --corpus my-corpus

    Parameters
    ----------
    checkpoint
        A run, a checkpoint's folder (of transformers or Google's), or a hub name.
    """
    from albertine.pretrain import probe as probing

    probing.show(checkpoint, probing.probe(checkpoint, shared.read(ProbeSettings)), as_json=json)


@app.command(group=_TRAIN)
def fill(
    checkpoint: str,
    /,
    *text: str,
    json: Json = False,
    settings: Annotated[FillSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Fill the masks of a text, or of held-out samples, with what a pre-trained model guesses.

    Example: albertine fill my-run "The old [MASK] was locked."

    Parameters
    ----------
    checkpoint
        A run, a checkpoint's folder (of transformers or Google's), or a hub name.
    text
        Texts with [MASK] in them; without any, --corpus gives held-out samples.
    """
    from albertine.pretrain.fill import fill as answer

    answer(checkpoint, text, shared.read(FillSettings), as_json=json)


@app.command(group=_LOOK)
def demo(
    *,
    out: Path = Path("albertine-demo"),
    settings: Annotated[DemoSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Do all of it once, small, in six minutes: from text to tuned models and a report.

    Broken off, the same command goes on.

    Example: albertine demo --text my-texts/ --out my-demo

    Parameters
    ----------
    out
        The folder of everything that comes of it.
    """
    from albertine.demo.demo import demo as show

    show(out, shared.read(DemoSettings))


@app.command(group=_LOOK)
def report(run: Path, /, *, shared: Shared = SHARED) -> None:
    """Write the report of a run, pre-trained or tuned, as one page: RUN/report.html.

    Example: albertine report my-run

    Parameters
    ----------
    run
        What `albertine pretrain` or `albertine finetune` made.
    """
    from albertine.report.run import report as tell

    shared.read(NoSettings)
    tell(run)


@app.command(group=_TASKS)
def finetune(
    model: str | None = None,
    /,
    *,
    out: Path | None = None,
    sweep: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
    settings: Annotated[SweepSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Tune a model on a task: one of the paper's, or your own labelled file. Broken off, it goes on.

    Example: albertine finetune my-run --task classify --data reviews.csv --label stars --out judge

    Parameters
    ----------
    model
        What to start from: a run, a checkpoint's folder or a hub name.
    out
        The folder of the run, the best model on dev; new, or one to go on with.
    sweep
        Try a grid of rates, batches and dropouts (--grid.*), and keep the best.
    """
    from albertine.tasks import view
    from albertine.tasks.finetune import finetune as tune

    asked = shared.read(SweepSettings)
    if out is None:
        raise InputError("--out is missing: the folder of the run")
    view.show_outcomes(out, *tune(model, out, asked, sweep=sweep), as_json=json)


@app.command(group=_TASKS)
def evaluate(
    *model: str,
    json: Json = False,
    settings: Annotated[EvaluateSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Score tuned models by their tasks' official rules; several, also as the paper averages them.

    Columns are called what they were when a model was tuned, unless they are named here.

    Example: albertine evaluate my-cola my-mnli --data glue/

    Parameters
    ----------
    model
        Tuned runs, checkpoints' folders (also of transformers) or hub names.
    """
    from albertine.tasks import view
    from albertine.tasks.evaluate import evaluate as measure

    view.show_evaluated(measure(model, shared.read(EvaluateSettings), shared.given), as_json=json)


@app.command(group=_TASKS)
def predict(
    model: str,
    /,
    *,
    out: Path | None = None,
    settings: Annotated[PredictSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Answer a file with a tuned model, row by row, whatever its size.

    Columns are called what they were when it was tuned, unless they are named here.

    Example: albertine predict judge --data new.csv --out answers.csv

    Parameters
    ----------
    model
        A tuned run, a checkpoint's folder (also of transformers) or a hub name.
    out
        .jsonl, .csv or .tsv; a folder for GLUE's submission, .json for SQuAD's. Without it, JSON lines on
        standard output.
    """
    from albertine.tasks.predict import predict as answer

    answer(model, out, shared.read(PredictSettings), shared.given)


@app.command(group=_TASKS)
def ensemble(
    *model: str,
    out: Path | None = None,
    json: Json = False,
    settings: Annotated[EnsembleSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Average the scores of several tuned models, chosen on dev, and say what it gains.

    Example: albertine ensemble run/seed-0 run/seed-1 run/seed-2 --data glue/RTE --out submission

    Parameters
    ----------
    model
        Candidates, tuned on the same task.
    out
        Where the answers to test go, as albertine predict writes them.
    """
    from albertine.tasks import view
    from albertine.tasks.ensemble import ensemble as join

    view.show_joined(join(model, out, shared.read(EnsembleSettings), shared.given), as_json=json)


@app.command(group=_TASKS)
def serve(
    model: str,
    /,
    *,
    settings: Annotated[ServeSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Serve a model over HTTP, tuned or pre-trained, with a page for trying it.

    Its address is printed; GET /about says what to POST where.

    Example: albertine serve judge --port 8080

    Parameters
    ----------
    model
        A run, a checkpoint's folder (also of transformers) or a hub name.
    """
    from albertine.deploy.server import serve as run_server

    run_server(model, shared.read(ServeSettings), debug=shared.debug)


world = App(name="world", help="Write a little world: stories, and tasks with true answers.", group=_WORLD)
app.command(world)


@world.command(name="write")
def world_write(
    out: Path,
    /,
    *,
    json: Json = False,
    settings: Annotated[WorldSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Make up stories for a corpus, and GLUE, SQuAD and RACE on them, in their official layouts.

    Example: albertine world write my-world --stories 20000 --train 2000 --seed 1

    Parameters
    ----------
    out
        A folder that does not exist yet.
    """
    from albertine.world import view
    from albertine.world.write import write_world

    view.show(out, *write_world(out, shared.read(WorldSettings)), as_json=json)


@world.command(name="show")
def world_show(
    number: int = 0,
    /,
    *,
    json: Json = False,
    settings: Annotated[TaleSettings | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Show a story, and what happened in it.

    Example: albertine world show 7 --genre mystery

    Parameters
    ----------
    number
        Which one; every number is a story.
    """
    from albertine.world import view

    view.show_story(number, shared.read(TaleSettings), as_json=json)


bench = App(
    name="bench", help="Measure a part of Albertine side by side with a peer, in one run.", group=_MEASURE
)
app.command(bench)


@bench.command(name="startup")
def bench_startup(
    *,
    json: Json = False,
    settings: Annotated[StartupBench | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Time how long the command line takes to answer, beside a bare Python.

    Example: albertine bench startup --runs 9
    """
    from albertine.bench import startup

    startup.show(startup.measure(shared.read(StartupBench)), as_json=json)


@bench.command(name="model")
def bench_model(
    *,
    json: Json = False,
    settings: Annotated[ModelBench | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Time a training step and a forward pass beside `transformers`, same weights and same work.

    Example: albertine bench model --batch sentences --precision fp32
    """
    from albertine.bench import model

    model.show(model.measure(shared.read(ModelBench)), as_json=json)


@bench.command(name="gradients")
def bench_gradients(
    *,
    json: Json = False,
    settings: Annotated[GradientBench | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Time adding up gradients over processes, beside the BERT of the same shape.

    Example: albertine bench gradients --model albert-large --processes 2
    """
    from albertine.bench import gradients

    gradients.show(gradients.measure(shared.read(GradientBench)), as_json=json)


@bench.command(name="pretrain")
def bench_pretrain(
    *,
    plot: Path | None = None,
    json: Json = False,
    settings: Annotated[PretrainBench | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Race pre-training against `transformers`: equal minutes, the better rate of a sweep for each.

    The network is albert-tiny unless --model or the file says another.

    Example: albertine bench pretrain --corpus my-corpus --minutes 10 --plot race.png

    Parameters
    ----------
    plot
        Draw both curves into this file, .svg or .png.
    """
    from albertine.bench import pretrain as race
    from albertine.bench import race_view

    race_view.show(race.measure(shared.read(PretrainBench)), plot, as_json=json)


@bench.command(name="finetune")
def bench_finetune(
    model: str,
    /,
    *,
    json: Json = False,
    settings: Annotated[FinetuneBench | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Tune one checkpoint here and in `transformers`: scores, and examples a second.

    Example: albertine bench finetune my-run --task mrpc --data glue/

    Parameters
    ----------
    model
        What both sides start from.
    """
    from albertine.bench import finetune as tuning

    tuning.show(*tuning.measure(model, shared.read(FinetuneBench)), as_json=json)


@bench.command(name="corpus")
def bench_corpus(
    *text: str,
    tokenizer: Path,
    json: Json = False,
    settings: Annotated[CorpusBench | None, SETTINGS] = None,  # noqa: ARG001  # shown in help, read by `shared`
    shared: Shared = SHARED,
) -> None:
    """Time building and sampling beside the `tokenizers` library and the reference algorithm.

    Example: albertine bench corpus novels/ --tokenizer my-tokenizer

    Parameters
    ----------
    text
        Files, folders or globs; a few tens of megabytes tell enough.
    tokenizer
        A folder with a tokenizer.
    """
    from albertine.bench import corpus

    corpus.show(corpus.measure(text, tokenizer, shared.read(CorpusBench)), as_json=json)


for _name in [one for one in app if not one.startswith("-")]:
    app[_name].help_epilogue = ""  # those examples are of the whole; each command has its own
