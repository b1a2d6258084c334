"""Benchmark of the start of the command line against a bare Python.

The target is `albertine --help` in half a second. The peer is `python -c pass`, so the
difference is the time of Albertine's imports, its parser and the help page. The runs of both alternate.
"""

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

from albertine import progress
from albertine.bench.settings import StartupBenchSettings
from albertine.errors import WorkError


@dataclass(frozen=True)
class StartupTimes:
    """Median seconds of a process from start to exit."""

    python_seconds: float
    help_seconds: float

    @property
    def ratio(self) -> float:
        """Time of `albertine --help` as a multiple of a bare Python's."""
        return self.help_seconds / self.python_seconds


def measure_startup(settings: StartupBenchSettings) -> StartupTimes:
    """Return the median times of both sides, after one warm-up run of each."""
    python_command, help_command = (
        [sys.executable, "-c", "pass"],
        [sys.executable, "-m", "albertine", "--help"],
    )
    _seconds(python_command), _seconds(help_command)
    pairs = [
        (_seconds(python_command), _seconds(help_command))
        for _ in progress.track(range(settings.runs), "Starting", unit="pairs")
    ]
    return StartupTimes(*(statistics.median(side) for side in zip(*pairs, strict=True)))


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    process = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    if process.returncode:
        raise WorkError(
            f"{' '.join(command)} failed with exit status {process.returncode}: {process.stderr.strip()}"
        )
    return time.perf_counter() - started


def show_startup(times: StartupTimes, *, as_json: bool) -> None:
    """Print the result as text or JSON."""
    if as_json:
        report = {
            "python_seconds": times.python_seconds,
            "help_seconds": times.help_seconds,
            "ratio": times.ratio,
        }
        progress.print_json(report)
        return
    print(f"python -c pass     {times.python_seconds * 1000:6.0f} ms")
    print(f"albertine --help   {times.help_seconds * 1000:6.0f} ms   ({times.ratio:.1f} times a bare Python)")
