"""Tests of the extrapolation of position embeddings that no sample reaches."""

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

from .conftest import MODEL, with_train

WIDE_MODEL = replace(MODEL, embedding_size=64, hidden_size=128, max_length=512)


def read_position_table(run: Path) -> Tensor:
    return load_file(run / "model.safetensors")["albert.embeddings.position_embeddings.weight"]


def test_shift_matrix_shifts_sinusoids() -> None:
    sinusoids = Sinusoids.for_model(WIDE_MODEL)
    table = sinusoids.table(100)
    for offset in (-3, 1, 7):
        shifted = table[10:20] @ sinusoids.shift_matrix(offset).T
        assert torch.allclose(shifted, table[10 + offset : 20 + offset], atol=1e-9)


@pytest.mark.parametrize("trained_rows", [64, 128, 300])
def test_extrapolation_recovers_mixed_sinusoids(trained_rows: int) -> None:
    """The table is a random mixture of sinusoids, and its trained rows have independent noise."""
    sinusoids, generator = Sinusoids.for_model(WIDE_MODEL), torch.Generator().manual_seed(trained_rows)
    mixture = torch.randn(2 * len(sinusoids), 64, generator=generator, dtype=torch.float64)
    table = sinusoids.table(512) @ mixture + torch.randn(64, generator=generator, dtype=torch.float64)
    noisy = table[:trained_rows] + torch.randn(trained_rows, 64, generator=generator, dtype=torch.float64)
    extrapolated = sinusoids.extrapolation_matrix(trained_rows, 512).double() @ noisy
    assert extrapolated.shape == (512 - trained_rows, 64)
    relative_error = (extrapolated - table[trained_rows:]).pow(2).mean() / table.pow(2).mean()
    assert relative_error < 0.05


@pytest.mark.parametrize("trained_rows", [1, 2, 8, 63])
def test_extrapolation_from_few_rows_is_bounded(trained_rows: int) -> None:
    """There are more sinusoids than rows, and the rows are noise."""
    noise = torch.randn(trained_rows, 16, generator=torch.Generator().manual_seed(0))
    extrapolated = Sinusoids.for_model(WIDE_MODEL).extrapolation_matrix(trained_rows, 512) @ noise
    assert torch.isfinite(extrapolated).all()
    assert extrapolated.abs().max() < 10 * noise.abs().max()


def test_unreached_positions_are_extrapolated(settings: PretrainSettings, tmp_path: Path) -> None:
    pretrain(tmp_path / "run", settings)
    rows = read_position_table(tmp_path / "run")
    assert torch.equal(rows[32:], Sinusoids.for_model(MODEL).extrapolation_matrix(32, 64) @ rows[:32])


def test_extrapolation_starts_at_the_longest_sample_so_far(
    settings: PretrainSettings, tmp_path: Path
) -> None:
    """Rows that only later samples reach are trained; the rows beyond follow from all trained rows."""
    growing = replace(settings, curriculum=CurriculumSettings(length="16, 32 from 0.5"))
    pretrain(tmp_path / "run", growing)
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
    """No local start; no room for a sinusoid; samples as long as the table, which train all of its rows."""
    settings = with_train(replace(settings, **change), weight_decay=0.0)  # type: ignore[arg-type]
    pretrain(tmp_path / "run", settings)
    new_model = Model(settings.model, seed=settings.train.seed)
    positions = new_model.encoder.embedding.positions
    assert positions is not None
    table: Tensor = positions.weight.detach()
    is_unchanged = torch.equal(read_position_table(tmp_path / "run")[32:], table[32:])
    assert is_unchanged is ("objective" not in change)


def test_init_checkpoint_keeps_its_positions(settings: PretrainSettings, tmp_path: Path) -> None:
    pretrain(tmp_path / "first", with_train(settings, steps=2))
    second = with_train(settings, steps=4, weight_decay=0.0)
    pretrain(tmp_path / "second", replace(second, init_from=str(tmp_path / "first")))
    assert torch.equal(
        read_position_table(tmp_path / "first")[32:], read_position_table(tmp_path / "second")[32:]
    )
