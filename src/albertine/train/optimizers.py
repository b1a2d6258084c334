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
from albertine.train.settings import LoopSettings
from albertine.train.sharding import like, whole

_HIDDEN = (
    "encoder.attention.",
    "encoder.ffn.",
    "encoder.embedding.projection.",
    "head.pooler.",
    "head.masked.dense.",
)
_BETAS = (0.9, 0.999)


@dataclass(frozen=True)
class Kinds:
    """Parameters by kind; `stacked` are hidden matrices that are queries, keys and values in one."""

    stacked: list[Tensor]
    hidden: list[Tensor]
    tables: list[Tensor]
    vectors: list[Tensor]


def kinds_of(network: nn.Module) -> Kinds:
    """Sort the parameters of a network."""
    kinds = Kinds([], [], [], [])
    for name, parameter in network.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.dim() < 2:
            kinds.vectors.append(parameter)
        elif name.endswith("qkv.weight"):
            kinds.stacked.append(parameter)
        elif name.startswith(_HIDDEN):
            kinds.hidden.append(parameter)
        else:
            kinds.tables.append(parameter)
    return kinds


class Optimizers:
    """The optimizers of a network, moved as one; `scales` multiply the rate of a parameter."""

    def __init__(
        self,
        network: nn.Module,
        train: LoopSettings,
        dtype: torch.dtype,
        scales: Mapping[str, float] = MappingProxyType({}),
    ):
        self._names: dict[Tensor, str] = {parameter: name for name, parameter in network.named_parameters()}

        def groups(parameters: list[Tensor], **how: Any) -> list[dict[str, Any]]:
            """Put those of one scale into a group each."""
            by_scale: dict[float, list[Tensor]] = {}
            for one in parameters:
                by_scale.setdefault(scales.get(self._names[one], 1.0), []).append(one)
            return [{"params": each, "scale": scale, **how} for scale, each in by_scale.items()]

        self._parts = list(_made(kinds_of(network), train, dtype, groups))

    def step(self, rate: float) -> None:
        """Move all weights at a rate."""
        for part in self._parts:
            for group in part.param_groups:
                group["lr"] = rate * group["scale"]
            part.step()

    def tensors(self) -> dict[str, Tensor]:
        """Return a copy of what they remember, by parameter: "encoder.ffn.0.up.weight/exp_avg"."""
        return {
            f"{self._names[parameter]}/{key}": whole(tensor).cpu().clone()
            for part in self._parts
            for parameter, state in part.state.items()
            for key, tensor in state.items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Remember what `tensors` returned, and nothing else."""
        parameters = {name: parameter for parameter, name in self._names.items()}
        owners = {one: part for part in self._parts for group in part.param_groups for one in group["params"]}
        for part in self._parts:
            part.state.clear()
        for name, tensor in tensors.items():
            parameter, _, key = name.rpartition("/")
            weight = parameters[parameter]
            kept = tensor.to(weight.device, copy=True)
            kept = kept if tensor.dim() == 0 else like(kept, weight)  # a counter of steps is whole everywhere
            owners[weight].state[weight][key] = kept


def _made(
    kinds: Kinds, train: LoopSettings, dtype: torch.dtype, groups: Callable[..., list[dict[str, Any]]]
) -> Iterator[Optimizer]:
    decay = train.weight_decay
    hidden = groups(kinds.hidden, weight_decay=decay)
    tables = groups(kinds.tables, weight_decay=decay)
    vectors = groups(kinds.vectors, weight_decay=0.0)
    match train.optimizer:
        case "muon":
            yield Muon([*groups(kinds.stacked, weight_decay=decay, parts=3), *hidden], 0.0, dtype)
            yield AdamW([*tables, *vectors], 0.0, _BETAS, fused=True)
        case "adamw":
            stacked = groups(kinds.stacked, weight_decay=decay)
            yield AdamW([*stacked, *hidden, *tables, *vectors], 0.0, _BETAS, fused=True)
        case "lamb":
            matrices = [*groups(kinds.stacked, weight_decay=decay, parts=3), *hidden, *tables]
            yield Lamb([*matrices, *({**one, "matrix": False} for one in vectors)], 0.0)
