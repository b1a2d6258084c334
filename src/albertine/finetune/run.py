"""One fine-tuning run, which restarts with a lower learning rate if it collapses.

A run has collapsed if every evaluation gave the same prediction for all examples of dev, up to
the middle of the run or until the held-out loss was far above that before training. It then
restarts at half the learning rate with twice the warm-up, at most twice, and prints a message.
"""

import json
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import torch

from albertine import progress
from albertine.atomic import atomic_file
from albertine.checksums import weights_checksum
from albertine.device import choose_precision
from albertine.display import display_value
from albertine.errors import InputError
from albertine.finetune.class_weights import balanced_class_weights
from albertine.finetune.dev_outcomes import evaluated_dev
from albertine.finetune.finetuning import Finetuning, TrainingCollapsed
from albertine.finetune.learned_exit import ExitPrior
from albertine.finetune.model_selection import LOSS, nothing_learned_reason
from albertine.finetune.paper_defaults import learning_rate_warning
from albertine.finetune.prepare import FinetuneData, build_model
from albertine.finetune.settings import FinetuneSettings
from albertine.input_files import read_json_object
from albertine.model.depth_plan import depth_plan
from albertine.model.model import Model
from albertine.train.assembly import assemble_trainer
from albertine.train.checkpoints import CHECKPOINTS_FOLDER, CheckpointStore
from albertine.train.distributed import Distributed, restart_wait_seconds
from albertine.train.metrics_log import METRICS_FILE, held_out_scores, read_metrics
from albertine.train.micro_batch import training_micro_batch_tokens
from albertine.train.run_folder import has_checkpoints, run_lock, write_run_settings
from albertine.train.trainer import Trainer

