"""Which optimizer moves which parameter, and how.

Parameters fall into kinds by what they are: matrices between hidden states; tables
(embeddings) and the small matrices of the pair and task layers; and vectors, the norms and
biases, which no optimizer decays. Muon takes the first kind and leaves the others to AdamW.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

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
)
_BETAS = (0.9, 0.999)


@dataclass(frozen=True)
class ParameterGroups:
    """Parameters by kind; `qkv_matrices` are hidden matrices that are queries, keys and values in one."""

    qkv_matrices: list[Tensor]
    hidden_matrices: list[Tensor]
    other_matrices: list[Tensor]
    vectors: list[Tensor]


def parameter_groups(network: nn.Module) -> ParameterGroups:
    """Sort the parameters of a network."""
    groups = ParameterGroups([], [], [], [])
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.dim() < 2:
            groups.vectors.append(parameter)
        elif name.endswith("qkv.weight"):
            groups.qkv_matrices.append(parameter)
        elif name.startswith(_HIDDEN_MATRIX_PREFIXES):
            groups.hidden_matrices.append(parameter)
        else:
            groups.other_matrices.append(parameter)
    return groups


class Optimizers:
    """The optimizers of a network, moved as one; `lr_scales` multiply the rate of a parameter."""

    def __init__(
        self,
        network: nn.Module,
        settings: TrainerSettings,
        dtype: torch.dtype,
        lr_scales: Mapping[str, float] = MappingProxyType({}),
    ):
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in network.named_parameters()}

        def groups(parameters: list[Tensor], **how: Any) -> list[dict[str, Any]]:
            """Put those of one scale into a group each."""
            by_scale: dict[float, list[Tensor]] = {}
            for one in parameters:
                by_scale.setdefault(lr_scales.get(self._names[one], 1.0), []).append(one)
            return [{"params": each, "scale": scale, **how} for scale, each in by_scale.items()]

        self._optimizers = list(_make_optimizers(parameter_groups(network), settings, dtype, groups))

    def step(self, lr: float) -> None:
        """Move all weights at a rate."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr * group["scale"]
            optimizer.step()

    def state_tensors(self) -> dict[str, Tensor]:
        """Return a copy of what they remember, by parameter: "encoder.ffn.0.up.weight/exp_avg"."""
        return {
            f"{self._names[parameter]}/{key}": full_tensor(tensor).cpu().clone()
            for part in self._optimizers
            for parameter, state in part.state.items()
            for key, tensor in state.items()
        }

    def load_state_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Remember what `tensors` returned, and nothing else."""
        parameters = {name: parameter for parameter, name in self._names.items()}
        owners = {
            one: part for part in self._optimizers for group in part.param_groups for one in group["params"]
        }
        for part in self._optimizers:
            part.state.clear()
        for name, tensor in tensors.items():
            parameter, _, key = name.rpartition("/")
            weight = parameters[parameter]
            restored = tensor.to(weight.device, copy=True)
            restored = (
                restored if tensor.dim() == 0 else shard_like(restored, weight)
            )  # a counter of steps is whole everywhere
            owners[weight].state[weight][key] = restored


def _make_optimizers(
    parameters: ParameterGroups,
    settings: TrainerSettings,
    dtype: torch.dtype,
    make_groups: Callable[..., list[dict[str, Any]]],
) -> Iterator[Optimizer]:
    decay = settings.weight_decay
    hidden = make_groups(parameters.hidden_matrices, weight_decay=decay)
    tables = make_groups(parameters.other_matrices, weight_decay=decay)
    vectors = make_groups(parameters.vectors, weight_decay=0.0)
    match settings.optimizer:
        case "muon":
            yield Muon(
                [*make_groups(parameters.qkv_matrices, weight_decay=decay, parts=3), *hidden], 0.0, dtype
            )
            yield AdamW([*tables, *vectors], 0.0, _BETAS, fused=True)
        case "adamw":
            qkv = make_groups(parameters.qkv_matrices, weight_decay=decay)
            yield AdamW([*qkv, *hidden, *tables, *vectors], 0.0, _BETAS, fused=True)
        case "lamb":
            matrices = [*make_groups(parameters.qkv_matrices, weight_decay=decay, parts=3), *hidden, *tables]
            yield Lamb([*matrices, *({**one, "matrix": False} for one in vectors)], 0.0)
