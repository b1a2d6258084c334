"""How long work speaks while it runs: a live bar on a terminal, plain lines elsewhere, nothing when quiet.

Work wraps what it goes through in `track`; anything under two seconds stays
silent. Everything here goes to standard error, so that standard output holds
the result alone and can be piped.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TextIO, TypeVar

T = TypeVar("T")

SILENT_SECONDS = 2.0
SECONDS_BETWEEN_LINES = 10.0

_quiet = False


def be_quiet(quiet: bool) -> None:
    """Silence everything but results and errors, for the whole process."""
    global _quiet
    _quiet = quiet


def say(message: str) -> None:
    """Tell the person one thing on standard error, unless quiet."""
    if not _quiet:
        print(message, file=sys.stderr, flush=True)


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
    try:
        yield teller.advance
        teller.finish()
    finally:
        teller.close()


class _Teller:
    """Counts, and speaks when it is time to."""

    def __init__(self, what: str, total: int | None, unit: str, stream: TextIO):
        self.what, self.total, self.unit, self.stream = what, total, unit, stream
        self.done = 0
        self.started = self.spoke = time.monotonic()
        self.speaking = False
        self.live = stream.isatty()
        self.pause = 0.1 if self.live else SECONDS_BETWEEN_LINES

    def advance(self, amount: int) -> None:
        self.done += amount
        now = time.monotonic()
        wait = self.pause if self.speaking else SILENT_SECONDS
        if not _quiet and now - self.spoke >= wait:
            self.speaking, self.spoke = True, now
            self.tell(now)

    def finish(self) -> None:
        if self.speaking:
            self.tell(time.monotonic())

    def close(self) -> None:
        if self.speaking and self.live:
            self.stream.write("\n")
            self.stream.flush()

    def tell(self, now: float) -> None:
        line = describe(self.what, self.done, self.total, now - self.started, self.unit)
        # On a terminal the line is written over itself; "erase to the end" clears a longer one before it.
        self.stream.write(f"\r{line}\x1b[K" if self.live else f"{line}\n")
        self.stream.flush()


def describe(what: str, done: int, total: int | None, seconds: float, unit: str) -> str:
    """Put progress into one line: how far, how fast, how long still."""
    rate = done / seconds if seconds > 0 else 0.0
    pace = f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.2g} {unit}/s"
    if total is None:
        return f"{what}: {done:,} {unit}, {pace}, {duration(seconds)} so far"
    share = f"{done / total:.0%}" if total else "100%"
    if done >= total:
        return f"{what}: {done:,} {unit}, {pace}, took {duration(seconds)}"
    left = duration((total - done) / rate) if rate else "unknown time"
    return f"{what}: {share} of {total:,} {unit}, {pace}, {left} left"


def duration(seconds: float) -> str:
    """Write a duration as a person would say it: 8 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
