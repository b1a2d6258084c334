"""`metrics.jsonl`: a line for every step, evaluation and event of a run.

A line that cannot be written (the disk is full) waits and is tried again, so that
the file never holds half of one. Going on from a checkpoint, the lines after it are
taken out: the file tells of the steps that made the weights, each once.
"""

import errno
import json
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.atomic import atomic_file

MetricsLine = dict[str, Any]
CurvePoint = tuple[float, float]

METRICS_FILE = "metrics.jsonl"
HELD_OUT_PREFIX = "held_out_"
_FLUSH_LINES = 50  # lines that wait for each other
_TAIL_BYTES = 1 << 14  # bytes


class MetricsLog:
    """Writes lines; `last_step` is the last step to keep of those that are there."""

    def __init__(self, folder: Path, last_step: int):
        self._file = folder / METRICS_FILE
        self._buffer: list[bytes] = []
        self._warned = False
        self._open(last_step)

    def _open(self, last_step: int) -> None:
        _truncate_file(self._file, last_step)
        self._descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self._size = os.fstat(self._descriptor).st_size

    def truncate(self, last_step: int) -> None:
        """Take out the lines of later steps, also of those that wait."""
        self._buffer = [line for line in self._buffer if json.loads(line)["step"] <= last_step]
        self.close()
        self._open(last_step)

    def write(self, line: MetricsLine) -> None:
        """Write a line, soon."""
        self._buffer.append(json.dumps(_json_value(line)).encode() + b"\n")
        if len(self._buffer) >= _FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        """Write the lines that wait."""
        try:
            block = b"".join(self._buffer)
            while block:
                block = block[os.write(self._descriptor, block) :]
            self._size = os.fstat(self._descriptor).st_size
            self._buffer.clear()
            self._warned = False
        except OSError as error:
            os.ftruncate(self._descriptor, self._size)  # half a line is worse than none
            if not self._warned:
                progress.print_message(f"{self._file}: {error.strerror}; its lines wait until there is room")
            self._warned = True

    def sync(self) -> None:
        """Bring everything to the disk, or leave it waiting."""
        self.flush()
        with suppress(OSError):
            os.fsync(self._descriptor)

    def flush_or_raise(self) -> None:
        """Write what waits; this time it must go."""
        self.flush()
        if self._buffer:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._file))

    def close(self) -> None:
        """Write what waits, if it goes, and end."""
        self.flush()
        os.close(self._descriptor)


def read_metrics(folder: Path) -> list[MetricsLine]:
    """Return the lines of a run; a last one that was cut off is left out."""
    return _parsed_lines((folder / METRICS_FILE).read_bytes())


def read_last_metrics(folder: Path) -> list[MetricsLine]:
    """Return some of the last lines, however long the journal is."""
    with (folder / METRICS_FILE).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return _parsed_lines(file.read())


def _parsed_lines(block: bytes) -> list[MetricsLine]:
    lines = []
    for line in block.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return [line for line in lines if isinstance(line, dict)]


def metric_curve(lines: Sequence[MetricsLine], y_key: str, x_key: str = "step") -> list[CurvePoint]:
    """Return a number of the journal over another one of the same lines, where both are."""
    return [
        (one[x_key], one[y_key]) for one in lines if one.get(y_key) is not None and one.get(x_key) is not None
    ]


def downsampled(curve: Sequence[CurvePoint], max_points: int) -> list[CurvePoint]:
    """Return means of stretches, where there are many more points than can be told apart."""
    size = max(1, -(-len(curve) // max_points))
    chunks = [curve[at : at + size] for at in range(0, len(curve), size)]
    return [(sum(x for x, _ in one) / len(one), sum(y for _, y in one) / len(one)) for one in chunks]


def held_out_scores(line: MetricsLine) -> dict[str, float]:
    """Return the scores of an evaluation; of another line, none."""
    return {
        name.removeprefix(HELD_OUT_PREFIX): value
        for name, value in line.items()
        if name.startswith(HELD_OUT_PREFIX) and value is not None
    }


def _truncate_file(file: Path, last_step: int) -> None:
    """Take out the lines of later steps."""
    if not file.exists():
        return
    kept = [line for line in read_metrics(file.parent) if line.get("step", 0) <= last_step]
    text = "".join(json.dumps(line) + "\n" for line in kept)
    if text.encode() != file.read_bytes():
        with atomic_file(file) as partial:
            partial.write_text(text, encoding="utf-8")


def _json_value(value: Any) -> Any:
    """Write numbers that JSON has no word for as null."""
    if isinstance(value, dict):
        return {key: _json_value(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
