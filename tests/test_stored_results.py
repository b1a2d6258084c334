"""Tests of stored results."""

from pathlib import Path
from typing import Any

import pytest

from albertine.errors import InputError
from albertine.stored_results import StoredResults


def test_a_result_is_computed_once(tmp_path: Path) -> None:
    results, calls = StoredResults(tmp_path / "results"), []

    def compute() -> dict[str, Any]:
        calls.append(1)
        return {"score": 0.5}

    assert "a/b" not in results
    for _ in range(2):
        assert results.get("a/b", compute) == {"score": 0.5}
    assert "a/b" in results
    assert len(calls) == 1
    assert [file.name for file in (tmp_path / "results" / "a").iterdir()] == ["b.json"]


def test_a_failed_step_has_no_result(tmp_path: Path) -> None:
    results = StoredResults(tmp_path / "results")

    def compute() -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        results.get("a", compute)
    assert "a" not in results


def test_a_damaged_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"score": 0.')
    with pytest.raises(InputError, match=r"a\.json: not JSON.*remove it and run the same command again"):
        StoredResults(tmp_path).get("a", dict)
