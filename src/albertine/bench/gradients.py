"""Benchmark of the gradient all-reduce of data-parallel training, with and without parameter sharing.

Each run alternates between the model and the BERT of the same shape, and uses the all-reduce
of training, between processes on this machine.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial

import torch

from albertine import progress
from albertine.bench.local_ranks import run_ranks
from albertine.bench.settings import GradientBenchSettings
from albertine.model.cost import all_reduce_bytes_per_step, gradient_bytes
from albertine.model.parameter_counts import bert_of_same_shape
from albertine.train.distributed import Distributed


@dataclass(frozen=True)
class GradientTraffic:
    """The all-reduce of one model.

    Attributes:
        name: name of the model.
        gradient_bytes: size of all gradients.
        sent_bytes: bytes that each process sends per step.
        seconds: median seconds per step.
    """

    name: str
    gradient_bytes: int
    sent_bytes: int
    seconds: float


def measure_gradients(settings: GradientBenchSettings) -> list[GradientTraffic]:
    """Return the traffic of the model and of the BERT of its shape."""
    models = {"this model": settings.model, "same-shape BERT": bert_of_same_shape(settings.model)}
    sizes = [gradient_bytes(model) // 4 for model in models.values()]
    measure = partial(_model_seconds, sizes=sizes, runs=settings.runs)
    seconds = run_ranks(
        measure, settings.processes, settings.device, advice="use fewer processes: --processes"
    )
    return [
        GradientTraffic(
            name,
            gradient_bytes(model),
            all_reduce_bytes_per_step(model, settings.processes),
            statistics.median(model_seconds),
        )
        for (name, model), model_seconds in zip(models.items(), seconds, strict=True)
    ]


def _model_seconds(distributed: Distributed, sizes: Sequence[int], runs: int) -> list[list[float]]:
    """Return the seconds of each run, by model.

    Args:
        distributed: the processes.
        sizes: number of gradient values of each model.
        runs: number of runs to measure.
    """
    buffers = [torch.ones(size, device=distributed.device) for size in sizes]
    seconds: list[list[float]] = [[] for _ in sizes]
    for run in range(runs + 1):
        for buffer, model_seconds in zip(buffers, seconds, strict=True):
            distributed.all_reduce_sum([0.0])  # a barrier
            started = time.perf_counter()
            distributed.all_reduce(buffer)
            float(buffer[0])  # waits for the GPU
            if run:  # run 0 is a warm-up
                model_seconds.append(time.perf_counter() - started)
    return seconds


def show_gradients(lines: list[GradientTraffic], *, as_json: bool) -> None:
    """Print the results as a table or JSON."""
    if as_json:
        progress.print_json({"lines": [asdict(line) for line in lines]})
        return
    table = progress.result_table("", "gradients", "sent per process", "ms per step", "of BERT")
    for line in lines:
        table.add_row(
            line.name,
            progress.format_bytes(line.gradient_bytes),
            progress.format_bytes(line.sent_bytes),
            f"{1000 * line.seconds:,.1f}",
            f"{line.seconds / lines[-1].seconds:.2f}",
        )
    progress.result_console().print(table)
