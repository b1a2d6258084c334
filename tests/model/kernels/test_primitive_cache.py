"""The limit of the primitive caches: when it is set, and that memory stops growing."""

import os
import subprocess
import sys

import pytest
import torch
from tests.model.model_fixtures import SMALL

from albertine.device import has_fast_bf16
from albertine.model.encoder import ComputeOptions
from albertine.model.kernels.primitive_cache import restore_primitive_cache
from albertine.model.model import Model

NAMES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


@pytest.fixture(autouse=True)
def default_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "")  # makes monkeypatch restore the variable after the test
        monkeypatch.delenv(name)


def capacities() -> list[str | None]:
    return [os.environ.get(name) for name in NAMES]


def test_configuring_a_model_limits_the_caches() -> None:
    model = Model(SMALL)
    assert capacities() == [None, None]
    model.configure(ComputeOptions())
    assert capacities() == ["128", "128"]
    restore_primitive_cache()
    assert capacities() == [None, None]


def test_value_set_by_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAMES[1], "64")
    Model(SMALL).configure(ComputeOptions())
    assert capacities() == ["128", "64"]
    restore_primitive_cache()
    assert capacities() == [None, "64"]


def test_without_kernels_the_caches_keep_their_size() -> None:
    Model(SMALL).configure(ComputeOptions(kernels=False))
    assert capacities() == [None, None]


@pytest.mark.slow
@pytest.mark.skipif(not has_fast_bf16(torch.device("cpu")), reason="needs a CPU with bf16")
def test_new_strip_lengths_do_not_leak_memory() -> None:
    """Train on many lengths in a new process, because the limit is read at the first product."""
    script = """
import resource, torch
from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import MODEL_PRESETS

model = Model(MODEL_PRESETS["demo"])
model.configure(ComputeOptions(torch.bfloat16))
for length in range(100, 300):
    model.encoder(Strip.from_sequences([[5] * (length % 113 + 7)] * (length // 50))).sum().backward()
    if length == 120:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(process.stdout) * 1024 < 200e6
