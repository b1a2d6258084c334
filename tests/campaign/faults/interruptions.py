"""Signals at random and aimed moments: SIGKILL, SIGTERM, SIGINT, SIGSTOP; and two writers at a time."""

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from albertine.errors import ExitStatus
from tests.campaign.commands import Limits, Outcome, run_forked
from tests.campaign.faults.operations import OperationCounter, install_hook, send_signal_once
from tests.campaign.faults.promises import BrokenPromise, check_end
from tests.campaign.faults.trial import Trial

_MAX_KILLS = 3  # in a row, before the command runs to its end
_FRESH_SECONDS = 3.0  # by which starting Python may lengthen a command
_PAUSES = (0.1, 1.0)  # seconds between SIGSTOP and SIGCONT
_SETTLING_SECONDS = 0.02  # between the installation of the handlers and the first signal
# Left by `corpus build` if it is interrupted while it cleans up, after its corpus is finished.
_REMOVED_BUILD_FOLDER = ".building.partial"
_STOP_STATUSES = {signal.SIGTERM: ExitStatus.TERMINATED, signal.SIGINT: ExitStatus.INTERRUPTED}


def kill(trial: Trial) -> int:
    """Kill the process group, once or several times in a row, then run the command to its end."""
    trial.prepare()
    kills = 0
    for _ in range(trial.rng.randint(1, _MAX_KILLS)):
        if _run_and_signal(trial, signal.SIGKILL).status != -signal.SIGKILL:
            break
        kills += 1
    trial.finish()
    return kills


def kill_second_run(trial: Trial) -> bool:
    """Kill a second run of a finished command: the finished result must stay, without another run."""
    trial.prepare()
    trial.finish()
    outcome = _run_and_signal(trial, signal.SIGKILL)
    trial.check_result("after a killed second run", ignore_partial=True)
    trial.finish()
    return outcome.status == -signal.SIGKILL


def stop_request(trial: Trial) -> bool:
    """Ask the command to stop, by SIGTERM or Ctrl-C; it must clean up, and resume when it runs again."""
    trial.prepare()
    number = trial.rng.choice(list(_STOP_STATUSES))
    outcome = _run_and_signal(trial, number)
    check_end(outcome, {_STOP_STATUSES[number], trial.reference.status})
    leftovers = {path.name for path in trial.folder.rglob(".*")} - {_REMOVED_BUILD_FOLDER}
    if leftovers:
        raise BrokenPromise(f"after {number.name}, {min(leftovers)} is left over")
    if outcome.status == trial.reference.status:
        trial.check_result(f"despite {number.name}, status {outcome.status}, but")
    trial.finish()
    return outcome.status == _STOP_STATUSES[number]


def pause(trial: Trial) -> bool:
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


def two_writers(trial: Trial) -> bool:
    """Run the command twice at the same time: one must do its work, and the other may refuse."""
    trial.prepare()
    start = trial.rng.uniform(0, trial.reference.seconds) * trial.rng.random()
    others: list[Outcome] = []

    def on_poll(pid: int, elapsed: float) -> None:
        if elapsed >= start and not others:
            others.append(run_forked(trial.writer.arguments, trial.folder, Limits(120, 4 << 30)))

    first = trial.run(on_poll=_with_elapsed(on_poll))
    done = trial.reference.status
    for outcome in (first, *others):
        check_end(outcome, {done, ExitStatus.BAD_INPUT})
    if done not in (first.status, *(other.status for other in others)):
        raise BrokenPromise(f"both of two writers refuse: {first.stderr.decode()[-200:].strip()}")
    trial.check_result("after two writers")
    return bool(others)


def _run_and_signal(trial: Trial, number: signal.Signals) -> Outcome:
    """Run the command and send a signal to its process group at a moment that is drawn."""
    kind = trial.rng.choice(["time", "appearance"] if trial.is_fresh else ["operation", "operation", "time"])
    if kind == "operation":
        first = trial.rng.randrange(trial.reference.operations)
        action = send_signal_once(number)
        return trial.run(in_child=partial(install_hook, trial.folder, OperationCounter(), first, action))
    if kind == "appearance":
        condition = _nth_appearance(trial.folder, trial.rng.choice([1, 1, 2, 3, 5, 8]), trial.rng)
    else:
        seconds = _draw_seconds(trial)

        def condition(elapsed: float) -> bool:
            return elapsed >= seconds

    caught_at: float | None = None
    is_sent = False

    def on_poll(pid: int, elapsed: float) -> None:
        nonlocal caught_at, is_sent
        if caught_at is None and (number == signal.SIGKILL or _catches_sigterm(pid)):
            caught_at = elapsed - (_SETTLING_SECONDS if number == signal.SIGKILL else 0)
        if not is_sent and caught_at is not None and elapsed - caught_at >= _SETTLING_SECONDS:
            is_sent = condition(elapsed) and _send(pid, number)

    return trial.run(on_poll=_with_elapsed(on_poll))


def _draw_seconds(trial: Trial) -> float:
    """Return a moment in the time that the command takes; one in four is near its start."""
    seconds = trial.reference.seconds + (_FRESH_SECONDS if trial.is_fresh else 0)
    return trial.rng.uniform(0, seconds) * (0.1 if trial.rng.random() < 0.25 else 1)


def _nth_appearance(folder: Path, count: int, rng: random.Random) -> Callable[[float], bool]:
    """Return a condition that holds once so many new names, or partial ones, have appeared."""
    only_partial = rng.random() < 0.5
    known = _names(folder)
    appeared: set[str] = set()

    def condition(elapsed: float) -> bool:
        new = _names(folder) - known
        appeared.update(name for name in new if name.endswith(".partial") or not only_partial)
        return len(appeared) >= count

    return condition


def _names(folder: Path) -> set[str]:
    """Return the paths under a folder, of which some may vanish meanwhile."""
    return {f"{parent}/{name}" for parent, folders, files in os.walk(folder) for name in (*folders, *files)}


def _with_elapsed(on_poll: Callable[[int, float], None]) -> Callable[[int], None]:
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
    """Return whether a process has installed its handlers; before, Python itself handles signals."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)
