"""Runs beside each other, a process each: a network this small is no faster on two cores than on one.

What they say stays with them; how far they are together is read from their journals.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from albertine import progress
from albertine.processes import in_processes
from albertine.train.journal import JOURNAL, last_lines

Run = Callable[[], object]


def abreast(what: str, runs: Mapping[Path, Run], steps: int) -> None:
    """Make all runs, those named first beginning first.

    Args:
        what: the activity, as in "Training".
        runs: what makes each, by its folder.
        steps: how many each takes.
    """
    if not runs:
        return
    cores = os.cpu_count() or 1
    workers = min(len(runs), cores)
    before = sum(map(_step, runs))
    with progress.advancing(what, total=steps * len(runs) - before, unit="steps") as advance:
        seen = before

        def look() -> None:
            nonlocal seen
            now = max(seen, sum(map(_step, runs)))
            advance(now - seen)
            seen = now

        advice = "it goes on where it was with the same command"
        made = in_processes(
            _make,
            runs.values(),
            workers,
            start=torch.set_num_threads,
            given=(cores // workers,),
            watch=look,
            advice=advice,
        )
        for _ in made:
            look()


def _make(run: Run) -> None:
    run()


def _step(run: Path) -> int:
    """Return how far a run is, as far as it has been written down."""
    if not (run / JOURNAL).exists():
        return 0
    return int(next((line["step"] for line in reversed(last_lines(run)) if "step" in line), 0))
