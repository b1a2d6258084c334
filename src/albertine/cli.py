"""The command line: one thin function per command, which parses options and calls another package.

The first sentence of a docstring is the command's line in `albertine --help`; each docstring
ends with an example. Heavy modules are imported inside the functions, which keeps
`albertine --help` fast.
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
    ScoreBenchSettings,
    StartupBenchSettings,
)
from albertine.command import (
    DEFAULT_OPTIONS,
    MODEL_SETTINGS_PARAMETER,
    SETTINGS_PARAMETER,
    CommonOptions,
    NoSettings,
)
from albertine.corpus.settings import CorpusSettings, CorpusShowSettings
from albertine.demo.settings import DemoSettings
from albertine.deploy.settings import ServeSettings
from albertine.errors import InputError, NothingLearned
from albertine.finetune.settings import SweepSettings
from albertine.inference.settings import (
    EnsembleSettings,
    EvaluateSettings,
    FillMaskSettings,
    PredictSettings,
    ScoreSettings,
)
from albertine.info.model_info import InfoSettings
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.report_card.settings import ReportCardSettings
from albertine.text.settings import ReadingSettings, TokenizerSettings
from albertine.world.settings import StorySettings, WorldSettings

_INSPECT = Group("Models", sort_key=1)
_TEXT = Group("Text and corpora", sort_key=2)
_TRAIN = Group("Pre-training", sort_key=3)
_TASKS = Group("Tasks", sort_key=4)
_CHECKPOINTS = Group("Checkpoints", sort_key=5)
_BENCHMARKS = Group("Benchmarks", sort_key=6)
_SETUP = Group("Setup", sort_key=8)
_WORLD = Group("Synthetic data", sort_key=7)

JsonFlag = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        help="Print the result as JSON, with stable keys.",
    ),
]

app = App(
    name="albertine",
    help_format="plaintext",  # importing a Markdown renderer takes longer than printing the help
    help="ALBERT from raw text to a served model.",
    version=albertine.__version__,
    help_epilogue="Examples: albertine info albert-large --compare bert-large; "
    "albertine tokenizer train novels/ --out my-tokenizer; "
    "albertine corpus build novels/ --tokenizer my-tokenizer --out my-corpus; "
    "albertine world write my-world; albertine serve judge; albertine convert OLD NEW; "
    "albertine bench startup. "
    "Help for one command: albertine info --help",
)
app["--help"].group = _SETUP
app["--version"].group = _SETUP
app.register_install_completion_command(group=_SETUP, help="Install tab completion for the current shell.")


@app.command(group=_INSPECT)
def info(
    source: str | None = None,
    /,
    *,
    compare: str | None = None,
    json: JsonFlag = False,
    settings: Annotated[InfoSettings | None, MODEL_SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Show parameters, operations and memory of a model, next to BERT and the paper.

    Without SOURCE, show all presets in one table.

    Example: albertine info albert-large --model.share attention

    Args:
        source: A preset (see `albertine info`), or a checkpoint: its folder or its hub name.
        compare: A second preset, shown next to the first model.
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


tokenizer = App(name="tokenizer", help="Train or inspect a vocabulary.", group=_TEXT)
app.command(tokenizer)


@tokenizer.command(name="train")
def tokenizer_train(
    *text: str,
    out: Path,
    settings: Annotated[TokenizerSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Train a unigram vocabulary of subword tokens on text, the kind that ALBERT uses.

    Example: albertine tokenizer train novels/ --vocab-size 30000 --out my-tokenizer

    Args:
        text: Files, folders, globs, hub:OWNER/NAME, or - for stdin; .txt, .jsonl, .parquet, also .gz, .zst.
        out: A new folder, which `transformers` can also load.
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
    settings: Annotated[ReadingSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Show the tokens and ids of a text, or statistics of a vocabulary on files.

    Example: albertine tokenizer show my-tokenizer "The cat sat." --stats novel.txt

    Args:
        folder: The folder of a tokenizer, or of a checkpoint that contains one.
        text: The text to tokenize.
        stats: File, folder or quoted glob, for tokens per word and unknown tokens in it; repeatable.
    """
    from albertine.text import show
    from albertine.text.tokenizer import load_tokenizer
    from albertine.text.unicode_check import check_text

    reading_settings = options.read_settings(ReadingSettings)
    check_text(text or "", "TEXT")
    tokenizer = load_tokenizer(folder)
    stats_result = show.tokenizer_stats(tokenizer, stats, reading_settings) if stats else None
    show.show_tokenizer(folder, tokenizer, text, stats_result, as_json=json)


