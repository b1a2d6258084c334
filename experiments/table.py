"""Prints the results of screening runs as a table, compared with a reference.

python -m experiments.table screening.jsonl --reference plain

Differences are between runs of the same seed.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import cyclopts

_TITLES = ("name", "seeds", "loss on [MASK]", "against reference", "minimal pairs", "tokens", "parameters")


def table(file: Path, *, reference: str = "plain") -> None:
    """Print a table of results, the best first.

    Args:
        file: results of `experiments.screen`; a later run of the same name and seed replaces an earlier one.
        reference: name of the variation to compare with.
    """
    runs: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for line in file.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        runs[run["name"]][run["variation"]["seed"]] = run
    print(_row(_TITLES))
    print(_row(["---"] * len(_TITLES)))
    for name in sorted(runs, key=lambda name: _mean(runs[name], "mask_loss")):
        print(_row(_cells(name, runs[name], runs.get(reference, {}))))


def _cells(name: str, runs: dict[int, dict[str, Any]], references: dict[int, dict[str, Any]]) -> list[str]:
    differences = [
        run["mask_loss"] - references[seed]["mask_loss"] for seed, run in runs.items() if seed in references
    ]
    has_pairs = all("blimp" in run for run in runs.values())
    return [
        name,
        " ".join(map(str, sorted(runs))),
        " ".join(f"{runs[seed]['mask_loss']:.3f}" for seed in sorted(runs)),
        f"{mean(differences):+.3f}" if differences else "",
        f"{100 * _mean(runs, 'blimp'):.1f}" if has_pairs else "",
        f"{_mean(runs, 'tokens') / 1e6:.2f}M",
        f"{_mean(runs, 'encoder_parameters') / 1e3:,.0f}k",
    ]


def _mean(runs: dict[int, dict[str, Any]], key: str) -> float:
    return float(mean(run[key] for run in runs.values()))


def _row(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    cyclopts.run(table)
