"""What sharing depth saves when processes train together: bytes and seconds of adding up gradients.

The model beside the BERT of its shape, in turn, by the very call that training makes,
between processes on this machine.
"""

import json
import os
import socket
import statistics
import time
from dataclasses import asdict, dataclass

import torch
from rich.table import Table

from albertine import progress
from albertine.bench.settings import GradientBenchSettings
from albertine.model.cost import all_reduce_bytes_per_step, gradient_bytes
from albertine.model.parameter_counts import bert_of_same_shape
from albertine.processes import run_in_processes
from albertine.train.distributed import init_distributed


@dataclass(frozen=True)
class GradientTraffic:
    """One model: bytes of its gradients, bytes that a process sends a step, seconds that it takes."""

    name: str
    gradient_bytes: int
    sent_bytes: int
    seconds: float


def measure_gradients(settings: GradientBenchSettings) -> list[GradientTraffic]:
    """Measure both models."""
    models = {"the model": settings.model, "BERT of its shape": bert_of_same_shape(settings.model)}
    sizes = [gradient_bytes(model) // 4 for model in models.values()]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    jobs = [_RankJob(rank, port, settings, sizes) for rank in range(settings.processes)]
    results = run_in_processes(
        _run_rank, jobs, settings.processes, advice="measure fewer at once: --processes"
    )
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
    """What one of the processes does beside the others."""

    rank: int
    port: int
    settings: GradientBenchSettings
    sizes: list[int]


def _run_rank(job: _RankJob) -> list[list[float]]:
    """Be one of the processes; return the seconds of each run, model by model."""
    world_size = str(job.settings.processes)
    os.environ |= {"RANK": str(job.rank), "LOCAL_RANK": str(job.rank), "WORLD_SIZE": world_size}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(job.port)}
    torch.set_num_threads(1)
    with init_distributed(job.settings.device) as distributed:
        buffers = [torch.ones(size, device=distributed.device) for size in job.sizes]
        seconds: list[list[float]] = [[] for _ in job.sizes]
        for turn in range(job.settings.runs + 1):
            for buffer, row in zip(buffers, seconds, strict=True):
                distributed.all_reduce_sum([0.0])  # all are here
                started = time.perf_counter()
                distributed.all_reduce(buffer)
                float(buffer[0])  # a GPU has done it when the number is there
                if turn:
                    row.append(time.perf_counter() - started)
        return seconds


def show_gradients(lines: list[GradientTraffic], *, as_json: bool) -> None:
    """Print the table."""
    if as_json:
        print(json.dumps({"lines": [asdict(line) for line in lines]}, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "gradients", "each sends", "ms a step", "of BERT"):
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
