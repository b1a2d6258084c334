"""What the benchmark of exits has measured: the results of its runs, and their means over the seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from albertine.inference.exit_curve import lowest_difference
from albertine.inference.exit_points import FULL_DEPTH, ExitPoint
from albertine.paired_statistics import PairedDifference, half_width, paired_difference
from albertine.tasks.metrics.intervals import Estimate


@dataclass(frozen=True)
class Variant:
    """A way to fine-tune the checkpoint.

    Attributes:
        name: its name, also of its runs.
        trains_exits: whether every step of depth is trained to predict.
        layers: number of layers, if it differs from that of the checkpoint.
    """

    name: str
    trains_exits: bool = False
    layers: int | None = None


WITH_EXITS, WITHOUT_EXITS = Variant("exits", trains_exits=True), Variant("no-exits")


@dataclass(frozen=True)
class RunResult:
    """The stored result of one run.

    Attributes:
        task: name of the task.
        num_examples: number of examples of dev.
        points: full depth first, then each exit rule.
        padded_seconds: seconds in padded batches, by the name of the rule.
    """

    task: str
    num_examples: int
    points: tuple[ExitPoint, ...]
    padded_seconds: dict[str, float]


SeedResults = Mapping[Variant, RunResult]


def shallow(layers: int) -> Variant:
    """Return the variant whose model has this number of layers."""
    return Variant(str(layers), layers=layers)


@dataclass(frozen=True)
class ExitBenchPoint:
    """A setting of the model with exits, as means over the seeds.

    Attributes:
        setting: options of the setting, "full depth", or "nothing exits" for a rule that is never true.
        score: primary metric of the task.
        difference: the score minus that of full depth.
        mean_depth: number of steps of depth.
        flops: FLOPs relative to full depth, with the interval over the seeds; over the examples, if there
            is one seed.
        time: time relative to full depth, with such an interval.
        padded_time: time in padded batches, relative to full depth in a strip; None if not measured.
    """

    setting: str
    score: float
    difference: PairedDifference
    mean_depth: float
    flops: Estimate
    time: Estimate
    padded_time: float | None


@dataclass(frozen=True)
class DepthScores:
    """Mean scores at one depth; None where it was not measured.

    Attributes:
        with_exits: of the model trained with exits.
        without_exits: of the model trained without.
        trained_at_depth: of a model with as many layers, trained without exits.
    """

    with_exits: float | None
    without_exits: float | None
    trained_at_depth: float | None


@dataclass(frozen=True)
class ExitBenchResult:
    """What the benchmark has measured, over all seeds.

    Attributes:
        task: name of the task.
        num_seeds: number of seeds.
        num_examples: number of examples of dev; the largest, if it differs between the seeds.
        examples_at_a_time: number of examples that were scored at a time.
        layers: number of layers of the checkpoint.
        recommended: the setting with the fewest FLOPs whose mean score is within the tolerance.
        points: settings of the model with exits.
        score_by_depth: mean scores at each depth.
        full_depth_gain: score at full depth with exits minus that without.
    """

    task: str
    num_seeds: int
    num_examples: int
    examples_at_a_time: int
    layers: int
    recommended: str
    points: tuple[ExitBenchPoint, ...]
    score_by_depth: Mapping[int, DepthScores]
    full_depth_gain: PairedDifference


def mean_result(
    by_seed: Sequence[SeedResults], layers: int, tolerance: float, examples_at_a_time: int
) -> ExitBenchResult:
    """Return the means over the seeds.

    Args:
        by_seed: results of each seed.
        layers: number of layers of the checkpoint.
        tolerance: points of the score that the recommended setting may lose.
        examples_at_a_time: number of examples that were scored at a time.
    """
    with_exits = [results[WITH_EXITS] for results in by_seed]
    points = tuple(_mean_point(index, with_exits) for index in range(len(with_exits[0].points)))
    lowest = lowest_difference(tolerance)
    within = [point for point in points if point.difference.mean >= lowest]
    full_scores = [
        [results[variant].points[0].score.value for results in by_seed]
        for variant in (WITH_EXITS, WITHOUT_EXITS)
    ]
    return ExitBenchResult(
        task=with_exits[0].task,
        num_seeds=len(by_seed),
        num_examples=max(result.num_examples for result in with_exits),
        examples_at_a_time=examples_at_a_time,
        layers=layers,
        recommended=min(within, key=lambda point: point.flops.value).setting,
        points=points,
        score_by_depth={depth: _scores_at(depth, layers, by_seed) for depth in range(1, layers + 1)},
        full_depth_gain=paired_difference(*full_scores),
    )


def _mean_point(index: int, results: Sequence[RunResult]) -> ExitBenchPoint:
    """Return the means over the seeds of one setting, by its index among the points of a run."""
    points = [result.points[index] for result in results]
    full_depth_points = [result.points[0] for result in results]
    setting, scores = points[0].setting, [point.score.value for point in points]
    padded = [
        result.padded_seconds[setting] / full_depth.seconds
        for result, full_depth in zip(results, full_depth_points, strict=True)
        if setting in result.padded_seconds
    ]
    return ExitBenchPoint(
        setting=setting,
        score=fmean(scores),
        difference=paired_difference(scores, [point.score.value for point in full_depth_points]),
        mean_depth=fmean(point.mean_depth for point in points),
        flops=_over_seeds([point.flops for point in points]),
        time=_over_seeds([point.time for point in points]),
        padded_time=fmean(padded) if padded else None,
    )


def _over_seeds(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean over the seeds with its interval; that of the examples, if there is one seed."""
    if len(estimates) == 1:
        return estimates[0]
    values = [estimate.value for estimate in estimates]
    mean, half = fmean(values), half_width(stdev(values), len(values))
    return Estimate(mean, mean - half, mean + half)


def _scores_at(depth: int, layers: int, by_seed: Sequence[SeedResults]) -> DepthScores:
    """Return the mean scores at a depth."""

    def mean(variant: Variant, setting: str) -> float | None:
        scores = [
            point.score.value
            for results in by_seed
            if variant in results
            for point in results[variant].points
            if point.setting == setting
        ]
        return fmean(scores) if scores else None

    setting = FULL_DEPTH if depth == layers else f"--depth {depth}"
    trained_at_depth = WITHOUT_EXITS if depth == layers else shallow(depth)
    return DepthScores(
        mean(WITH_EXITS, setting), mean(WITHOUT_EXITS, setting), mean(trained_at_depth, FULL_DEPTH)
    )
