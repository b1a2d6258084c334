"""A race: our pre-training against that of `transformers`, equal minutes on one machine.

Same model size, corpus, pairs and tokens a step; each side's rate is the best of a
sweep of its own, in which every side may go on as long as it gets better. The runs of a
sweep are as long as the race: short ones would choose the rate that first comes down to
the level of piece frequencies, which is higher than the one that then leaves it. A leg is a
process of its own with the whole machine.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise

from albertine import progress
from albertine.bench.legs import Leg, Result, Side, perform
from albertine.bench.settings import PretrainBench
from albertine.errors import InputError
from albertine.pretrain.prepare import corpus_of
from albertine.processes import in_processes
from albertine.train.schedule import rate_for

_PEER_RATE = 5e-4
_STEPS_TO_TIME = 12
_POINTS = 16  # measurements of the legs that are drawn


@dataclass(frozen=True)
class Race:
    """Both sides' results.

    Attributes:
        rates: each side's learning rate.
        results: what each came to.
        steps: how many each took.
        level: the loss of who knows piece frequencies alone.
        sweep: what each rate came to, of those that were tried.
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
        each = _seconds_a_step(_run(Leg(side, start[side], _STEPS_TO_TIME, settings, 2)))
        steps[side] = max(1, round(60 * settings.minutes / each))
        short = max(1, round(60 * settings.minutes * settings.sweep / each))
        legs = _swept(side, start[side], short, settings)
        sweep[side] = {rate: one.loss for rate, one in legs.items()}
        rates[side] = min(sweep[side], key=sweep[side].__getitem__)
        progress.say(f"{side}: rate {rates[side]:.2g}, {steps[side]:,} steps")
        whole = short == steps[side]
        best = Leg(side, rates[side], steps[side], settings, _POINTS)
        results[side] = legs[rates[side]] if whole else _run(best)
    level = results["ours"].curve[0][1]
    return Race(settings.minutes, level, rates, steps, results, sweep)


def _seconds_a_step(timed: Result) -> float:
    """Return the seconds of a step once everything is warm: of those between the two measurements."""
    (*_, (middle, _), (end, _)) = timed.curve
    return (end - middle) / (_STEPS_TO_TIME // 2)


def _swept(side: Side, start: float, steps: int, settings: PretrainBench) -> dict[float, Result]:
    """Try a rate, its half and its double, and go on in the direction that gets better."""
    found: dict[float, Result] = {}

    def tried(power: int) -> float:
        rate = start * 2.0**power
        if rate not in found:
            found[rate] = _run(Leg(side, rate, steps, settings, _POINTS))
            progress.say(f"{side}: rate {rate:.2g} came to {found[rate].loss:.3f} in {steps:,} steps")
        return found[rate].loss

    low, high = -1, 1
    for power in (0, low, high):
        tried(power)
    while tried(low) == min(one.loss for one in found.values()):
        low -= 1
        tried(low)
    while tried(high) == min(one.loss for one in found.values()):
        high += 1
        tried(high)
    return found


def _run(leg: Leg) -> Result:
    """Run a leg in a process of its own."""
    (_, result), *_ = in_processes(perform, [leg], 1, advice="take a smaller model or batch")
    return result
