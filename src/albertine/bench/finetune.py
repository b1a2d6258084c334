"""Benchmark of fine-tuning against `transformers`: same checkpoint, samples, order and settings.

The peer pads to the longest sequence, as its Trainer does by default. It splits batches
into micro-batches of as many tokens as Albertine's, because whole batches are far slower
with long passages. It uses SDPA attention, bf16 autocast where the machine has bf16, and
fused AdamW. Both sides take all steps and are evaluated at the end by the same code. Each
run is a process of its own, one at a time. Training seconds include batching; dev seconds
are those of the evaluation.
"""

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from albertine import progress
from albertine.bench.peer_finetuning import PeerFinetuning
from albertine.bench.peer_model import check_transformers, peer_options
from albertine.bench.settings import FinetuneBenchSettings
from albertine.device import choose_device, choose_precision, synchronized_time
from albertine.display import counted
from albertine.engines.torch_engine import TorchEngine
from albertine.errors import InputError
from albertine.executors.process_pool import ProcessPool
from albertine.finetune.duration import with_measured_steps
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import FinetuneData, prepare_task
from albertine.finetune.run import build_trainer
from albertine.interop.transformers_config import checkpoint_model_settings
from albertine.settings.schema import first_changed
from albertine.tasks.registry import primary_metric
from albertine.tasks.scorer import Scorer
from albertine.tasks.types.task_type import SampleScores, TaskType
from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from albertine.train.distributed import Distributed
from albertine.train.duration import check_length

Side = Literal["ours", "peer"]

# Settings of training without effect here: a run has one process and one evaluation, and is removed.
_UNUSED_SETTINGS = (
    *("patience", "evaluate_every", "save_every", "save_minutes", "keep_checkpoints"),
    *("tracker", "shard", "timeout_minutes"),
)


@dataclass(frozen=True)
class FinetuneBenchRun:
    """One training run.

    Attributes:
        side: "ours" or "peer".
        source: the checkpoint.
        settings: the settings; their seed selects what is held out for evaluation, if there is no dev.
        seed: seed of the training.
    """

    side: Side
    source: str
    settings: FinetuneBenchSettings
    seed: int


@dataclass(frozen=True)
class FinetuneBenchResult:
    """Result of one run.

    Attributes:
        metrics: metrics on the dev split after the last step.
        train_seconds: seconds of all training steps.
        train_samples: samples of all training steps.
        dev_seconds: seconds of the evaluation.
        dev_samples: samples of the dev split.
    """

    metrics: dict[str, float]
    train_seconds: float
    train_samples: int
    dev_seconds: float
    dev_samples: int


def measure_finetuning(
    source: str, settings: FinetuneBenchSettings
) -> tuple[str, dict[Side, list[FinetuneBenchResult]]]:
    """Return the name of the task, and a result per side and seed; the runs of the sides alternate."""
    check_transformers("bench finetune")
    if settings.train.optimizer not in ("adamw", "bert-adam"):  # the default of a task may be Muon
        raise InputError("bench finetune: transformers is trained with AdamW; set train.optimizer to adamw")
    check_length(settings, settings.train)
    if unused := first_changed(settings.train, _UNUSED_SETTINGS):
        raise InputError(
            f"--train.{unused.replace('_', '-')}: bench finetune runs one process, evaluates after the last "
            "step and keeps no run; leave it out"
        )
    prepared = prepare_task(source, settings)  # reports invalid settings before any run
    settings = _with_steps(without_marks(prepared.checkpoint, settings), prepared)
    peer_options(prepared.checkpoint, prepared.model_settings)
    results: dict[Side, list[FinetuneBenchResult]] = {"ours": [], "peer": []}
    for seed in range(settings.train.seed, settings.train.seed + settings.seeds):
        for side in results:
            run = FinetuneBenchRun(side, source, settings, seed)
            advice = "use a smaller batch: --train.batch-size"
            (_, result), *_ = ProcessPool(1).run(_finetune, [run], advice=advice)
            results[side].append(result)
            score = primary_metric(prepared.task.name, result.metrics)
            progress.print_message(
                f"{side}, seed {seed}: {100 * score:.1f} in {progress.format_duration(result.train_seconds)}"
            )
    return prepared.task.name, results


def without_marks(checkpoint: Path, settings: FinetuneBenchSettings) -> FinetuneBenchSettings:
    """Return settings with which both sides train the same network: `transformers` adds no marks to it."""
    if checkpoint_model_settings(checkpoint).mark_matches:
        return settings
    if settings.mark_matches:
        raise InputError("--mark-matches: transformers would be trained without marks; leave it out")
    return replace(settings, mark_matches=False)


