"""The optimizers of a model, and which parameters each of them updates.

There are three kinds of parameters: matrices between hidden states, QKV matrices among
them; other matrices, which are embedding tables and the output layers for pairs and
tasks; and vectors (norms and biases), which have no weight decay. Muon updates the first
kind, and AdamW the others. What layers have of their own (`model/step_differences.py`) counts
as other matrices, except for biases and norms.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from albertine.display import display_text
from albertine.errors import InputError
from albertine.train.bert_adam import make_bert_adam
from albertine.train.lamb import Lamb
from albertine.train.muon import Muon
from albertine.train.settings import TrainerSettings
from albertine.train.sharding import full_tensor, shard_like

_HIDDEN_MATRIX_PREFIXES = (
    "encoder.attention.",
    "encoder.ffn.",
    "encoder.embedding.projection.",
    "head.pooler.",
    "head.masked.dense.",
    *(f"head.{name}." for name in ("attention", "first", "second", "gate")),  # of co-matching
    "head.matching.",
)
# A row for each layer; see `model/step_differences.py`.
_STACKED_VECTORS = ("encoder.step_differences.attention_vectors.", "encoder.step_differences.ffn_vectors.")
_EXIT_HEAD = re.compile(r"^exit_heads\.\d+\.")
_BETAS = (0.9, 0.999)


@dataclass(frozen=True)
class ParameterGroups:
    """Parameters by kind; a QKV matrix stacks the matrices of queries, keys and values."""

    qkv_matrices: list[Tensor]
    hidden_matrices: list[Tensor]
    other_matrices: list[Tensor]
    vectors: list[Tensor]


def parameter_groups(model: nn.Module) -> ParameterGroups:
    """Return the trainable parameters of a model by kind."""
    groups = ParameterGroups([], [], [], [])
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.dim() < 2 or name.startswith(_STACKED_VECTORS):
            groups.vectors.append(parameter)
        elif name.endswith("qkv.weight"):
            groups.qkv_matrices.append(parameter)
        elif _EXIT_HEAD.sub("head.", name).startswith(_HIDDEN_MATRIX_PREFIXES):
            groups.hidden_matrices.append(parameter)
        else:
            groups.other_matrices.append(parameter)
    return groups


class Optimizers:
    """All optimizers of a model, used as one.

    Attributes:
        dtype: precision of the matrix products.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: TrainerSettings,
        dtype: torch.dtype,
        lr_scales: Mapping[str, float] = MappingProxyType({}),
    ):
        """Make the optimizers.

        Args:
            model: the model, on its device and sharded.
            settings: optimizer and weight decay.
            dtype: precision of the matrix products.
            lr_scales: factors on the learning rate, by name of the parameter.
        """
        self.dtype = dtype
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}

        def groups(parameters: list[Tensor], **options: Any) -> list[dict[str, Any]]:
            """Return one group of parameters for each factor on the learning rate."""
            by_scale: dict[float, list[Tensor]] = {}
            for parameter in parameters:
                by_scale.setdefault(lr_scales.get(self._names[parameter], 1.0), []).append(parameter)
            return [
                {"params": scaled_alike, "lr_scale": scale, **options}
                for scale, scaled_alike in by_scale.items()
            ]

        self._optimizers = list(_make_optimizers(parameter_groups(model), settings, dtype, groups))

    def step(self, lr: float) -> None:
        """Take a step with all optimizers."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr * group["lr_scale"]
            optimizer.step()

    def state_tensors(self) -> dict[str, Tensor]:
        """Return a copy of the state on the CPU, under names like "encoder.ffn.0.up.weight/exp_avg"."""
        return {
            f"{self._names[parameter]}/{key}": full_tensor(tensor).cpu().clone()
            for optimizer in self._optimizers
            for parameter, state in optimizer.state.items()
            for key, tensor in state.items()
        }

    def load_state_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Replace the state by tensors from `state_tensors`; raise `InputError` if they do not fit."""
        parameters = {name: parameter for parameter, name in self._names.items()}
        owners = {
            parameter: optimizer
            for optimizer in self._optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        for optimizer in self._optimizers:
            optimizer.state.clear()
        for name, tensor in tensors.items():
            parameter_name, _, key = name.rpartition("/")
            weight = parameters.get(parameter_name)
            if weight is None or tensor.shape not in ((), weight.shape) or not tensor.is_floating_point():
                raise InputError(
                    f"the state of the optimizer has {display_text(name)} {list(tensor.shape)}, which does "
                    "not fit the model; remove the checkpoint to resume from an earlier one"
                )
            restored = tensor.to(weight.device, copy=True)
            # A step counter is not sharded.
            owners[weight].state[weight][key] = (
                restored if tensor.dim() == 0 else shard_like(restored, weight)
            )


def _make_optimizers(
    parameters: ParameterGroups,
    settings: TrainerSettings,
    dtype: torch.dtype,
    make_groups: Callable[..., list[dict[str, Any]]],
) -> Iterator[Optimizer]:
    decay = settings.weight_decay
    hidden = make_groups(parameters.hidden_matrices, weight_decay=decay)
    other = make_groups(parameters.other_matrices, weight_decay=decay)
    vectors = make_groups(parameters.vectors, weight_decay=0.0)
    match settings.optimizer:
        case "muon":
            yield Muon(
                [*make_groups(parameters.qkv_matrices, weight_decay=decay, matrix_count=3), *hidden],
                0.0,
                dtype,
            )
            yield AdamW([*other, *vectors], 0.0, _BETAS, fused=True)
        case "adamw":
            qkv = make_groups(parameters.qkv_matrices, weight_decay=decay)
            yield AdamW([*qkv, *hidden, *other, *vectors], 0.0, _BETAS, fused=True)
        case "bert-adam":
            qkv = make_groups(parameters.qkv_matrices, weight_decay=decay)
            yield make_bert_adam([*qkv, *hidden, *other, *vectors])
        case "lamb":
            matrices = [
                *make_groups(parameters.qkv_matrices, weight_decay=decay, matrix_count=3),
                *hidden,
                *other,
            ]
            yield Lamb([*matrices, *({**group, "is_matrix": False} for group in vectors)], 0.0)
