"""Tests that sharded training takes the memory that `albertine plan --train.shard` predicts."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from albertine.plan.plan import plan_training
from albertine.plan.settings import PlanSettings
from albertine.settings import SettingsSource, build_settings

pytestmark = [
    pytest.mark.slow,  # two processes that import torch
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc"),
]

_TOKENS, _LENGTH, _WORLD_SIZE = 32, 16, 2
# Rows of shards are rounded up, and the step counters of the optimizer are not sharded.
_HELD_TOLERANCE = 0.01
_PEAK_TOLERANCE = 0.1


def bert(hidden_size: int) -> dict[str, str]:
    """Return settings of a BERT of eight layers, with an odd number of rows."""
    return {
        "preset": "bert-base",
        "vocab_size": "1001",
        "embedding_size": str(hidden_size),
        "hidden_size": str(hidden_size),
        "ffn_size": str(4 * hidden_size),
        "layers": "8",
    }


_SMALL = bert(96)
MODELS = {
    "33 million parameters": bert(576),
    "bert-large": {"preset": "bert-large"},
    "albert-xxlarge": {"preset": "albert-xxlarge"},
}


def plan_settings(model: dict[str, str], optimizer: str) -> dict[str, Any]:
    return {
        "model": model,
        "objective": {"max_length": str(_LENGTH)},
        "train": {
            "batch_tokens": str(_TOKENS),
            "steps": "10",
            "shard": "true",
            "precision": "fp32",
            "optimizer": optimizer,
        },
        "hardware": f"{_WORLD_SIZE} x H100",
    }


def measure(model: dict[str, str], optimizer: str) -> list[dict[str, int]]:
    """Return the bytes that steps of a model took in each of the processes."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    settings = json.dumps([plan_settings(each, optimizer) for each in (_SMALL, model)])
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MALLOC_MMAP_THRESHOLD_": "65536",  # memory of larger tensors is returned when they are freed
        "WORLD_SIZE": str(_WORLD_SIZE),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    processes = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("sharded_steps.py")), settings],
            env={**environment, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(_WORLD_SIZE)
    ]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * _WORLD_SIZE
    return [json.loads(output.splitlines()[-1]) for output in outputs]


@pytest.mark.parametrize(
    ("name", "optimizer", "summed_shards"),
    [
        *(("33 million parameters", optimizer, 0) for optimizer in ("adamw", "muon", "lamb")),
        ("bert-large", "lamb", 0),
        # Gloo copies the gradients that it sums, before their sum is stored. Those of shared weights are
        # summed all at once; NCCL makes no copy.
        ("albert-xxlarge", "lamb", 1),
    ],
)
def test_sharded_training_takes_the_planned_memory(name: str, optimizer: str, summed_shards: int) -> None:
    model = MODELS[name]
    plan = plan_training(build_settings(PlanSettings, SettingsSource(plan_settings(model, optimizer))))
    planned, shard = plan.memory, 4 * plan.parameters // _WORLD_SIZE
    assert planned.activations < planned.total / 10  # weights and what belongs to them are measured here
    for measured in measure(model, optimizer):
        assert measured["weights"] == pytest.approx(shard, rel=_HELD_TOLERANCE)
        assert measured["gradients"] == pytest.approx(shard, rel=_HELD_TOLERANCE)
        assert measured["optimizer"] == pytest.approx(planned.optimizer, rel=_HELD_TOLERANCE)
        assert measured["peak"] == pytest.approx(planned.total + summed_shards * shard, rel=_PEAK_TOLERANCE)
