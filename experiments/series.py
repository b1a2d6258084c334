"""Runs a series of screening runs, several at a time, each on one thread. Finished runs are skipped.

    python -m experiments.series experiments/series.txt --corpus corpus --blimp blimp --seeds 1 --seeds 2

A line of the file is a name and options of `experiments.screen`; a line `{word} = options` defines what
`{word}` means in the lines after it.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cyclopts


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
        out: file of results; the same command, run again, goes on with the runs that are not in it.
    """
    common = ["--corpus", str(corpus), "--seconds", str(seconds), "--out", str(out)]
    common += ["--blimp", str(blimp)] if blimp else []
    runs = [
        (name, seed, [*options, *common])
        for seed in seeds or [1]
        for name, options in read_series(file)
        if not only or name in only
    ]
    done = _finished_runs(out)
    with ThreadPoolExecutor(parallel) as executor:
        list(executor.map(_run, [run for run in runs if run[:2] not in done]))


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
            yield name, shlex.split(options)


def _finished_runs(out: Path) -> set[tuple[str, int]]:
    """Return the names and seeds of the results in a file."""
    lines = out.read_text(encoding="utf-8").splitlines() if out.exists() else []
    return {(run["name"], run["variation"]["seed"]) for run in map(json.loads, lines)}


def _run(run: tuple[str, int, list[str]]) -> None:
    name, seed, options = run
    command = [sys.executable, "-m", "experiments.screen", "--name", name, "--seed", str(seed), *options]
    subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)


if __name__ == "__main__":
    cyclopts.run(series)
