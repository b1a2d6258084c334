"""One run of tuning, which starts again more gently if it collapses.

A run whose answers have all become one by its middle is not waited for: it begins anew
at half the rate with twice the warm-up, a few times, and says so.
"""

import json
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from shutil import rmtree

from albertine import progress
from albertine.atomic import atomic_file
from albertine.device import choose_precision
from albertine.finetune.finetuning import Finetuning, TrainingCollapsed
from albertine.finetune.layer_decay import learning_rate_scales
from albertine.finetune.prepare import FinetuneData, build_model
from albertine.model.encoder import ComputeOptions
from albertine.tasks.scorer import default_micro_batch_tokens
from albertine.tasks.settings import FinetuneSettings
from albertine.train.checkpoints import CHECKPOINTS_FOLDER, CheckpointStore
from albertine.train.distributed import Distributed
from albertine.train.metrics_log import METRICS_FILE, held_out_scores, read_metrics
from albertine.train.recorder import RunRecorder
from albertine.train.run_folder import has_checkpoints, run_lock
from albertine.train.sharding import shard_model
from albertine.train.trainer import Trainer

_RESTARTS_FILE = "attempts.json"
_MAX_RESTARTS = 2
_MIN_STEPS_BEFORE_CHECK = 100  # a shorter run has hardly begun: nothing is said of it
# What may change when a run goes on: where data lie and how fast it computes, what it keeps and tells.
_CHANGEABLE_SETTINGS = frozenset(
    {"data", "dev", "device", "seeds", "grid.lr", "grid.batch", "grid.dropout"}
    | {f"train.{key}" for key in ("at_once", "recompute", "compile", "shard", "track", "keep")}
    | {f"train.{key}" for key in ("save_every", "save_minutes")}
)


@dataclass(frozen=True)
class FinetuneResult:
    """What a run came to.

    Attributes:
        run_name: of the run's folder; empty where there is one run.
        lr: the highest rate, after restarts.
        best_step: the step of its best model.
        metrics: of that, on dev.
        restarts: how often it had collapsed.
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
    """Make one run, and make it again if it collapses."""
    with ExitStack() as stack:
        distributed.run_on_main(lambda: stack.enter_context(run_lock(run, settings, _CHANGEABLE_SETTINGS)))
        restarts = distributed.broadcast(_restart_count(run) if distributed.is_main else None)
        while True:
            trainer, recorder = build_trainer(
                run, settings, data, distributed, restarts, can_collapse=restarts < _MAX_RESTARTS
            )
            try:
                if not trainer.is_finished:
                    settings_json = asdict(settings)
                    with (
                        recorder.open(trainer.last_saved_step, settings_json)
                        if distributed.is_main
                        else nullcontext()
                    ):
                        trainer.run()
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
) -> tuple[Trainer, RunRecorder]:
    """Put a run together; it goes on from its newest checkpoint, if it has one.

    Args:
        run: its folder.
        settings: settled.
        data: what it is tuned on.
        distributed: the processes.
        restarts: how often it has collapsed.
        can_collapse: whether it may collapse; if not, it is what it is.
    """
    train = settings.train
    assert train.lr is not None
    assert train.warmup is not None
    train = replace(train, lr=train.lr * 0.5**restarts, warmup=min(train.steps, train.warmup * 2**restarts))
    head, dropout = data.task_type.head_settings, settings.dropout or 0.0
    with progress.quiet_output(has_checkpoints(run)):  # weights of its own will take the place of these
        model = build_model(data, head, dropout, train.seed, random_weights=settings.random_weights)
    dtype = choose_precision(train.precision, distributed.device)
    model.encoder.compute_options = ComputeOptions(dtype, train.recompute, train.compile)
    if train.freeze_embeddings:
        model.encoder.embedding.requires_grad_(False)
    model.to(distributed.device)
    if train.shard and distributed.world_size > 1:
        shard_model(model, distributed)
    micro_batch_tokens = train.micro_batch_tokens or default_micro_batch_tokens(distributed.device)
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
        collapse_check_step=max(_MIN_STEPS_BEFORE_CHECK, train.steps // 2)
        if can_collapse
        else train.steps + 1,
        is_sharded=train.shard and distributed.world_size > 1,
    )
    recorder = RunRecorder(run, train, {}, published="best")
    return Trainer(
        model, finetuning, train, recorder, distributed, dtype, learning_rate_scales(model, train.layer_decay)
    ), recorder


def _restart_count(run: Path) -> int:
    file = run / CHECKPOINTS_FOLDER / _RESTARTS_FILE
    return int(json.loads(file.read_text(encoding="utf-8"))["restarts"]) if file.exists() else 0


def _reset_run(run: Path, reason: str, restarts: int) -> None:
    """Forget a run that has collapsed, and tell."""
    # Broken off in here, the run goes on with an older checkpoint of the same attempt, or begins it anew.
    for folder in sorted((run / CHECKPOINTS_FOLDER).glob("step-*"), reverse=True):
        rmtree(folder)
    (run / METRICS_FILE).unlink(missing_ok=True)
    with atomic_file(run / CHECKPOINTS_FOLDER / _RESTARTS_FILE) as file:
        file.write_text(json.dumps({"restarts": restarts, "last": reason}), encoding="utf-8")
    progress.print_message(
        f"{run}: collapsed, {reason}; starting again at {0.5**restarts:g} of the rate, "
        f"with {2**restarts} times the warm-up"
    )


def _best_metrics(run: Path) -> tuple[int, dict[str, float]]:
    """Return step and scores of the model that the folder is."""
    newest = CheckpointStore(run, 1).newest_valid()
    assert newest
    step = int(newest.state["best"]["step"])
    evaluations = [held_out_scores(line) for line in read_metrics(run) if line["step"] == step]
    return step, [scores for scores in evaluations if scores][-1]
