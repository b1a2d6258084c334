"""Sharding of weights over the processes (FSDP2), for models too large for one device with their optimizer.

Each process holds some rows of every parameter, of its gradient and of its optimizer
state. torch gathers the weights for a pass and scatters the gradients after it. Code
that needs a whole matrix gathers it with `full_tensor`. Both `full_tensor` and
`shard_like` return their argument if the model is not sharded.
"""

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from albertine.model.depth_plan import depth_plan, unshared_blocks
from albertine.model.model import Model
from albertine.train.distributed import Distributed


def shard_model(model: Model, distributed: Distributed, dtype: torch.dtype) -> None:
    """Shard the parameters of a model over the processes.

    Args:
        model: the model, on its device.
        distributed: the processes.
        dtype: precision of the matrix products, in which the blocks of a single layer are gathered.
    """
    mesh = init_device_mesh(distributed.device.type, (distributed.world_size,))
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
    unshared = unshared_blocks(model.settings)
    for layer in depth_plan(model.settings):
        blocks: list[nn.Module] = []
        if layer.attention in unshared.attention:
            blocks.append(model.encoder.attention[layer.attention])
        if layer.ffn in unshared.ffn:
            blocks.append(model.encoder.ffn[layer.ffn])
        if blocks:  # gathered together, when the layer calls the first
            fully_shard(blocks, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
            register_fsdp_forward_method(blocks[0], "hold_weights")
    fully_shard(model, mesh=mesh)
    for method in ("exit_outputs", "learned_exit_outputs"):
        if hasattr(model, method):  # gathers the weights, like a forward pass
            register_fsdp_forward_method(model, method)


def is_sharded(model: nn.Module) -> bool:
    """Return whether the parameters of a model are sharded."""
    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def full_tensor(tensor: Tensor) -> Tensor:
    """Return all rows of a tensor; every process must call this at the same time."""
    gathered: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return gathered


def shard_like(tensor: Tensor, other: Tensor) -> Tensor:
    """Return this process's shard of a tensor that every process holds whole, sharded like `other`."""
    if not isinstance(other, DTensor):
        return tensor
    return distribute_tensor(tensor, other.device_mesh, other.placements, src_data_rank=None)
