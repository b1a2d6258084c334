"""Tests of what `transformers` may run of a checkpoint."""

from pathlib import Path

import pytest

from albertine.bench.peer_model import peer_options
from albertine.errors import InputError
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import ModelSettings

SETTINGS = ModelSettings(vocab_size=61, embedding_size=10, hidden_size=24, layers=2, heads=4, rotary=True)


def test_only_the_own_modelling_file_is_run(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_folder(Model(SETTINGS), folder)
    assert peer_options(folder, ModelSettings()) == {}
    assert peer_options(folder, SETTINGS) == {"trust_remote_code": True}
    file = folder / "modeling_albertine.py"
    file.write_text(file.read_text() + "\nprint('something else')\n")
    for _ in range(2):
        with pytest.raises(InputError, match=r"modeling_albertine\.py: missing, or not of this version"):
            peer_options(folder, SETTINGS)
        file.unlink(missing_ok=True)
