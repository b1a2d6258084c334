"""Benchmark of the gradient all-reduce of data-parallel training, with and without parameter sharing.

It alternates between the model and the BERT of the same shape, and uses the all-reduce of
training, between processes on this machine.
"""

import os
import socket
import statistics
import time
from dataclasses import asdict, dataclass

import torch
from rich.table import Table

from albertine import progress
from albertine.bench.settings import GradientBenchSettings
from albertine.executors.process_pool import ProcessPool
from albertine.model.cost import all_reduce_bytes_per_step, gradient_bytes
from albertine.model.parameter_counts import bert_of_same_shape
from albertine.train.distributed import init_distributed


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
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    jobs = [_RankJob(rank, port, settings, sizes) for rank in range(settings.processes)]
    pool = ProcessPool(settings.processes)
    results = pool.run(_run_rank, jobs, advice="use fewer processes: --processes")
    seconds = {job.rank: rows for job, rows in results}[0]
    return [
        GradientTraffic(
            name,
            gradient_bytes(model),
            all_reduce_bytes_per_step(model, settings.processes),
            statistics.median(row),
        )
        for (name, model), row in zip(models.items(), seconds, strict=True)
    ]


@dataclass(frozen=True)
class _RankJob:
    """The job of one rank; `sizes` are the numbers of gradient values of the models."""

    rank: int
    port: int
    settings: GradientBenchSettings
    sizes: list[int]


def _run_rank(job: _RankJob) -> list[list[float]]:
    """Run one rank; return the seconds of each run, by model."""
    world_size = str(job.settings.processes)
    os.environ |= {"RANK": str(job.rank), "LOCAL_RANK": str(job.rank), "WORLD_SIZE": world_size}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(job.port)}
    torch.set_num_threads(1)
    with init_distributed(job.settings.device) as distributed:
        buffers = [torch.ones(size, device=distributed.device) for size in job.sizes]
        seconds: list[list[float]] = [[] for _ in job.sizes]
        for run in range(job.settings.runs + 1):
            for buffer, row in zip(buffers, seconds, strict=True):
                distributed.all_reduce_sum([0.0])  # a barrier
                started = time.perf_counter()
                distributed.all_reduce(buffer)
                float(buffer[0])  # waits for the GPU
                if run:  # run 0 is a warm-up
                    row.append(time.perf_counter() - started)
        return seconds


def show_gradients(lines: list[GradientTraffic], *, as_json: bool) -> None:
    """Print the results as a table or JSON."""
    if as_json:
        progress.print_json({"lines": [asdict(line) for line in lines]})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "gradients", "sent per process", "ms per step", "of BERT"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for line in lines:
        table.add_row(
            line.name,
            progress.format_bytes(line.gradient_bytes),
            progress.format_bytes(line.sent_bytes),
            f"{1000 * line.seconds:,.1f}",
            f"{line.seconds / lines[-1].seconds:.2f}",
        )
    progress.result_console().print(table)
