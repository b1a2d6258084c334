"""Damages one file, and runs a command that reads it.

The command must refuse in one line that names the file, or do the same as without the damage:
because it does not need the file, or because it falls back to an older checkpoint.
"""

import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from albertine.errors import ExitStatus
from tests.campaign.commands import Limits, Outcome, run_forked
from tests.campaign.faults.promises import BrokenPromise, check_end, refusal
from tests.campaign.faults.readers import OPTIONAL_FILES, READERS, Reader
from tests.campaign.faults.snapshots import FolderState, first_difference, take_snapshot
from tests.campaign.faults.trial import copy_inputs

_LIMITS = Limits(120, 4 << 30)


@dataclass(frozen=True)
class Damage:
    """A reader, the file to damage, and how."""

    reader: Reader
    file: str
    kind: str

    @property
    def is_noticeable(self) -> bool:
        """Whether the command must notice the damage, unless it does not need the file."""
        strictness = self.reader.strictness(self.file)
        if strictness != "verified" and self.kind == "deleted" and Path(self.file).name in OPTIONAL_FILES:
            return False
        return strictness == "verified" or (strictness == "structured" and self.kind in _SHORTENING)


def _flip_bit(content: bytes, rng: random.Random) -> bytes:
    position = rng.randrange(len(content))
    flipped = bytes([content[position] ^ 1 << rng.randrange(8)])
    return content[:position] + flipped + content[position + 1 :]


def _overwrite_block(content: bytes, rng: random.Random) -> bytes:
    """Zero a block, as a disk does that lost it."""
    start = rng.randrange(len(content))
    size = min(rng.choice([1, 16, 512]), len(content) - start)
    return content[:start] + bytes(size) + content[start + size :]


def _emptied(content: bytes, rng: random.Random) -> bytes:
    return b""


def _deleted(content: bytes, rng: random.Random) -> None:
    return None


# How a file is damaged; None deletes it.
KINDS: Mapping[str, Callable[[bytes, random.Random], bytes | None]] = MappingProxyType(
    {
        "flipped bit": _flip_bit,
        "zeroed block": _overwrite_block,
        "truncated": lambda content, rng: content[: rng.randrange(1, max(2, len(content)))],
        "empty": _emptied,
        "appended": lambda content, rng: content + rng.randbytes(rng.choice([1, 100])),
        "deleted": _deleted,
    }
)
_SHORTENING = ("truncated", "empty", "deleted")


def all_damages(examples: Path) -> Iterator[Damage]:
    """Yield every file of every reader with every kind of damage."""
    for reader in READERS:
        for file in reader.files(examples):
            for kind in KINDS:
                yield Damage(reader, file, kind)


class DamageTrials:
    """Runs trials of damage; remembers what each command does without damage."""

    def __init__(self, examples: Path, folder: Path):
        self._examples, self.folder = examples, folder
        self._references: dict[Reader, tuple[Outcome, FolderState]] = {}

    def run(self, damage: Damage, rng: random.Random) -> bool:
        """Run a trial; return False if the damage would not change the file."""
        reader = damage.reader
        if reader not in self._references:
            self._references[reader] = self._run_undamaged(reader)
        undamaged, expected = self._references[reader]
        self._prepare(reader)
        file = self.folder / damage.file
        before = file.read_bytes()
        content = KINDS[damage.kind](before, rng) if before else before
        if content == before:
            return False
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        outcome = run_forked(reader.arguments, self.folder, _LIMITS)
        check_end(outcome, {undamaged.status, ExitStatus.FAILED, ExitStatus.BAD_INPUT})
        if message := refusal(outcome):
            _check_message(message, damage)
        elif damage.is_noticeable:
            self._check_same(damage, outcome, undamaged, expected)
        elif b"NaN" in outcome.stdout:
            raise BrokenPromise("status 0, but NaN in the output")
        return True

    def _prepare(self, reader: Reader) -> None:
        copy_inputs((), self._examples, self.folder)
        for name in (reader.damaged, *reader.inputs):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (self._examples / name).is_dir():
                shutil.copytree(self._examples / name, self.folder / name, dirs_exist_ok=True)
            else:
                shutil.copy2(self._examples / name, self.folder / name)

    def _run_undamaged(self, reader: Reader) -> tuple[Outcome, FolderState]:
        self._prepare(reader)
        outcome = run_forked(reader.arguments, self.folder, _LIMITS)
        check_end(outcome, {ExitStatus.DONE, ExitStatus.NOTHING_LEARNED})
        return outcome, take_snapshot(self.folder)

    def _check_same(
        self, damage: Damage, outcome: Outcome, undamaged: Outcome, expected: FolderState
    ) -> None:
        """Raise `BrokenPromise` if output or files differ from those without damage."""
        if _without_times(outcome.stdout) != _without_times(undamaged.stdout):
            raise BrokenPromise(f"status {outcome.status} with other output, and no word about the damage")
        found = take_snapshot(self.folder)
        found.pop(damage.file, None)
        expected = {name: digest for name, digest in expected.items() if name != damage.file}
        if difference := first_difference(expected, found):
            raise BrokenPromise(f"status {outcome.status}, no word about the damage, and {difference}")


def _check_message(message: str, damage: Damage) -> None:
    """Raise `BrokenPromise` if a message names neither the file nor its folder."""
    path = Path(damage.file)
    # A message about a missing or older file of a checkpoint may name only the checkpoint.
    if path.name not in message and path.stem not in message and path.parent.as_posix() not in message:
        raise BrokenPromise(f"the message does not name the file: {message}")


def _without_times(stdout: bytes) -> bytes:
    return re.sub(rb'"[a-z_]*seconds[a-z_]*": [0-9.e+-]+', b"", stdout)
