"""Commands that pre-train a model, and evaluate what it has learned."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from albertine import progress
from albertine.cli.application import PRETRAINING, JsonFlag, app, check_texts, report_unfinished_runs
from albertine.command import (
    DEFAULT_OPTIONS,
    MODEL_SETTINGS_PARAMETER,
    SETTINGS_PARAMETER,
    CommonOptions,
    NoSettings,
    PathOrUrl,
)
from albertine.errors import AlbertineError, InputError
from albertine.inference.settings import FillMaskSettings, ScoreSettings
from albertine.plan.settings import THIS_MACHINE, PlanSettings, parse_hardware
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.settings import SettingsSource
from albertine.storage.urls import storage_url

P = TypeVar("P", PretrainSettings, PlanSettings)


@app.command(group=PRETRAINING)
def pretrain(
    *,
    out: PathOrUrl | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    plot: Path | None = None,
    settings: Annotated[PretrainSettings | None, MODEL_SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Pre-train a model on a corpus. If interrupted, run the same command again: it resumes exactly.

    The model is albertine-base unless --model, --config or --init-from names one; --print-settings shows
    the settings of a run with its preset.

    Example: albertine pretrain --corpus my-corpus --out my-run --model albertine-small --train.steps 5000

    With several GPUs: torchrun --nproc-per-node 4 -m albertine pretrain, and the same options.

    Args:
        out: The folder or URL of the run: a new one, or one to resume. It holds the newest model.
        resume: Resume the run in --out with its saved settings.
        plot: Draw the loss curve of this run as curve.svg and curve.png in its folder, and stop.
    """
    from albertine.pretrain import curve_plot
    from albertine.pretrain.run import pretrain as run_pretraining
    from albertine.train.mirrored_run import restored_run
    from albertine.train.run_folder import read_run_settings

    if plot is not None:
        if out is not None or resume:
            raise InputError("--plot: draws the curve of a run and stops; leave out --out and --resume")
        options.read_settings(NoSettings)
        curve_plot.draw_curve(plot)
        return
    saved_settings = None
    if resume and out is not None:
        saved_settings = read_run_settings(restored_run(out), PretrainSettings)
    base = saved_settings or _default_preset(options)
    defaults = _defaults_of_checkpoint(PretrainSettings, options)
    resolved_settings = options.read_settings(PretrainSettings, base, defaults)
    if out is None:
        raise InputError("--out is missing; give the folder of the run")
    _refuse_unused_local_start(options.overrides, resolved_settings)
    run_pretraining(out, resolved_settings)
    if storage_url(out) is None:  # the page is written into the run
        progress.print_message(f"albertine report {shlex.quote(str(out))}: a page on what the model predicts")


def _default_preset(options: CommonOptions) -> SettingsSource | None:
    """Return the preset of a run; None if the settings file or a checkpoint gives the architecture."""
    if "model" in options.file_settings.values or options.sets("init_from"):
        return None
    return SettingsSource({"model": {"preset": "albertine-base"}})


def _defaults_of_checkpoint(settings_type: type[P], options: CommonOptions) -> P | None:
    """Return default settings with the model of --init-from, with whose values options must agree.

    None if no option is about the model, or if there is no such checkpoint: the run says what is wrong with
    it, and one that resumes does not need it.
    """
    from albertine.interop.hub import locate_checkpoint
    from albertine.interop.transformers_config import checkpoint_model_settings

    source = options.overrides.get("init_from", options.file_settings.values.get("init_from"))
    if not isinstance(source, str) or not options.sets("model"):
        return None
    try:
        model = checkpoint_model_settings(locate_checkpoint(source, weights=False))
    except (AlbertineError, OSError):
        return None
    return settings_type(model=model)


def _refuse_unused_local_start(overrides: Mapping[str, Any], settings: PretrainSettings) -> None:
    """Raise `InputError` if an option of the command line asks for the local start and a run cannot have it.

    A run can have the unigram start also with --init-from, if the checkpoint has no MLM head.
    """
    if "local_start" not in overrides or not settings.local_start:
        return
    if settings.init_from is not None:
        raise InputError(
            "--local-start: has no effect with --init-from, whose layers the run takes; leave it out"
        )
    if settings.model.rotary:
        raise InputError(
            "--local-start: needs position embeddings, and this model has rotary positions; leave it out, or "
            "take a preset such as --model albert-base"
        )


