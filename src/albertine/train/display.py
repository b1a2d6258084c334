"""How a run looks while it goes: a small panel on a terminal, a plain line now and then elsewhere."""

import shutil
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

from albertine import progress
from albertine.progress import duration, size
from albertine.train.told import Told

_MEMORY = 0.9
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 48  # bars of the curve


class Display:
    """Shows steps; `levels` are losses that an objective must get below, with the name of each."""

    def __init__(self, steps: int, levels: Mapping[str, tuple[str, float]]):
        self._steps, self._levels = steps, levels
        self._stream = sys.stderr
        self._live = self._stream.isatty()
        self._pause = 0.2 if self._live else progress.SECONDS_BETWEEN_LINES
        self._spoke = time.monotonic() - self._pause + (0 if self._live else progress.SILENT_SECONDS)
        self._lines = 0
        self._smooth: dict[str, float] = {}
        self._held_out: tuple[int, dict[str, float]] | None = None
        self._curve: deque[float] = deque(maxlen=2048)
        self._last: Told | None = None
        self._first: tuple[int, float] | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show what comes while the block runs."""
        with progress.screen(self):
            try:
                yield
            finally:
                if self._last and not progress.is_quiet():
                    self._tell(self._last)

    def step(self, told: Told) -> None:
        """Take a step's numbers, and show them if it is time to."""
        for name, value in _values(told).items():
            before = self._smooth.get(name, value)
            self._smooth[name] = value if before != before else _MEMORY * before + (1 - _MEMORY) * value
        self._curve.append(told.loss)
        self._last = told
        if self._first is None:
            self._first = (told.step, told.seconds)
        now = time.monotonic()
        if not progress.is_quiet() and now - self._spoke >= self._pause:
            self._spoke = now
            self._tell(told)

    def evaluation(self, step: int, scores: dict[str, float]) -> None:
        """Take an evaluation's scores."""
        self._held_out = (step, scores)

    def end_line(self) -> None:
        """Leave what is on the screen; what comes next starts below it."""
        self._lines = 0

    def _tell(self, told: Told) -> None:
        if not self._live:
            self._stream.write(self._line(told) + "\n")
        else:
            width = shutil.get_terminal_size().columns - 1
            lines = [line[:width] for line in self._panel(told)]
            back = f"\x1b[{self._lines}A" if self._lines else ""
            self._stream.write(f"\r{back}\x1b[J" + "".join(line + "\n" for line in lines))
            self._lines = len(lines)
        self._stream.flush()

    def _left(self, told: Told) -> str:
        assert self._first is not None
        steps, seconds = told.step - self._first[0], told.seconds - self._first[1]
        if told.step >= self._steps:
            return f"took {duration(told.seconds)}"
        return f"{duration((self._steps - told.step) * seconds / steps)} left" if steps else "time unknown"

    def _machine(self, told: Told) -> str:
        roof = f" ({told.roof:.0%} of the machine)" if told.roof else ""
        return f"{told.speed:,.0f} tokens/s{roof}, {size(told.memory)}"

    def _line(self, told: Told) -> str:
        """Put a step into one line."""
        parts = []
        for name in told.losses:
            level = f" ({self._levels[name][0]} {self._levels[name][1]:.2f})" if name in self._levels else ""
            parts.append(f"{name} {self._smooth[f'{name} loss']:.3f}{level}{self._right(name)}")
        return (
            f"step {told.step:,} of {self._steps:,}: {', '.join(parts)}, lr {told.lr:.2e}, "
            f"gradient {told.norm:.2f}, {self._machine(told)}, {self._left(told)}"
        )

    def _right(self, name: str, width: int = 0) -> str:
        share = self._smooth[f"{name} right"]
        return f" {share:{max(1, width - 1)}.1%} right" if share == share else ""

    def _panel(self, told: Told) -> list[str]:
        """Lay a step out in a few lines."""
        done = f"step {told.step:,} of {self._steps:,}  {told.step / self._steps:.0%}"
        lines = [f"\x1b[1m{done}\x1b[0m  {told.tokens:,} tokens  {self._left(told)}"]
        for name in told.losses:
            line = f"  {name:<6}{self._smooth[f'{name} loss']:8.3f}{self._right(name, 8)}"
            if self._held_out and f"{name}_loss" in self._held_out[1]:
                scores = self._held_out[1]
                line += f"   held out {scores[f'{name}_loss']:7.3f} {scores[f'{name}_accuracy']:7.1%}"
            if name in self._levels:
                line += f"   {self._levels[name][0]} {self._levels[name][1]:.3f}"
            lines.append(line)
        if self._held_out and not any(f"{name}_loss" in self._held_out[1] for name in told.losses):
            at, found = self._held_out
            told_of = "  ".join(f"{name} {value:.3f}" for name, value in found.items())
            lines.append(f"  held out at step {at:,}:  {told_of}")
        lines.append(f"  rate {told.lr:.2e}  gradient {told.norm:.2f}  {self._machine(told)}")
        lines.append("  " + curve(list(self._curve)))
        return lines


def _values(told: Told) -> dict[str, float]:
    losses = {f"{name} loss": value for name, value in told.losses.items()}
    return losses | {f"{name} right": value for name, value in told.right.items()}


def curve(values: list[float]) -> str:
    """Draw values as a row of bars, each the mean of a stretch."""
    finite = [value for value in values if value == value and abs(value) != float("inf")]
    if len(finite) < 2:
        return ""
    count = min(_WIDTH, len(finite))
    edges = [len(finite) * at // count for at in range(count + 1)]
    means = [sum(finite[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((mean - low) * scale)] for mean in means)
