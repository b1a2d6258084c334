"""The time of a training step on devices that are known from their data sheets.

    matrix products       FLOPs / (peak rate x efficiency)
    activations           bytes that are read and written / bandwidth of the memory
    optimizer             the same two for its update
    all-reduce            2 (n - 1) / n of the gradients / rate of the links: a ring over n devices

These add up: training waits for the whole gradient before it sends it (`train/gradients.py`).
"""

import math
from dataclasses import dataclass

from albertine.model.cost import BYTES_PER_VALUE
from albertine.plan.hardware import Hardware
from albertine.plan.memory import MemoryModel
from albertine.plan.workload import Workload


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step.

    Attributes:
        passes: forward and backward passes of all micro-batches.
        update: clipping of the gradients and the update of the optimizer.
        communication: all-reduce of the gradients.
        drawing: drawing of the samples, where training waits for it and it was measured.
    """

    passes: float
    update: float
    communication: float
    drawing: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of the whole step."""
        return self.passes + self.update + self.communication + self.drawing

    @property
    def communication_share(self) -> float:
        """Fraction of the step that is communication."""
        return self.communication / self.total


def sent_bytes(workload: Workload, memory: MemoryModel, devices: int, micro_batches: int) -> float:
    """Return the bytes that each device sends in a step, in a ring all-reduce of the gradients in fp32.

    With sharded weights, each micro-batch gathers the weights and scatters the gradients. The blocks of a
    single layer are gathered for the forward and for the backward pass, in the precision of the products.
    """
    parameters, part = memory.parameters, (devices - 1) / devices
    if not workload.train.shard:
        return 2.0 * part * 4 * parameters.count
    once = 4.0 * (parameters.count - parameters.unshared_count)
    gathered = once + 2.0 * BYTES_PER_VALUE[memory.precision] * parameters.unshared_count
    return micro_batches * part * (gathered + 4.0 * parameters.count)


def estimate_step(
    workload: Workload, hardware: Hardware, memory: MemoryModel, micro_batches: int, efficiency: float
) -> StepTime:
    """Return the time of a step, on average over the run.

    Args:
        workload: the run.
        hardware: the devices, which have a data sheet.
        memory: the memory of a step.
        micro_batches: number of micro-batches per step of each device.
        efficiency: fraction of the peak rate that matrix products reach.
    """
    device = hardware.device
    assert device is not None
    tokens, parameters = math.ceil(workload.step_tokens / hardware.count), memory.parameters
    rate = device.flops[memory.precision] * efficiency
    products = tokens * workload.flops_per_token / rate
    activations = tokens * memory.traffic_bytes_per_token() * _mean_depth(workload) / device.bandwidth
    # With sharded weights each device updates its part; Muon orthogonalizes whole matrices on all of them.
    shards = hardware.count if workload.train.shard else 1
    update = parameters.update_bytes / shards / device.bandwidth + parameters.update_flops / rate
    sent = sent_bytes(workload, memory, hardware.count, micro_batches)
    return StepTime(products + activations, update, sent / hardware.link_rate)


def _mean_depth(workload: Workload) -> float:
    """Return the mean number of layers over the run, as a fraction of those of the model."""
    return sum(stage.share * stage.depths[-1] for stage in workload.stages) / workload.model.layers
