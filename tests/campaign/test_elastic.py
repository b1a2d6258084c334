"""Tests of the faults in a run of several nodes."""

from pathlib import Path

import pytest

from tests.campaign.elastic import FAULTS, find_problems, run_faults, unusable_reason

RESULT = {"statuses": [0, 0, 0], "largest_difference": 1e-6}


def test_broken_promises_are_found() -> None:
    assert find_problems(RESULT) == []
    assert find_problems(RESULT | {"statuses": [0, 1, 0]}) == ["exit statuses [0, 1, 0]"]
    for difference in (0.5, float("nan")):
        [problem] = find_problems(RESULT | {"largest_difference": difference})
        assert "a loss differs" in problem


@pytest.mark.long
@pytest.mark.slow  # minutes: processes start again after each fault
@pytest.mark.parametrize("shard", [False, True])
def test_each_kind_of_fault(shard: bool, tmp_path: Path) -> None:
    if reason := unusable_reason():
        pytest.skip(f"nodes as network namespaces: {reason}")
    result = run_faults(tmp_path / "out", len(FAULTS), seed=0, shard=shard)
    assert find_problems(result) == []
    faults = result["faults"]
    assert isinstance(faults, list)
    assert len(faults) == len(FAULTS)
    assert result["messages"]  # those of the processes that lost another one
