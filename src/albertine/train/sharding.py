"""Sharding of weights over the processes (FSDP2), for models too large for one device with their optimizer.

Each process holds some rows of every parameter, of its gradient and of its optimizer
state. torch gathers the weights for a pass and scatters the gradients after it. Code
that needs a whole matrix gathers it with `full_tensor`. Both `full_tensor` and
`shard_like` return their argument if the model is not sharded.
"""

from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from albertine.train.distributed import Distributed


def shard_model(model: nn.Module, distributed: Distributed) -> None:
    """Shard the parameters of a model over the processes."""
    fully_shard(model, mesh=init_device_mesh(distributed.device.type, (distributed.world_size,)))
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
