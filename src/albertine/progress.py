"""Progress lines and messages on standard error; standard output is for results only.

Long loops run through `track`. On a terminal it updates one line, elsewhere it prints a
line every ten seconds. It prints nothing for loops under two seconds or when quiet.
"""

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO, TypeVar

from albertine.json_output import json_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

T = TypeVar("T")

SECONDS_BEFORE_FIRST_LINE = 2.0
SECONDS_BETWEEN_LINES = 10.0
MIN_TABLE_WIDTH, DEFAULT_TABLE_WIDTH = 80, 200
# Titles of columns that are folded on a narrow terminal.
_FOLDED_COLUMNS = ("model", "run", "data", "paradigm", "metrics", "path", "token")
MAX_LINE_LENGTH = 1000  # characters of a message


class LiveDisplay(Protocol):
    """A display that updates a line or a panel on the terminal."""

    def end_line(self) -> None:
        """End the line or panel, so that the next output starts on a new line."""


_quiet = False
_message_writer: Callable[[str], None] | None = None
_live_display: LiveDisplay | None = None


def set_quiet(quiet: bool) -> None:
    """Switch messages and progress of this process off or on; results and errors are always printed."""
    global _quiet
    _quiet = quiet


@contextmanager
def quiet_output(quiet: bool = True) -> Iterator[None]:
    """Switch messages and progress off while the block runs, if `quiet`."""
    before = _quiet
    set_quiet(before or quiet)
    try:
        yield
    finally:
        set_quiet(before)


def is_quiet() -> bool:
    """Return whether messages and progress are switched off."""
    return _quiet


def set_message_writer(write: Callable[[str], None] | None) -> None:
    """Give messages to a function, as a log does that is not for people; None prints them as before."""
    global _message_writer
    _message_writer = write


def print_message(message: str) -> None:
    """Print a message to standard error, unless quiet."""
    if _message_writer is not None:
        _message_writer(message)
    elif not _quiet:
        end_line()
        print(*map(printable_line, message.split("\n")), sep="\n", file=sys.stderr, flush=True)


def printable_line(text: str) -> str:
    """Return text as one line: control characters are escaped, and the middle of a long text is left out.

    Messages quote names and values from files of any origin, which must not control the terminal.
    """
    line = "".join(map(_escaped, text))
    if len(line) <= MAX_LINE_LENGTH:
        return line
    return f"{line[: MAX_LINE_LENGTH // 2 - 2]} ... {line[3 - MAX_LINE_LENGTH // 2 :]}"


def _escaped_lines(text: str) -> str:
    return "\n".join("".join(map(_escaped, line)) for line in text.split("\n"))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def print_json(value: object) -> None:
    """Print a value as JSON on standard output."""
    print(json_text(value, indent=2))


def end_line() -> None:
    """End the open progress line, if any, so that the next output starts on a new one."""
    if _live_display is not None:
        _live_display.end_line()


@contextmanager
def live_display(display: LiveDisplay) -> Iterator[None]:
    """Register a display while the block runs; messages end its line before they are printed."""
    global _live_display
    outer, _live_display = _live_display, display
    try:
        yield
    finally:
        display.end_line()
        _live_display = outer


def result_console(default_width: int = DEFAULT_TABLE_WIDTH) -> "Console":
    """Return a console for tables on standard output, wide enough that it never truncates a number.

    It escapes control characters, which values from files may contain. It raises `BrokenPipeError`,
    which `command.py` handles.

    Args:
        default_width: number of columns if the output is not a terminal.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class ResultConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                is_safe = segment.control or segment.text == "\n" or segment.text.isprintable()
                yield segment if is_safe else segment._replace(text=_escaped_lines(segment.text))

    width = shutil.get_terminal_size((default_width, 24)).columns
    return ResultConsole(width=max(width, MIN_TABLE_WIDTH))


def result_table(*titles: str, left_aligned: Sequence[str] = ()) -> "Table":
    """Return an empty table of results.

    Args:
        titles: titles of the columns.
        left_aligned: titles of the columns to align left; if empty, only the first column.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(
            title,
            justify="left" if title in (left_aligned or titles[:1]) else "right",
            no_wrap=title not in _FOLDED_COLUMNS,
            overflow="fold",
        )
    return table


def track(
    items: Iterable[T], description: str, *, total: int | None = None, unit: str = "items"
) -> Iterator[T]:
    """Yield the items and show progress: how many are done, how fast, and the time left.

    Args:
        items: the items to yield.
        description: the activity, as in "Counting words".
        total: number of items; `len(items)` if not given and available.
        unit: the plural name of an item.
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
    """Show progress while the block runs; yield a function that adds an amount of finished work."""
    line = _ProgressLine(description, total, unit, sys.stderr)
    with live_display(line):
        yield line.advance
        line.finish()


class _ProgressLine:
    """Counts work, and prints the progress line at intervals."""

    def __init__(self, description: str, total: int | None, unit: str, stream: TextIO):
        self.description, self.total, self.unit, self.stream = description, total, unit, stream
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
            # A wrapped line could not be overwritten; the escape sequence clears the rest of a longer one.
            line = line[: shutil.get_terminal_size().columns - 1]
            self.stream.write(f"\r{line}\x1b[K")
            self.is_line_open = True
        else:
            self.stream.write(f"{line}\n")
        self.stream.flush()


def progress_text(description: str, done: int, total: int | None, seconds: float, unit: str) -> str:
    """Return the progress line: amount done, rate, and time left or taken."""
    rate = done / seconds if seconds > 0 else 0.0
    rate_text = f"{rate:,.0f} {unit}/s" if rate >= 9.95 else f"{rate:.1f} {unit}/s"
    done_text = f"{done:,} {_singular(unit) if done == 1 else unit}"
    if total is None or done > total:
        return f"{description}: {done_text}, {rate_text}, {format_duration(seconds)} so far"
    if done == total:
        return f"{description}: {done_text}, {rate_text}, took {format_duration(seconds)}"
    time_left = format_duration((total - done) / rate) if rate else "unknown time"
    return f"{description}: {100 * done // total}% of {total:,} {unit}, {rate_text}, {time_left} left"


def _singular(unit: str) -> str:
    return unit.removesuffix("es") if unit.endswith("ches") else unit.removesuffix("s")


def format_duration(seconds: float) -> str:
    """Return a duration in words: 8 s, 3 min 20 s, 2 h 05 min, 3 days 4 h."""
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02d} s"
    if total < 48 * 3600:
        return f"{total // 3600} h {total % 3600 // 60:02d} min"
    return f"{total // 86400} days {total % 86400 // 3600} h"


def format_tokens(count: int) -> str:
    """Return a number of tokens, in millions from one million on: 51,200 or 12.50M."""
    return f"{count:,}" if count < 1_000_000 else f"{count / 1e6:,.2f}M"


def format_flops(count: float) -> str:
    """Return a number of floating-point operations with its unit."""
    return _format_with_unit(count, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"))


def format_bytes(count: int) -> str:
    """Return a number of bytes with its unit, in powers of ten."""
    return _format_with_unit(count, ("B", "kB", "MB", "GB", "TB"))


def _format_with_unit(count: float, units: tuple[str, ...]) -> str:
    """Return a number with three digits and its unit, which is chosen after rounding."""
    for unit in units[:-1]:
        if float(f"{count:.3g}") < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{float(f'{count:.3g}'):,.10g} {units[-1]}"
