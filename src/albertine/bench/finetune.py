"""Fine-tuning beside `transformers`: one checkpoint, the same samples in the same order, the same settings.

The peer pads to the longest sequence, as its Trainer does by default, takes a batch in
pieces of as many tokens as ours (whole ones were slower by far where passages are long), and
computes with SDPA attention and bf16 autocast where the machine has bf16; AdamW is
fused. Both sides take all steps and are measured at the end, their scores read by the
same code. A leg is a process of its own with the whole machine; seconds are of
training alone, batching included, and of scoring dev.
"""

import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from albertine import progress
from albertine.bench.peer_finetuning import PeerFinetuning
from albertine.bench.settings import FinetuneBenchSettings
from albertine.device import choose_precision, synchronized_time
from albertine.errors import InputError
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import FinetuneData, prepare_task
from albertine.finetune.run import build_trainer
from albertine.processes import run_in_processes
from albertine.tasks.metrics.scores import primary_metric
from albertine.tasks.scorer import Scorer
from albertine.tasks.types.task_type import SampleScores, TaskType
from albertine.train.distributed import Distributed, choose_device

Side = Literal["ours", "peer"]


@dataclass(frozen=True)
class FinetuneBenchRun:
    """One training run: whose, from what, with which seed."""

    side: Side
    source: str
    settings: FinetuneBenchSettings


@dataclass(frozen=True)
class FinetuneBenchResult:
    """What a leg came to.

    Attributes:
        scores: on dev, after the last step.
        train_seconds: of all steps.
        train_samples: trained on, over all steps.
        dev_seconds: of scoring dev.
        dev_samples: how many that are.
    """

    scores: dict[str, float]
    train_seconds: float
    train_samples: int
    dev_seconds: float
    dev_samples: int


def measure_finetuning(
    source: str, settings: FinetuneBenchSettings
) -> tuple[str, dict[Side, list[FinetuneBenchResult]]]:
    """Let both sides run, in turn, once for each seed."""
    if find_spec("transformers") is None:
        raise InputError("bench finetune: the peer is missing; pip install transformers")
    train = settings.train
    if (
        train.optimizer != "adamw"
        or train.layer_decay != 1
        or train.freeze_embeddings
        or settings.random_weights
    ):
        raise InputError(
            "bench finetune: the peer has AdamW alone, for all weights at one rate; leave those out"
        )
    prepared = prepare_task(source, settings)  # in here first, so that what is wrong is said once
    results: dict[Side, list[FinetuneBenchResult]] = {"ours": [], "peer": []}
    for seed in range(settings.train.seed, settings.train.seed + settings.seeds):
        for side in results:
            run = FinetuneBenchRun(side, source, replace(settings, train=replace(settings.train, seed=seed)))
            (_, result), *_ = run_in_processes(_finetune, [run], 1, advice="take a smaller batch")
            results[side].append(result)
            score = primary_metric(prepared.task.name, result.scores)
            progress.print_message(
                f"{side}, seed {seed}: {100 * score:.1f} in {progress.format_duration(result.train_seconds)}"
            )
    return prepared.task.name, results


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
        task_settings, train=replace(task_settings.train, evaluate_every=steps, save_minutes=1e6)
    )
    ranks = Distributed(0, 1, choose_device(settings.device))
    return (_finetune_ours if run.side == "ours" else _finetune_peer)(settings, prepared, ranks)


def _finetune_ours(
    settings: FinetuneBenchSettings, prepared: FinetuneData, ranks: Distributed
) -> FinetuneBenchResult:
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch)
        (run / "trainer").mkdir()
        trainer, keeper = build_trainer(run, settings, prepared, ranks, can_collapse=False)
        with keeper.open(-1, {}):
            trainer.run()
        scorer = Scorer(trainer.network.eval(), prepared.task_type, ranks.device)
        started = synchronized_time(ranks.device)
        rows = scorer.score([sheet for _, sheet in prepared.dev])
        seconds = synchronized_time(ranks.device) - started
    return _result(settings, prepared, prepared.task_type, rows, trainer.seconds, seconds)


def _finetune_peer(
    settings: FinetuneBenchSettings, prepared: FinetuneData, ranks: Distributed
) -> FinetuneBenchResult:
    dtype = choose_precision(settings.train.precision, ranks.device)
    peer = PeerFinetuning(prepared, settings, ranks.device, dtype)
    train_seconds = peer.train()
    started = synchronized_time(ranks.device)
    rows = peer.outputs([sheet for _, sheet in prepared.dev])
    return _result(
        settings, prepared, peer.task_type, rows, train_seconds, synchronized_time(ranks.device) - started
    )


def _result(
    settings: FinetuneBenchSettings,
    prepared: FinetuneData,
    task_type: TaskType,
    outputs: Sequence[Sequence[SampleScores]],
    train_seconds: float,
    dev_seconds: float,
) -> FinetuneBenchResult:
    examples = [example for example, _ in prepared.dev]

    def answers() -> list[dict[str, Any]]:
        return [task_type.prediction(*pair, row) for pair, row in zip(prepared.dev, outputs, strict=True)]

    task_type.fit_threshold(examples, answers())
    scores = task_type.compute_metrics(examples, answers())
    samples = settings.train.steps * (settings.train.batch_size or 0)
    return FinetuneBenchResult(
        scores, train_seconds, samples, dev_seconds, sum(len(sheet.samples) for _, sheet in prepared.dev)
    )


def show_finetuning(task: str, results: dict[Side, list[FinetuneBenchResult]], *, as_json: bool) -> None:
    """Print both sides."""
    if as_json:
        sides = {side: [asdict(one) for one in side_results] for side, side_results in results.items()}
        print(json.dumps({"task": task, **sides}, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "score", "from-to", "training", "examples/s", "scoring, examples/s"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    rates = {}
    for side, name in (("ours", "Albertine"), ("peer", "transformers")):
        side_results = results[side]  # type: ignore[index]  # one of the two
        scores = [100 * primary_metric(task, one.scores) for one in side_results]
        examples_per_second = statistics.median(one.train_samples / one.train_seconds for one in side_results)
        dev = statistics.median(one.dev_samples / one.dev_seconds for one in side_results)
        seconds = statistics.median(one.train_seconds for one in side_results)
        rates[side] = (examples_per_second, dev)
        table.add_row(
            name,
            f"{statistics.median(scores):.1f}",
            f"{min(scores):.1f}-{max(scores):.1f}",
            progress.format_duration(seconds),
            f"{examples_per_second:,.1f}",
            f"{dev:,.1f}",
        )
    ratios = (rates["ours"][at] / rates["peer"][at] for at in (0, 1))
    table.add_row("times as fast", "", "", "", *(f"{one:.2f}" for one in ratios))
    printed = progress.result_console()
    printed.print(table)
    printed.print(
        f"{task}: medians of {len(results['ours'])} seeds; a sample of a long passage counts as an example",
        highlight=False,
    )