corpus = App(name="corpus", help="Build, inspect or verify a corpus.", group=_TEXT)
app.command(corpus)


@corpus.command(name="build")
def corpus_build(
    *text: str,
    tokenizer: Path,
    out: Path,
    json: JsonFlag = False,
    settings: Annotated[CorpusSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Tokenize text into shards for pre-training. If interrupted, run the same command again to resume.

    Example: albertine corpus build novels/ --tokenizer my-tokenizer --held-out 0.01 --out my-corpus

    Args:
        text: Files, folders, globs, hub:OWNER/NAME, or - for stdin; .txt, .jsonl, .parquet, also .gz, .zst.
        tokenizer: The folder of a tokenizer, or of a checkpoint that contains one.
        out: A new folder, or the folder of an interrupted build.
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
    settings: Annotated[CorpusShowSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Show samples as the model gets them: segments, order, masked tokens.

    Example: albertine corpus show my-corpus --objective.pair nsp --samples 5

    Args:
        folder: The folder of a corpus.
    """
    from albertine.corpus import show
    from albertine.corpus.corpus import Corpus

    resolved_settings = options.read_settings(CorpusShowSettings)
    show.show_samples(Corpus(folder), resolved_settings, as_json=json)


@corpus.command(name="check")
def corpus_check(
    folder: Path, /, *, json: JsonFlag = False, options: CommonOptions = DEFAULT_OPTIONS
) -> None:
    """Verify the checksums, counts and order of a corpus, and report a damaged shard.

    Example: albertine corpus check my-corpus

    Args:
        folder: The folder of a corpus.
    """
    from albertine.corpus import show
    from albertine.corpus.check import check_corpus

    options.read_settings(NoSettings)
    show.show_manifest(folder, check_corpus(folder).manifest, as_json=json)


@app.command(group=_CHECKPOINTS)
def convert(source: str, destination: Path, /, *, options: CommonOptions = DEFAULT_OPTIONS) -> None:
    """Convert a checkpoint to the layout of `transformers`, and verify the result.

    Example: albertine convert old-checkpoint new-folder

    Args:
        source: A checkpoint: a folder of transformers or of Google's code for ALBERT or BERT, or a hub name.
        destination: A new folder.
    """
    from albertine.interop.convert import convert_checkpoint

    options.read_settings(NoSettings)
    convert_checkpoint(source, destination)


@app.command(group=_TRAIN)
def pretrain(
    *,
    out: Path | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    plot: Path | None = None,
    settings: Annotated[PretrainSettings | None, MODEL_SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Pre-train a model on a corpus. If interrupted, run the same command again: it resumes exactly.

    Example: albertine pretrain --corpus my-corpus --out my-run --model albert-small --train.steps 5000

    Args:
        out: The folder of the run: a new one, or one to resume. It holds the newest checkpoint as a model.
        resume: Resume the run in --out with its saved settings.
        plot: Draw the loss curve of this run as curve.svg and curve.png in its folder, and stop.
    """
    from albertine.pretrain import curve_plot
    from albertine.pretrain.run import pretrain as run_pretraining
    from albertine.train.run_folder import read_run_settings

    if plot is not None:
        options.read_settings(NoSettings)
        curve_plot.draw_curve(plot)
        return
    saved_settings = read_run_settings(out, PretrainSettings) if resume and out is not None else None
    resolved_settings = options.read_settings(PretrainSettings, saved_settings)
    if out is None:
        raise InputError("--out is missing; give the folder of the run")
    run_pretraining(out, resolved_settings)


@app.command(group=_TRAIN)
def probe(
    checkpoint: str,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[ProbeSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Evaluate a checkpoint on held-out text: masked tokens, sentence order, next sentence.

    Example: albertine probe my-run --corpus my-corpus

    Args:
        checkpoint: A run, the folder of a checkpoint (of transformers or Google), or a hub name.
    """
    from albertine.pretrain.probe import probe as run_probe
    from albertine.pretrain.probe import show_probe

    show_probe(checkpoint, run_probe(checkpoint, options.read_settings(ProbeSettings)), as_json=json)


@app.command(group=_TRAIN)
def fill_mask(
    checkpoint: str,
    /,
    *text: str,
    json: JsonFlag = False,
    settings: Annotated[FillMaskSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Predict the masked tokens of a text, or of held-out samples, with a pre-trained model.

    Example: albertine fill-mask my-run "The old [MASK] was locked."

    Args:
        checkpoint: A run, the folder of a checkpoint (of transformers or Google), or a hub name.
        text: Texts with [MASK] in them; default: held-out samples of --corpus.
    """
    from albertine.inference.show_fill_mask import show_fill_mask

    show_fill_mask(checkpoint, text, options.read_settings(FillMaskSettings), as_json=json)


@app.command(group=_TRAIN)
def score(
    model: str,
    /,
    *,
    out: Path | None = None,
    settings: Annotated[ScoreSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Score each text of a file with a pre-trained model: its pseudo-log-likelihood.

    A higher score means a more probable text. The file may have any size.

    Example: albertine score my-run --data sentences.txt --out scores.jsonl

    Args:
        model: A run, the folder of a checkpoint (of transformers or Google), or a hub name.
        out: A new .jsonl, .csv or .tsv file; default: JSON lines on standard output.
    """
    from albertine.inference.score import score as score_file

    resolved_settings = options.read_settings(ScoreSettings)
    _report_unfinished_runs(model)
    score_file(model, resolved_settings, out)


@app.command(group=_INSPECT)
def demo(
    *,
    out: Path = Path("albertine-demo"),
    settings: Annotated[DemoSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Run the whole workflow in about six minutes: text, pre-training, fine-tuning, report.

    If interrupted, run the same command again to resume.

    Example: albertine demo --text my-texts/ --out my-demo

    Args:
        out: The folder for all results.
    """
    from albertine.demo.run import run_demo

    run_demo(out, options.read_settings(DemoSettings))


@app.command(group=_INSPECT)
def report(run: Path, /, *, options: CommonOptions = DEFAULT_OPTIONS) -> None:
    """Write a report of a pre-training or fine-tuning run to RUN/report.html.

    Example: albertine report my-run

    Args:
        run: The folder of a run of `albertine pretrain` or `albertine finetune`.
    """
    from albertine.report.write import write_report

    options.read_settings(NoSettings)
    write_report(run)


@app.command(group=_INSPECT)
def report_card(
    model: str,
    /,
    *,
    out: Path | None = None,
    json: JsonFlag = False,
    settings: Annotated[ReportCardSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Measure a pre-trained model: held-out text, BLiMP, and five tasks with and without pre-training.

    Parts whose data is missing are skipped. If interrupted, run the same command again to resume.

    Example: albertine report-card my-run --corpus my-corpus --data tasks/ --out my-card

    Args:
        model: A run, the folder of a checkpoint (of transformers or Google), or a hub name.
        out: The folder of the card: a new one, or one to complete.
    """
    from albertine.report_card.run import make_report_card
    from albertine.report_card.table import show_card

    resolved_settings = options.read_settings(ReportCardSettings)
    if out is None:
        raise InputError("--out is missing; give the folder of the report card")
    _report_unfinished_runs(model)
    show_card(make_report_card(model, out, resolved_settings), as_json=json)


@app.command(group=_TASKS)
def finetune(
    model: str | None = None,
    /,
    *,
    out: Path | None = None,
    sweep: Annotated[bool, Parameter(negative="")] = False,
    json: JsonFlag = False,
    settings: Annotated[SweepSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Fine-tune a model on a task of the paper or on your own labeled file. Resumes if interrupted.

    The exit status is 3 if the run is complete but its model has learned nothing.

    Example: albertine finetune my-run --task classify --data reviews.csv --label stars --out judge

    Args:
        model: The model to start from: a run, the folder of a checkpoint, or a hub name.
        out: The folder of the run: a new one, or one to resume. It holds the best model on dev.
        sweep: Try a grid of learning rates, batch sizes and dropouts (--grid.*), and keep the best.
    """
    from albertine.finetune.finetune import finetune as run_finetuning
    from albertine.finetune.results_table import show_finetune_results

    resolved_settings = options.read_settings(SweepSettings)
    if out is None:
        raise InputError("--out is missing; give the folder of the run")
    results = run_finetuning(model, out, resolved_settings, sweep=sweep)
    show_finetune_results(out, results, as_json=json)
    if results.problem is not None:
        raise NothingLearned(f"{out}: {results.problem}")


@app.command(group=_TASKS)
def evaluate(
    *model: str,
    json: JsonFlag = False,
    settings: Annotated[EvaluateSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Evaluate fine-tuned models with their tasks' official metrics, or pre-trained ones on minimal pairs.

    Several models are also averaged as in the paper. Column names default to those used for fine-tuning.
    With --task blimp, pre-trained models compare the sentences of minimal pairs.

    Example: albertine evaluate my-cola my-mnli --data glue/

    Args:
        model: Runs, folders of checkpoints (also of transformers) or ensembles, or hub names.
    """
    from albertine.inference.show_evaluation import show_evaluation

    resolved_settings = options.read_settings(EvaluateSettings)
    _report_unfinished_runs(*model)
    show_evaluation(model, resolved_settings, as_json=json)


@app.command(group=_TASKS)
def predict(
    model: str,
    /,
    *,
    out: Path | None = None,
    settings: Annotated[PredictSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Predict each row of a file with a fine-tuned model; the file may have any size.

    Column names default to those used for fine-tuning.

    Example: albertine predict judge --data new.csv --out answers.csv

    Args:
        model: A fine-tuned run, a folder of a checkpoint (also of transformers) or ensemble, or a hub name.
        out: A .jsonl, .csv or .tsv file, a folder for GLUE, or .json for SQuAD; default: JSON on stdout.
    """
    from albertine.inference.predict import predict as predict_file

    resolved_settings = options.read_settings(PredictSettings)
    _report_unfinished_runs(model)
    predict_file(model, resolved_settings, out)


@app.command(group=_TASKS)
def ensemble(
    *model: str,
    out: Path | None = None,
    save: Path | None = None,
    json: JsonFlag = False,
    settings: Annotated[EnsembleSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Average the predictions of several fine-tuned models, selected on dev, and show the gain.

    Example: albertine ensemble run/seed-0 run/seed-1 run/seed-2 --data glue/RTE --save rte-ensemble

    Args:
        model: Candidates, fine-tuned on the same task.
        out: A new file or folder for the predictions on the test split, as in `albertine predict`.
        save: A new folder for the ensemble as a model, for `albertine predict`, `evaluate` and `serve`.
    """
    from albertine.inference import results_table
    from albertine.inference.ensemble import evaluate_ensemble

    resolved_settings = options.read_settings(EnsembleSettings)
    _report_unfinished_runs(*model)
    results_table.show_ensemble(evaluate_ensemble(model, resolved_settings, out, save), as_json=json)


@app.command(group=_TASKS)
def serve(
    model: str,
    /,
    *,
    settings: Annotated[ServeSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Serve a fine-tuned or pre-trained model over HTTP, with a web page for trying it.

    The command prints the address; GET /info lists the endpoints and their fields.

    Example: albertine serve judge --port 8080

    Args:
        model: A run, the folder of a checkpoint (also of transformers) or ensemble, or a hub name.
    """
    from albertine.deploy.server import run_server

    resolved_settings = options.read_settings(ServeSettings)
    _report_unfinished_runs(model)
    run_server(model, resolved_settings, debug=options.debug)


def _report_unfinished_runs(*sources: str) -> None:
    """Print a message for each source that is a run which has not taken all its steps."""
    from albertine import progress
    from albertine.train.run_folder import unfinished_run_message

    for source in sources:
        if message := unfinished_run_message(Path(source)):
            progress.print_message(message)


world = App(
    name="world", help="Generate a little world: stories, and tasks with known answers.", group=_WORLD
)
app.command(world)


@world.command(name="write")
def world_write(
    out: Path,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[WorldSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Generate stories for a corpus, and GLUE, SQuAD and RACE tasks about them in their official layouts.

    Example: albertine world write my-world --stories 20000 --train 2000 --seed 1

    Args:
        out: A new folder.
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
    settings: Annotated[StorySettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Show a story and the events in it.

    Example: albertine world show 7 --genre mystery

    Args:
        number: The number of the story; any number is valid.
    """
    from albertine.world import show

    show.show_story(number, options.read_settings(StorySettings), as_json=json)


bench = App(
    name="bench",
    help="Compare a part of Albertine with another implementation, in one run.",
    group=_BENCHMARKS,
)
app.command(bench)


@bench.command(name="startup")
def bench_startup(
    *,
    json: JsonFlag = False,
    settings: Annotated[StartupBenchSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare the startup time of the command line with bare Python.

    Example: albertine bench startup --runs 9
    """
    from albertine.bench import startup

    startup.show_startup(startup.measure_startup(options.read_settings(StartupBenchSettings)), as_json=json)


@bench.command(name="model")
def bench_model(
    *,
    json: JsonFlag = False,
    settings: Annotated[ModelBenchSettings | None, MODEL_SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare training and forward passes with `transformers`, on the same weights and batches.

    Example: albertine bench model --batch sentences --precision fp32
    """
    from albertine.bench import model

    model.show_comparisons(model.measure_model(options.read_settings(ModelBenchSettings)), as_json=json)


@bench.command(name="gradients")
def bench_gradients(
    *,
    json: JsonFlag = False,
    settings: Annotated[GradientBenchSettings | None, MODEL_SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare the all-reduce of gradients between processes with that of a BERT of the same shape.

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
    settings: Annotated[RaceSettings | None, MODEL_SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare pre-training with `transformers` in equal time, each at its best learning rate of a sweep.

    The model is albert-tiny unless --model or the settings file names another.

    Example: albertine bench pretrain --corpus my-corpus --minutes 10 --plot race.png

    Args:
        plot: File for a plot of both curves, .svg or .png.
    """
    from albertine.bench import race, race_table

    race_table.show_race(race.run_race(options.read_settings(RaceSettings)), plot, as_json=json)


@bench.command(name="finetune")
def bench_finetune(
    model: str,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[FinetuneBenchSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare fine-tuning with `transformers` from the same checkpoint: scores and examples per second.

    Example: albertine bench finetune my-run --task mrpc --data glue/

    Args:
        model: The checkpoint that both sides start from.
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
    settings: Annotated[CorpusBenchSettings | None, SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare corpus building and sampling with the `tokenizers` library and the reference algorithm.

    Example: albertine bench corpus novels/ --tokenizer my-tokenizer

    Args:
        text: Files, folders or globs; a few tens of megabytes are enough.
        tokenizer: The folder of a tokenizer.
    """
    from albertine.bench import corpus

    corpus.show_corpus(
        corpus.measure_corpus(text, tokenizer, options.read_settings(CorpusBenchSettings)), as_json=json
    )


@bench.command(name="score")
def bench_score(
    data: str,
    /,
    *,
    tokenizer: Path,
    json: JsonFlag = False,
    settings: Annotated[ScoreBenchSettings | None, MODEL_SETTINGS_PARAMETER] = None,  # noqa: ARG001  # shown in help; read through `options`
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Compare the scoring of minimal pairs with `transformers`, on the same weights and sentences.

    Example: albertine bench score blimp/data --tokenizer my-tokenizer --pairs 10

    Args:
        data: A folder of .jsonl files with minimal pairs, or one file.
        tokenizer: The folder of a tokenizer.
    """
    from albertine.bench import score as score_bench

    score_bench.show_scoring(
        score_bench.measure_scoring(data, tokenizer, options.read_settings(ScoreBenchSettings)), as_json=json
    )


for _name in [name for name in app if not name.startswith("-")]:
    app[_name].help_epilogue = ""  # commands would inherit the examples of the app
