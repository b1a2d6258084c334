"""A leg of the race: one side trains so many steps at one rate, and is measured on the way.

Both are measured on the same held-out samples, masked as the peer masks (single
pieces, 15%), which is not how we train. Seconds are of training alone, loading of
batches included.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from albertine.bench.peer import Peer
from albertine.bench.settings import PretrainBench
from albertine.corpus.batches import Batch, to_batch
from albertine.corpus.corpus import Corpus
from albertine.corpus.samples import Sample, Sampler
from albertine.corpus.settings import Objective
from albertine.pretrain.prepare import corpus_of, settled
from albertine.pretrain.run import assembled
from albertine.pretrain.scores import ratio, table_of
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.work import Pretraining
from albertine.train.journal import read_journal
from albertine.train.machine import choose_precision
from albertine.train.ranks import Ranks, choose_device
from albertine.train.schedule import Schedule, warmup_for
from albertine.train.settings import TrainSettings

Side = Literal["ours", "peer"]
_SAMPLES = 400


@dataclass(frozen=True)
class Leg:
    """One training run: whose, at which rate, how many steps, and how often it is measured."""

    side: Side
    lr: float
    steps: int
    settings: PretrainBench
    points: int = 1

    @property
    def every(self) -> int:
        """Steps between two measurements."""
        return max(1, self.steps // self.points)


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


def perform(leg: Leg) -> Result:
    """Run a leg."""
    corpus = corpus_of(leg.settings.corpus)
    device = choose_device(leg.settings.device)
    return (_ours if leg.side == "ours" else _theirs)(leg, corpus, device)


def _ours(leg: Leg, corpus: Corpus, device: torch.device) -> Result:
    """Run our own trainer, as `albertine pretrain` does, evaluated on the common samples."""
    train = TrainSettings(
        steps=leg.steps,
        batch_tokens=leg.settings.batch_tokens,
        lr=leg.lr,
        precision=leg.settings.precision,
        evaluate_every=leg.every,
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
        samples = common(self.corpus, self.settings.objective.max_length)
        table = table_of(network, samples, self.ranks.device, self.corpus.tokenizer.special.mask)
        loss = ratio(table, "mlm_loss", "masked").value
        return {"loss": loss, "mlm_loss": loss, "mlm_accuracy": ratio(table, "mlm_right", "masked").value}


def _theirs(leg: Leg, corpus: Corpus, device: torch.device) -> Result:
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
        if step % leg.every == 0 or step == leg.steps:
            look(seconds)

    if leg.points > 1:
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
