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
from albertine.whole import new_file

Line = dict[str, Any]
Point = tuple[float, float]

JOURNAL = "metrics.jsonl"
HELD_OUT = "held_out_"
_TOGETHER = 50  # lines that wait for each other
_TAIL = 1 << 14  # bytes


class Journal:
    """Writes lines; `upto` is the last step to keep of those that are there."""

    def __init__(self, folder: Path, upto: int):
        self._file = folder / JOURNAL
        self._waiting: list[bytes] = []
        self._complained = False
        self._open(upto)

    def _open(self, upto: int) -> None:
        _cut(self._file, upto)
        self._number = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self._size = os.fstat(self._number).st_size

    def cut(self, upto: int) -> None:
        """Take out the lines of later steps, also of those that wait."""
        self._waiting = [line for line in self._waiting if json.loads(line)["step"] <= upto]
        self.close()
        self._open(upto)

    def write(self, line: Line) -> None:
        """Write a line, soon."""
        self._waiting.append(json.dumps(_plain(line)).encode() + b"\n")
        if len(self._waiting) >= _TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Write the lines that wait."""
        try:
            block = b"".join(self._waiting)
            while block:
                block = block[os.write(self._number, block) :]
            self._size = os.fstat(self._number).st_size
            self._waiting.clear()
            self._complained = False
        except OSError as error:
            os.ftruncate(self._number, self._size)  # half a line is worse than none
            if not self._complained:
                progress.say(f"{self._file}: {error.strerror}; its lines wait until there is room")
            self._complained = True

    def sync(self) -> None:
        """Bring everything to the disk, or leave it waiting."""
        self.flush()
        with suppress(OSError):
            os.fsync(self._number)

    def finish(self) -> None:
        """Write what waits; this time it must go."""
        self.flush()
        if self._waiting:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._file))

    def close(self) -> None:
        """Write what waits, if it goes, and end."""
        self.flush()
        os.close(self._number)


def read_journal(folder: Path) -> list[Line]:
    """Return the lines of a run; a last one that was cut off is left out."""
    return _lines_in((folder / JOURNAL).read_bytes())


def last_lines(folder: Path) -> list[Line]:
    """Return some of the last lines, however long the journal is."""
    with (folder / JOURNAL).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        return _lines_in(file.read())


def _lines_in(block: bytes) -> list[Line]:
    lines = []
    for line in block.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return [line for line in lines if isinstance(line, dict)]


def points(lines: Sequence[Line], key: str, over: str = "step") -> list[Point]:
    """Return a number of the journal over another one of the same lines, where both are."""
    return [(one[over], one[key]) for one in lines if one.get(key) is not None and one.get(over) is not None]


def thinned(curve: Sequence[Point], most: int) -> list[Point]:
    """Return means of stretches, where there are many more points than can be told apart."""
    size = max(1, -(-len(curve) // most))
    stretches = [curve[at : at + size] for at in range(0, len(curve), size)]
    return [(sum(x for x, _ in one) / len(one), sum(y for _, y in one) / len(one)) for one in stretches]


def held_out_scores(line: Line) -> dict[str, float]:
    """Return the scores of an evaluation; of another line, none."""
    return {
        name.removeprefix(HELD_OUT): value
        for name, value in line.items()
        if name.startswith(HELD_OUT) and value is not None
    }


def _cut(file: Path, upto: int) -> None:
    """Take out the lines of later steps."""
    if not file.exists():
        return
    kept = [line for line in read_journal(file.parent) if line.get("step", 0) <= upto]
    text = "".join(json.dumps(line) + "\n" for line in kept)
    if text.encode() != file.read_bytes():
        with new_file(file) as partial:
            partial.write_text(text, encoding="utf-8")


def _plain(value: Any) -> Any:
    """Write numbers that JSON has no word for as null."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
