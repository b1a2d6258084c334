"""Tests of the recipes: runs accept them, and those of the papers have the papers' learning rates."""

from pathlib import Path

import pytest

from albertine.corpus.corpus import Corpus
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import resolved_settings
from albertine.settings import MODEL_PRESETS, build_settings, read_settings_file
from albertine.train.schedule import LearningRateSchedule

RECIPES = Path(__file__).parent.parent.parent / "recipes"
FILES = sorted(RECIPES.rglob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recipe_resolves(file: Path, corpus: Corpus) -> None:
    settings = build_settings(PretrainSettings, read_settings_file(file))
    assert resolved_settings(settings, corpus, None).train.steps > 1000
    # The command in the comments of the recipe names the file.
    assert f"--config {file.relative_to(RECIPES.parent)}" in file.read_text(encoding="utf-8")


def test_paper_recipes_exist() -> None:
    names = {file.stem for file in (RECIPES / "paper").glob("*.toml")}
    assert {name for name in MODEL_PRESETS if name.startswith("bert")} <= names
    for size in ("base", "large", "xlarge", "xxlarge"):
        assert {f"albert-{size}", f"albert-{size}-no-dropout"} <= names


@pytest.mark.parametrize("file", sorted((RECIPES / "paper").glob("*.toml")), ids=lambda file: file.stem)
def test_paper_recipes_use_the_paper_lr(file: Path) -> None:
    train = build_settings(PretrainSettings, read_settings_file(file)).train
    schedule = LearningRateSchedule.from_settings(train)
    assert (schedule.peak_lr, schedule.warmup) == (0.00176, 3125)
    rates = [schedule.lr_at(step) for step in (0, 3124, 3125, 62_500)]  # as in Google's code
    assert rates == pytest.approx([0, 0.00176 * 3124 / 3125, 0.001716, 0.00088])
    assert train.batch_tokens == 4096 * 512
