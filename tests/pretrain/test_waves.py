"""Positions that no sample reaches: they go on as those do that were reached."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from albertine.corpus.settings import Objective
from albertine.model.network import Model
from albertine.pretrain.curriculum import Curriculum
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.waves import Waves

from .conftest import GIVEN, MODEL, with_train

WIDE = replace(MODEL, embedding_size=64, hidden_size=128, max_length=512)


def positions_of(run: Path) -> Tensor:
    return load_file(run / "model.safetensors")["albert.embeddings.position_embeddings.weight"]


def test_waves_turned_are_the_waves_further_on() -> None:
    waves = Waves.of(WIDE)
    rows = waves.over(100)
    for offset in (-3, 1, 7):
        turned = rows[10:20] @ waves.turned(offset).T
        assert torch.allclose(turned, rows[10 + offset : 20 + offset], atol=1e-9)


@pytest.mark.parametrize("reached", [64, 128, 300])
def test_what_is_made_of_waves_goes_on(reached: int) -> None:
    """Any mixture of them, at any loudness, with noise in each row that none of the others shares."""
    waves, draw = Waves.of(WIDE), torch.Generator().manual_seed(reached)
    mixture = torch.randn(2 * len(waves), 64, generator=draw, dtype=torch.float64)
    table = waves.over(512) @ mixture + torch.randn(64, generator=draw, dtype=torch.float64)
    noisy = table[:reached] + torch.randn(reached, 64, generator=draw, dtype=torch.float64)
    found = waves.beyond(reached, 512).double() @ noisy
    assert found.shape == (512 - reached, 64)
    left = (found - table[reached:]).pow(2).mean() / table.pow(2).mean()
    assert left < 0.05


@pytest.mark.parametrize("reached", [1, 2, 8, 63])
def test_few_rows_make_no_wild_ones(reached: int) -> None:
    """There are more waves than rows, and the rows are noise."""
    noise = torch.randn(reached, 16, generator=torch.Generator().manual_seed(0))
    found = Waves.of(WIDE).beyond(reached, 512) @ noise
    assert torch.isfinite(found).all()
    assert found.abs().max() < 10 * noise.abs().max()


def test_rows_beyond_the_samples_follow(settings: PretrainSettings, tmp_path: Path) -> None:
    pretrain(tmp_path / "run", settings, GIVEN)
    rows = positions_of(tmp_path / "run")
    assert torch.equal(rows[32:], Waves.of(MODEL).beyond(32, 64) @ rows[:32])


def test_rows_follow_as_far_as_samples_go(settings: PretrainSettings, tmp_path: Path) -> None:
    """Rows that the run reaches late are then their own; those that it never reaches follow them too."""
    growing = replace(settings, curriculum=Curriculum(length="16, 32 from 0.5"))
    pretrain(tmp_path / "run", growing, GIVEN)
    rows = positions_of(tmp_path / "run")
    assert not torch.allclose(rows[16:], Waves.of(MODEL).beyond(16, 64) @ rows[:16], atol=1e-3)
    assert torch.equal(rows[32:], Waves.of(MODEL).beyond(32, 64) @ rows[:32])


@pytest.mark.parametrize("change", [
    {"local_start": False},
    {"model": replace(MODEL, embedding_size=2)},
    {"objective": Objective(max_length=64)},
])  # fmt: skip
def test_others_stay_as_they_are(
    change: dict[str, object], settings: PretrainSettings, tmp_path: Path
) -> None:
    """Positions drawn as published, no room for a wave, and samples as long as the table."""
    asked = with_train(replace(settings, **change), weight_decay=0.0)  # type: ignore[arg-type]
    pretrain(tmp_path / "run", asked, GIVEN)
    drawn = Model(asked.model, seed=asked.train.seed)
    table: Tensor = drawn.encoder.embedding.positions.weight.detach()
    untouched = torch.equal(positions_of(tmp_path / "run")[32:], table[32:])
    assert untouched is ("objective" not in change)


def test_a_checkpoint_to_start_from_has_positions_of_its_own(
    settings: PretrainSettings, tmp_path: Path
) -> None:
    pretrain(tmp_path / "first", with_train(settings, steps=2), GIVEN)
    again = with_train(settings, steps=4, weight_decay=0.0)
    pretrain(tmp_path / "second", replace(again, init=str(tmp_path / "first")), GIVEN)
    assert torch.equal(positions_of(tmp_path / "first")[32:], positions_of(tmp_path / "second")[32:])
