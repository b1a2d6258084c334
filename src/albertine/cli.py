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
    CorpusBenchSettings,
    FinetuneBenchSettings,
    GradientBenchSettings,
    ModelBenchSettings,
    RaceSettings,
    StartupBenchSettings,
)
from albertine.command import DEFAULT_OPTIONS, SETTINGS_PARAMETER, CommonOptions, NoSettings
from albertine.corpus.settings import CorpusSettings, CorpusShowSettings
from albertine.demo.settings import DemoSettings
from albertine.deploy.settings import ServeSettings
from albertine.errors import InputError
from albertine.info.model_info import InfoSettings
from albertine.pretrain.settings import FillMaskSettings, PretrainSettings, ProbeSettings
from albertine.tasks.settings import EnsembleSettings, EvaluateSettings, PredictSettings, SweepSettings
from albertine.text.settings import ReadingSettings, TokenizerSettings
from albertine.world.settings import StorySettings, WorldSettings

_INSPECT = Group("Look at models", sort_key=1)
_TEXT = Group("From text to samples", sort_key=2)
_TRAIN = Group("Train", sort_key=3)
_TASKS = Group("Tasks", sort_key=4)
_CHECKPOINTS = Group("Checkpoints in and out", sort_key=5)
_BENCHMARKS = Group("Measure", sort_key=6)
_SETUP = Group("Set up", sort_key=8)
_WORLD = Group("Text and tasks to try things on", sort_key=7)

