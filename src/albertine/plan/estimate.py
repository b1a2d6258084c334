"""The time of a training step on devices that are known from their data sheets.

    matrix products       FLOPs / (peak rate x efficiency)
    activations           bytes that are read and written / bandwidth of the memory
    optimizer             the same two for its update
    all-reduce            2 (n - 1) / n of the gradients / rate of the links: a ring over n devices
    drawing               a time per token, in which the device waits for the next batch

These add up: training waits for the whole gradient before it sends it (`train/gradients.py`). The passes take
at least as long as Python needs to start their operations.
"""

import math
from dataclasses import dataclass

from albertine.model.cost import BYTES_PER_VALUE
from albertine.plan.hardware import Hardware
from albertine.plan.memory import MemoryModel
from albertine.plan.workload import Stage, Workload

# Measured on one H100 and a core of an Intel Xeon: docs/records/first-gpu.md. Other cores differ.
_LAUNCH_SECONDS_PER_LAYER = 0.0031  # to start the operations of a layer, forward and backward
_LAUNCH_SECONDS_PER_TOKEN = 0.126e-6  # to lay out the sequences
_DRAWING_SECONDS_PER_TOKEN = 0.6e-6  # to draw a batch and to start embedding, heads and update
_RECOMPUTED = 4 / 3  # passes with recomputation, relative to those without


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step.

    Attributes:
        passes: forward and backward passes of all micro-batches.
        update: clipping of the gradients and the update of the optimizer.
        communication: all-reduce of the gradients.
        drawing: drawing of the samples, as far as training waits for it.
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
    traffic = memory.traffic_bytes_per_token() / workload.model.layers  # of a layer

    def passes(stage: Stage) -> float:
        layers = stage.depths[-1]
        computing = tokens * (stage.flops / rate + traffic * layers / device.bandwidth)
        if not device.waits_for_python:
            return computing
        factor = _RECOMPUTED if workload.train.recompute else 1
        launching = micro_batches * layers * factor * _LAUNCH_SECONDS_PER_LAYER
        return max(computing, launching + tokens * _LAUNCH_SECONDS_PER_TOKEN)

    # With sharded weights each device updates its part; Muon orthogonalizes whole matrices on all of them.
    shards = hardware.count if workload.train.shard else 1
    update = parameters.update_bytes / shards / device.bandwidth + parameters.update_flops / rate
    sent = sent_bytes(workload, memory, hardware.count, micro_batches)
    mean_passes = sum(stage.share * passes(stage) for stage in workload.stages)
    waits = device.waits_for_python and workload.is_pretraining
    drawing = tokens * _DRAWING_SECONDS_PER_TOKEN if waits else 0.0
    return StepTime(mean_passes, update, sent / hardware.link_rate, drawing)
