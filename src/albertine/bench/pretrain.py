"""Benchmark of pre-training against `transformers`: equal training time on one machine.

Both sides train the same architecture on the same corpus and pairs, with as many tokens
per step. The learning rate of each side is the best of its own sweep, which tries higher
and lower rates as long as the loss improves. By default, a run of the sweep is as long as the
final run: short runs would select the rate that reaches the unigram baseline fastest, and that
rate is too high for the rest of a long run. The runs are sequential, each in its own process.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

from albertine import progress
from albertine.bench.peer_model import check_transformers
from albertine.bench.pretrain_runs import PretrainBenchResult, PretrainBenchRun, Side, train_side
from albertine.bench.settings import PretrainBenchSettings
from albertine.corpus.corpus import open_corpus
from albertine.errors import Diverged, InputError
from albertine.executors.process_pool import ProcessPool
from albertine.train.schedule import default_lr

_PEER_LR = 5e-4
_TIMING_STEPS = 12
_EVALUATIONS = 16  # per run, except in timing runs


@dataclass(frozen=True)
class SideResult:
    """Results of one side.

    Attributes:
        learning_rate: the best learning rate of its sweep.
        steps: number of steps.
        run: curve, tokens and seconds of the run with this rate.
        sweep: final loss by learning rate; None if the run diverged.
    """

    learning_rate: float
    steps: int
    run: PretrainBenchResult
    sweep: dict[float, float | None]


@dataclass(frozen=True)
class PretrainingComparison:
    """Results of both sides.

    Attributes:
        minutes: training time of each side.
        sides: the results of each side.
    """

    minutes: float
    sides: dict[Side, SideResult]

    @property
    def baseline_loss(self) -> float:
        """Loss of token frequencies, which the MLM bias predicts before the first step."""
        return self.sides["ours"].run.curve[0][1]

    @property
    def time_fraction_to_match(self) -> float | None:
        """Fraction of the peer's time after which Albertine's loss reached the peer's final loss, or None."""
        ours, peer = self.sides["ours"].run, self.sides["peer"].run
        if ours.curve[0][1] <= peer.loss:
            return ours.curve[0][0] / peer.seconds
        for (earlier, earlier_loss), (later, later_loss) in pairwise(ours.curve):
            if later_loss <= peer.loss:
                fraction = (earlier_loss - peer.loss) / (earlier_loss - later_loss)
                return (earlier + fraction * (later - earlier)) / peer.seconds
        return None


def measure_pretraining(settings: PretrainBenchSettings) -> PretrainingComparison:
    """Sweep the learning rate of each side, then run both with their best one."""
    check_transformers("bench pretrain")
    corpus = open_corpus(settings.corpus)
    if not corpus.manifest.documents["dev"]:
        raise InputError(f"{corpus.folder}: no held-out documents; build the corpus with --held-out")
    peer = _run_side("peer", _PEER_LR, settings)
    ours = _run_side("ours", default_lr("muon", settings.batch_tokens), settings)
    return PretrainingComparison(settings.minutes, {"ours": ours, "peer": peer})


def _run_side(side: Side, first_rate: float, settings: PretrainBenchSettings) -> SideResult:
    """Sweep the learning rate of one side, then run it with the best one."""
    try:
        timing = _run_in_process(PretrainBenchRun(side, first_rate, _TIMING_STEPS, settings, evaluations=2))
    except Diverged:
        raise _diverged(side, first_rate) from None
    seconds_per_step = _seconds_per_step(timing)
    steps = max(1, round(60 * settings.minutes / seconds_per_step))
    sweep_steps = max(1, round(60 * settings.minutes * settings.sweep_fraction / seconds_per_step))
    runs = _sweep_rates(side, first_rate, sweep_steps, settings)
    rate = min(runs, key=lambda rate: _loss(runs[rate]))
    progress.print_message(f"{side}: learning rate {rate:.2g}, {steps:,} steps")
    best = runs[rate]
    if best is not None and sweep_steps != steps:
        best = _finite_run(PretrainBenchRun(side, rate, steps, settings, _EVALUATIONS))
    if best is None:
        raise _diverged(side, rate)
    sweep = {rate: None if run is None else run.loss for rate, run in runs.items()}
    return SideResult(rate, steps, best, sweep)


def _diverged(side: Side, rate: float) -> Diverged:
    return Diverged(f"bench pretrain: {side} diverged at the learning rate {rate:.2g}; raise --batch-tokens")


def _loss(run: PretrainBenchResult | None) -> float:
    """Return the final loss of a run; infinite if it diverged."""
    return math.inf if run is None else run.loss


def _seconds_per_step(result: PretrainBenchResult) -> float:
    """Return the seconds per step in the second half of a timing run; the first steps are slower."""
    *_, (middle, _), (end, _) = result.curve
    return (end - middle) / (_TIMING_STEPS // 2)


def _sweep_rates(
    side: Side, start: float, steps: int, settings: PretrainBenchSettings
) -> dict[float, PretrainBenchResult | None]:
    """Train at `start`, half of it and twice it; try lower or higher rates as long as the loss improves.

    Returns the run of each rate; None if it diverged.
    """
    runs: dict[float, PretrainBenchResult | None] = {}

    def is_best(exponent: int) -> bool:
        """Train at a rate, unless it is done; return whether its loss is lower than those of all others."""
        rate = start * 2.0**exponent
        if rate not in runs:
            runs[rate] = _finite_run(PretrainBenchRun(side, rate, steps, settings, _EVALUATIONS))
            progress.print_message(
                f"{side}: learning rate {rate:.2g}: loss {_loss(runs[rate]):.3f} after {steps:,} steps"
            )
        return all(_loss(runs[rate]) < _loss(run) for other, run in runs.items() if other != rate)

    for exponent in (0, -1, 1):
        is_best(exponent)
    for direction in (-1, 1):
        exponent = direction
        while is_best(exponent):
            exponent += direction
    return runs


def _finite_run(run: PretrainBenchRun) -> PretrainBenchResult | None:
    """Run one side in a new process; return None if it diverged."""
    try:
        result = _run_in_process(run)
    except Diverged:
        return None
    return result if math.isfinite(result.loss) else None


def _run_in_process(run: PretrainBenchRun) -> PretrainBenchResult:
    """Run one side in a new process."""
    advice = "use a smaller model or --batch-tokens"
    (_, result), *_ = ProcessPool(1).run(train_side, [run], advice=advice)
    return result