JsonFlag = Annotated[
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


@app.command(group=_INSPECT)
def info(
    source: str | None = None,
    /,
    *,
    compare: str | None = None,
    json: JsonFlag = False,
    settings: Annotated[InfoSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
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
    from albertine.info import info_table, model_info

    folder = model_info.checkpoint_folder(source)
    if folder:
        resolved_settings = model_info.checkpoint_info_settings(
            folder, options.read_settings(InfoSettings), is_model_changed=options.sets_table("model")
        )
    else:
        resolved_settings = options.read_settings(InfoSettings, model=source)
    if source or compare or options.sets_table("model"):
        info_table.show_models(model_info.compared_infos(resolved_settings, source, compare), as_json=json)
    else:
        info_table.show_presets(model_info.preset_infos(resolved_settings), as_json=json)


tokenizer = App(name="tokenizer", help="Train a vocabulary of your own, or look at one.", group=_TEXT)
app.command(tokenizer)


@tokenizer.command(name="train")
def tokenizer_train(
    *text: str,
    out: Path,
    settings: Annotated[TokenizerSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
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
    from albertine.text.tokenizer_training import build_tokenizer

    build_tokenizer(text, out, options.read_settings(TokenizerSettings))


@tokenizer.command(name="show")
def tokenizer_show(
    folder: Path,
    text: str | None = None,
    /,
    *,
    stats: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    json: JsonFlag = False,
    settings: Annotated[ReadingSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
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
    from albertine.text import show
    from albertine.text.tokenizer import load_tokenizer
    from albertine.text.unicode_check import check_text

    reading_settings = options.read_settings(ReadingSettings)
    check_text(text or "", "TEXT")
    tokenizer = load_tokenizer(folder)
    fit = show.tokenizer_stats(tokenizer, stats, reading_settings) if stats else None
    show.show_tokenizer(folder, tokenizer, text, fit, as_json=json)


corpus = App(name="corpus", help="Turn text into a corpus, look at its samples, check it.", group=_TEXT)
app.command(corpus)


@corpus.command(name="build")
def corpus_build(
    *text: str,
    tokenizer: Path,
    out: Path,
    json: JsonFlag = False,
    settings: Annotated[CorpusSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
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
    from albertine.corpus import show
    from albertine.corpus.build import build_corpus

    manifest = build_corpus(text, tokenizer, out, options.read_settings(CorpusSettings))
    show.show_manifest(out, manifest, as_json=json)


@corpus.command(name="show")
def corpus_show(
    folder: Path,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[CorpusShowSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Show samples as the network will see them: segments, order, masked pieces.

    Example: albertine corpus show my-corpus --objective.pair nsp --samples 5

    Parameters
    ----------
    folder
        A corpus.
    """
    from albertine.corpus import show
    from albertine.corpus.corpus import Corpus

    resolved_settings = options.read_settings(CorpusShowSettings)
    show.show_samples(Corpus(folder), resolved_settings, as_json=json)


@corpus.command(name="check")
def corpus_check(
    folder: Path, /, *, json: JsonFlag = False, options: CommonOptions = DEFAULT_OPTIONS
) -> None:
    """Verify a corpus: checksums, counts, the order of its parts; a damaged shard is named.

    Example: albertine corpus check my-corpus

    Parameters
    ----------
    folder
        A corpus.
    """
    from albertine.corpus import show
    from albertine.corpus.check import check_corpus

    options.read_settings(NoSettings)
    show.show_manifest(folder, check_corpus(folder).manifest, as_json=json)


@app.command(group=_CHECKPOINTS)
def convert(source: str, destination: Path, /, *, options: CommonOptions = DEFAULT_OPTIONS) -> None:
    """Write a checkpoint anew in the layout of `transformers`, and verify what was written.

    Example: albertine convert old-checkpoint new-folder

    Parameters
    ----------
    source
        A checkpoint: a folder of transformers or of Google's TensorFlow code, or a hub name.
    destination
        A folder that does not exist yet.
    """
    from albertine.interop.convert import convert_checkpoint as rewrite

    options.read_settings(NoSettings)
    rewrite(source, destination)


@app.command(group=_TRAIN)
def pretrain(
    *,
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    plot: Path | None = None,
    settings: Annotated[PretrainSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
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
    from albertine.pretrain import curve_plot as plotting
    from albertine.pretrain.run import pretrain as train
    from albertine.train.run_folder import read_run_settings

    if plot is not None:
        options.read_settings(NoSettings)
        plotting.draw_curve(plot)
        return
    saved_settings = read_run_settings(out, PretrainSettings) if resume and out is not None else None
    resolved_settings = options.read_settings(PretrainSettings, saved_settings)
    if out is None:
        raise InputError("--out is missing: the folder of the run")
    train(
        out, resolved_settings, options.given_keys | (saved_settings.keys if saved_settings else frozenset())
    )


@app.command(group=_TRAIN)
def probe(
    checkpoint: str,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[ProbeSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Measure a checkpoint on held-out text: masked pieces, sentence order, next sentence.

    Example: albertine probe my-run --corpus my-corpus

    Parameters
    ----------
    checkpoint
        A run, a checkpoint's folder (of transformers or Google's), or a hub name.
    """
    from albertine.pretrain import probe as probing

    probing.show_probe(
        checkpoint, probing.probe(checkpoint, options.read_settings(ProbeSettings)), as_json=json
    )


@app.command(group=_TRAIN)
def fill(
    checkpoint: str,
    /,
    *text: str,
    json: JsonFlag = False,
    settings: Annotated[FillMaskSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
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
    from albertine.inference.show_fill_mask import show_fill_mask as answer

    answer(checkpoint, text, options.read_settings(FillMaskSettings), as_json=json)


@app.command(group=_INSPECT)
def demo(
    *,
    out: Path = Path("albertine-demo"),
    settings: Annotated[DemoSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Do all of it once, small, in six minutes: from text to tuned models and a report.

    Broken off, the same command goes on.

    Example: albertine demo --text my-texts/ --out my-demo

    Parameters
    ----------
    out
        The folder of everything that comes of it.
    """
    from albertine.demo.run import run_demo as show

    show(out, options.read_settings(DemoSettings))


@app.command(group=_INSPECT)
def report(run: Path, /, *, options: CommonOptions = DEFAULT_OPTIONS) -> None:
    """Write the report of a run, pre-trained or tuned, as one page: RUN/report.html.

    Example: albertine report my-run

    Parameters
    ----------
    run
        What `albertine pretrain` or `albertine finetune` made.
    """
    from albertine.report.write import write_report as tell

    options.read_settings(NoSettings)
    tell(run)


@app.command(group=_TASKS)
def finetune(
    model: str | None = None,
    /,
    *,
    out: Path | None = None,
    sweep: Annotated[bool, Parameter(negative="")] = False,
    json: JsonFlag = False,
    settings: Annotated[SweepSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
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
    from albertine.finetune.finetune import finetune as tune
    from albertine.inference import results_table

    resolved_settings = options.read_settings(SweepSettings)
    if out is None:
        raise InputError("--out is missing: the folder of the run")
    results_table.show_finetune_results(out, *tune(model, out, resolved_settings, sweep=sweep), as_json=json)


@app.command(group=_TASKS)
def evaluate(
    *model: str,
    json: JsonFlag = False,
    settings: Annotated[EvaluateSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Score tuned models by their tasks' official rules; several, also as the paper averages them.

    Columns are called what they were when a model was tuned, unless they are named here.

    Example: albertine evaluate my-cola my-mnli --data glue/

    Parameters
    ----------
    model
        Tuned runs, checkpoints' folders (also of transformers) or hub names.
    """
    from albertine.inference import results_table
    from albertine.inference.evaluate import evaluate as measure

    results_table.show_evaluations(
        measure(model, options.read_settings(EvaluateSettings), options.given_keys), as_json=json
    )


@app.command(group=_TASKS)
def predict(
    model: str,
    /,
    *,
    out: Path | None = None,
    settings: Annotated[PredictSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
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
    from albertine.inference.predict import predict as answer

    answer(model, out, options.read_settings(PredictSettings), options.given_keys)


@app.command(group=_TASKS)
def ensemble(
    *model: str,
    out: Path | None = None,
    json: JsonFlag = False,
    settings: Annotated[EnsembleSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
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
    from albertine.inference import results_table
    from albertine.inference.ensemble import evaluate_ensemble as join

    results_table.show_ensemble(
        join(model, out, options.read_settings(EnsembleSettings), options.given_keys), as_json=json
    )


@app.command(group=_TASKS)
def serve(
    model: str,
    /,
    *,
    settings: Annotated[ServeSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Serve a model over HTTP, tuned or pre-trained, with a page for trying it.

    Its address is printed; GET /about says what to POST where.

    Example: albertine serve judge --port 8080

    Parameters
    ----------
    model
        A run, a checkpoint's folder (also of transformers) or a hub name.
    """
    from albertine.deploy.server import run_server

    run_server(model, options.read_settings(ServeSettings), debug=options.debug)


world = App(name="world", help="Write a little world: stories, and tasks with true answers.", group=_WORLD)
app.command(world)


@world.command(name="write")
def world_write(
    out: Path,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[WorldSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Make up stories for a corpus, and GLUE, SQuAD and RACE on them, in their official layouts.

    Example: albertine world write my-world --stories 20000 --train 2000 --seed 1

    Parameters
    ----------
    out
        A folder that does not exist yet.
    """
    from albertine.world import show
    from albertine.world.write import write_world

    show.show_written_world(out, *write_world(out, options.read_settings(WorldSettings)), as_json=json)


@world.command(name="show")
def world_show(
    number: int = 0,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[StorySettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Show a story, and what happened in it.

    Example: albertine world show 7 --genre mystery

    Parameters
    ----------
    number
        Which one; every number is a story.
    """
    from albertine.world import show

    show.show_story(number, options.read_settings(StorySettings), as_json=json)


bench = App(
    name="bench", help="Measure a part of Albertine side by side with a peer, in one run.", group=_BENCHMARKS
)
app.command(bench)


@bench.command(name="startup")
def bench_startup(
    *,
    json: JsonFlag = False,
    settings: Annotated[StartupBenchSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Time how long the command line takes to answer, beside a bare Python.

    Example: albertine bench startup --runs 9
    """
    from albertine.bench import startup

    startup.show_startup(startup.measure_startup(options.read_settings(StartupBenchSettings)), as_json=json)


@bench.command(name="model")
def bench_model(
    *,
    json: JsonFlag = False,
    settings: Annotated[ModelBenchSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Time a training step and a forward pass beside `transformers`, same weights and same work.

    Example: albertine bench model --batch sentences --precision fp32
    """
    from albertine.bench import model

    model.show_model(model.measure_model(options.read_settings(ModelBenchSettings)), as_json=json)


@bench.command(name="gradients")
def bench_gradients(
    *,
    json: JsonFlag = False,
    settings: Annotated[GradientBenchSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Time adding up gradients over processes, beside the BERT of the same shape.

    Example: albertine bench gradients --model albert-large --processes 2
    """
    from albertine.bench import gradients

    gradients.show_gradients(
        gradients.measure_gradients(options.read_settings(GradientBenchSettings)), as_json=json
    )


@bench.command(name="pretrain")
def bench_pretrain(
    *,
    plot: Path | None = None,
    json: JsonFlag = False,
    settings: Annotated[RaceSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Race pre-training against `transformers`: equal minutes, the better rate of a sweep for each.

    The network is albert-tiny unless --model or the file says another.

    Example: albertine bench pretrain --corpus my-corpus --minutes 10 --plot race.png

    Parameters
    ----------
    plot
        Draw both curves into this file, .svg or .png.
    """
    from albertine.bench import race as pretrain_bench
    from albertine.bench import race_table

    race_table.show_race(pretrain_bench.run_race(options.read_settings(RaceSettings)), plot, as_json=json)


@bench.command(name="finetune")
def bench_finetune(
    model: str,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[FinetuneBenchSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Tune one checkpoint here and in `transformers`: scores, and examples a second.

    Example: albertine bench finetune my-run --task mrpc --data glue/

    Parameters
    ----------
    model
        What both sides start from.
    """
    from albertine.bench import finetune as finetune_bench

    finetune_bench.show_finetuning(
        *finetune_bench.measure_finetuning(model, options.read_settings(FinetuneBenchSettings)), as_json=json
    )


@bench.command(name="corpus")
def bench_corpus(
    *text: str,
    tokenizer: Path,
    json: JsonFlag = False,
    settings: Annotated[CorpusBenchSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help, read by `shared`
    options: CommonOptions = DEFAULT_OPTIONS,
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

    corpus.show_corpus(
        corpus.measure_corpus(text, tokenizer, options.read_settings(CorpusBenchSettings)), as_json=json
    )


for _name in [one for one in app if not one.startswith("-")]:
    app[_name].help_epilogue = ""  # those examples are of the whole; each command has its own
