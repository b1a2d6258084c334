"""Trials of hostile input: a copy of some examples, one damaged file in it, and a command that reads it."""

import json
import random
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.campaign.commands import Limits, Outcome, run_forked, run_process
from tests.campaign.hostile_input.formats import mutated
from tests.campaign.hostile_input.hostile_values import HostileValues
from tests.campaign.hostile_input.oracle import LIMITS, find_problem
from tests.campaign.hostile_input.reader import Reader
from tests.campaign.hostile_input.readers import READERS
from tests.campaign.hostile_input.special_files import SPECIAL_FILES

_SPECIAL_SHARE = 0.03  # trials with something else in the place of the file
_QUIET_SHARE = 0.5
_PROCESS_SHARE = 0.02  # trials that start a Python process, as a user does
_LARGEST_SEED = 1 << 32


@dataclass(frozen=True)
class Trial:
    """One trial. Everything that it does follows from its attributes.

    Attributes:
        reader_name: key of the reader in `READERS`.
        command: the command; empty if the file holds the arguments.
        seeds: one for each edit of the file.
        special: what takes the place of the file; empty for the file itself.
        is_quiet: whether messages are switched off.
        is_process: whether the command runs in a process of its own.
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
        tuple(rng.randrange(_LARGEST_SEED) for _ in range(count)),
        rng.choice(list(SPECIAL_FILES)) if is_special else "",
        rng.random() < _QUIET_SHARE,
        rng.random() < _PROCESS_SHARE,
    )


def copy_examples(reader: Reader, sources: Sequence[Path], folder: Path) -> None:
    """Copy what the commands of a reader need into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in dict.fromkeys((*reader.needs, reader.file.split("/")[0])):
        source = next(one / name for one in sources if (one / name).exists())
        if source.is_dir():
            ignored = None if name.endswith("checkpoints") else shutil.ignore_patterns("checkpoints")
            shutil.copytree(source, folder / name, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy(source, folder / name)


def prepare(trial: Trial, sources: Sequence[Path], values: HostileValues, folder: Path) -> bool:
    """Write the folder of a trial; return whether its file differs from the valid one."""
    reader = trial.reader
    copy_examples(reader, sources, folder)
    file = folder / reader.file
    if trial.special:
        file.unlink()
        SPECIAL_FILES[trial.special](file)
        return True
    valid = file.read_bytes()
    content = mutated(valid, reader.file_format, trial.seeds, values)
    place(reader, content, folder)
    return content != valid


def place(reader: Reader, content: bytes, folder: Path) -> None:
    """Write the content of the file of a reader, and correct the checksums of its folder."""
    (folder / reader.file).write_bytes(content)
    if reader.seal is not None:
        reader.seal((folder / reader.file).parent)


def arguments_of(trial: Trial, folder: Path) -> list[str]:
    """Return the arguments of the command of a trial, whose folder is written."""
    command = trial.command
    words = shlex.split(command) if command else json.loads((folder / trial.reader.file).read_bytes())
    return [*words, "--quiet"] if trial.is_quiet and command else words


def run_trial(trial: Trial, folder: Path, limits: Limits = LIMITS) -> str | None:
    """Run the command in the folder of a trial; return the problem that the oracle finds, or None."""
    arguments = arguments_of(trial, folder)
    before = _files(folder)
    run = run_process if trial.is_process else run_forked
    outcome: Outcome = run(arguments, folder, limits)
    return find_problem(outcome, arguments, folder, _files(folder) - before, trial.reader.resumable)


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def smaller_trials(trial: Trial) -> list[Trial]:
    """Return trials that are simpler than one: each lacks an edit or a process of its own."""
    fewer = [
        replace(trial, seeds=trial.seeds[:index] + trial.seeds[index + 1 :])
        for index in range(len(trial.seeds))
    ]
    forked = [replace(trial, is_process=False)] if trial.is_process else []
    return forked + (fewer if len(trial.seeds) > 1 and not trial.special else [])
