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

SILENT_SECONDS = 2.0
SECONDS_BETWEEN_LINES = 10.0
NARROWEST, WIDE = 80, 200


class Screen(Protocol):
    """What is drawing on the terminal."""

    def end_line(self) -> None:
        """Leave what is drawn, so that what comes next starts on its own."""


_quiet = False
_live: Screen | None = None


def be_quiet(quiet: bool) -> None:
    """Silence everything but results and errors, for the whole process."""
    global _quiet
    _quiet = quiet


@contextmanager
def quietly(quiet: bool = True) -> Iterator[None]:
    """Silence the same for a while, if so."""
    before = _quiet
    be_quiet(before or quiet)
    try:
        yield
    finally:
        be_quiet(before)


def is_quiet() -> bool:
    """Tell whether only results and errors are wanted."""
    return _quiet


def say(message: str) -> None:
    """Tell the person one thing on standard error, unless quiet."""
    if not _quiet:
        end_line()
        print(message, file=sys.stderr, flush=True)


def end_line() -> None:
    """End the live line, if there is one, so that what comes next starts on its own."""
    if _live is not None:
        _live.end_line()


@contextmanager
def screen(drawing: Screen) -> Iterator[None]:
    """Let something draw while the block runs; what is said meanwhile starts below it."""
    global _live
    outer, _live = _live, drawing
    try:
        yield
    finally:
        drawing.end_line()
        _live = outer


def results(elsewhere: int = WIDE) -> "Console":
    """Return a console for tables on standard output; it never cuts a number to make it fit.

    Args:
        elsewhere: how wide what goes to no terminal may be.
    """
    from rich.console import Console

    class Results(Console):
        """A console that leaves a closed pipe to the frame of the command."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    width = shutil.get_terminal_size((elsewhere, 24)).columns
    return Results(width=max(width, NARROWEST))


def track(items: Iterable[T], what: str, *, total: int | None = None, unit: str = "items") -> Iterator[T]:
    """Yield the items, telling how far it is, how fast, and how long it will take.

    Args:
        items: what to go through.
        what: the activity, as in "Counting words".
        total: how many items there are; taken from `items` if it knows its length.
        unit: what an item is, in the plural.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with advancing(what, total=total, unit=unit) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def advancing(what: str, *, total: int | None, unit: str = "items") -> Iterator[Callable[[int], None]]:
    """Give a function to call with each amount of work done; for work that does not come as a list."""
    teller = _Teller(what, total, unit, sys.stderr)
    with screen(teller):
        yield teller.advance
        teller.finish()


class _Teller:
    """Counts, and speaks when it is time to."""

    def __init__(self, what: str, total: int | None, unit: str, stream: TextIO):
        self.what, self.total, self.unit, self.stream = what, total, unit, stream
        self.done, self.told = 0, -1
        self.started = self.spoke = time.monotonic()
        self.live = stream.isatty()
        self.pause = 0.1 if self.live else SECONDS_BETWEEN_LINES
        self.line_is_open = False

    def advance(self, amount: int) -> None:
        self.done += amount
        now = time.monotonic()
        wait = SILENT_SECONDS if self.told < 0 else self.pause
        if not _quiet and now - self.spoke >= wait:
            self.tell(now)

    def finish(self) -> None:
        if 0 <= self.told < self.done:
            self.tell(time.monotonic())

    def end_line(self) -> None:
        if self.line_is_open:
            self.stream.write("\n")
            self.stream.flush()
            self.line_is_open = False

    def tell(self, now: float) -> None:
        line = describe(self.what, self.done, self.total, now - self.started, self.unit)
        self.spoke, self.told = now, self.done
        if self.live:
            # Written over itself, which a line that wraps could not be; the end clears what was longer.
            line = line[: shutil.get_terminal_size().columns - 1]
            self.stream.write(f"\r{line}\x1b[K")
            self.line_is_open = True
        else:
            self.stream.write(f"{line}\n")
        self.stream.flush()


def describe(what: str, done: int, total: int | None, seconds: float, unit: str) -> str:
    """Put progress into one line: how far, how fast, how long still."""
    rate = done / seconds if seconds > 0 else 0.0
    pace = f"{rate:,.0f} {unit}/s" if rate >= 9.95 else f"{rate:.1f} {unit}/s"
    if total is None or done > total:
        return f"{what}: {done:,} {unit}, {pace}, {duration(seconds)} so far"
    if done == total:
        return f"{what}: {done:,} {unit}, {pace}, took {duration(seconds)}"
    left = duration((total - done) / rate) if rate else "unknown time"
    return f"{what}: {100 * done // total}% of {total:,} {unit}, {pace}, {left} left"


def duration(seconds: float) -> str:
    """Write a duration as a person would say it: 8 s, 3 min 20 s, 2 h 05 min, 3 days 4 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} days {whole % 86400 // 3600} h"


def operations(count: float) -> str:
    """Write a number of operations with its unit."""
    return _with_unit(count, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"))


def size(count: int) -> str:
    """Write a number of bytes with its unit, in powers of ten as vendors do."""
    return _with_unit(count, ("B", "kB", "MB", "GB", "TB"))


def _with_unit(count: float, units: tuple[str, ...]) -> str:
    """Write three digits and the unit that they need, chosen after rounding."""
    for unit in units[:-1]:
        if float(f"{count:.3g}") < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{float(f'{count:.3g}'):,.10g} {units[-1]}"
