"""Tests of written safetensors files: permissions, and the error of a full disk."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from albertine.interop.safetensors_file import write_tensors


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_file_mode_follows_umask(mask: int, tmp_path: Path) -> None:
    previous_mask = os.umask(mask)
    try:
        (tmp_path / "text").write_text("x")
        write_tensors({"a": torch.arange(3)}, tmp_path / "a", {"format": "pt"})
    finally:
        os.umask(previous_mask)
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "text").stat().st_mode
    assert load_file(tmp_path / "a")["a"].tolist() == [0, 1, 2]


def test_full_disk_raises_oserror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save_file_failing_with(message: str) -> Any:
        def save_file(*_: Any, **__: Any) -> None:
            raise SafetensorError(message)

        return save_file

    monkeypatch.setattr(
        "albertine.interop.safetensors_file.save_file",
        save_file_failing_with("I/O error: No space left on device (os error 28)"),
    )
    with pytest.raises(OSError, match="No space left") as caught:
        write_tensors({}, tmp_path / "a")
    assert (caught.value.errno, caught.value.filename) == (28, str(tmp_path / "a"))
    monkeypatch.setattr(
        "albertine.interop.safetensors_file.save_file", save_file_failing_with("something else")
    )
    with pytest.raises(SafetensorError, match="something else"):
        write_tensors({}, tmp_path / "a")
