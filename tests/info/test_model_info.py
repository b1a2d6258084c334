"""Tests of which model `albertine info` shows."""

from pathlib import Path
from typing import Any

import pytest

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.info import model_info
from albertine.info.model_info import checkpoint_folder, count_with_head
from albertine.model.model import Model
from albertine.settings import HeadSettings, ModelSettings

SMALL = ModelSettings(vocab_size=61, embedding_size=10, hidden_size=24, layers=3, heads=4, max_length=16)


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


@pytest.mark.parametrize(
    "head",
    [
        HeadSettings(kind="pretrain"),
        HeadSettings(kind="classify", labels=3),
        HeadSettings(kind="classify", labels=3, exits="own", learned_exit=True),
        HeadSettings(kind="classify", labels=3, exits="shared"),
        HeadSettings(kind="multi-label", labels=5, matching=True),
        HeadSettings(kind="regress", labels=1),
        HeadSettings(kind="choice", labels=1),
        HeadSettings(kind="choice", labels=1, co_matching=True, exits="own"),
        HeadSettings(kind="token", labels=4, exits="own"),
        HeadSettings(kind="span", answerable=True),
    ],
)
def test_the_head_of_a_checkpoint_is_counted(head: HeadSettings) -> None:
    model = Model(SMALL, head)
    assert count_with_head(SMALL, head).total == sum(parameter.numel() for parameter in model.parameters())


def test_a_masked_lm_is_counted_with_the_pooler_that_published_ones_have() -> None:
    model = Model(SMALL, HeadSettings(kind="mlm"))
    pooler = SMALL.hidden_size * (SMALL.hidden_size + 1)
    counts = count_with_head(SMALL, HeadSettings(kind="mlm"))
    assert counts.total == sum(parameter.numel() for parameter in model.parameters()) + pooler


def test_only_heads_that_a_checkpoint_has_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    albertine.save(Model(SMALL, HeadSettings(kind="classify", labels=3)), tmp_path / "labels")
    capsys.readouterr()
    assert run_command(app, ["info", str(tmp_path / "labels")]) == 0
    shown = capsys.readouterr().out
    assert "task head" in shown
    assert "MLM head" not in shown
    assert "pair head" not in shown
    assert "Memory of pre-training" in shown
    assert (
        run_command(app, ["info", str(tmp_path / "labels"), "--compare", "albert-base", "--length", "8"]) == 0
    )
    assert "MLM head" in capsys.readouterr().out


def test_an_encoder_has_no_head_and_an_unsupported_head_is_not_counted(tmp_path: Path) -> None:
    albertine.save(Model(SMALL), tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    saved = config.read_text()
    for architecture in ("AlbertModel", "AlbertForSomethingElse"):
        config.write_text(saved.replace("AlbertForPreTraining", architecture))
        (info,) = model_info.compared_infos(
            model_info.InfoSettings(model=SMALL, length=16), str(config.parent), None, config.parent
        )
        assert info.parameters.total == info.parameters.encoder
