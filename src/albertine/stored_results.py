"""Results of the steps of a long command, stored as JSON files: a step with a result is not run again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from albertine.atomic import atomic_file
from albertine.input_files import read_json_object


class StoredResults:
    """A folder of results, one file NAME.json for each step; names may contain slashes."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __contains__(self, name: str) -> bool:
        """Return whether a step has a result."""
        return self._file(name).exists()

    def get(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the result of a step; compute and store it if there is none."""
        file = self._file(name)
        if not file.exists():
            result = compute()
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(file) as partial_file:
                partial_file.write_text(json.dumps(result, indent=2), encoding="utf-8")
        return read_json_object(file, "remove it and run the same command again")

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.json"