def _with_steps(settings: FinetuneBenchSettings, data: FinetuneData) -> FinetuneBenchSettings:
    """Return settings with the steps that our side takes in the minutes, which both sides then take."""
    process = Distributed(0, 1, choose_device(settings.device))
    return replace(settings, train=with_measured_steps([], settings, data, process, num_evaluations=1).train)


def _finetune(run: FinetuneBenchRun) -> FinetuneBenchResult:
    prepared = prepare_task(run.source, run.settings)
    task_settings = with_task_defaults(
        run.settings,
        prepared.task.name,
        prepared.model_settings,
        prepared.num_samples,
        prepared.card.max_length,
    )
    steps = task_settings.train.steps
    settings = replace(
        task_settings,
        train=replace(task_settings.train, seed=run.seed, evaluate_every=steps, save_minutes=1e6),
    )
    distributed = Distributed(0, 1, choose_device(settings.device))
    return (_finetune_ours if run.side == "ours" else _finetune_peer)(settings, prepared, distributed)


def _finetune_ours(
    settings: FinetuneBenchSettings, prepared: FinetuneData, distributed: Distributed
) -> FinetuneBenchResult:
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch)
        (run / CHECKPOINTS_FOLDER).mkdir()
        trainer = build_trainer(run, settings, prepared, distributed, can_collapse=False)
        with trainer.recorder.open(-1):
            trainer.train()
        scorer = Scorer(TorchEngine(trainer.model.eval(), distributed.device), prepared.task_type)
        started = synchronized_time(distributed.device)
        scores = scorer.score([encoded for _, encoded in prepared.dev])
        seconds = synchronized_time(distributed.device) - started
    return _result(settings, prepared, prepared.task_type, scores, trainer.state.seconds, seconds)


def _finetune_peer(
    settings: FinetuneBenchSettings, prepared: FinetuneData, distributed: Distributed
) -> FinetuneBenchResult:
    dtype = choose_precision(settings.train.precision, distributed.device)
    peer = PeerFinetuning(prepared, settings, distributed.device, dtype)
    peer.outputs([encoded for _, encoded in prepared.dev])  # ours evaluates before the first step, too
    train_seconds = peer.train()
    started = synchronized_time(distributed.device)
    scores = peer.outputs([encoded for _, encoded in prepared.dev])
    return _result(
        settings,
        prepared,
        peer.task_type,
        scores,
        train_seconds,
        synchronized_time(distributed.device) - started,
    )


def _result(
    settings: FinetuneBenchSettings,
    prepared: FinetuneData,
    task_type: TaskType,
    scores: Sequence[Sequence[SampleScores]],
    train_seconds: float,
    dev_seconds: float,
) -> FinetuneBenchResult:
    examples = [example for example, _ in prepared.dev]

    def predictions() -> list[dict[str, Any]]:
        return [task_type.prediction(*pair, row) for pair, row in zip(prepared.dev, scores, strict=True)]

    task_type.fit_threshold(examples, predictions())
    metrics = task_type.compute_metrics(examples, predictions())
    samples = settings.train.steps * (settings.train.batch_size or 0)
    return FinetuneBenchResult(
        metrics, train_seconds, samples, dev_seconds, sum(len(encoded.samples) for _, encoded in prepared.dev)
    )


def show_finetuning(task: str, results: dict[Side, list[FinetuneBenchResult]], *, as_json: bool) -> None:
    """Print the results of both sides as a table or JSON."""
    if as_json:
        report: dict[str, Any] = {"task": task}
        for side, side_results in results.items():
            report[side] = [asdict(result) for result in side_results]
        progress.print_json(report)
        return
    table = progress.result_table("", "metric", "range", "training", "samples/s", "evaluation, samples/s")
    rates = {}
    for side, name in (("ours", "Albertine"), ("peer", "transformers")):
        side_results = results[side]
        scores = [100 * primary_metric(task, result.metrics) for result in side_results]
        train_rate = statistics.median(result.train_samples / result.train_seconds for result in side_results)
        dev_rate = statistics.median(result.dev_samples / result.dev_seconds for result in side_results)
        seconds = statistics.median(result.train_seconds for result in side_results)
        rates[side] = (train_rate, dev_rate)
        table.add_row(
            name,
            f"{statistics.median(scores):.1f}",
            f"{min(scores):.1f}-{max(scores):.1f}",
            progress.format_duration(seconds),
            f"{train_rate:,.1f}",
            f"{dev_rate:,.1f}",
        )
    ratios = (rates["ours"][index] / rates["peer"][index] for index in (0, 1))
    table.add_row("ours / peer", "", "", "", *(f"{ratio:.2f}" for ratio in ratios))
    console = progress.result_console()
    console.print(table)
    console.print(
        f"{task}: medians of {counted(len(results['ours']), 'seed')}; a long passage is several samples",
        highlight=False,
    )
