"""Reads `results.json`, which `finetune` writes into its output folder."""

from dataclasses import dataclass
from pathlib import Path

from albertine.errors import InputError
from albertine.finetune.baseline import BaselineResult
from albertine.finetune.finetune import RESULTS_FILE
from albertine.finetune.run import FinetuneResult
from albertine.input_files import read_json_object
from albertine.json_input import JsonError, dataclass_from_json


@dataclass(frozen=True)
class StoredFinetuneResults:
    """The content of `results.json`; see `FinetuneResults.write`."""

    task: str
    median: dict[str, float]
    best_run: str
    runs: list[FinetuneResult]
    baseline: BaselineResult | None = None
    baseline_advice: str | None = None


def read_finetune_results(folder: Path) -> StoredFinetuneResults | None:
    """Return the results in a folder; None for one of several runs, and for an unfinished run."""
    file = folder / RESULTS_FILE
    if not file.exists():
        return None
    advice = "run the same albertine finetune command again to write it"
    try:
        results = dataclass_from_json(StoredFinetuneResults, read_json_object(file, advice))
    except JsonError as error:
        raise InputError(f"{file}: {error}; {advice}") from None
    if not results.runs:
        raise InputError(f"{file}: no runs; {advice}")
    return results
