"""Prints the results of screening runs as a table, compared with a reference.

python -m experiments.table screening.jsonl --reference plain

Differences are between runs of the same seed, of the same time and, if the results name one, on the same
machine.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import cyclopts

from albertine.errors import InputError, did_you_mean

_TITLES = ("name", "seeds", "loss on [MASK]", "against reference", "minimal pairs", "tokens", "parameters")


class _Row(NamedTuple):
    """What the runs of a row have in common."""

    name: str
    seconds: float
    machine: str | None


def table(file: Path, *, reference: str = "plain") -> None:
    """Print a table of results, the best first; other times and other machines are rows of their own.

    Args:
        file: results of `experiments.screen`; of several of a row and seed, the last one counts.
        reference: name of the variation to compare with.
    """
    runs: dict[_Row, dict[int, dict[str, Any]]] = defaultdict(dict)
    replaced = 0
    for line in file.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        seeds = runs[_Row(run["name"], run["seconds"], run.get("machine"))]
        before = seeds.get(run["variation"]["seed"])
        # A run with minimal pairs writes its line a second time when they are scored.
        replaced += before is not None and {**before, **run} != {**run, **before}
        seeds[run["variation"]["seed"]] = run
    names = {row.name for row in runs}
    if reference not in names:
        raise InputError(f"--reference {reference}: not in {file}{did_you_mean(reference, names)}")
    print(_line(_TITLES))
    print(_line(["---"] * len(_TITLES)))
    for row in sorted(runs, key=lambda row: _mean(runs[row], "mask_loss")):
        references = runs.get(row._replace(name=reference), {})
        print(_line([_label(row, list(runs)), *_cells(runs[row], references)]))
    if replaced:
        print(f"\nLeft out: {replaced} earlier results of the same name, seed, time and machine.")


def _label(row: _Row, rows: list[_Row]) -> str:
    """Return the name of a row, with its time and machine where rows differ in them."""
    parts = [row.name]
    if len({one.seconds for one in rows}) > 1:
        parts.append(f"{row.seconds:g} s")
    if len({one.machine for one in rows}) > 1 and row.machine:
        parts.append(row.machine)
    return ", ".join(parts)


def _cells(runs: dict[int, dict[str, Any]], references: dict[int, dict[str, Any]]) -> list[str]:
    differences = [
        run["mask_loss"] - references[seed]["mask_loss"] for seed, run in runs.items() if seed in references
    ]
    has_pairs = all("blimp" in run for run in runs.values())
    return [
        " ".join(map(str, sorted(runs))),
        " ".join(f"{runs[seed]['mask_loss']:.3f}" for seed in sorted(runs)),
        f"{mean(differences):+.3f}" if differences else "",
        f"{100 * _mean(runs, 'blimp'):.1f}" if has_pairs else "",
        f"{_mean(runs, 'tokens') / 1e6:.2f}M",
        f"{_mean(runs, 'encoder_parameters') / 1e3:,.0f}k",
    ]


def _mean(runs: dict[int, dict[str, Any]], key: str) -> float:
    return float(mean(run[key] for run in runs.values()))


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    cyclopts.run(table)
