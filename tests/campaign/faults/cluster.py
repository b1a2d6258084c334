"""Faults of a command on a Ray cluster of its own: a worker, the raylet or the command itself is killed.

The undisturbed run is one without a cluster, so the results must also have its bytes. After each command,
no process of the cluster may be left.
"""

import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import psutil

from albertine.errors import ExitStatus
from tests.campaign.commands import Limits, Outcome, run_process
from tests.campaign.faults.promises import BrokenPromise, check_end, is_already_done
from tests.campaign.faults.trial import FaultTrial

# Of `WRITING_COMMANDS`, those with --cluster whose jobs are of different kinds.
CLUSTER_COMMANDS = ("world write", "corpus build", "tokenizer train", "finetune --seeds", "predict .jsonl")

_LIMITS = Limits(seconds=300.0, memory=4 << 30)
_SURVIVOR_SECONDS = 120.0  # in which the processes of a cluster must end after their command
_POLL_SECONDS = 0.1  # between two looks at the processes
_MAX_DELAY = 1.0  # seconds from the first job to the fault
_JOB_TITLE, _RAYLET_NAME = "ray::run_job", "raylet"


class Cluster:
    """The processes of a command and of its cluster, as far as they have been seen.

    Attributes:
        command: process id of the command; 0 before it has started.
    """

    def __init__(self) -> None:
        self.command = 0
        self._seen: dict[int, psutil.Process] = {}
        self._next_look = 0.0

    def look(self, command: int) -> None:
        """Note the processes that a command has started so far."""
        if time.monotonic() < self._next_look:
            return
        self.command = command
        with suppress(psutil.Error):
            self._seen |= {child.pid: child for child in psutil.Process(command).children(recursive=True)}
        self._next_look = time.monotonic() + _POLL_SECONDS

    def worker(self) -> int | None:
        """Return the process id of a worker that runs a job."""
        return self._find(lambda words: words[0].startswith(_JOB_TITLE))

    def raylet(self) -> int | None:
        """Return the process id of the raylet, which starts the workers of a node."""
        return self._find(lambda words: Path(words[0]).name == _RAYLET_NAME)

    def check_ended(self) -> None:
        """Wait for the end of all processes; raise `BrokenPromise`, and kill them, if some do not end."""
        _, alive = psutil.wait_procs(list(self._seen.values()), timeout=_SURVIVOR_SECONDS)
        for process in alive:
            with suppress(psutil.Error):
                process.kill()
        if alive:
            raise BrokenPromise(f"{len(alive)} processes of the cluster survive, such as {alive[0]}")

    def take_folders(self) -> list[Path]:
        """Remove the folders of the cluster, and return them."""
        sessions = Path("/tmp").glob(f"albertine-ray-*/session_*_{self.command}")
        folders = [session.parent for session in sessions]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        return folders

    def _find(self, is_wanted: Callable[[list[str]], bool]) -> int | None:
        for pid, process in self._seen.items():
            with suppress(psutil.Error):
                words = process.cmdline()
                if words and is_wanted(words):
                    return pid
        return None


def kill_worker(trial: FaultTrial) -> bool:
    """Kill a worker: its job runs again on another."""
    trial.prepare()
    outcome, is_killed = _run_with_fault(trial, Cluster.worker)
    check_end(outcome, {trial.reference.status})
    trial.check_result("after a killed worker of Ray")
    return is_killed


def kill_raylet(trial: FaultTrial) -> bool:
    """Kill the raylet, and with it the only node: the command fails, and runs to its end when repeated."""
    trial.prepare()
    outcome, is_killed = _run_with_fault(trial, Cluster.raylet)
    check_end(outcome, {trial.reference.status, ExitStatus.FAILED})
    _finish(trial)
    return is_killed


def kill_command(trial: FaultTrial) -> bool:
    """Kill the command alone: its cluster ends by itself, and the command runs to its end when repeated."""
    trial.prepare()
    outcome, _ = _run_with_fault(trial, lambda cluster: cluster.command)
    check_end(outcome, {trial.reference.status, -signal.SIGKILL})
    _finish(trial)
    return outcome.status == -signal.SIGKILL


CLUSTER_FAULTS: Mapping[str, Callable[[FaultTrial], bool]] = MappingProxyType(
    {"kill a Ray worker": kill_worker, "kill a raylet": kill_raylet, "kill a command on Ray": kill_command}
)


def _run_with_fault(trial: FaultTrial, victim: Callable[[Cluster], int | None]) -> tuple[Outcome, bool]:
    """Run the command, and kill a process soon after its first job began; return whether it was killed."""
    due: float | None = None
    is_killed = False
    delay = trial.rng.uniform(0, _MAX_DELAY)

    def strike(cluster: Cluster) -> None:
        nonlocal due, is_killed
        if due is None and cluster.worker() is not None:
            due = time.monotonic() + delay
        if due is None or is_killed or time.monotonic() < due:
            return
        if pid := victim(cluster):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                is_killed = True

    return _run(trial, strike), is_killed


def _run(trial: FaultTrial, on_look: Callable[[Cluster], None] = lambda _: None) -> Outcome:
    """Run the command on a cluster of its own; afterwards, nothing of the cluster is left."""
    cluster = Cluster()

    def on_poll(pid: int) -> None:
        cluster.look(pid)
        on_look(cluster)

    trial.keep_state()
    outcome = run_process(
        [*trial.writer.arguments, "--cluster", "ray"],
        trial.folder,
        _LIMITS,
        on_poll=on_poll,
        environment={"RAY_ADDRESS": "local"},
    )
    cluster.check_ended()
    if cluster.take_folders() and outcome.status != -signal.SIGKILL:
        raise BrokenPromise("the folder of the cluster in /tmp is left over")
    return outcome


def _finish(trial: FaultTrial) -> None:
    """Run the command on a cluster again, without a fault; its result must be that of the undisturbed run."""
    outcome = _run(trial)
    check_end(outcome, {trial.reference.status, ExitStatus.BAD_INPUT})
    if outcome.status != trial.reference.status and not is_already_done(outcome):
        raise BrokenPromise(f"running again refuses: {outcome.stderr.decode()[-300:].strip()}")
    trial.check_result("after running again on Ray")
