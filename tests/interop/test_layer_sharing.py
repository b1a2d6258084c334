"""Tests of `albertine convert --share all`: layers with separate weights become layers that share them."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.model.model_fixtures import SMALL, STRIP
from tests.model.test_step_differences import random_model
from torch import Tensor

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.interop.layer_sharing import fit_low_rank, share_layers
from albertine.interop.load_checkpoint import load_folder
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings, ModelSettings

LESS_SHARED = {
    "BERT": replace(SMALL, share="none", embedding_size=24, activation="gelu"),
    "separate feed-forward": replace(SMALL, share="attention"),
    "separate attention": replace(SMALL, share="ffn"),
    "groups": replace(SMALL, layers=4, groups=2),
    "inner groups": replace(SMALL, layers=2, inner_groups=2),
}


@pytest.mark.parametrize("settings", LESS_SHARED.values(), ids=LESS_SHARED.keys())
def test_with_full_rank_nothing_is_lost(settings: ModelSettings) -> None:
    model = random_model(settings)
    result = share_layers(model, SMALL.hidden_size)
    with torch.no_grad():
        torch.testing.assert_close(result.model(STRIP).logits, model(STRIP).logits, atol=1e-4, rtol=1e-4)
    assert result.relative_error < 1e-5 < result.relative_error_of_mean
    assert result.model.settings.layers == settings.applied_layers


def test_higher_ranks_are_closer() -> None:
    model = random_model(LESS_SHARED["BERT"])
    errors = [share_layers(model, rank).relative_error for rank in (0, 1, 4, 16)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == pytest.approx(share_layers(model, 0).relative_error_of_mean)


def test_heads_and_neurons_in_another_order_are_found() -> None:
    settings = replace(SMALL, share="none", layers=3)
    model, plain = Model(settings, HeadSettings(kind="mlm")), random_model(replace(SMALL, layers=1))
    values = {}
    for name, tensor in plain.state_dict().items():
        prefix = next((p for p in ("encoder.attention.", "encoder.ffn.") if name.startswith(p)), None)
        if prefix is None:
            values[name] = tensor
            continue
        for layer in range(3):
            rest = name.removeprefix(f"{prefix}0.")
            values[f"{prefix}{layer}.{rest}"] = _reordered(rest, tensor, seed=layer)
    model.load_state_dict(values)
    result = share_layers(model.eval(), 0)
    assert result.relative_error < 1e-6
    with torch.no_grad():
        torch.testing.assert_close(result.model(STRIP).logits, model(STRIP).logits, atol=1e-5, rtol=1e-5)


def _reordered(name: str, tensor: Tensor, seed: int) -> Tensor:
    """Return a parameter of a layer with its heads and neurons in another order."""
    generator = torch.Generator().manual_seed(seed)
    heads, neurons = torch.randperm(4, generator=generator), torch.randperm(96, generator=generator)
    if name.startswith("qkv"):
        return tensor.view(3, 4, 6, *tensor.shape[1:])[:, heads].reshape(tensor.shape)
    if name == "out.weight":
        return tensor.view(24, 4, 6)[:, heads].reshape(24, 24)
    if name.startswith("up"):
        return tensor[neurons]
    return tensor[:, neurons] if name == "down.weight" else tensor


def test_fit_is_as_good_as_singular_values_allow() -> None:
    matrices = torch.randn(5, 12, 8, generator=torch.Generator().manual_seed(0))
    shared, inner, outer = fit_low_rank(matrices, 3)
    assert (inner.shape, outer.shape) == ((5, 3, 8), (5, 12, 3))
    left, sizes, right = torch.linalg.svd(matrices - shared, full_matrices=False)
    best = (left[:, :, :3] * sizes[:, None, :3]) @ right[:, :3]
    torch.testing.assert_close(outer @ inner, best, atol=1e-5, rtol=1e-4)
    error, first_error = ((matrices - common - outer @ inner).norm() for common in (shared, matrices.mean(0)))
    assert error < first_error
    wide = fit_low_rank(matrices.transpose(1, 2).contiguous(), 3)
    torch.testing.assert_close(wide[0], shared.T, atol=1e-5, rtol=1e-4)


def test_command_writes_a_model_that_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_folder(random_model(LESS_SHARED["BERT"]), tmp_path / "bert")
    arguments = ["convert", str(tmp_path / "bert"), str(tmp_path / "shared"), "--share", "all"]
    assert run_command(app, [*arguments, "--rank", "2"]) == 0
    message = capsys.readouterr().err
    assert "parameters in place of" in message
    assert "albertine pretrain --init-from" in message
    model = load_folder(tmp_path / "shared")
    assert (model.settings.share, model.settings.step_rank, model.settings.step_vectors) == ("all", 2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rank", "2"], "needs --share all"),
        (["--share", "all", "--rank", "-1"], "must be at least 0"),
        (["--share", "all", "--rank", "25"], "at most the width"),
    ],
)
def test_wrong_ranks_are_refused(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_folder(random_model(LESS_SHARED["BERT"]), tmp_path / "bert")
    assert run_command(app, ["convert", str(tmp_path / "bert"), str(tmp_path / "new"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_models_that_share_already_are_refused() -> None:
    with pytest.raises(InputError, match="already share"):
        share_layers(Model(SMALL, HeadSettings(kind="mlm")), 2)
    with pytest.raises(InputError, match="one layer"):
        share_layers(Model(replace(SMALL, share="none", layers=1), HeadSettings(kind="mlm")), 2)
    narrow = replace(SMALL, share="none", ffn_size=8)
    with pytest.raises(InputError, match="at most the width of the model, 8"):
        share_layers(Model(narrow, HeadSettings(kind="mlm")), 9)
    own_exits = HeadSettings(kind="classify", exits="shared")
    with pytest.raises(InputError, match="inner_groups = 1"):
        share_layers(Model(LESS_SHARED["inner groups"], own_exits), 2)
