"""Every recipe is one that a run takes as it is."""

from pathlib import Path

import pytest

from albertine.corpus.corpus import Corpus
from albertine.pretrain.prepare import settled
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import MODELS, layer_from_file, read
from albertine.train.schedule import Schedule

RECIPES = Path(__file__).parent.parent.parent / "recipes"
FILES = sorted(RECIPES.rglob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_run_takes_it(file: Path, corpus: Corpus) -> None:
    layer = layer_from_file(file)
    found = settled(read(PretrainSettings, layer), corpus, None, layer.keys)
    assert found.train.steps > 1000
    # What the recipe says of itself: the command names the file, wherever it lies.
    assert f"--config {file.relative_to(RECIPES.parent)}" in file.read_text(encoding="utf-8")


def test_the_papers_are_there() -> None:
    names = {file.stem for file in (RECIPES / "paper").glob("*.toml")}
    assert {name for name in MODELS if name.startswith("bert")} <= names
    for size in ("base", "large", "xlarge", "xxlarge"):
        assert {f"albert-{size}", f"albert-{size}-no-dropout"} <= names


@pytest.mark.parametrize("file", sorted((RECIPES / "paper").glob("*.toml")), ids=lambda file: file.stem)
def test_the_papers_rates_are_those_of_the_rule(file: Path) -> None:
    train = read(PretrainSettings, layer_from_file(file)).train
    schedule = Schedule.of(train)
    assert (schedule.lr, schedule.warmup) == (0.00176, 3125)
    assert train.batch_tokens == 4096 * 512
