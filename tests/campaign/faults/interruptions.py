"""Faults: signals at random and chosen moments, and two writers at the same time."""

import math
import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from albertine.errors import ExitStatus
from tests.campaign.commands import Outcome, run_forked
from tests.campaign.faults.operations import OperationCounter, install_hook, send_signal_once
from tests.campaign.faults.promises import BrokenPromise, check_end
from tests.campaign.faults.trial import LIMITS, FaultTrial

_MAX_KILLS = 3  # in a row, before the command runs to its end
_FRESH_SECONDS = 3.0  # that a command takes longer in a new Python process
_PAUSES = (0.1, 1.0)  # range of the seconds between SIGSTOP and SIGCONT
_SETTLING_SECONDS = 0.02  # between the installation of the handlers and the first signal
# Left by `corpus build` if it is interrupted while it cleans up, after its corpus is finished.
_REMOVED_BUILD_FOLDER = ".building.partial"
_STOP_STATUSES = {signal.SIGTERM: ExitStatus.TERMINATED, signal.SIGINT: ExitStatus.INTERRUPTED}

# Called with the process id of the command and the seconds since its start.
OnPoll = Callable[[int, float], None]


def kill(trial: FaultTrial) -> int:
    """Kill the process group, once or several times in a row, then run the command to its end."""
    trial.prepare()
    kills = 0
    for _ in range(trial.rng.randint(1, _MAX_KILLS)):
        if _run_and_signal(trial, signal.SIGKILL).status != -signal.SIGKILL:
            break
        kills += 1
    trial.finish()
    return kills


def kill_second_run(trial: FaultTrial) -> bool:
    """Kill a second run of a finished command: the result of the first must stay."""
    trial.prepare()
    trial.finish()
    outcome = _run_and_signal(trial, signal.SIGKILL)
    trial.check_result("after a killed second run", ignore_partial=True)
    trial.finish()
    return outcome.status == -signal.SIGKILL


def stop_request(trial: FaultTrial) -> bool:
    """Send SIGTERM, or SIGINT as Ctrl-C does: the command must clean up, and resume when it runs again."""
    trial.prepare()
    number = trial.rng.choice(list(_STOP_STATUSES))
    outcome = _run_and_signal(trial, number)
    _check_stopped(trial, number, outcome)
    return outcome.status == _STOP_STATUSES[number]


def signal_before(trial: FaultTrial, operation: int, number: signal.Signals) -> None:
    """Kill the command before one of its file operations, or request its stop; then run it to its end.

    Args:
        trial: the trial.
        operation: number of the operation, from 0.
        number: SIGKILL, SIGTERM or SIGINT.
    """
    trial.prepare()
    outcome = _run_and_signal_before(trial, operation, number)
    if number == signal.SIGKILL:
        trial.finish()
    else:
        _check_stopped(trial, number, outcome)


def _check_stopped(trial: FaultTrial, number: signal.Signals, outcome: Outcome) -> None:
    """Raise `BrokenPromise` if a stopped command has not cleaned up, or does not resume."""
    check_end(outcome, {_STOP_STATUSES[number], trial.reference.status})
    leftovers = {path.name for path in trial.folder.rglob(".*")} - {_REMOVED_BUILD_FOLDER}
    if leftovers:
        raise BrokenPromise(f"after {number.name}, {min(leftovers)} is left over")
    if outcome.status == trial.reference.status:
        trial.check_result(f"despite {number.name}, status {outcome.status}, but")
    trial.finish()


def pause(trial: FaultTrial) -> bool:
    """Stop the process group for a while by SIGSTOP; the result must be the same."""
    trial.prepare()
    start = _draw_seconds(trial)
    end = start + trial.rng.uniform(*_PAUSES)
    is_stopped = is_continued = False

    def on_poll(pid: int, elapsed: float) -> None:
        nonlocal is_stopped, is_continued
        if elapsed >= start and not is_stopped:
            is_stopped = _send(pid, signal.SIGSTOP)
        if elapsed >= end and is_stopped and not is_continued:
            is_continued = _send(pid, signal.SIGCONT)

    outcome = trial.run(on_poll=_with_elapsed(on_poll))
    check_end(outcome, {trial.reference.status})
    trial.check_result("after SIGSTOP and SIGCONT")
    return is_continued


