"""Check and measurement of sharded training (FSDP2): its gradients are those of the whole model."""

import statistics
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from albertine.bench.gpu_checks import gradients, random_batch, random_model, relative_error
from albertine.bench.gpu_paths import PathResult
from albertine.bench.gpu_ranks import check_ranks
from albertine.device import synchronized_time
from albertine.errors import WorkError
from albertine.model.encoder import ComputeOptions
from albertine.settings import ModelSettings
from albertine.train.distributed import Distributed
from albertine.train.sharding import full_tensor, is_sharded, shard_model

NAME = "sharded training"
_TOLERANCE = 1e-3
_WARM_UP_RUNS, _RUNS = 2, 5


def check_sharding(device: str, model: ModelSettings, lengths: tuple[int, ...], processes: int) -> PathResult:
    """Return the result of a forward and a backward pass with sharded weights.

    Args:
        device: "cuda" or "cpu".
        model: settings of the model; its layers get blocks of their own, which are gathered one by one.
        lengths: lengths of the sequences, the same in all processes.
        processes: number of processes.
    """
    settings = replace(model, share="none", groups=1)
    return check_ranks(NAME, _TOLERANCE, partial(_compare, settings, lengths), device, processes)


def _compare(
    settings: ModelSettings, lengths: tuple[int, ...], distributed: Distributed
) -> tuple[float, float]:
    """Return the relative error of the gradients, and the median milliseconds of both passes."""
    model = random_model(settings)
    model.configure(ComputeOptions(kernels=False))
    expected = gradients(model, *random_batch(settings, lengths))
    model = random_model(settings).to(distributed.device)
    model.configure(ComputeOptions(kernels=False))
    shard_model(model, distributed, torch.float32)
    if not is_sharded(model):
        raise WorkError("no weight is sharded")
    batch = random_batch(settings, lengths, str(distributed.device))
    # FSDP2 averages over the processes, which have the same batch.
    actual: list[Tensor] = [full_tensor(gradient) for gradient in gradients(model, *batch)]
    seconds = []
    for run in range(_WARM_UP_RUNS + _RUNS):
        started = synchronized_time(distributed.device)
        model(*batch).loss.backward()
        if run >= _WARM_UP_RUNS:
            seconds.append(synchronized_time(distributed.device) - started)
    return relative_error(actual, expected), 1000 * statistics.median(seconds)
