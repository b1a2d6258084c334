"""Positions that no sample reaches: they go on as those do that were reached."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from albertine.corpus.settings import ObjectiveSettings
from albertine.model.model import Model
from albertine.pretrain.curriculum import CurriculumSettings
from albertine.pretrain.position_extrapolation import Sinusoids
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings

from .conftest import GIVEN_KEYS, MODEL, with_train

WIDE_MODEL = replace(MODEL, embedding_size=64, hidden_size=128, max_length=512)


def read_position_table(run: Path) -> Tensor:
    return load_file(run / "model.safetensors")["albert.embeddings.position_embeddings.weight"]


def test_shift_matrix_shifts_sinusoids() -> None:
    waves = Sinusoids.for_model(WIDE_MODEL)
    rows = waves.table(100)
    for offset in (-3, 1, 7):
        turned = rows[10:20] @ waves.shift_matrix(offset).T
        assert torch.allclose(turned, rows[10 + offset : 20 + offset], atol=1e-9)


@pytest.mark.parametrize("reached", [64, 128, 300])
def test_extrapolation_recovers_mixed_sinusoids(reached: int) -> None:
    """Any mixture of them, at any loudness, with noise in each row that none of the others shares."""
    waves, draw = Sinusoids.for_model(WIDE_MODEL), torch.Generator().manual_seed(reached)
    mixture = torch.randn(2 * len(waves), 64, generator=draw, dtype=torch.float64)
    table = waves.table(512) @ mixture + torch.randn(64, generator=draw, dtype=torch.float64)
    noisy = table[:reached] + torch.randn(reached, 64, generator=draw, dtype=torch.float64)
    found = waves.extrapolation_matrix(reached, 512).double() @ noisy
    assert found.shape == (512 - reached, 64)
    left = (found - table[reached:]).pow(2).mean() / table.pow(2).mean()
    assert left < 0.05


@pytest.mark.parametrize("reached", [1, 2, 8, 63])
def test_extrapolation_from_few_rows_is_bounded(reached: int) -> None:
    """There are more waves than rows, and the rows are noise."""
    noise = torch.randn(reached, 16, generator=torch.Generator().manual_seed(0))
    found = Sinusoids.for_model(WIDE_MODEL).extrapolation_matrix(reached, 512) @ noise
    assert torch.isfinite(found).all()
    assert found.abs().max() < 10 * noise.abs().max()


def test_unreached_positions_are_extrapolated(settings: PretrainSettings, tmp_path: Path) -> None:
    pretrain(tmp_path / "run", settings, GIVEN_KEYS)
    rows = read_position_table(tmp_path / "run")
    assert torch.equal(rows[32:], Sinusoids.for_model(MODEL).extrapolation_matrix(32, 64) @ rows[:32])


def test_extrapolation_starts_at_the_longest_sample_so_far(
    settings: PretrainSettings, tmp_path: Path
) -> None:
    """Rows that the run reaches late are then their own; those that it never reaches follow them too."""
    growing = replace(settings, curriculum=CurriculumSettings(length="16, 32 from 0.5"))
    pretrain(tmp_path / "run", growing, GIVEN_KEYS)
    rows = read_position_table(tmp_path / "run")
    assert not torch.allclose(
        rows[16:], Sinusoids.for_model(MODEL).extrapolation_matrix(16, 64) @ rows[:16], atol=1e-3
    )
    assert torch.equal(rows[32:], Sinusoids.for_model(MODEL).extrapolation_matrix(32, 64) @ rows[:32])


@pytest.mark.parametrize("change", [
    {"local_start": False},
    {"model": replace(MODEL, embedding_size=2)},
    {"objective": ObjectiveSettings(max_length=64)},
])  # fmt: skip
def test_positions_without_local_start_are_not_extrapolated(
    change: dict[str, object], settings: PretrainSettings, tmp_path: Path
) -> None:
    """Positions drawn as published, no room for a wave, and samples as long as the table."""
    asked = with_train(replace(settings, **change), weight_decay=0.0)  # type: ignore[arg-type]
    pretrain(tmp_path / "run", asked, GIVEN_KEYS)
    drawn = Model(asked.model, seed=asked.train.seed)
    table: Tensor = drawn.encoder.embedding.positions.weight.detach()
    untouched = torch.equal(read_position_table(tmp_path / "run")[32:], table[32:])
    assert untouched is ("objective" not in change)


def test_init_checkpoint_keeps_its_positions(settings: PretrainSettings, tmp_path: Path) -> None:
    pretrain(tmp_path / "first", with_train(settings, steps=2), GIVEN_KEYS)
    again = with_train(settings, steps=4, weight_decay=0.0)
    pretrain(tmp_path / "second", replace(again, init_from=str(tmp_path / "first")), GIVEN_KEYS)
    assert torch.equal(
        read_position_table(tmp_path / "first")[32:], read_position_table(tmp_path / "second")[32:]
    )
