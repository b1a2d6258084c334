"""A race: our pre-training against that of `transformers`, equal minutes on one machine.

Same model size, corpus, pairs and tokens a step; each side's rate is the best of a
sweep of its own, in which every side may go on as long as it gets better. A leg is a
process of its own with the whole machine. Both are measured on the same held-out
samples, masked as the peer masks (single pieces, 15%), which is not how we train.
Seconds are of training alone, loading of batches included.
"""

import json
import tempfile
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from rich.table import Table

from albertine import progress
from albertine.bench.peer import Peer
from albertine.bench.settings import PretrainBench
from albertine.corpus.batches import Batch, to_batch
from albertine.corpus.corpus import Corpus
from albertine.corpus.samples import Sample, Sampler
from albertine.corpus.settings import Objective
from albertine.errors import InputError
from albertine.pretrain.prepare import corpus_of, settled
from albertine.pretrain.run import assembled
from albertine.pretrain.scores import ratio, table_of
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.work import Pretraining
from albertine.processes import in_processes
from albertine.train.journal import read_journal
from albertine.train.machine import choose_precision
from albertine.train.ranks import Ranks, choose_device
from albertine.train.schedule import Schedule, rate_for, warmup_for
from albertine.train.settings import TrainSettings
from albertine.whole import new_file

Side = Literal["ours", "peer"]
_PEER_RATE = 5e-4
_POINTS = 16  # evaluations of a leg
_SAMPLES = 400
_STEPS_TO_TIME = 8


@dataclass(frozen=True)
class Leg:
    """One training run: whose, at which rate, how many steps."""

    side: Side
    lr: float
    steps: int
    settings: PretrainBench


@dataclass(frozen=True)
class Result:
    """What a leg came to: (seconds, loss) of each evaluation, tokens and seconds of all its steps."""

    curve: list[tuple[float, float]]
    tokens: int
    seconds: float

    @property
    def loss(self) -> float:
        """The last loss."""
        return self.curve[-1][1]

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


@dataclass(frozen=True)
class Race:
    """Both sides' results.

    Attributes:
        rates: each side's learning rate.
        results: what each came to.
        steps: how many each took.
        level: the loss of who knows piece frequencies alone.
        sweep: what each rate came to in the short legs.
        minutes: of training for each side.
    """

    minutes: float
    level: float
    rates: dict[Side, float]
    steps: dict[Side, int]
    results: dict[Side, Result]
    sweep: dict[Side, dict[float, float]]

    @property
    def overtaken(self) -> float | None:
        """Share of the peer's time after which our loss was down to its last one; None if it never was."""
        ours, theirs = self.results["ours"], self.results["peer"]
        for (before, high), (after, low) in pairwise(ours.curve):
            if low <= theirs.loss:
                part = (high - theirs.loss) / (high - low) if high > low else 0.0
                return (before + max(0.0, part) * (after - before)) / theirs.seconds
        return None


def measure(settings: PretrainBench) -> Race:
    """Find each side's rate, then let both run."""
    if find_spec("transformers") is None:
        raise InputError("bench pretrain: the peer is missing; pip install transformers")
    corpus = corpus_of(settings.corpus)
    if not corpus.manifest.documents["dev"]:
        raise InputError(f"{corpus.folder}: no held-out documents; build it with --held-out")
    rates: dict[Side, float] = {}
    steps: dict[Side, int] = {}
    sweep: dict[Side, dict[float, float]] = {}
    results: dict[Side, Result] = {}
    start: dict[Side, float] = {"ours": rate_for("muon", settings.batch_tokens), "peer": _PEER_RATE}
    for side in ("peer", "ours"):
        timed = _run(Leg(side, start[side], _STEPS_TO_TIME, settings))
        each = timed.seconds / _STEPS_TO_TIME
        steps[side] = max(1, round(60 * settings.minutes / each))
        short = max(1, round(60 * settings.minutes * settings.sweep / each))
        sweep[side] = _swept(side, start[side], short, settings)
        rates[side] = min(sweep[side], key=sweep[side].__getitem__)
        progress.say(f"{side}: rate {rates[side]:.2g}, {steps[side]:,} steps")
        results[side] = _run(Leg(side, rates[side], steps[side], settings))
    level = results["ours"].curve[0][1]
    return Race(settings.minutes, level, rates, steps, results, sweep)


