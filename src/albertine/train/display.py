"""Shows the progress of training: a panel on a terminal, a line from time to time elsewhere."""

import math
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

from albertine import progress
from albertine.progress import format_bytes, format_duration
from albertine.train.step_metrics import StepMetrics, moving_average

_DECAY = 0.9
_BARS = "▁▂▃▄▅▆▇█"
_SPARKLINE_WIDTH = 48  # bars


class TrainingDisplay:
    """Shows the progress of a run."""

    def __init__(
        self,
        steps: int,
        evaluation_interval: int,
        baselines: Mapping[str, tuple[str, float]],
        work: Callable[[int, int], float],
    ):
        """Store the arguments.

        Args:
            steps: number of steps of the run.
            evaluation_interval: number of steps between evaluations.
            baselines: name and loss of the baseline of an objective, to show beside its loss.
            work: `Trainable.work`, from which the time left follows: later steps can cost more.
        """
        self._steps, self._evaluation_interval = steps, evaluation_interval
        self._baselines, self._work = baselines, work
        self._stream = sys.stderr
        self._is_terminal = self._stream.isatty()
        self._interval = 0.2 if self._is_terminal else progress.SECONDS_BETWEEN_LINES
        # Such that the first update is shown at once on a terminal, and after a short while elsewhere.
        self._drawn_at = (
            time.monotonic()
            - self._interval
            + (0 if self._is_terminal else progress.SECONDS_BEFORE_FIRST_LINE)
        )
        self._drawn_lines = 0
        self._averages: dict[str, float] = {}
        self._averaged_steps: dict[str, int] = {}
        self._last_evaluation: tuple[int, dict[str, float]] | None = None
        self._evaluation_seconds = 0.0
        self._losses: deque[float] = deque(maxlen=2048)
        self._last_metrics: StepMetrics | None = None
        self._first_step: tuple[int, float] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show updates while the block runs, and the last one at its end."""
        with progress.live_display(self):
            try:
                yield
            finally:
                if self._last_metrics and not progress.is_quiet():
                    self._draw(self._last_metrics)

    def update(self, metrics: StepMetrics) -> None:
        """Show the metrics of a step, unless the last ones were shown only just before."""
        for name, value in _values_to_average(metrics).items():
            average = self._averages.get(name, math.nan)
            count = 1 if math.isnan(average) else self._averaged_steps[name] + 1  # start again after NaN
            self._averaged_steps[name] = count
            self._averages[name] = moving_average(average, value, count, _DECAY)
        self._losses.append(metrics.loss)
        self._last_metrics = metrics
        if self._first_step is None or metrics.step < self._first_step[0]:  # after a rollback
            self._first_step = (metrics.step, metrics.seconds)
        now = time.monotonic()
        if not progress.is_quiet() and now - self._drawn_at >= self._interval:
            self._drawn_at = now
            self._draw(metrics)

    def update_evaluation(self, step: int, scores: dict[str, float], seconds: float) -> None:
        """Show the metrics of an evaluation from the next update on.

        Args:
            step: step of the evaluation.
            scores: its metrics.
            seconds: time spent in evaluations so far.
        """
        self._last_evaluation, self._evaluation_seconds = (step, scores), seconds

    def end_line(self) -> None:
        """Leave the panel on the screen; the next update is drawn below it."""
        self._drawn_lines = 0

    def _draw(self, metrics: StepMetrics) -> None:
        if not self._is_terminal:
            self._stream.write(self._line(metrics) + "\n")
        else:
            width = shutil.get_terminal_size().columns - 1
            lines = [line[:width] for line in self._panel(metrics)]
            cursor_up = f"\x1b[{self._drawn_lines}A" if self._drawn_lines else ""
            self._stream.write(f"\r{cursor_up}\x1b[J" + "".join(line + "\n" for line in lines))
            self._drawn_lines = len(lines)
        self._stream.flush()

    def _time_left(self, metrics: StepMetrics) -> str:
        assert self._first_step is not None
        if metrics.step >= self._steps:
            return f"took {format_duration(metrics.seconds + self._evaluation_seconds)}"
        first_step, first_seconds = self._first_step
        if metrics.step == first_step:
            return "time unknown"
        seconds_per_work = (metrics.seconds - first_seconds) / self._work(first_step, metrics.step)
        seconds = self._work(metrics.step, self._steps) * seconds_per_work
        return f"{format_duration(seconds + self._evaluation_seconds_left(metrics.step))} left"

    def _evaluation_seconds_left(self, step: int) -> float:
        """Return the time that the evaluations after a step will take; one is before the first step."""
        if self._last_evaluation is None:
            return 0.0
        interval = self._evaluation_interval
        num_done, num_left = (
            1 + self._last_evaluation[0] // interval,
            -(-self._steps // interval) - step // interval,
        )
        return num_left * self._evaluation_seconds / num_done

    def _throughput(self, metrics: StepMetrics) -> str:
        utilization = f" ({metrics.utilization:.0%} of the machine)" if metrics.utilization else ""
        return f"{metrics.tokens_per_second:,.0f} tokens/s{utilization}, {format_bytes(metrics.peak_memory)}"

    def _line(self, metrics: StepMetrics) -> str:
        """Return the metrics of a step as one line."""
        objectives = []
        for name in metrics.losses:
            baseline = (
                f" ({self._baselines[name][0]} {self._baselines[name][1]:.2f})"
                if name in self._baselines
                else ""
            )
            objectives.append(f"{name} {self._averages[f'{name} loss']:.3f}{baseline}{self._accuracy(name)}")
        return (
            f"step {metrics.step:,} of {self._steps:,}: {', '.join(objectives)}, lr {metrics.lr:.2e}, "
            f"gradient {metrics.gradient_norm:.2f}, {self._throughput(metrics)}, {self._time_left(metrics)}"
        )

    def _accuracy(self, name: str, width: int = 0) -> str:
        accuracy = self._averages[f"{name} accuracy"]
        return f" {accuracy:{max(1, width - 1)}.1%} correct" if accuracy == accuracy else ""

    def _panel(self, metrics: StepMetrics) -> list[str]:
        """Return the metrics of a step as the lines of the panel."""
        title = f"step {metrics.step:,} of {self._steps:,}  {metrics.step / self._steps:.0%}"
        lines = [f"\x1b[1m{title}\x1b[0m  {metrics.tokens:,} tokens  {self._time_left(metrics)}"]
        for name in metrics.losses:
            line = f"  {name:<6}{self._averages[f'{name} loss']:8.3f}{self._accuracy(name, 8)}"
            if self._last_evaluation and f"{name}_loss" in self._last_evaluation[1]:
                scores = self._last_evaluation[1]
                line += f"   held out {scores[f'{name}_loss']:7.3f} {scores[f'{name}_accuracy']:7.1%}"
            if name in self._baselines:
                line += f"   {self._baselines[name][0]} {self._baselines[name][1]:.3f}"
            lines.append(line)
        if self._last_evaluation and not any(
            f"{name}_loss" in self._last_evaluation[1] for name in metrics.losses
        ):
            step, evaluation_scores = self._last_evaluation
            shown_scores = "  ".join(
                f"{name.replace('_', ' ')} {value:.3f}" for name, value in evaluation_scores.items()
            )
            lines.append(f"  held out at step {step:,}:  {shown_scores}")
        lines.append(
            f"  lr {metrics.lr:.2e}  gradient {metrics.gradient_norm:.2f}  {self._throughput(metrics)}"
        )
        lines.append("  " + sparkline(list(self._losses)))
        return lines


def _values_to_average(metrics: StepMetrics) -> dict[str, float]:
    losses = {f"{name} loss": value for name, value in metrics.losses.items()}
    return losses | {f"{name} accuracy": value for name, value in metrics.accuracies.items()}


def sparkline(values: list[float]) -> str:
    """Return values as a line of bars, each the mean of neighbouring values."""
    finite = [value for value in values if value == value and abs(value) != float("inf")]
    if len(finite) < 2:
        return ""
    count = min(_SPARKLINE_WIDTH, len(finite))
    edges = [len(finite) * bar // count for bar in range(count + 1)]
    means = [sum(finite[start:end]) / (end - start) for start, end in pairwise(edges)]
    low, high = min(means), max(means)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((mean - low) * scale)] for mean in means)
