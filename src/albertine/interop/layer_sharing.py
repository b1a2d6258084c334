"""Makes a model with shared layers of one with separate layers: shared matrices and low-rank differences.

First, heads and neurons of the layers are brought into a common order. Then each shared matrix and its
differences are fitted to the matrices of all layers by least squares, in turn: the differences are the best
of their rank for a given shared matrix, and the shared matrix is the mean of what they leave. Biases and
norms stay what they were.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from albertine import progress
from albertine.errors import InputError
from albertine.interop.layer_alignment import LayerWeights, align_layers
from albertine.model.depth_plan import depth_plan
from albertine.model.layers import Attention, FeedForward
from albertine.model.model import Model
from albertine.model.step_shapes import STEP_DIFFERENCES_PREFIX
from albertine.settings import ModelSettings

_ROUNDS = 5
_LAYERS_PREFIXES = ("encoder.attention.", "encoder.ffn.")


@dataclass(frozen=True)
class SharedModel:
    """A model whose layers share their matrices, fitted to another model.

    Attributes:
        model: the new model, in evaluation mode.
        relative_error: root of the mean squared error of the layers' matrices, relative to their own size.
        relative_error_of_mean: the same if every layer had the mean of the matrices in place of the fit.
    """

    model: Model
    relative_error: float
    relative_error_of_mean: float


@torch.no_grad()
def share_layers(model: Model, rank: int) -> SharedModel:
    """Return a model whose layers share their matrices, fitted to a model in which they do not.

    Args:
        model: the model to fit.
        rank: rank of the difference of each layer from the shared matrices; with 0, layers differ in biases
            and norms only.
    """
    _check(model)
    settings = _shared_settings(model.settings, rank)
    layers = align_layers(_layer_weights(model), settings.heads)
    values = {
        name: tensor for name, tensor in model.state_dict().items() if not name.startswith(_LAYERS_PREFIXES)
    }
    squares = torch.zeros(3, dtype=torch.float64)  # of the errors, of those of the mean, of the matrices
    for block in ("attention", "ffn"):
        stacked = _stacked([getattr(layer, block) for layer in layers])
        for field, tensors in progress.track(stacked.items(), f"Fitting {block}", unit="tensors"):
            name = f"encoder.{block}.0.{_parameter_name(field)}"
            if tensors.dim() == 2:
                values[name] = tensors.mean(0)
                vectors = f"{STEP_DIFFERENCES_PREFIX}{block}_vectors.{field}"
                values[vectors] = tensors - values[name]
                continue
            values[name], inner, outer = fit_low_rank(tensors, rank)
            if rank:
                matrix = f"{STEP_DIFFERENCES_PREFIX}matrices.{field}"
                values |= {f"{matrix}.inner": inner, f"{matrix}.outer": outer}
            errors = (tensors - values[name] - outer @ inner, tensors - tensors.mean(0), tensors)
            squares += torch.stack([error.double().square().sum() for error in errors])
    shared = Model(settings, model.head_settings, seed=None)
    shared.load_state_dict(values)
    shared.label_names = model.label_names
    error, error_of_mean = (squares[:2] / squares[2]).sqrt().tolist()
    return SharedModel(shared.eval(), error, error_of_mean)


def _check(model: Model) -> None:
    settings = model.settings
    if settings.applied_layers == 1:
        raise InputError("--share: the model has one layer, and nothing to share")
    if len(set(depth_plan(settings))) == 1:
        raise InputError("--share: the layers of this model already share their weights")
    if model.head_settings.exits != "none" and settings.inner_groups > 1:
        raise InputError("--share: a model with exits must have inner_groups = 1, so that its steps stay")


def _shared_settings(settings: ModelSettings, rank: int) -> ModelSettings:
    narrowest = min(settings.hidden_size, settings.effective_ffn_size)
    if rank > narrowest:
        raise InputError(f"--rank {rank}: must be at most the width of the model, {narrowest}")
    return replace(
        settings,
        share="all",
        groups=1,
        inner_groups=1,
        layers=settings.applied_layers,
        step_rank=rank,
        step_vectors=True,
    )


def _layer_weights(model: Model) -> list[LayerWeights]:
    """Return the weights of all layers, in the order of their application."""
    layers = []
    for blocks in depth_plan(model.settings):
        attention, ffn = model.encoder.attention[blocks.attention], model.encoder.ffn[blocks.ffn]
        assert isinstance(attention, Attention)
        assert isinstance(ffn, FeedForward)
        layers.append(LayerWeights(attention.cast_weights(torch.float32), ffn.cast_weights(torch.float32)))
    return layers


def _stacked(blocks: list[Any]) -> dict[str, Tensor]:
    """Return the tensors of the blocks of all layers by their fields, [layers, ...]."""
    fields = [field for field, value in blocks[0]._asdict().items() if isinstance(value, Tensor)]
    return {field: torch.stack([getattr(block, field) for block in blocks]) for field in fields}


def _parameter_name(field: str) -> str:
    """Return the name in a block of the parameter that a field of its weights holds."""
    module = field.removesuffix("_bias")
    return f"{module}.bias" if field.endswith("_bias") else f"{module}.weight"


def fit_low_rank(matrices: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a shared matrix and factors with shared + outer[t] @ inner[t] close to matrices[t].

    Args:
        matrices: the matrices, [layers, out, in].
        rank: rank of the products, at most the smaller dimension of a matrix.

    Returns:
        The shared matrix [out, in], inner [layers, rank, in] and outer [layers, out, rank].
    """
    shared = matrices.mean(0)
    for _ in range(_ROUNDS if rank else 0):
        inner, outer = _low_rank_factors(matrices - shared, rank)
        shared = (matrices - outer @ inner).mean(0)
    return shared, *_low_rank_factors(matrices - shared, rank)


def _low_rank_factors(matrices: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return the factors, inner and outer, of the best approximation of each matrix that has this rank."""
    is_tall = matrices.shape[1] >= matrices.shape[2]
    tall = (matrices if is_tall else matrices.transpose(1, 2)).double()
    # Eigenvectors of the smaller product are much faster than a singular value decomposition.
    squares, vectors = torch.linalg.eigh(tall.transpose(1, 2) @ tall)
    largest = vectors[:, :, vectors.shape[2] - rank :]
    # Both factors get the same size, so that an optimizer changes them at the same rate.
    scale = squares[:, None, squares.shape[1] - rank :].clamp(min=1e-30) ** 0.25
    left, right = (tall @ largest / scale).float(), (largest * scale).float()
    return (right.transpose(1, 2), left) if is_tall else (left.transpose(1, 2), right)