def _swept(side: Side, start: float, steps: int, settings: PretrainBench) -> dict[float, float]:
    """Try a rate, its half and its double, and go on in the direction that gets better."""
    found: dict[float, float] = {}

    def tried(power: int) -> float:
        rate = start * 2.0**power
        if rate not in found:
            found[rate] = _run(Leg(side, rate, steps, settings)).loss
            progress.say(f"{side}: rate {rate:.2g} came to {found[rate]:.3f} in {steps:,} steps")
        return found[rate]

    low, high = -1, 1
    for power in (0, low, high):
        tried(power)
    while tried(low) == min(found.values()):
        low -= 1
        tried(low)
    while tried(high) == min(found.values()):
        high += 1
        tried(high)
    return found


def _run(leg: Leg) -> Result:
    """Run a leg in a process of its own."""
    (_, result), *_ = in_processes(_perform, [leg], 1, advice="take a smaller model or batch")
    return result


def _perform(leg: Leg) -> Result:
    corpus = corpus_of(leg.settings.corpus)
    device = choose_device(leg.settings.device)
    return (_ours if leg.side == "ours" else _theirs)(leg, corpus, device)


def _ours(leg: Leg, corpus: Corpus, device: torch.device) -> Result:
    """Run our own trainer, as `albertine pretrain` does, evaluated on the common samples."""
    every = max(1, leg.steps // _POINTS)
    train = TrainSettings(
        steps=leg.steps,
        batch_tokens=leg.settings.batch_tokens,
        lr=leg.lr,
        precision=leg.settings.precision,
        evaluate_every=every,
        save_minutes=1e6,
    )
    objective = Objective(max_length=leg.settings.length)
    asked = PretrainSettings(
        corpus=leg.settings.corpus, model=leg.settings.model, objective=objective, train=train
    )
    settings = settled(asked, corpus, None, frozenset({"objective.max_length"}))
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch)
        (run / "trainer").mkdir()
        trainer, keeper = assembled(run, settings, corpus, None, Ranks(0, 1, device), _Measured)
        with keeper.open(-1, {}):
            trainer.run()
        lines = read_journal(run)
    taken = {line["step"]: line for line in lines if "seconds" in line}
    curve = [
        (taken[line["step"]]["seconds"] if line["step"] else 0.0, line["held_out_mlm_loss"])
        for line in lines
        if "held_out_mlm_loss" in line
    ]
    return Result(curve, trainer.tokens, trainer.seconds)


class _Measured(Pretraining):
    """Our work, evaluated on the common samples."""

    def evaluate(self, network: Any, step: int) -> dict[str, float]:  # noqa: ARG002  # the samples stay the same
        table = table_of(
            network, common(self.corpus, self.settings.objective.max_length), self.ranks.device, None
        )
        loss = ratio(table, "mlm_loss", "masked").value
        return {"loss": loss, "mlm_loss": loss, "mlm_accuracy": ratio(table, "mlm_right", "masked").value}


