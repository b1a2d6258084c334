"""Runs a series of screening runs, several at a time, each on one thread. Finished runs are skipped.

    python -m experiments.series experiments/series.txt --corpus corpus --blimp blimp --seeds 1 --seeds 2

A line of the file is a name and options of `experiments.screen`; a line `{word} = options` defines what
`{word}` means in the lines after it. Of two options of the same name, the last one counts.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cyclopts

from albertine.errors import InputError, did_you_mean
from experiments.screen import screen
from experiments.variation import Variation


@dataclass(frozen=True)
class ScreeningRun:
    """A run of the series: its name, and the options of `experiments.screen`."""

    name: str
    options: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        """The command of the run."""
        return [sys.executable, "-m", "experiments.screen", "--name", self.name, *self.options]

    def is_finished(self, results: Sequence[dict[str, Any]]) -> bool:
        """Return whether one of the results has this name, variation and time, and all scores."""
        app = cyclopts.App(result_action="return_value")
        app.default(screen)
        options = app.parse_args(self.options, print_error=False, exit_on_error=False)[1].arguments
        return any(
            result["name"] == self.name
            and result["seconds"] == options["seconds"]
            # Results of before a switch was added lack it.
            and Variation(**result["variation"]) == options.get("variation", Variation())
            and ("blimp" in result or "blimp" not in options)
            for result in results
        )


def series(
    file: Path,
    *,
    corpus: Path,
    blimp: Path | None = None,
    seeds: list[int] | None = None,
    only: list[str] | None = None,
    seconds: float = 600.0,
    parallel: int = 2,
    out: Path = Path("screening.jsonl"),
) -> None:
    """Run the series, all names with the first seed, then with the next.

    Args:
        file: the series.
        corpus: the corpus (albertine corpus build).
        blimp: folder of minimal pairs.
        seeds: seeds of each run; by default 1.
        only: names to run; by default all.
        seconds: processor time of each training.
        parallel: runs at a time.
        out: file of results; the same command, run again, continues with the runs that are not in it, with
            the same options and seconds.
    """
    runs_by_name = dict(read_series(file))
    if unknown := [name for name in only or [] if name not in runs_by_name]:
        raise InputError(f"--only {unknown[0]}: not in {file}{did_you_mean(unknown[0], runs_by_name)}")
    common = ["--corpus", str(corpus), "--seconds", str(seconds), "--out", str(out)]
    common += ["--blimp", str(blimp)] if blimp else []
    runs = [
        ScreeningRun(name, ("--seed", str(seed), *options, *common))
        for seed in seeds or [1]
        for name, options in runs_by_name.items()
        if not only or name in only
    ]
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    results = [json.loads(line) for line in lines]
    to_do = [run for run in runs if not run.is_finished(results)]
    with ThreadPoolExecutor(parallel) as executor:
        statuses = list(executor.map(_run, to_do))
    if failed := [shlex.join(run.command) for run, status in zip(to_do, statuses, strict=True) if status]:
        sys.exit("\n".join(["failed:", *failed]))


def read_series(file: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the options of each run."""
    definitions: dict[str, str] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, _, options = line.partition(" ")
        for word, meaning in definitions.items():
            options = options.replace(word, meaning)
        if name.startswith("{"):
            definitions[name] = options.removeprefix("= ")
        else:
            yield name, _last_of_each(shlex.split(options))


def _last_of_each(words: Sequence[str]) -> list[str]:
    """Return options with their values, without those that a later one of the same name replaces."""
    options: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name = word
            options[name] = []
        options[name].append(word)
    return [word for option in options.values() for word in option]


def _run(run: ScreeningRun) -> int:
    """Return the exit status of a run."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(run.command, env=environment, check=False).returncode


if __name__ == "__main__":
    cyclopts.run(series)
