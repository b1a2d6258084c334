"""Results of the steps of a long command, stored as JSON files: a step with a result is not run again."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from albertine.atomic import atomic_file
from albertine.errors import InputError
from albertine.input_files import read_json_object
from albertine.json_input import JsonError, dataclass_from_json

ResultT = TypeVar("ResultT")
_ADVICE = "remove it and run the same command again"


class StoredResults:
    """A folder of results, one file NAME.json for each step; names may contain slashes."""

    def __init__(self, folder: Path):
        self._folder = folder

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
        return read_json_object(file, _ADVICE)

    def get_as(self, result_type: type[ResultT], name: str, compute: Callable[[], ResultT]) -> ResultT:
        """Return the result of a step as a dataclass; compute and store it if there is none.

        Args:
            result_type: a dataclass; see `dataclass_from_json`.
            name: name of the step.
            compute: runs the step.
        """
        self.get(name, lambda: asdict(compute()))  # type: ignore[call-overload]  # a dataclass
        return self._read_as(result_type, name)

    def read_as(self, result_type: type[ResultT], name: str) -> ResultT | None:
        """Return the result of a step as a dataclass; None if there is none."""
        return self._read_as(result_type, name) if name in self else None

    def remove(self, name: str) -> None:
        """Remove the result of a step, so that it is computed again."""
        self._file(name).unlink(missing_ok=True)

    def _read_as(self, result_type: type[ResultT], name: str) -> ResultT:
        file = self._file(name)
        try:
            return dataclass_from_json(result_type, read_json_object(file, _ADVICE))
        except JsonError as error:
            raise InputError(f"{file}: {error}; {_ADVICE}") from None

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.json"
