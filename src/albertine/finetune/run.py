"""One fine-tuning run, which restarts with a lower learning rate if it collapses.

A run has collapsed if up to its middle every evaluation gave the same prediction for all
examples of dev. It then restarts at half the learning rate with twice the warm-up, at most
twice, and prints a message.
"""

import json
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from shutil import rmtree

from albertine import progress
from albertine.atomic import atomic_file
from albertine.device import default_micro_batch_tokens
from albertine.finetune.finetuning import Finetuning, TrainingCollapsed
from albertine.finetune.layer_decay import learning_rate_scales
from albertine.finetune.prepare import FinetuneData, build_model
from albertine.finetune.settings import FinetuneSettings
from albertine.train.assembly import assemble_trainer
from albertine.train.checkpoints import CHECKPOINTS_FOLDER, CheckpointStore
from albertine.train.distributed import Distributed
from albertine.train.metrics_log import METRICS_FILE, held_out_scores, read_metrics
from albertine.train.run_folder import has_checkpoints, run_lock
from albertine.train.trainer import Trainer

_RESTARTS_FILE = "restarts.json"
_MAX_RESTARTS = 2
_MIN_STEPS_BEFORE_CHECK = 100  # earlier, identical predictions are normal
# Settings that may change when a run resumes: location of the data, speed, checkpoints and tracking.
_CHANGEABLE_SETTINGS = frozenset(
    {"data", "dev", "device", "seeds", "grid.lr", "grid.batch_size", "grid.dropout"}
    | {f"train.{key}" for key in ("micro_batch_tokens", "recompute", "compile", "kernels", "shard")}
    | {f"train.{key}" for key in ("tracker", "keep_checkpoints", "save_every", "save_minutes")}
)


@dataclass(frozen=True)
class FinetuneResult:
    """Hyperparameters and metrics of one run.

    Attributes:
        run_name: name of the run's folder; empty if there is only one run.
        lr: peak learning rate, after restarts.
        batch_size: examples per step.
        dropout: dropout of the encoder.
        seed: seed of the run.
        steps: number of optimizer steps.
        best_step: step of the best model on dev.
        metrics: metrics of the best model on dev.
        restarts: number of times that the run collapsed.
    """

    run_name: str
    lr: float
    batch_size: int
    dropout: float
    seed: int
    steps: int
    best_step: int
    metrics: dict[str, float]
    restarts: int


def finetune_run(
    run: Path, name: str, settings: FinetuneSettings, data: FinetuneData, distributed: Distributed
) -> FinetuneResult:
    """Train, evaluate and write one run, restarting it if it collapses; return its result."""
    with ExitStack() as stack:
        distributed.run_on_main(lambda: stack.enter_context(run_lock(run, settings, _CHANGEABLE_SETTINGS)))
        restarts = distributed.broadcast(_restart_count(run) if distributed.is_main else None)
        while True:
            trainer = build_trainer(
                run, settings, data, distributed, restarts, can_collapse=restarts < _MAX_RESTARTS
            )
            trainer.resume()
            try:
                if not trainer.is_finished:
                    recording = trainer.recorder.open(trainer.last_saved_step, asdict(settings))
                    with recording if distributed.is_main else nullcontext():
                        trainer.train()
                break
            except TrainingCollapsed as collapse:
                restarts += 1
                distributed.run_on_main(partial(_reset_run, run, str(collapse), restarts))
        step, scores = distributed.broadcast(_best_metrics(run) if distributed.is_main else None)
        assert settings.train.lr is not None
        return FinetuneResult(
            name,
            settings.train.lr * 0.5**restarts,
            settings.train.batch_size or 0,
            settings.dropout or 0.0,
            settings.train.seed,
            settings.train.steps,
            step,
            scores,
            restarts,
        )


def build_trainer(
    run: Path,
    settings: FinetuneSettings,
    data: FinetuneData,
    distributed: Distributed,
    restarts: int = 0,
    *,
    can_collapse: bool = True,
) -> Trainer:
    """Return the trainer of a run, on which the caller calls `resume` and `train`.

    Args:
        run: folder of the run.
        settings: settings without unset values; see `with_task_defaults`.
        data: examples and checkpoint.
        distributed: the processes.
        restarts: number of times that the run has collapsed.
        can_collapse: whether training may raise `TrainingCollapsed`.
    """
    train = settings.train
    assert train.lr is not None
    assert train.warmup is not None
    train = replace(train, lr=train.lr * 0.5**restarts, warmup=min(train.steps, train.warmup * 2**restarts))
    head, dropout = data.task_type.head_settings, settings.dropout or 0.0
    # When a run resumes, a message about new weights would be wrong: a checkpoint replaces them.
    with progress.quiet_output(has_checkpoints(run)):
        model = build_model(data, head, dropout, train.seed, random_weights=settings.random_weights)
    if train.freeze_embeddings:
        model.encoder.embedding.requires_grad_(False)
    micro_batch_tokens = train.micro_batch_tokens or default_micro_batch_tokens(distributed.device)
    collapse_check_step = max(_MIN_STEPS_BEFORE_CHECK, train.steps // 2) if can_collapse else train.steps + 1
    finetuning = Finetuning(
        data.train,
        data.dev,
        data.task_type,
        data.card,
        data.tokenizer,
        data.model_settings,
        batch_size=train.batch_size or 1,
        seed=train.seed,
        distributed=distributed,
        micro_batch_tokens=micro_batch_tokens,
        collapse_check_step=collapse_check_step,
        is_sharded=train.shard and distributed.world_size > 1,
    )
    lr_scales = learning_rate_scales(model, train.layer_decay)
    return assemble_trainer(run, model, finetuning, train, distributed, published="best", lr_scales=lr_scales)


def _restart_count(run: Path) -> int:
    file = run / CHECKPOINTS_FOLDER / _RESTARTS_FILE
    return int(json.loads(file.read_text(encoding="utf-8"))["restarts"]) if file.exists() else 0


def _reset_run(run: Path, reason: str, restarts: int) -> None:
    """Delete the checkpoints of a collapsed run, count the restart, and print a message."""
    # The newest goes first: if interrupted, the run resumes from an older checkpoint, or starts again,
    # and collapses as before.
    for folder in sorted((run / CHECKPOINTS_FOLDER).glob("step-*"), reverse=True):
        rmtree(folder)
    (run / METRICS_FILE).unlink(missing_ok=True)
    with atomic_file(run / CHECKPOINTS_FOLDER / _RESTARTS_FILE) as file:
        file.write_text(json.dumps({"restarts": restarts, "reason": reason}), encoding="utf-8")
    progress.print_message(
        f"{run}: collapsed, {reason}; restarting at {0.5**restarts:g} of the learning rate, "
        f"with {2**restarts} times the warm-up"
    )


def _best_metrics(run: Path) -> tuple[int, dict[str, float]]:
    """Return step and metrics of the best checkpoint, whose model is in the run folder."""
    newest_checkpoint = CheckpointStore(run, 1).newest_valid()
    assert newest_checkpoint
    step = int(newest_checkpoint.state["best"]["step"])
    evaluations = [held_out_scores(line) for line in read_metrics(run) if line["step"] == step]
    return step, [scores for scores in evaluations if scores][-1]
