"""One trial: a command that writes, a folder of its own, and the result of an undisturbed run."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from albertine.errors import ExitStatus
from tests.campaign.commands import Limits, Outcome, run_forked, run_process
from tests.campaign.faults.operations import OperationCounter, install_hook
from tests.campaign.faults.promises import BrokenPromise, check_end, is_already_done
from tests.campaign.faults.snapshots import FolderState, first_difference, take_snapshot
from tests.campaign.faults.writers import Writer

_SECONDS = {False: 120.0, True: 600.0}  # limit of a command, by whether it is slow
_MEMORY = 4 << 30
_SURVIVOR_SECONDS = 10.0  # in which workers must end after their parent process


@dataclass(frozen=True)
class Reference:
    """An undisturbed run.

    Attributes:
        snapshot: the content of the folder after it.
        status: its exit status.
        seconds: elapsed time in a fork.
        operations: number of its writing operations.
        size: bytes of the folder before it, and after it.
    """

    snapshot: FolderState
    status: int
    seconds: float
    operations: int
    size: tuple[int, int]


@dataclass(frozen=True)
class Trial:
    """A trial of a fault.

    Attributes:
        writer: the command.
        folder: the folder in which the command runs; its path is the same in all trials.
        examples: folder of the examples.
        reference: the undisturbed run.
        rng: random numbers of this trial.
        is_fresh: whether a new Python process runs the command, instead of a fork.
    """

    writer: Writer
    folder: Path
    examples: Path
    reference: Reference
    rng: random.Random
    is_fresh: bool = False

    @property
    def state_before(self) -> Path:
        """A copy of the folder as it was when the command was last started."""
        return self.folder.with_name("before")

    def prepare(self) -> None:
        """Replace the folder by copies of the inputs."""
        copy_inputs(self.writer.inputs, self.examples, self.folder)

    def run(
        self,
        *,
        in_child: Callable[[], object] | None = None,
        on_poll: Callable[[int], object] | None = None,
        file_size: int | None = None,
    ) -> Outcome:
        """Run the command with a fault; afterwards, all processes of its group have ended."""
        self._keep_state()
        limits = Limits(_SECONDS[self.writer.is_slow], _MEMORY, file_size)
        groups: list[int] = []

        def poll(pid: int) -> None:
            groups[:] = [pid]
            if on_poll:
                on_poll(pid)

        if self.is_fresh:
            outcome = run_process(self.writer.arguments, self.folder, limits, on_poll=poll)
        else:
            outcome = run_forked(self.writer.arguments, self.folder, limits, in_child=in_child, on_poll=poll)
        for group in groups:
            _wait_for_survivors(group)
        return outcome

    def finish(self) -> None:
        """Run the command again, without a fault; its result must be that of the undisturbed run."""
        outcome = self.run()
        check_end(outcome, {self.reference.status, ExitStatus.BAD_INPUT})
        if outcome.status != self.reference.status and not is_already_done(outcome):
            raise BrokenPromise(f"running again refuses: {outcome.stderr.decode()[-300:].strip()}")
        self.check_result("after running again")

    def check_result(self, moment: str, *, ignore_partial: bool = False) -> None:
        """Raise `BrokenPromise` if the folder is not as after the undisturbed run.

        Args:
            moment: when that is, for the message.
            ignore_partial: whether partial files may be left over, because the next run removes them.
        """
        found = take_snapshot(self.folder, self.writer.present_only)
        if ignore_partial:
            found = {name: digest for name, digest in found.items() if ".partial" not in name}
        if difference := first_difference(self.reference.snapshot, found):
            raise BrokenPromise(f"{moment}, {difference}")

    def _keep_state(self) -> None:
        shutil.rmtree(self.state_before, ignore_errors=True)
        shutil.copytree(self.folder, self.state_before, symlinks=True)


def copy_inputs(inputs: tuple[str, ...], examples: Path, folder: Path) -> None:
    """Empty a folder, and copy files and folders of the examples into it."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    for name in inputs:
        if (examples / name).is_dir():
            shutil.copytree(examples / name, folder / name)
        else:
            shutil.copy2(examples / name, folder / name)


def run_undisturbed(writer: Writer, examples: Path, folder: Path) -> Reference:
    """Run a command without a fault."""
    copy_inputs(writer.inputs, examples, folder)
    size_before, counter = _folder_size(folder), OperationCounter()
    outcome = run_forked(
        writer.arguments,
        folder,
        Limits(_SECONDS[writer.is_slow], _MEMORY),
        in_child=partial(install_hook, folder, counter),
    )
    check_end(outcome, {ExitStatus.DONE, ExitStatus.NOTHING_LEARNED})
    return Reference(
        take_snapshot(folder, writer.present_only),
        outcome.status,
        outcome.seconds,
        counter.count,
        (size_before, _folder_size(folder)),
    )


def _folder_size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())


def _wait_for_survivors(group: int) -> None:
    """Wait until no process of a group runs; raise `BrokenPromise` if one does not end by itself."""
    deadline = time.monotonic() + _SURVIVOR_SECONDS
    while members := _running_members(group):
        if time.monotonic() > deadline:
            os.killpg(group, signal.SIGKILL)
            raise BrokenPromise(f"{len(members)} worker processes survive the command")
        time.sleep(0.05)


def _running_members(group: int) -> list[int]:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return []
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, found_group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:
                continue
            if int(found_group) == group and state != "Z":
                members.append(int(entry.name))
    return members
