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
from albertine.bench.settings import FinetuneBench
from albertine.bench.tuning_peer import TuningPeer
from albertine.errors import InputError
from albertine.processes import in_processes
from albertine.tasks.kinds.kind import Kind, Row
from albertine.tasks.metrics import headline
from albertine.tasks.prepare import Prepared, prepare
from albertine.tasks.run import assembled
from albertine.tasks.scoring import Scorer
from albertine.tasks.table14 import settled
from albertine.train.machine import choose_precision, now
from albertine.train.ranks import Ranks, choose_device

Side = Literal["ours", "peer"]


@dataclass(frozen=True)
class Leg:
    """One training run: whose, from what, with which seed."""

    side: Side
    source: str
    settings: FinetuneBench


@dataclass(frozen=True)
class Result:
    """What a leg came to.

    Attributes:
        scores: on dev, after the last step.
        train_seconds: of all steps.
        samples: trained on, over all steps.
        dev_seconds: of scoring dev.
        dev_samples: how many that are.
    """

    scores: dict[str, float]
    train_seconds: float
    samples: int
    dev_seconds: float
    dev_samples: int


def measure(source: str, settings: FinetuneBench) -> tuple[str, dict[Side, list[Result]]]:
    """Let both sides run, in turn, once for each seed."""
    if find_spec("transformers") is None:
        raise InputError("bench finetune: the peer is missing; pip install transformers")
    train = settings.train
    if train.optimizer != "adamw" or train.layer_decay != 1 or train.freeze_embeddings or settings.fresh:
        raise InputError(
            "bench finetune: the peer has AdamW alone, for all weights at one rate; leave those out"
        )
    prepared = prepare(source, settings)  # in here first, so that what is wrong is said once
    found: dict[Side, list[Result]] = {"ours": [], "peer": []}
    for seed in range(settings.train.seed, settings.train.seed + settings.seeds):
        for side in found:
            leg = Leg(side, source, replace(settings, train=replace(settings.train, seed=seed)))
            (_, result), *_ = in_processes(_perform, [leg], 1, advice="take a smaller batch")
            found[side].append(result)
            told = headline(prepared.task.name, result.scores)
            progress.say(
                f"{side}, seed {seed}: {100 * told:.1f} in {progress.duration(result.train_seconds)}"
            )
    return prepared.task.name, found


def _perform(leg: Leg) -> Result:
    prepared = prepare(leg.source, leg.settings)
    asked = settled(
        leg.settings, prepared.task.name, prepared.network, prepared.samples, prepared.card.max_length
    )
    steps = asked.train.steps
    settings = replace(asked, train=replace(asked.train, evaluate_every=steps, save_minutes=1e6))
    ranks = Ranks(0, 1, choose_device(settings.device))
    return (_ours if leg.side == "ours" else _theirs)(settings, prepared, ranks)


def _ours(settings: FinetuneBench, prepared: Prepared, ranks: Ranks) -> Result:
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch)
        (run / "trainer").mkdir()
        trainer, keeper = assembled(run, settings, prepared, ranks, judged=False)
        with keeper.open(-1, {}):
            trainer.run()
        scorer = Scorer(trainer.network.eval(), prepared.kind, ranks.device)
        started = now(ranks.device)
        rows = scorer.rows([sheet for _, sheet in prepared.dev])
        seconds = now(ranks.device) - started
    return _result(settings, prepared, prepared.kind, rows, trainer.seconds, seconds)


def _theirs(settings: FinetuneBench, prepared: Prepared, ranks: Ranks) -> Result:
    dtype = choose_precision(settings.train.precision, ranks.device)
    peer = TuningPeer(prepared, settings, ranks.device, dtype)
    train_seconds = peer.train()
    started = now(ranks.device)
    rows = peer.rows([sheet for _, sheet in prepared.dev])
    return _result(settings, prepared, peer.kind, rows, train_seconds, now(ranks.device) - started)


def _result(
    settings: FinetuneBench,
    prepared: Prepared,
    kind: Kind,
    rows: Sequence[Sequence[Row]],
    train: float,
    dev: float,
) -> Result:
    examples = [example for example, _ in prepared.dev]

    def answers() -> list[dict[str, Any]]:
        return [kind.answer(*pair, row) for pair, row in zip(prepared.dev, rows, strict=True)]

    kind.settle(examples, answers())
    scores = kind.assess(examples, answers())
    samples = settings.train.steps * (settings.train.batch or 0)
    return Result(scores, train, samples, dev, sum(len(sheet.samples) for _, sheet in prepared.dev))


def show(task: str, found: dict[Side, list[Result]], *, as_json: bool) -> None:
    """Print both sides."""
    if as_json:
        sides = {side: [asdict(one) for one in results] for side, results in found.items()}
        print(json.dumps({"task": task, **sides}, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "score", "from-to", "training", "examples/s", "scoring, examples/s"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    speeds = {}
    for side, name in (("ours", "Albertine"), ("peer", "transformers")):
        results = found[side]  # type: ignore[index]  # one of the two
        scores = [100 * headline(task, one.scores) for one in results]
        speed = statistics.median(one.samples / one.train_seconds for one in results)
        dev = statistics.median(one.dev_samples / one.dev_seconds for one in results)
        seconds = statistics.median(one.train_seconds for one in results)
        speeds[side] = (speed, dev)
        table.add_row(
            name,
            f"{statistics.median(scores):.1f}",
            f"{min(scores):.1f}-{max(scores):.1f}",
            progress.duration(seconds),
            f"{speed:,.1f}",
            f"{dev:,.1f}",
        )
    ratios = (speeds["ours"][at] / speeds["peer"][at] for at in (0, 1))
    table.add_row("times as fast", "", "", "", *(f"{one:.2f}" for one in ratios))
    printed = progress.results()
    printed.print(table)
    printed.print(
        f"{task}: medians of {len(found['ours'])} seeds; a sample of a long passage counts as an example",
        highlight=False,
    )
