"""Damages one file, and runs a command that reads it.

The command must refuse in one line that names the file. Or it must do the same as without the
damage, because it does not need the file or uses an older checkpoint instead.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from albertine.errors import ExitStatus
from tests.campaign.commands import Outcome, run_forked
from tests.campaign.faults.promises import BrokenPromise, check_end, refusal
from tests.campaign.faults.reading_commands import OPTIONAL_FILES, READING_COMMANDS, ReadingCommand
from tests.campaign.faults.snapshots import FolderState, first_difference, take_snapshot
from tests.campaign.faults.trial import LIMITS, copy_inputs


def _flip_bit(content: bytes, rng: random.Random) -> bytes:
    position = rng.randrange(len(content))
    flipped = bytes([content[position] ^ 1 << rng.randrange(8)])
    return content[:position] + flipped + content[position + 1 :]


def _zero_block(content: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content))
    size = min(rng.choice([1, 16, 512]), len(content) - start)
    return content[:start] + bytes(size) + content[start + size :]


# Each kind of damage returns the new content of a file; None deletes it.
KINDS: Mapping[str, Callable[[bytes, random.Random], bytes | None]] = MappingProxyType(
    {
        "flipped bit": _flip_bit,
        "zeroed block": _zero_block,
        "truncated": lambda content, rng: content[: rng.randrange(1, max(2, len(content)))],
        "empty": lambda *_: b"",
        "appended": lambda content, rng: content + rng.randbytes(rng.choice([1, 100])),
        "deleted": lambda *_: None,
    }
)
_SHORTENING_KINDS = ("truncated", "empty", "deleted")


@dataclass(frozen=True)
class Damage:
    """One kind of damage to one file, which a command reads.

    Attributes:
        reader: the command.
        file: path of the file in the examples.
        kind: key of `KINDS`.
    """

    reader: ReadingCommand
    file: str
    kind: str

    @property
    def is_noticeable(self) -> bool:
        """Whether the command must notice the damage, unless it does not need the file."""
        strictness = self.reader.strictness(self.file)
        if strictness == "verified":
            return True
        is_optional = self.kind == "deleted" and Path(self.file).name in OPTIONAL_FILES
        return strictness == "structured" and self.kind in _SHORTENING_KINDS and not is_optional


def all_damages(examples: Path) -> Iterator[Damage]:
    """Yield every kind of damage to every file that a command reads."""
    for reader in READING_COMMANDS:
        for file in reader.files(examples):
            for kind in KINDS:
                yield Damage(reader, file, kind)


class DamageRunner:
    """Runs trials of damage; remembers the results of each command without damage."""

    def __init__(self, examples: Path, folder: Path):
        self._examples, self._folder = examples, folder
        self._references: dict[ReadingCommand, tuple[Outcome, FolderState]] = {}

    def run(self, damage: Damage, rng: random.Random) -> bool:
        """Run a trial; return False if the damage would not change the file."""
        reader = damage.reader
        if reader not in self._references:
            self._references[reader] = self._run_undamaged(reader)
        undamaged, expected = self._references[reader]
        self._copy_inputs(reader)
        if not _damage_file(self._folder / damage.file, damage.kind, rng):
            return False
        outcome = run_forked(reader.arguments, self._folder, LIMITS)
        check_end(outcome, {undamaged.status, ExitStatus.FAILED, ExitStatus.BAD_INPUT})
        if message := refusal(outcome):
            _check_message(message, damage)
        elif damage.is_noticeable and Path(damage.file).name not in outcome.stderr.decode(errors="replace"):
            self._check_same(damage, outcome, undamaged, expected)
        elif b"NaN" in outcome.stdout:
            raise BrokenPromise("status 0, but NaN in the output")
        return True

    def _run_undamaged(self, reader: ReadingCommand) -> tuple[Outcome, FolderState]:
        self._copy_inputs(reader)
        outcome = run_forked(reader.arguments, self._folder, LIMITS)
        check_end(outcome, {ExitStatus.DONE, ExitStatus.NOTHING_LEARNED, ExitStatus.PROBLEMS_FOUND})
        return outcome, take_snapshot(self._folder)

    def _copy_inputs(self, reader: ReadingCommand) -> None:
        copy_inputs((reader.damaged, *reader.inputs), self._examples, self._folder)

    def _check_same(
        self, damage: Damage, outcome: Outcome, undamaged: Outcome, expected: FolderState
    ) -> None:
        """Raise `BrokenPromise` if output or files differ from those without damage."""
        if _without_seconds(outcome.stdout) != _without_seconds(undamaged.stdout):
            raise BrokenPromise(f"status {outcome.status} with other output, and no message about the damage")
        found = take_snapshot(self._folder)
        found.pop(damage.file, None)
        expected = {name: digest for name, digest in expected.items() if name != damage.file}
        if difference := first_difference(expected, found):
            raise BrokenPromise(f"status {outcome.status}, no message about the damage, and {difference}")


def _damage_file(file: Path, kind: str, rng: random.Random) -> bool:
    """Damage a file; return False if it stays as it is."""
    before = file.read_bytes()
    content = KINDS[kind](before, rng) if before else before
    if content == before:
        return False
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    return True


def _check_message(message: str, damage: Damage) -> None:
    """Raise `BrokenPromise` if a message names neither the file nor its folder."""
    path = Path(damage.file)
    # A message about a missing or older file of a checkpoint may name only the checkpoint.
    if path.name not in message and path.stem not in message and path.parent.as_posix() not in message:
        raise BrokenPromise(f"the message does not name the file: {message}")


def _without_seconds(stdout: bytes) -> bytes:
    """Return the output of a command without the elapsed times in its JSON."""
    return re.sub(rb'"[a-z_]*seconds[a-z_]*": [0-9.e+-]+', b"", stdout)
