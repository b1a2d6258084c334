"""Trials of hostile input: a copy of some examples, one damaged file in it, and a command that reads it."""

import gzip
import json
import random
import shlex
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.campaign.commands import Limits, Outcome, run_forked, run_process
from tests.campaign.examples import copy_example
from tests.campaign.hostile_input.formats import edited_file
from tests.campaign.hostile_input.hostile_values import HostileValues
from tests.campaign.hostile_input.oracle import LIMITS, find_problem
from tests.campaign.hostile_input.reader import Reader
from tests.campaign.hostile_input.readers import READERS
from tests.campaign.hostile_input.special_files import SPECIAL_FILES

# Shares of the trials.
_SPECIAL_SHARE, _QUIET_SHARE, _PROCESS_SHARE = 0.03, 0.5, 0.02
_NUM_SEEDS = 1 << 32
# A command may take longer for a file with more bytes or lines than this; its memory is limited even so.
_LARGE_BYTES, _LARGE_LINES = 20_000_000, 1_000_000


@dataclass(frozen=True)
class Trial:
    """One trial, which its attributes determine.

    Attributes:
        reader_name: key of the reader in `READERS`.
        command: the command; empty if the file holds the arguments.
        seeds: one for each edit of the file.
        special: key of `SPECIAL_FILES`, which replaces the file; empty for an edited file.
        is_quiet: whether the command runs with `--quiet`.
        is_process: whether a new Python process runs the command, as for a user, instead of a fork.
    """

    reader_name: str
    command: str
    seeds: tuple[int, ...]
    special: str
    is_quiet: bool
    is_process: bool

    @property
    def reader(self) -> Reader:
        """The reader whose file is damaged."""
        return READERS[self.reader_name]


def draw_trial(rng: random.Random) -> Trial:
    """Return a random trial."""
    name = rng.choices(list(READERS), [reader.weight for reader in READERS.values()])[0]
    reader = READERS[name]
    is_special = bool(reader.commands) and rng.random() < _SPECIAL_SHARE
    count = rng.choice([1, 1, 1, 2, 2, 3, 5])
    return Trial(
        name,
        rng.choice(reader.commands) if reader.commands else "",
        tuple(rng.randrange(_NUM_SEEDS) for _ in range(count)),
        rng.choice([name for name in SPECIAL_FILES if name != reader.accepted_special]) if is_special else "",
        rng.random() < _QUIET_SHARE,
        rng.random() < _PROCESS_SHARE,
    )


def copy_examples(reader: Reader, sources: Sequence[Path], folder: Path) -> None:
    """Copy what the commands of a reader need into a new folder.

    Args:
        reader: the reader.
        sources: folders of examples, searched in this order.
        folder: the folder, which is replaced.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in dict.fromkeys((*reader.needs, reader.file.split("/")[0])):
        source = next(source for source in sources if (source / name).exists())
        ignored = () if name.endswith("checkpoints") else ("checkpoints",)
        copy_example(name, source, folder, *ignored)


def prepare(trial: Trial, sources: Sequence[Path], values: HostileValues, folder: Path) -> bool:
    """Write the folder of a trial; return whether its file differs from the valid one."""
    reader = trial.reader
    copy_examples(reader, sources, folder)
    file = reader.path(folder)
    if trial.special:
        file.unlink()
        SPECIAL_FILES[trial.special](file)
        return True
    valid = file.read_bytes()
    content = edited_file(valid, reader.file_format, trial.seeds, values)
    write_file(reader, content, folder)
    return content != valid


def write_file(reader: Reader, content: bytes, folder: Path) -> None:
    """Replace the file of a reader, and correct the checksums of its folder."""
    file = reader.path(folder)
    file.write_bytes(content)
    if reader.correct_checksums is not None:
        reader.correct_checksums(file.parent)


def arguments_of(trial: Trial, folder: Path) -> list[str]:
    """Return the arguments of the command of a trial, whose folder has been written."""
    if not trial.command:
        arguments: list[str] = json.loads(trial.reader.path(folder).read_bytes())
        return arguments
    return [*shlex.split(trial.command), *(["--quiet"] if trial.is_quiet else [])]


def run_trial(trial: Trial, folder: Path, limits: Limits = LIMITS) -> str | None:
    """Run the command in the folder of a trial; return the problem that the oracle finds, or None."""
    arguments = arguments_of(trial, folder)
    before = _files(folder)
    run = run_process if trial.is_process else run_forked
    is_large = _is_large(trial.reader.path(folder))
    outcome: Outcome = run(arguments, folder, limits)
    new_files = _files(folder) - before
    return find_problem(outcome, arguments, folder, new_files, trial.reader.resumable, is_large=is_large)


def _is_large(path: Path) -> bool:
    """Return whether a file, decompressed up to damage, is so large that commands may take longer."""
    num_bytes = num_lines = 0
    if not path.is_file():
        return False
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            while block := stream.read(1 << 20):
                num_bytes += len(block)
                num_lines += block.count(b"\n")
    except (OSError, EOFError, zlib.error):  # a broken link, a damaged archive
        pass
    return num_bytes > _LARGE_BYTES or num_lines > _LARGE_LINES


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def smaller_trials(trial: Trial) -> list[Trial]:
    """Return simpler trials: one in a fork instead of a process, and one without each of the edits."""
    forked = [replace(trial, is_process=False)] if trial.is_process else []
    seeds = trial.seeds
    if len(seeds) == 1 or trial.special:
        return forked
    fewer = [replace(trial, seeds=seeds[:index] + seeds[index + 1 :]) for index in range(len(seeds))]
    return forked + fewer
