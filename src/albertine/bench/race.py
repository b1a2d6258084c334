"""Benchmark of pre-training against `transformers`: equal training time on one machine.

Both sides train the same architecture on the same corpus and pairs, with as many tokens
per step. The learning rate of each side is the best of its own sweep, which tries higher
and lower rates as long as the loss improves. By default, a sweep run is as long as the
race: short runs would select the rate that reaches the unigram baseline fastest, and that
rate is too high for the rest of a long run. The runs are sequential, each in its own process.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise

from albertine import progress
from albertine.bench.race_runs import RaceResult, RaceRun, Side, train_side
from albertine.bench.settings import RaceSettings
from albertine.corpus.corpus import open_corpus
from albertine.errors import InputError
from albertine.executors.process_pool import ProcessPool
from albertine.train.schedule import default_lr

_PEER_LR = 5e-4
_TIMING_STEPS = 12
_EVALUATIONS = 16  # per run, except in timing runs


@dataclass(frozen=True)
class Race:
    """Results of both sides.

    Attributes:
        minutes: training time of each side.
        baseline_loss: loss of the unigram baseline, which knows only token frequencies.
        learning_rates: learning rate of each side.
        steps: number of steps of each side.
        results: curve, tokens and seconds of each side.
        sweep: final loss of each side by learning rate.
    """

    minutes: float
    baseline_loss: float
    learning_rates: dict[Side, float]
    steps: dict[Side, int]
    results: dict[Side, RaceResult]
    sweep: dict[Side, dict[float, float]]

    @property
    def time_fraction_to_match(self) -> float | None:
        """Fraction of the peer's time after which Albertine's loss reached the peer's final loss, or None."""
        ours, peer = self.results["ours"], self.results["peer"]
        for (earlier, earlier_loss), (later, later_loss) in pairwise(ours.curve):
            if later_loss <= peer.loss:
                fraction = (
                    (earlier_loss - peer.loss) / (earlier_loss - later_loss)
                    if earlier_loss > later_loss
                    else 0.0
                )
                return (earlier + max(0.0, fraction) * (later - earlier)) / peer.seconds
        return None


def run_race(settings: RaceSettings) -> Race:
    """Sweep the learning rate of each side, then run both with their best one."""
    if find_spec("transformers") is None:
        raise InputError("bench pretrain: transformers is not installed; run pip install transformers")
    corpus = open_corpus(settings.corpus)
    if not corpus.manifest.documents["dev"]:
        raise InputError(f"{corpus.folder}: no held-out documents; build the corpus with --held-out")
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
        sweep[side] = {rate: result.loss for rate, result in sweep_results.items()}
        learning_rates[side] = min(sweep[side], key=sweep[side].__getitem__)
        progress.print_message(f"{side}: learning rate {learning_rates[side]:.2g}, {steps[side]:,} steps")
        is_full_length = sweep_steps == steps[side]
        best_run = RaceRun(side, learning_rates[side], steps[side], settings, _EVALUATIONS)
        results[side] = sweep_results[learning_rates[side]] if is_full_length else _run_in_process(best_run)
    baseline_loss = results["ours"].curve[0][1]  # at step 0, the MLM bias predicts the token frequencies
    return Race(settings.minutes, baseline_loss, learning_rates, steps, results, sweep)


def _seconds_per_step(result: RaceResult) -> float:
    """Return the seconds per step in the second half of a timing run; the first steps are slower."""
    *_, (middle, _), (end, _) = result.curve
    return (end - middle) / (_TIMING_STEPS // 2)


def _sweep_rates(side: Side, start: float, steps: int, settings: RaceSettings) -> dict[float, RaceResult]:
    """Train at `start`, half of it and twice it; try lower or higher rates as long as the loss improves."""
    results: dict[float, RaceResult] = {}

    def try_rate(exponent: int) -> float:
        rate = start * 2.0**exponent
        if rate not in results:
            results[rate] = _run_in_process(RaceRun(side, rate, steps, settings, _EVALUATIONS))
            progress.print_message(
                f"{side}: learning rate {rate:.2g}: loss {results[rate].loss:.3f} after {steps:,} steps"
            )
        return results[rate].loss

    low, high = -1, 1
    for exponent in (0, low, high):
        try_rate(exponent)
    while try_rate(low) == min(result.loss for result in results.values()):
        low -= 1
        try_rate(low)
    while try_rate(high) == min(result.loss for result in results.values()):
        high += 1
        try_rate(high)
    return results


def _run_in_process(run: RaceRun) -> RaceResult:
    """Run one side in a new process."""
    advice = "use a smaller model or --batch-tokens"
    (_, result), *_ = ProcessPool(1).run(train_side, [run], advice=advice)
    return result
