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
from albertine.bench.settings import GradientBench
from albertine.model.cost import gradient_bytes, traffic_per_step
from albertine.model.parameters import bert_of_same_shape
from albertine.processes import in_processes
from albertine.train.ranks import joined


@dataclass(frozen=True)
class Measured:
    """One model: bytes of its gradients, bytes that a process sends a step, seconds that it takes."""

    name: str
    gradients: int
    sent: int
    seconds: float


def measure(settings: GradientBench) -> list[Measured]:
    """Measure both models."""
    models = {"the model": settings.model, "BERT of its shape": bert_of_same_shape(settings.model)}
    sizes = [gradient_bytes(model) // 4 for model in models.values()]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    jobs = [_Job(rank, port, settings, sizes) for rank in range(settings.processes)]
    found = in_processes(_serve, jobs, settings.processes, advice="measure fewer at once: --processes")
    seconds = {job.rank: rows for job, rows in found}[0]
    return [
        Measured(
            name, gradient_bytes(model), traffic_per_step(model, settings.processes), statistics.median(row)
        )
        for (name, model), row in zip(models.items(), seconds, strict=True)
    ]


@dataclass(frozen=True)
class _Job:
    """What one of the processes does beside the others."""

    rank: int
    port: int
    settings: GradientBench
    sizes: list[int]


def _serve(job: _Job) -> list[list[float]]:
    """Be one of the processes; return the seconds of each run, model by model."""
    many = str(job.settings.processes)
    os.environ |= {"RANK": str(job.rank), "LOCAL_RANK": str(job.rank), "WORLD_SIZE": many}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(job.port)}
    torch.set_num_threads(1)
    with joined(job.settings.device) as ranks:
        buffers = [torch.ones(size, device=ranks.device) for size in job.sizes]
        seconds: list[list[float]] = [[] for _ in job.sizes]
        for turn in range(job.settings.runs + 1):
            for buffer, row in zip(buffers, seconds, strict=True):
                ranks.total([0.0])  # all are here
                started = time.perf_counter()
                ranks.add_up(buffer)
                float(buffer[0])  # a GPU has done it when the number is there
                if turn:
                    row.append(time.perf_counter() - started)
        return seconds


def show(lines: list[Measured], *, as_json: bool) -> None:
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
            progress.size(line.gradients),
            progress.size(line.sent),
            f"{1000 * line.seconds:,.1f}",
            f"{line.seconds / lines[-1].seconds:.2f}",
        )
    progress.results().print(table)