_RESTARTS_FILE = "restarts.json"
_MAX_RESTARTS = 2
# In the middle of a shorter run, identical predictions are normal; only a diverged loss restarts it.
_MIN_STEPS_TO_CHECK = 100
_MIN_EXAMPLES_TO_JUDGE = 20  # scores of fewer examples of dev may be 0 by chance
# Settings that may change when a run resumes: location of the data, speed, checkpoints and tracking.
_CHANGEABLE_SETTINGS = frozenset(
    {"data", "dev", "device", "seeds", "grid.lr", "grid.batch_size", "grid.dropout"}
    | {f"train.{key}" for key in ("micro_batch_tokens", "recompute", "compile", "kernels", "shard")}
    | {f"train.{key}" for key in ("tracker", "keep_checkpoints", "save_every", "save_minutes")}
    | {"train.timeout_minutes"}
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
        steps: number of optimizer steps of the whole run; see `stopped_at`.
        best_step: step of the best model on dev.
        metrics: metrics of the best model on dev.
        restarts: number of times that the run collapsed.
        loss: held-out loss of the best model; None if it is not finite.
        problem: why the run learned nothing, and what to do; None if it learned something.
        stopped_at: step at which the patience ended the run; None if it took all its steps.
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
    loss: float | None
    problem: str | None
    stopped_at: int | None = None

    @property
    def progress(self) -> str:
        """The best step and the number of steps taken, as text, and whether the run stopped early."""
        if self.stopped_at is None:
            return f"{self.best_step:,} of {self.steps:,}"
        return f"{self.best_step:,} of {self.stopped_at:,}, stopped early"


def finetune_run(
    run: Path,
    name: str,
    settings: FinetuneSettings,
    data: FinetuneData,
    distributed: Distributed,
    *,
    max_restarts: int = _MAX_RESTARTS,
    keeps_predictions: bool = False,
) -> FinetuneResult:
    """Train, evaluate and write one run, restarting it if it collapses; return its result.

    Args:
        run: folder of the run.
        name: name of the run in its result.
        settings: settings without unset values; see `with_task_defaults`.
        data: examples and checkpoint.
        distributed: the processes.
        max_restarts: how often the run may restart; with 0 a collapsed run takes all its steps.
        keeps_predictions: whether to write the predictions on dev, if the last evaluation is the best.
    """
    rate_warning = learning_rate_warning(settings, data.task.name, data.model_settings)
    with ExitStack() as stack:
        wait_seconds = restart_wait_seconds(settings.train.timeout_minutes)
        lock = run_lock(run, settings, _CHANGEABLE_SETTINGS, wait_seconds)
        distributed.run_on_main(lambda: stack.enter_context(lock))
        restarts = distributed.broadcast(_restart_count(run) if distributed.is_main else None)
        while True:
            trainer = build_trainer(
                run, settings, data, distributed, restarts, can_collapse=restarts < max_restarts
            )
            trainer.resume()
            distributed.run_on_main(lambda: write_run_settings(run, settings))
            try:
                if not trainer.is_finished:
                    recording = trainer.recorder.open(trainer.last_saved_step)
                    with recording if distributed.is_main else nullcontext():
                        trainer.train()
                break
            except TrainingCollapsed as collapse:
                restarts += 1
                distributed.run_on_main(partial(_reset_run, run, str(collapse), restarts, rate_warning))
        if keeps_predictions:
            distributed.run_on_main(partial(_write_predictions, run, trainer, data))
        step, metrics, reason = distributed.broadcast(
            _best_evaluation(run, data) if distributed.is_main else None
        )
        steps, taken = settings.train.steps, trainer.state.step
        stopped_at = taken if taken < steps else None
        advice = rate_warning or (
            f"take more than {steps:,} steps (--train.steps), with another --out"
            if stopped_at is None
            else patience_advice(stopped_at, steps)
        )
        assert settings.train.lr is not None
        return FinetuneResult(
            run_name=name,
            lr=settings.train.lr * 0.5**restarts,
            batch_size=settings.train.batch_size or 0,
            dropout=settings.dropout or 0.0,
            seed=settings.train.seed,
            steps=steps,
            best_step=step,
            metrics={key: value for key, value in metrics.items() if key != LOSS},
            restarts=restarts,
            loss=metrics.get(LOSS),
            problem=None if reason is None else f"nothing was learned: {reason}; {advice}",
            stopped_at=stopped_at,
        )


def patience_advice(stopped_at: int, steps: int) -> str:
    """Return what to do about a run that stopped early.

    Args:
        stopped_at: step at which the patience ended the run.
        steps: number of steps of the whole run.
    """
    return f"raise or remove --train.patience, which ended the run at step {stopped_at:,} of {steps:,}"


def _write_predictions(run: Path, trainer: Trainer, data: FinetuneData) -> None:
    """Write the predictions on dev, if the last evaluation made them with the model that the run keeps."""
    assert isinstance(trainer.trainable, Finetuning)
    predictions = trainer.trainable.predictions
    if predictions is not None and trainer.is_last_evaluation_best:
        evaluated_dev(run, data, predictions).write(run)


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
    exits = settings.exit_heads if train.exits else "none"
    head = replace(
        data.task_type.head_settings,
        co_matching=settings.co_matching,
        matching=settings.matching,
        exits=exits,
        learned_exit=train.learned_exit,
    )
    dropout = settings.dropout or 0.0
    # When a run resumes, a message about new weights would be wrong: a checkpoint replaces them.
    with progress.quiet_output(has_checkpoints(run)):
        model = build_model(data, head, dropout, train.seed, random_weights=settings.random_weights)
    start_sha256 = None if settings.random_weights else weights_checksum(model.encoder)
    if model.exit_unit is not None:
        model.exit_unit.start_at(train.exit_prior)
    if train.freeze_embeddings:
        model.encoder.embedding.requires_grad_(False)
        if model.encoder.embedding.match is not None:
            model.encoder.embedding.match.requires_grad_(True)  # it is no table of tokens, and mostly new
    micro_batch_tokens = training_micro_batch_tokens(train, data.model_settings, distributed.device)
    check_step = train.steps // 2 if train.steps >= _MIN_STEPS_TO_CHECK else train.steps + 1
    precision = choose_precision(train.precision, distributed.device)
    finetuning = Finetuning(
        data.train,
        data.dev,
        data.task_type,
        replace(data.card, precision="bf16" if precision == torch.bfloat16 else "fp32"),
        data.tokenizer,
        data.model_settings,
        batch_size=train.batch_size or 1,
        seed=train.seed,
        distributed=distributed,
        micro_batch_tokens=micro_batch_tokens,
        collapse_check_step=check_step if can_collapse else None,
        is_sharded=train.shard and distributed.world_size > 1,
        trains_exits=train.exits,
        exit_prior=ExitPrior(train.exit_prior, train.exit_prior_weight) if train.learned_exit else None,
        class_weights=(
            balanced_class_weights(data.task_type, data.train_samples)
            if train.class_weights == "balanced"
            else None
        ),
        start_sha256=start_sha256,
    )
    lr_scales = _learning_rate_scales(model, train.layer_decay)
    return assemble_trainer(
        run, model, finetuning, train, settings, distributed, published="best", lr_scales=lr_scales
    )


def _learning_rate_scales(model: Model, layer_decay: float) -> dict[str, float]:
    """Return the factor on the learning rate of each parameter, by its name; empty if all are 1.

    The factor falls by `layer_decay` from the head to each layer below it. A shared block counts as
    part of the last layer that uses it: in ALBERT both blocks have the rate of the last layer, and
    only the embeddings have a much lower one, without the vector that marks matches.
    """
    if layer_decay == 1.0:
        return {}
    plan = depth_plan(model.settings)
    head_depth = len(plan) + 1
    # The vector of matches is mostly as new as the head.
    depth_by_prefix = {"encoder.embedding.match": head_depth, "encoder.embedding.": 0}
    for depth, blocks in enumerate(plan, start=1):
        depth_by_prefix[f"encoder.attention.{blocks.attention}."] = depth
        depth_by_prefix[f"encoder.ffn.{blocks.ffn}."] = depth
    # What layers have of their own is beside a shared block.
    depth_by_prefix |= dict.fromkeys(("encoder.step_differences.", "encoder.last_norm."), len(plan))
    scales = {}
    for name, _ in model.named_parameters():
        depth = next(
            (depth for prefix, depth in depth_by_prefix.items() if name.startswith(prefix)), head_depth
        )
        scales[name] = layer_decay ** (head_depth - depth)
    return scales


def _restart_count(run: Path) -> int:
    file = run / CHECKPOINTS_FOLDER / _RESTARTS_FILE
    if not file.exists():
        return 0
    advice = f"remove {run} to start again"
    restarts = read_json_object(file, advice).get("restarts")
    if not isinstance(restarts, int) or not 0 <= restarts <= _MAX_RESTARTS:
        raise InputError(f"{file}: restarts = {display_value(restarts)}: not a count of restarts; {advice}")
    return restarts


def _reset_run(run: Path, reason: str, restarts: int, rate_warning: str | None) -> None:
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
        f"with {2**restarts} times the warm-up" + (f"; {rate_warning}" if rate_warning else "")
    )


def _best_evaluation(run: Path, data: FinetuneData) -> tuple[int, dict[str, float], str | None]:
    """Return step and metrics of the best checkpoint, and why it has learned nothing, else None."""
    newest_checkpoint = CheckpointStore(run, 1).newest_valid()
    assert newest_checkpoint
    state: dict[str, Any] = newest_checkpoint.state
    step = int(state["best"]["step"])
    lines = read_metrics(run) if (run / METRICS_FILE).exists() else []
    evaluations = {line["step"]: scores for line in lines if (scores := held_out_scores(line))}
    if step not in evaluations:
        raise InputError(
            f"{run / METRICS_FILE}: no evaluation of step {step:,}, the best one; restore the file"
        )
    if len(data.dev) < _MIN_EXAMPLES_TO_JUDGE:
        return step, evaluations[step], None
    reason = nothing_learned_reason(
        data.task,
        evaluations[step],
        evaluations.get(0, {}),
        predictions_varied=state["data_position"]["predictions_varied"],
    )
    return step, evaluations[step], reason
