"""A fixture that writes a small world to disk once for all tests."""

from pathlib import Path

import pytest

from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

SETTINGS = WorldSettings(stories=300, extra=60, other=60, train=150, dev=60, test=60, seed=4, workers=1)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "world"
    write_world(folder, SETTINGS)
    return folder
