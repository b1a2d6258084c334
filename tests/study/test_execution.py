"""Tests of where the jobs of a study run."""

from pathlib import Path
from typing import Any

import pytest
import torch

from albertine.study import execution


@pytest.mark.parametrize(
    ("device", "width", "has_cluster", "are_timed", "place"),
    [
        ("cpu", 128, False, False, "side by side"),
        ("cpu", 128, True, False, "side by side"),  # on the cores of the cluster
        ("cpu", 128, False, True, "side by side"),  # each on its own core
        ("cpu", 768, False, False, "one by one"),
        ("cpu", 768, True, False, "cluster"),
        ("cuda", 128, False, False, "side by side"),
        ("cuda", 128, True, False, "cluster"),  # which assigns whole GPUs
        ("cuda", 128, False, True, "one by one"),  # they would slow each other down
        ("cuda", 768, False, False, "one by one"),
    ],
)
def test_where_jobs_run(
    device: str, width: int, has_cluster: bool, are_timed: bool, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[str] = []
    monkeypatch.setattr(execution, "choose_device", lambda _: torch.device(device))
    monkeypatch.setattr(execution, "run_in_parallel", lambda *_: places.append("side by side"))
    monkeypatch.setattr(execution, "run_on_cluster", lambda *_: places.append("cluster"))
    executor: Any = object() if has_cluster else None
    jobs = {Path("run"): lambda: places.append("one by one")}
    execution.execute("Working", jobs, 1, width, executor, are_timed=are_timed)
    assert places == [place]
