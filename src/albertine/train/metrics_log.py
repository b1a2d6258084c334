"""`metrics.jsonl`: one line for each step, evaluation and event of a run.

While the disk is full, lines stay in memory, and the file never contains a partial line.
When a run resumes from a checkpoint, the lines of later steps are removed, so the file has
exactly one line for each step that led to the current weights.
"""

import errno
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from albertine import progress
from albertine.atomic import atomic_file
from albertine.input_files import check_regular_file
from albertine.json_output import finite_json

MetricsLine = dict[str, Any]
CurvePoint = tuple[float, float]
EventType = Literal["skipped", "rollback", "stopped early", "diagnosis"]

METRICS_FILE = "metrics.jsonl"
HELD_OUT_PREFIX = "held_out_"
_FLUSH_LINES = 50  # lines that are written together
_LARGEST_NUMBER = 1e100  # a larger one is damage, and its percentage could be infinite
_TAIL_BYTES = 1 << 14  # bytes that `read_last_metrics` reads


class MetricsLog:
    """Writes the metrics of a run."""

    def __init__(self, folder: Path, last_step: int):
        """Open the file of a run and remove the lines after `last_step`."""
        self._file = folder / METRICS_FILE
        self._buffer: list[bytes] = []
        self._warned = False
        self._open(last_step)

    def _open(self, last_step: int) -> None:
        _truncate_file(self._file, last_step)
        self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self._size = os.fstat(self._descriptor).st_size

    def truncate(self, last_step: int) -> None:
        """Remove the lines of later steps, buffered ones too."""
        self._buffer = [line for line in self._buffer if json.loads(line)["step"] <= last_step]
        self.close()
        self._open(last_step)

    def write(self, line: MetricsLine) -> None:
        """Buffer a line; it is written together with later ones."""
        self._buffer.append(json.dumps(finite_json(line)).encode() + b"\n")
        if len(self._buffer) >= _FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines; if that fails, keep them and print a warning."""
        try:
            block = b"".join(self._buffer)
            while block:
                block = block[os.write(self._descriptor, block) :]
            self._size = os.fstat(self._descriptor).st_size
            self._buffer.clear()
            self._warned = False
        except OSError as error:
            os.ftruncate(self._descriptor, self._size)  # remove a partial line
            if not self._warned:
                progress.print_message(f"{self._file}: {error.strerror}; the lines are kept in memory")
            self._warned = True

    def sync(self) -> None:
        """Write the buffered lines and flush the file to the disk, if possible."""
        self.flush()
        with suppress(OSError):
            os.fsync(self._descriptor)

    def flush_or_raise(self) -> None:
        """Write the buffered lines; raise `OSError` if that fails or the file was removed."""
        self.flush()
        if not os.fstat(self._descriptor).st_nlink:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._file))
        if self._buffer:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._file))

    def close(self) -> None:
        """Write the buffered lines, if possible, and close the file."""
        self.flush()
        os.close(self._descriptor)


def read_metrics(folder: Path) -> list[MetricsLine]:
    """Return the lines of a run, without an incomplete last one."""
    check_regular_file(folder / METRICS_FILE)
    with (folder / METRICS_FILE).open("rb") as file:
        return list(_parsed_lines(file))


def read_last_metrics(folder: Path) -> list[MetricsLine]:
    """Return the last few lines of a run, in constant time."""
    check_regular_file(folder / METRICS_FILE)
    with (folder / METRICS_FILE).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return list(_parsed_lines(file))


def _parsed_lines(file: Iterable[bytes]) -> Iterator[MetricsLine]:
    for content in file:
        try:
            line = json.loads(content)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and _has_valid_types(line):
            yield line


def _has_valid_types(line: dict[str, Any]) -> bool:
    """Return whether a line has a step, and all values are numbers or null, and those of an event text."""
    return isinstance(line.get("step"), int) and all(
        isinstance(value, str) if key in ("event", "event_type") else _is_number_or_null(value)
        for key, value in line.items()
    )


def _is_number_or_null(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not abs(value) > _LARGEST_NUMBER)


def metric_curve(lines: Sequence[MetricsLine], y_key: str, x_key: str = "step") -> list[CurvePoint]:
    """Return the points (x, y) of all lines that have both keys."""
    return [
        (line[x_key], line[y_key])
        for line in lines
        if line.get(y_key) is not None and line.get(x_key) is not None
    ]


def downsampled(curve: Sequence[CurvePoint], max_points: int) -> list[CurvePoint]:
    """Return a curve of at most `max_points` points, each the mean of neighbouring points."""
    size = max(1, -(-len(curve) // max_points))
    chunks = [curve[start : start + size] for start in range(0, len(curve), size)]
    return [
        (sum(x for x, _ in chunk) / len(chunk), sum(y for _, y in chunk) / len(chunk)) for chunk in chunks
    ]


def held_out_scores(line: MetricsLine) -> dict[str, float]:
    """Return the metrics of an evaluation, by name without prefix; empty for a line of another kind."""
    return {
        name.removeprefix(HELD_OUT_PREFIX): value
        for name, value in line.items()
        if name.startswith(HELD_OUT_PREFIX) and value is not None
    }


def _truncate_file(file: Path, last_step: int) -> None:
    """Remove the lines of later steps from a file, which may be larger than the memory."""
    if not file.exists():
        return
    check_regular_file(file)
    with file.open("rb") as lines, file.open("rb") as same_lines:
        kept = _lines_up_to(last_step, lines)
        if all(content == before for content, before in zip_longest(kept, same_lines)):
            return
    with file.open("rb") as lines, atomic_file(file) as partial, partial.open("wb") as new_file:
        new_file.writelines(_lines_up_to(last_step, lines))


def _lines_up_to(last_step: int, file: Iterable[bytes]) -> Iterator[bytes]:
    return (json.dumps(line).encode() + b"\n" for line in _parsed_lines(file) if line["step"] <= last_step)
