"""How work speaks: results on standard output, everything else on standard error.

Work wraps what it goes through in `track`: a live line on a terminal, plain
lines elsewhere, nothing for what takes under two seconds or when quiet. Since
only results reach standard output, a pipe or a file gets them alone.
"""

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

SECONDS_BEFORE_FIRST_LINE = 2.0
SECONDS_BETWEEN_LINES = 10.0
MIN_TABLE_WIDTH, DEFAULT_TABLE_WIDTH = 80, 200


class LiveDisplay(Protocol):
    """What is drawing on the terminal."""

    def end_line(self) -> None:
        """Leave what is drawn, so that what comes next starts on its own."""


_quiet = False
_live_display: LiveDisplay | None = None


def set_quiet(quiet: bool) -> None:
    """Silence everything but results and errors, for the whole process."""
    global _quiet
    _quiet = quiet


@contextmanager
def quiet_output(quiet: bool = True) -> Iterator[None]:
    """Silence the same for a while, if so."""
    before = _quiet
    set_quiet(before or quiet)
    try:
        yield
    finally:
        set_quiet(before)


def is_quiet() -> bool:
    """Tell whether only results and errors are wanted."""
    return _quiet


def print_message(message: str) -> None:
    """Tell the person one thing on standard error, unless quiet."""
    if not _quiet:
        end_line()
        print(message, file=sys.stderr, flush=True)


def end_line() -> None:
    """End the live line, if there is one, so that what comes next starts on its own."""
    if _live_display is not None:
        _live_display.end_line()


@contextmanager
def live_display(display: LiveDisplay) -> Iterator[None]:
    """Let something draw while the block runs; what is said meanwhile starts below it."""
    global _live_display
    outer, _live_display = _live_display, display
    try:
        yield
    finally:
        display.end_line()
        _live_display = outer


def result_console(default_width: int = DEFAULT_TABLE_WIDTH) -> "Console":
    """Return a console for tables on standard output; it never cuts a number to make it fit.

    Args:
        default_width: how wide what goes to no terminal may be.
    """
    from rich.console import Console

    class ResultConsole(Console):
        """A console that leaves a closed pipe to the frame of the command."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    width = shutil.get_terminal_size((default_width, 24)).columns
    return ResultConsole(width=max(width, MIN_TABLE_WIDTH))


def track(
    items: Iterable[T], description: str, *, total: int | None = None, unit: str = "items"
) -> Iterator[T]:
    """Yield the items, telling how far it is, how fast, and how long it will take.

    Args:
        items: what to go through.
        description: the activity, as in "Counting words".
        total: how many items there are; taken from `items` if it knows its length.
        unit: what an item is, in the plural.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress_counter(description, total=total, unit=unit) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def progress_counter(
    description: str, *, total: int | None, unit: str = "items"
) -> Iterator[Callable[[int], None]]:
    """Give a function to call with each amount of work done; for work that does not come as a list."""
    line = _ProgressLine(description, total, unit, sys.stderr)
    with live_display(line):
        yield line.advance
        line.finish()


class _ProgressLine:
    """Counts, and speaks when it is time to."""

    def __init__(self, what: str, total: int | None, unit: str, stream: TextIO):
        self.description, self.total, self.unit, self.stream = what, total, unit, stream
        self.done, self.last_shown_count = 0, -1
        self.started = self.last_shown_time = time.monotonic()
        self.is_terminal = stream.isatty()
        self.interval = 0.1 if self.is_terminal else SECONDS_BETWEEN_LINES
        self.is_line_open = False

    def advance(self, amount: int) -> None:
        self.done += amount
        now = time.monotonic()
        interval = SECONDS_BEFORE_FIRST_LINE if self.last_shown_count < 0 else self.interval
        if not _quiet and now - self.last_shown_time >= interval:
            self.show(now)

    def finish(self) -> None:
        if 0 <= self.last_shown_count < self.done:
            self.show(time.monotonic())

    def end_line(self) -> None:
        if self.is_line_open:
            self.stream.write("\n")
            self.stream.flush()
            self.is_line_open = False

    def show(self, now: float) -> None:
        line = progress_text(self.description, self.done, self.total, now - self.started, self.unit)
        self.last_shown_time, self.last_shown_count = now, self.done
        if self.is_terminal:
            # Written over itself, which a line that wraps could not be; the end clears what was longer.
            line = line[: shutil.get_terminal_size().columns - 1]
            self.stream.write(f"\r{line}\x1b[K")
            self.is_line_open = True
        else:
            self.stream.write(f"{line}\n")
        self.stream.flush()


def progress_text(description: str, done: int, total: int | None, seconds: float, unit: str) -> str:
    """Put progress into one line: how far, how fast, how long still."""
    rate = done / seconds if seconds > 0 else 0.0
    rate_text = f"{rate:,.0f} {unit}/s" if rate >= 9.95 else f"{rate:.1f} {unit}/s"
    if total is None or done > total:
        return f"{description}: {done:,} {unit}, {rate_text}, {format_duration(seconds)} so far"
    if done == total:
        return f"{description}: {done:,} {unit}, {rate_text}, took {format_duration(seconds)}"
    time_left = format_duration((total - done) / rate) if rate else "unknown time"
    return f"{description}: {100 * done // total}% of {total:,} {unit}, {rate_text}, {time_left} left"


def format_duration(seconds: float) -> str:
    """Write a duration as a person would say it: 8 s, 3 min 20 s, 2 h 05 min, 3 days 4 h."""
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    if total < 48 * 3600:
        return f"{total // 3600} h {total % 3600 // 60:02d} min"
    return f"{total // 86400} days {total % 86400 // 3600} h"


def format_flops(count: float) -> str:
    """Write a number of operations with its unit."""
    return _format_with_unit(count, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"))


def format_bytes(count: int) -> str:
    """Write a number of bytes with its unit, in powers of ten as vendors do."""
    return _format_with_unit(count, ("B", "kB", "MB", "GB", "TB"))


def _format_with_unit(count: float, units: tuple[str, ...]) -> str:
    """Write three digits and the unit that they need, chosen after rounding."""
    for unit in units[:-1]:
        if float(f"{count:.3g}") < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{float(f'{count:.3g}'):,.10g} {units[-1]}"
