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
from albertine.bench.race_runs import RaceResult, RaceRun, Side, train_side
from albertine.bench.settings import RaceSettings
from albertine.errors import InputError
from albertine.pretrain.setup import open_corpus
from albertine.processes import run_in_processes
from albertine.train.schedule import default_lr

_PEER_LR = 5e-4
_TIMING_STEPS = 12
_EVALUATIONS = 16  # measurements of the legs that are drawn


@dataclass(frozen=True)
class Race:
    """Both sides' results.

    Attributes:
        learning_rates: each side's learning rate.
        results: what each came to.
        steps: how many each took.
        baseline_loss: the loss of who knows piece frequencies alone.
        sweep: what each rate came to, of those that were tried.
        minutes: of training for each side.
    """

    minutes: float
    baseline_loss: float
    learning_rates: dict[Side, float]
    steps: dict[Side, int]
    results: dict[Side, RaceResult]
    sweep: dict[Side, dict[float, float]]

    @property
    def time_fraction_to_match(self) -> float | None:
        """Share of the peer's time after which our loss was down to its last one; None if it never was."""
        ours, peer = self.results["ours"], self.results["peer"]
        for (before, high), (after, low) in pairwise(ours.curve):
            if low <= peer.loss:
                fraction = (high - peer.loss) / (high - low) if high > low else 0.0
                return (before + max(0.0, fraction) * (after - before)) / peer.seconds
        return None


def run_race(settings: RaceSettings) -> Race:
    """Find each side's rate, then let both run."""
    if find_spec("transformers") is None:
        raise InputError("bench pretrain: the peer is missing; pip install transformers")
    corpus = open_corpus(settings.corpus)
    if not corpus.manifest.documents["dev"]:
        raise InputError(f"{corpus.folder}: no held-out documents; build it with --held-out")
    learning_rates: dict[Side, float] = {}
    steps: dict[Side, int] = {}
    sweep: dict[Side, dict[float, float]] = {}
    results: dict[Side, RaceResult] = {}
    first_rates: dict[Side, float] = {"ours": default_lr("muon", settings.batch_tokens), "peer": _PEER_LR}
    for side in ("peer", "ours"):
        seconds_per_step = _seconds_per_step(
            _run_in_process(RaceRun(side, first_rates[side], _TIMING_STEPS, settings, 2))
        )
        steps[side] = max(1, round(60 * settings.minutes / seconds_per_step))
        sweep_steps = max(1, round(60 * settings.minutes * settings.sweep_fraction / seconds_per_step))
        sweep_results = _sweep_rates(side, first_rates[side], sweep_steps, settings)
        sweep[side] = {rate: one.loss for rate, one in sweep_results.items()}
        learning_rates[side] = min(sweep[side], key=sweep[side].__getitem__)
        progress.print_message(f"{side}: rate {learning_rates[side]:.2g}, {steps[side]:,} steps")
        is_full_length = sweep_steps == steps[side]
        best_run = RaceRun(side, learning_rates[side], steps[side], settings, _EVALUATIONS)
        results[side] = sweep_results[learning_rates[side]] if is_full_length else _run_in_process(best_run)
    baseline_loss = results["ours"].curve[0][1]
    return Race(settings.minutes, baseline_loss, learning_rates, steps, results, sweep)


def _seconds_per_step(result: RaceResult) -> float:
    """Return the seconds of a step once everything is warm: of those between the two measurements."""
    (*_, (middle, _), (end, _)) = result.curve
    return (end - middle) / (_TIMING_STEPS // 2)


def _sweep_rates(side: Side, start: float, steps: int, settings: RaceSettings) -> dict[float, RaceResult]:
    """Try a rate, its half and its double, and go on in the direction that gets better."""
    results: dict[float, RaceResult] = {}

    def try_rate(power: int) -> float:
        rate = start * 2.0**power
        if rate not in results:
            results[rate] = _run_in_process(RaceRun(side, rate, steps, settings, _EVALUATIONS))
            progress.print_message(
                f"{side}: rate {rate:.2g} came to {results[rate].loss:.3f} in {steps:,} steps"
            )
        return results[rate].loss

    low, high = -1, 1
    for power in (0, low, high):
        try_rate(power)
    while try_rate(low) == min(one.loss for one in results.values()):
        low -= 1
        try_rate(low)
    while try_rate(high) == min(one.loss for one in results.values()):
        high += 1
        try_rate(high)
    return results


def _run_in_process(run: RaceRun) -> RaceResult:
    """Run a leg in a process of its own."""
    (_, result), *_ = run_in_processes(train_side, [run], 1, advice="take a smaller model or batch")
    return result
