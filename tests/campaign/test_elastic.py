"""Tests of the faults in a run of several nodes."""

from pathlib import Path

import pytest

from tests.campaign.elastic import FAULTS, find_problems, run_faults, unusable_reason

# Without shards and with them; `python -m tests.campaign.elastic` has all kinds for both.
KINDS = {False: ("kill a worker", "kill the node of rank 0"), True: ("kill a node", "freeze a worker")}
RESULT = {"statuses": [0, 0, 0], "largest_difference": 1e-6}


def test_all_kinds_are_tested() -> None:
    assert {*KINDS[False], *KINDS[True]} == set(FAULTS)


def test_broken_promises_are_found() -> None:
    assert find_problems(RESULT) == []
    assert find_problems(RESULT | {"statuses": [0, 1, 0]}) == ["exit statuses [0, 1, 0]"]
    for difference in (0.5, float("nan")):
        [problem] = find_problems(RESULT | {"largest_difference": difference})
        assert "a loss differs" in problem


@pytest.mark.slow  # minutes: processes start again after each fault
@pytest.mark.parametrize("shard", KINDS)
def test_each_kind_of_fault(shard: bool, tmp_path: Path) -> None:
    if reason := unusable_reason():
        pytest.skip(f"nodes as network namespaces: {reason}")
    result = run_faults(tmp_path / "out", len(KINDS[shard]), seed=0, shard=shard, kinds=KINDS[shard])
    assert find_problems(result) == []
    faults = result["faults"]
    assert isinstance(faults, list)
    assert sorted(fault["kind"] for fault in faults) == sorted(KINDS[shard])
    assert result["messages"]  # those of the processes that lost another one
