"""The tools that make nodes on this machine."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture
def nodes_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the tool; skip the test where namespaces cannot be made."""
    monkeypatch.syspath_prepend(str(TOOLS))
    import nodes

    if reason := nodes.unusable_reason():
        pytest.skip(f"nodes as network namespaces: {reason}")
    yield nodes
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"albertine-{os.getpid()}-" not in left  # also after a failure