def _refuse_unplanned(overrides: Mapping[str, Any]) -> None:
    """Raise `InputError` if options of the command line give a length that another one determines."""
    train = overrides.get("train", {})
    if "tokens" in overrides:
        name = next((name for name in ("steps", "minutes") if name in train), None)
        if name is not None:
            raise InputError(f"--tokens and --train.{name}: two lengths of the run; give one of them")
    if "finetune" in overrides:
        if "corpus" in overrides:
            raise InputError("--corpus: fine-tuning reads the examples of a task; leave it out")
        given = [f"--train.{name}" for name in ("steps", "batch_tokens") if name in train]
        given += [f"--curriculum.{name}" for name in overrides.get("curriculum", {})]
        if given:
            option = given[0].replace("_", "-")
            raise InputError(
                f"{option}: steps and batches of fine-tuning are those of the paper, scaled to --examples; "
                "leave it out"
            )


def _refuse_unused_by_hardware(overrides: Mapping[str, Any], settings: PlanSettings) -> None:
    """Raise `InputError` if options of the command line cannot change the plan for the hardware."""
    is_measured = parse_hardware(settings.hardware)[1].lower() == THIS_MACHINE
    if "workers" in overrides:
        raise InputError("--workers: a plan counts no processes that prepare samples; leave it out")
    if "device" in overrides and not is_measured:
        raise InputError(f"--device: is for --hardware this; {settings.hardware} has its own; leave it out")
    if "efficiency" in overrides and is_measured:
        raise InputError("--efficiency: --hardware this is measured; leave it out")


@app.command(group=PRETRAINING)
def plan(
    *,
    json: JsonFlag = False,
    settings: Annotated[PlanSettings | None, MODEL_SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Show the time, memory, communication and cost of a run on hardware that you name.

    The settings are those of `albertine pretrain`; --config takes the settings.toml of a run, or a recipe.
    `--hardware this` measures this machine for about ten seconds. The model is
    albertine-base unless --model or --config names one.

    Example: albertine plan --model albert-xlarge --tokens 10B --hardware "8 x H100" --price 2.50
    """
    from albertine.plan.plan import plan_training
    from albertine.plan.show import show_plan

    _refuse_unplanned(options.overrides)
    defaults = _defaults_of_checkpoint(PlanSettings, options)
    resolved_settings = options.read_settings(PlanSettings, _default_preset(options), defaults)
    _refuse_unused_by_hardware(options.overrides, resolved_settings)
    show_plan(plan_training(resolved_settings), as_json=json)


@app.command(group=PRETRAINING)
def probe(
    checkpoint: str,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[ProbeSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Evaluate a checkpoint on held-out text: masked tokens, sentence order, next sentence.

    Example: albertine probe my-run --corpus my-corpus

    Args:
        checkpoint: A run, a checkpoint of transformers or Google, a URL of one, or a hub name.
    """
    from albertine.pretrain.probe import probe as run_probe
    from albertine.pretrain.probe import show_probe

    show_probe(checkpoint, run_probe(checkpoint, options.read_settings(ProbeSettings)), as_json=json)


@app.command(group=PRETRAINING, usage="Usage: albertine fill-mask [OPTIONS] CHECKPOINT [TEXT...]")
def fill_mask(
    checkpoint: str,
    /,
    *text: str,
    json: JsonFlag = False,
    settings: Annotated[FillMaskSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Predict the masked tokens of a text, or of held-out samples, with a pre-trained model.

    Example: albertine fill-mask my-run "The old [MASK] was locked."

    Args:
        checkpoint: A run, a checkpoint of transformers or Google, a URL of one, or a hub name.
        text: Texts with [MASK] in them; default: held-out samples of --corpus.
    """
    from albertine.inference.show_fill_mask import show_fill_mask

    check_texts(text)
    show_fill_mask(checkpoint, text, options.read_settings(FillMaskSettings), as_json=json)


@app.command(group=PRETRAINING)
def score(
    model: str,
    /,
    *,
    out: PathOrUrl | None = None,
    settings: Annotated[ScoreSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Score each text of a file with a pre-trained model: its pseudo-log-likelihood.

    A higher score means a more probable text. The file may have any size. Resumes if interrupted.

    Example: albertine score my-run --data sentences.txt --out scores.jsonl

    Args:
        model: A run, a checkpoint of transformers or Google, a URL of one, or a hub name.
        out: A new .jsonl, .csv or .tsv file, or its URL; default: JSON lines on standard output.
    """
    from albertine.inference.score import score as score_file

    resolved_settings = options.read_settings(ScoreSettings)
    report_unfinished_runs(model)
    score_file(model, resolved_settings, out)
