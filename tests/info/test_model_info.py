"""Tests of which model `albertine info` shows."""

from pathlib import Path
from typing import Any

import pytest

from albertine.errors import InputError
from albertine.info import model_info
from albertine.info.model_info import checkpoint_folder


@pytest.mark.parametrize("source", ["albert/albert-base-v2", "me/albertine-tiny", "s3://a/albert-base"])
def test_a_hub_name_or_a_url_that_is_like_a_preset_is_located(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locate(located: str, **_: Any) -> Path:
        return Path("cache", located)

    monkeypatch.setattr(model_info, "locate_checkpoint", locate)
    assert checkpoint_folder(source) == Path("cache", source)


def test_a_misspelled_preset_is_suggested() -> None:
    assert checkpoint_folder("albert-base") is None
    with pytest.raises(InputError, match=r"neither a preset nor a folder \(did you mean albert-base\?\)"):
        checkpoint_folder("albert-bse")
