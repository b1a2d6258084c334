"""One trial of a fault: a command that writes, its folder, and the results of an undisturbed run."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from albertine.errors import ExitStatus
from tests.campaign.commands import Limits, Outcome, run_forked, run_process
from tests.campaign.examples import copy_example
from tests.campaign.faults.operations import OperationCounter, install_hook
from tests.campaign.faults.promises import BrokenPromise, check_end, is_already_done
from tests.campaign.faults.snapshots import FolderState, first_difference, take_snapshot
from tests.campaign.faults.writing_commands import WritingCommand

LIMITS = Limits(seconds=120.0, memory=4 << 30)
_SLOW_SECONDS = 600.0  # limit of a slow command
_SURVIVOR_SECONDS = 10.0  # in which workers must end after their parent process


@dataclass(frozen=True)
class Reference:
    """An undisturbed run.

    Attributes:
        snapshot: the content of the folder after it.
        status: its exit status.
        seconds: elapsed time in a fork.
        operations: number of its writing operations.
        growth: bytes that it adds to the folder.
    """

    snapshot: FolderState
    status: int
    seconds: float
    operations: int
    growth: int


@dataclass(frozen=True)
class FaultTrial:
    """A trial of a fault.

    Attributes:
        writer: the command.
        folder: the folder in which the command runs; its path is the same in all trials.
        examples: folder of the examples.
        reference: the undisturbed run.
        rng: random numbers of this trial.
        is_fresh: whether a new Python process runs the command, instead of a fork.
    """

    writer: WritingCommand
    folder: Path
    examples: Path
    reference: Reference
    rng: random.Random
    is_fresh: bool = False

    def prepare(self) -> None:
        """Replace the content of the folder by copies of the inputs."""
        copy_inputs(self.writer.inputs, self.examples, self.folder)

    def run(
        self,
        *,
        in_child: Callable[[], object] | None = None,
        on_poll: Callable[[int], object] | None = None,
        file_size: int | None = None,
    ) -> Outcome:
        """Run the command with a fault; afterwards, all processes of its group have ended.

        Args:
            in_child: see `run_forked`.
            on_poll: see `run_forked`.
            file_size: maximum bytes of a file that the command writes.
        """
        self.keep_state()
        limits = _limits(self.writer, file_size)
        if self.is_fresh:
            outcome = run_process(self.writer.arguments, self.folder, limits, on_poll=on_poll)
        else:
            outcome = run_forked(
                self.writer.arguments, self.folder, limits, in_child=in_child, on_poll=on_poll
            )
        _wait_for_survivors(outcome.process_group)
        return outcome

    def keep_state(self) -> None:
        """Copy the folder as it is before the command starts, for a finding."""
        before = state_before(self.folder)
        shutil.rmtree(before, ignore_errors=True)
        shutil.copytree(self.folder, before, symlinks=True)

    def finish(self) -> None:
        """Run the command again, without a fault; its result must be that of the undisturbed run."""
        outcome = self.run()
        check_end(outcome, {self.reference.status, ExitStatus.BAD_INPUT})
        if outcome.status != self.reference.status and not is_already_done(outcome):
            raise BrokenPromise(f"running again refuses: {outcome.stderr.decode()[-300:].strip()}")
        self.check_result("after running again")

    def check_result(self, moment: str, *, ignore_partial: bool = False) -> None:
        """Raise `BrokenPromise` if the content of the folder is not that after the undisturbed run.

        Args:
            moment: when the check takes place, for the message.
            ignore_partial: whether partial files may be left over, because the next run removes them.
        """
        found = take_snapshot(self.folder, self.writer.present_only)
        if ignore_partial:
            found = {name: digest for name, digest in found.items() if ".partial" not in name}
        if difference := first_difference(self.reference.snapshot, found):
            raise BrokenPromise(f"{moment}, {difference}")


def state_before(folder: Path) -> Path:
    """Return the copy of a trial's folder as it was when the command was last started."""
    return folder.with_name("before")


def copy_inputs(inputs: Iterable[str], examples: Path, folder: Path) -> None:
    """Empty a folder, and copy files and folders of the examples into it."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():  # the folder itself stays: it may be a mount point
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    for name in inputs:
        copy_example(name, examples, folder)


def run_undisturbed(writer: WritingCommand, examples: Path, folder: Path) -> Reference:
    """Run a command without a fault."""
    copy_inputs(writer.inputs, examples, folder)
    size_before, counter = _folder_size(folder), OperationCounter()
    hook = partial(install_hook, folder, counter)
    outcome = run_forked(writer.arguments, folder, _limits(writer), in_child=hook)
    check_end(outcome, {ExitStatus.DONE, ExitStatus.NOTHING_LEARNED})
    return Reference(
        take_snapshot(folder, writer.present_only),
        outcome.status,
        outcome.seconds,
        counter.count,
        _folder_size(folder) - size_before,
    )


def _limits(writer: WritingCommand, file_size: int | None = None) -> Limits:
    seconds = _SLOW_SECONDS if writer.is_slow else LIMITS.seconds
    return Limits(seconds, LIMITS.memory, file_size)


def _folder_size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())


def _wait_for_survivors(group: int) -> None:
    """Wait until no process of a group runs; raise `BrokenPromise` if one does not end by itself."""
    deadline = time.monotonic() + _SURVIVOR_SECONDS
    while survivors := _count_running(group):
        if time.monotonic() > deadline:
            os.killpg(group, signal.SIGKILL)
            raise BrokenPromise(f"{survivors} worker processes survive the command")
        time.sleep(0.05)


def _count_running(group: int) -> int:
    """Return the number of processes in a group, without those that have ended."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return 0
    return sum(_is_running_in(process, group) for process in Path("/proc").glob("[0-9]*"))


def _is_running_in(process: Path, group: int) -> bool:
    try:
        state, _, found_group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
    except OSError:  # it has ended meanwhile
        return False
    return int(found_group) == group and state != "Z"