def two_writers(trial: FaultTrial) -> bool:
    """Run the command twice at the same time: one must write its result, and the other may refuse."""
    trial.prepare()
    start = trial.rng.uniform(0, trial.reference.seconds) * trial.rng.random()
    others: list[Outcome] = []

    def on_poll(pid: int, elapsed: float) -> None:
        if elapsed >= start and not others:
            others.append(run_forked(trial.writer.arguments, trial.folder, LIMITS))

    first = trial.run(on_poll=_with_elapsed(on_poll))
    done = trial.reference.status
    for outcome in (first, *others):
        check_end(outcome, {done, ExitStatus.BAD_INPUT})
    if done not in (first.status, *(other.status for other in others)):
        raise BrokenPromise(f"both of two writers refuse: {first.stderr.decode()[-200:].strip()}")
    trial.check_result("after two writers")
    return bool(others)


def _run_and_signal(trial: FaultTrial, number: signal.Signals) -> Outcome:
    """Run the command, and send a signal to its process group: after some time, or at a chosen event."""
    # A hook of the operations can be installed in a fork only.
    moments = ["time", "appearance"] if trial.is_fresh else ["operation", "operation", "time"]
    match trial.rng.choice(moments):
        case "operation":
            return _run_and_signal_before(trial, trial.rng.randrange(trial.reference.operations), number)
        case "appearance":
            is_due = _after_new_files(trial.folder, trial.rng.choice([1, 1, 2, 3, 5, 8]), trial.rng)
        case _:
            is_due = _after_seconds(_draw_seconds(trial))
    return trial.run(on_poll=_with_elapsed(_send_once(number, is_due)))


def _run_and_signal_before(trial: FaultTrial, operation: int, number: signal.Signals) -> Outcome:
    action = send_signal_once(number)
    return trial.run(in_child=partial(install_hook, trial.folder, OperationCounter(), operation, action))


def _draw_seconds(trial: FaultTrial) -> float:
    """Return a moment in the time that the command takes; one in four is near its start."""
    seconds = trial.reference.seconds + (_FRESH_SECONDS if trial.is_fresh else 0)
    return trial.rng.uniform(0, seconds) * (0.1 if trial.rng.random() < 0.25 else 1)


def _after_seconds(seconds: float) -> Callable[[float], bool]:
    return lambda elapsed: elapsed >= seconds


def _after_new_files(folder: Path, count: int, rng: random.Random) -> Callable[[float], bool]:
    """Return a condition that holds once `count` new paths have appeared."""
    only_partial = rng.random() < 0.5  # they appear just before a result gets its name
    known = _names(folder)
    appeared: set[str] = set()

    def is_due(elapsed: float) -> bool:
        new = _names(folder) - known
        appeared.update(name for name in new if name.endswith(".partial") or not only_partial)
        return len(appeared) >= count

    return is_due


def _names(folder: Path) -> set[str]:
    """Return the paths under a folder, which a command may be changing."""
    # `rglob` would raise an error for a folder that is removed meanwhile.
    return {f"{parent}/{name}" for parent, folders, files in os.walk(folder) for name in (*folders, *files)}


def _send_once(number: signal.Signals, is_due: Callable[[float], bool]) -> OnPoll:
    """Return a function that sends a signal once it is due, and the command handles it.

    SIGKILL is sent before that too.
    """
    handled_since = -math.inf if number == signal.SIGKILL else None
    is_sent = False

    def on_poll(pid: int, elapsed: float) -> None:
        nonlocal handled_since, is_sent
        if handled_since is None and _catches_sigterm(pid):
            handled_since = elapsed
        is_settled = handled_since is not None and elapsed - handled_since >= _SETTLING_SECONDS
        if is_settled and not is_sent and is_due(elapsed):
            is_sent = _send(pid, number)

    return on_poll


def _with_elapsed(on_poll: OnPoll) -> Callable[[int], None]:
    started = time.monotonic()
    return lambda pid: on_poll(pid, time.monotonic() - started)


def _send(pid: int, number: signal.Signals) -> bool:
    """Send a signal to a process group; return False if the group does not exist yet."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return False
    return True


def _catches_sigterm(pid: int) -> bool:
    """Return whether a process has installed its handlers; before that, Python itself handles signals."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)