def _theirs(leg: Leg, corpus: Corpus, device: torch.device) -> Result:
    every = max(1, leg.steps // _POINTS)
    settings = leg.settings
    model = replace(settings.model, vocab_size=len(corpus.tokenizer))
    sampler = Sampler(corpus, Objective(max_length=settings.length))
    lengths = sampler.lengths(np.arange(1000))
    sequences = max(1, round(settings.batch_tokens / float(lengths.mean())))
    peer = Peer(model, corpus, device, choose_precision(settings.precision, device))
    curve: list[tuple[float, float]] = []
    total = [0, 0.0]

    def look(seconds: float) -> None:
        curve.append((seconds, peer.loss_on(iter(common(corpus, settings.length)))))

    def after(step: int, seconds: float, tokens: int) -> None:
        total[:] = [tokens, seconds]
        if step % every == 0 or step == leg.steps:
            look(seconds)

    look(0.0)
    schedule = Schedule(leg.lr, warmup_for(leg.steps, settings.batch_tokens), leg.steps, "linear")
    peer.train(sampler, sequences, schedule, after)
    return Result(curve, int(total[0]), total[1])


def common(corpus: Corpus, length: int) -> list[Batch]:
    """Return the held-out samples that both sides are measured on, masked piece by piece."""
    sampler = Sampler(corpus, Objective(max_length=length), "dev")
    samples = sampler.draw(np.arange(min(_SAMPLES, len(sampler))))
    special = corpus.tokenizer.special
    ordinary = np.setdiff1d(np.arange(len(corpus.tokenizer)), list(vars(special).values()))
    draw = np.random.Generator(np.random.PCG64(0))
    masked = [_masked(sample, special.mask, ordinary, draw) for sample in samples]
    size = max(1, 4096 // length)
    return [to_batch(masked[at : at + size], size) for at in range(0, len(masked), size)]


def _masked(sample: Sample, mask: int, ordinary: Any, draw: np.random.Generator) -> Sample:
    tokens = sample.original()
    may = np.flatnonzero(np.isin(tokens, ordinary))
    places = np.sort(may[draw.random(len(may)) < 0.15])
    labels = tokens[places]
    what = draw.random(len(places))
    others = ordinary[draw.integers(0, len(ordinary), len(places))]
    tokens[places] = np.where(what < 0.8, mask, np.where(what < 0.9, others, labels))
    return Sample(tokens, sample.types, places, labels.astype(np.int32), sample.label)


def show(race: Race, out: Path | None, *, as_json: bool) -> None:
    """Print the result, and draw it if asked."""
    if out is not None:
        draw(race, out)
    if as_json:
        print(json.dumps({**asdict(race), "overtaken": race.overtaken}, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "rate", "steps", "tokens", "tokens/s", "held-out loss"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for side, name in (("ours", "Albertine"), ("peer", "transformers")):
        result = race.results[side]  # type: ignore[index]  # one of the two
        table.add_row(
            name,
            f"{race.rates[side]:.2g}",  # type: ignore[index]
            f"{race.steps[side]:,}",  # type: ignore[index]
            f"{result.tokens:,}",
            f"{result.speed:,.0f}",
            f"{result.loss:.3f}",
        )
    printed = progress.results()
    printed.print(table)
    share = race.overtaken
    told = f"after {share:.0%} of the time" if share is not None else "never"
    printed.print(
        f"{race.minutes:g} minutes each; Albertine was down to the other's last loss {told}", highlight=False
    )


def draw(race: Race, out: Path) -> None:
    """Draw both curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for side, name, color in (("peer", "transformers", "#c0504d"), ("ours", "Albertine", "#1f4e79")):
        curve = race.results[side].curve  # type: ignore[index]
        minutes, losses = [seconds / 60 for seconds, _ in curve], [loss for _, loss in curve]
        axes.plot(minutes, losses, color=color, marker="o", markersize=3)
        axes.annotate(
            f"{name} {losses[-1]:.2f}",
            (minutes[-1], losses[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            color=color,
            va="center",
        )
    last = race.results["peer"].loss
    axes.axhline(last, color="#c0504d", linewidth=0.8, linestyle=":")
    axes.set_xlabel("minutes of training")
    axes.set_ylabel("held-out MLM loss (nats)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_xlim(0, None)
    with new_file(out) as file:
        figure.savefig(file, format=out.suffix[1:] or "png", dpi=150)
