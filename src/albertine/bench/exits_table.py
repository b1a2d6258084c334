"""Prints the result of the benchmark of exits."""

from dataclasses import asdict

from albertine import progress
from albertine.bench.exits_result import ExitBenchResult
from albertine.display import counted
from albertine.inference.show_exit_curve import margin_text
from albertine.paired_statistics import PairedDifference


def show_exits(result: ExitBenchResult, *, as_json: bool) -> None:
    """Print the result as tables or JSON."""
    if as_json:
        points = [{**asdict(point), "difference": point.difference.to_json()} for point in result.points]
        values = {**asdict(result), "points": points, "full_depth_gain": result.full_depth_gain.to_json()}
        progress.print_json(values)
        return
    console = progress.result_console()
    title = (
        f"{result.task}: {result.num_examples:,} examples, {result.examples_at_a_time} at a time, "
        f"{counted(result.num_seeds, 'seed')}"
    )
    console.print(title, highlight=False, markup=False, soft_wrap=True)
    table = progress.result_table(
        "setting", "score", "difference", "mean depth", "FLOPs", "time", "time, padded"
    )
    for point in result.points:
        table.add_row(
            point.setting,
            f"{100 * point.score:.2f}",
            _interval(point.difference),
            f"{point.mean_depth:.2f}",
            margin_text(point.flops),
            margin_text(point.time),
            "" if point.padded_time is None else f"{100 * point.padded_time:.0f}%",
        )
    console.print(table)
    console.print(f"recommended: {result.recommended}\n", highlight=False, markup=False)
    table = progress.result_table("depth", "with exits", "without exits", "trained at this depth")
    for depth, of_depth in result.score_by_depth.items():
        scores = (of_depth.with_exits, of_depth.without_exits, of_depth.trained_at_depth)
        table.add_row(str(depth), *("" if score is None else f"{100 * score:.2f}" for score in scores))
    console.print(table)
    console.print(
        f"at full depth, exits change the score by {_interval(result.full_depth_gain)}", highlight=False
    )


def _interval(difference: PairedDifference) -> str:
    """Return a difference in points, with its 95% interval over the seeds."""
    mean, low, high = (100 * value for value in (difference.mean, difference.low, difference.high))
    return f"{mean:+.2f}" if difference.seeds < 2 else f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"
