"""The parameters of a run, and what its optimizer does with them in a step."""

from dataclasses import dataclass

from torch import Tensor

from albertine.model.depth_plan import unshared_blocks
from albertine.plan.workload import Workload, untrained
from albertine.train.muon import NEWTON_SCHULZ_STEPS
from albertine.train.optimizers import parameter_groups
from albertine.train.settings import OptimizerName

# Bytes that a step reads and writes for each fp32 parameter. The AdamW of torch is one operation: it reads
# weight, gradient and two moments, and writes three of them. LAMB and Muon are several: each reads its
# operands and writes its result (`train/lamb.py`, `train/muon.py`).
_TRAFFIC: dict[OptimizerName, int] = {"adamw": 28, "bert-adam": 28, "lamb": 124, "muon": 56}
# Clearing the gradients, their norm, and clipping them.
_GRADIENT_TRAFFIC = 4 + 4 + 8
_MOMENTS: dict[OptimizerName, int] = {"adamw": 2, "bert-adam": 2, "lamb": 2, "muon": 1}


@dataclass(frozen=True)
class ParameterCosts:
    """What the parameters of a run cost besides forward and backward passes.

    Attributes:
        count: number of parameters.
        state_bytes: bytes of the state of the optimizer.
        update_bytes: bytes that a step reads and writes to clear, clip and use the gradients.
        update_flops: FLOPs of the matrix products of the optimizer in a step.
        unshared_count: number of parameters of blocks that only one layer uses.
        unshared_layer_count: those of one layer.
    """

    count: int
    state_bytes: int
    update_bytes: int
    update_flops: float
    unshared_count: int
    unshared_layer_count: int


def parameter_costs(workload: Workload) -> ParameterCosts:
    """Return the costs of the parameters of a run."""
    optimizer = workload.train.optimizer
    model = untrained(workload.model, workload.head)
    groups, unshared = parameter_groups(model), unshared_blocks(workload.model)
    attention = sum(weight.numel() for weight in model.encoder.attention[0].parameters())
    ffn = sum(weight.numel() for weight in model.encoder.ffn[0].parameters())
    hidden = [*groups.qkv_matrices, *groups.hidden_matrices]
    other = sum(weight.numel() for weight in (*groups.other_matrices, *groups.vectors))
    matrices = sum(weight.numel() for weight in hidden)
    update_flops = 0.0
    if optimizer == "muon":  # AdamW updates the other parameters
        update_flops = sum(_newton_schulz_flops(weight, 1) for weight in groups.hidden_matrices)
        update_flops += sum(_newton_schulz_flops(weight, 3) for weight in groups.qkv_matrices)
    other_optimizer: OptimizerName = "adamw" if optimizer == "muon" else optimizer
    return ParameterCosts(
        count=matrices + other,
        state_bytes=4 * (matrices * _MOMENTS[optimizer] + other * _MOMENTS[other_optimizer]),
        update_bytes=matrices * _TRAFFIC[optimizer]
        + other * _TRAFFIC[other_optimizer]
        + (matrices + other) * _GRADIENT_TRAFFIC,
        update_flops=update_flops,
        unshared_count=len(unshared.attention) * attention + len(unshared.ffn) * ffn,
        unshared_layer_count=bool(unshared.attention) * attention + bool(unshared.ffn) * ffn,
    )


def _newton_schulz_flops(weight: Tensor, matrix_count: int) -> float:
    """Return the FLOPs of `muon.orthogonalized` for stacked matrices: three products in each iteration."""
    rows, columns = weight.shape[0] // matrix_count, weight.shape[1]
    short, long = min(rows, columns), max(rows, columns)
    products = 2.0 * (2 * short * short * long + short**3)
    return matrix_count * NEWTON_SCHULZ_STEPS * products
