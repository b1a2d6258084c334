"""Jobs of the tests, in a module that workers of a cluster can import."""

import os
import random
import signal
import time
from pathlib import Path

from albertine.errors import InputError

started_in: list[str] = []  # in a worker: what the initializer was called with


def square(number: int) -> int:
    return number * number


def slow_if_first(number: int) -> int:
    time.sleep(0.5 if number == 0 else 0)
    return number


def remember(name: str) -> None:
    started_in.append(name)


def started_names(number: int) -> list[str]:
    return list(started_in)


def fail(number: int) -> int:
    if number == 1:
        raise InputError("b.txt: empty; give more text")
    return number


def fail_among_short_jobs(number: int) -> int:
    time.sleep(0.004 * random.random())
    return fail(number)


def fail_by_a_bug(number: int) -> int:
    return 1 // number


class TwoArgumentsError(Exception):
    """Cannot be unpickled, because `args` has only the message."""

    def __init__(self, name: str, problem: str):
        super().__init__(f"{name} is {problem}")


def fail_with_two_arguments(_: object) -> None:
    raise TwoArgumentsError("b", "empty")


def fail_at_start() -> None:
    raise InputError("a.txt: no such file; name another")


def die_once(marker: Path) -> str:
    """Kill the worker the first time."""
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return marker.name


def die(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def report_pid_and_wait(marker: Path) -> int:
    """Write the id of this process, and wait for a file; a later call returns at once."""
    if not marker.exists():
        marker.write_text(str(os.getpid()))
        time.sleep(60)
    return os.getpid()


def sleep_until_interrupted(marker: Path) -> None:
    marker.with_suffix(".started").touch()
    try:
        for _ in range(600):
            time.sleep(0.1)
    except KeyboardInterrupt:
        marker.touch()
        raise


def absolute(path: Path) -> Path:
    return path.absolute()


def node_of_job(job: tuple[Path, str]) -> str:
    """Return the id of the node that runs this; on another than the given one, write a file and wait."""
    import ray

    (marker, patient), node = job, ray.get_runtime_context().get_node_id()
    if node != patient:
        marker.touch()
        time.sleep(60)
    time.sleep(0.2)
    return str(node)
