"""A pre-training run: from its settings to the folder of a model."""

from contextlib import ExitStack, nullcontext
from pathlib import Path

import torch

from albertine import progress
from albertine.corpus.corpus import open_corpus
from albertine.device import precision_name
from albertine.model.parameter_counts import count_parameters
from albertine.pretrain.assembly import build_trainer
from albertine.pretrain.curve_plot import CURVE_FILE, draw_curve
from albertine.pretrain.default_length import describe_default_length, stored_length, with_stored_length
from albertine.pretrain.duration import with_measured_steps
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import check_causal_fraction, load_init_checkpoint, resolved_settings
from albertine.settings import ModelSettings, build_settings
from albertine.train.distributed import init_distributed, restart_wait_seconds
from albertine.train.metrics_log import METRICS_FILE
from albertine.train.mirrored_run import mirrored_run
from albertine.train.run_folder import (
    check_run_folder,
    has_checkpoints,
    read_run_settings,
    run_lock,
    write_run_settings,
)
from albertine.train.trackers import check_tracker_installed

# Settings that may change when a run resumes: they affect where and how fast the run computes, which
# checkpoints it keeps and where it reports. The corpus may move: its checksums identify it.
CHANGEABLE_SETTINGS = frozenset(
    {"corpus", "device", "workers"}
    | {f"train.{key}" for key in ("micro_batch_tokens", "recompute", "compile", "kernels", "shard")}
    | {f"train.{key}" for key in ("save_every", "save_minutes", "keep_checkpoints", "tracker")}
    | {"train.timeout_minutes"}
)


def pretrain(out: str | Path, settings: PretrainSettings) -> dict[str, float]:
    """Pre-train a model, or resume an interrupted run; return the metrics of the last evaluation.

    Settings without a value are derived from the corpus, the checkpoint to start from and
    the batch size; those that were given (`settings.explicit_keys`) are not changed. A length
    in minutes becomes a number of steps, measured before the first step.

    Args:
        out: folder or URL of the run: a new one, or one to resume. It contains a model at any time.
        settings: settings of the run; a resumed run needs the same ones.
    """
    with mirrored_run(Path(out)) as run:
        return _pretrain_in(run, settings)


def _pretrain_in(run: Path, settings: PretrainSettings) -> dict[str, float]:
    """Pre-train a model in a local folder; see `pretrain`."""
    check_tracker_installed(settings.train.tracker)
    corpus = open_corpus(settings.corpus)
    timeout_minutes = settings.train.timeout_minutes
    with init_distributed(settings.device, timeout_minutes) as distributed, ExitStack() as stack:
        distributed.run_on_main(lambda: check_run_folder(run))  # before steps are measured
        stored_model_settings = _stored_model_settings(run, settings)
        init_model = None if stored_model_settings else load_init_checkpoint(settings, corpus)
        init_settings = stored_model_settings or (init_model.settings if init_model else None)
        stored = None
        if not (settings.train.steps and settings.train.batch_tokens):
            stored = distributed.broadcast(distributed.run_on_main(lambda: stored_length(run)))
        settings = with_stored_length(settings, stored)
        has_length = settings.train.steps > 0 or settings.train.minutes is not None
        settings = with_measured_steps(settings, stored, corpus, init_model, init_settings, distributed)
        settings = resolved_settings(settings, corpus, init_settings, distributed.world_size)
        check_causal_fraction(settings)
        if not has_length and distributed.is_main:
            on_cpu = distributed.device.type == "cpu"
            progress.print_message(f"{run}: {describe_default_length(settings, corpus, on_cpu=on_cpu)}")
        lock = run_lock(run, settings, CHANGEABLE_SETTINGS, restart_wait_seconds(timeout_minutes))
        distributed.run_on_main(lambda: stack.enter_context(lock))
        trainer = build_trainer(run, settings, corpus, init_model, distributed)
        trainer.resume()
        distributed.run_on_main(lambda: write_run_settings(run, settings))
        if trainer.is_finished:
            step, steps = trainer.state.step, settings.train.steps
            progress.print_message(f"{run}: finished at step {step:,} of {steps:,}; nothing to resume")
            if distributed.is_main and not (run / CURVE_FILE).exists():
                if (run / METRICS_FILE).exists():
                    draw_curve(run)
                else:
                    progress.print_message(f"{run / METRICS_FILE}: missing; the run has no learning curve")
            return trainer.state.metrics
        if distributed.is_main:
            progress.print_message(f"{run}: {_description(settings, distributed.device)}")
        with trainer.recorder.open(trainer.last_saved_step) if distributed.is_main else nullcontext():
            trainer.train()
        if distributed.is_main:
            draw_curve(run)
        return trainer.state.metrics


def _description(settings: PretrainSettings, device: torch.device) -> str:
    """Return in a line what is trained and how."""
    train = settings.train
    return (
        f"{count_parameters(settings.model).total:,} parameters; {train.optimizer}, learning rate up to "
        f"{train.lr:.3g}; {precision_name(train.precision, device)} on {device.type}"
    )


def _stored_model_settings(run: Path, settings: PretrainSettings) -> ModelSettings | None:
    """Return the model settings that a run stored, if it resumes and started from another checkpoint.

    With them, the checkpoint of `init_from` is not needed to resume.
    """
    if settings.init_from is None or not has_checkpoints(run):
        return None
    return build_settings(PretrainSettings, read_run_settings(run, PretrainSettings)).model
