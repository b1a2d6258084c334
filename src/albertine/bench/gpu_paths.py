"""The code paths that only a GPU takes, or takes in another way: each is checked and timed.

A check compares a path with the plain computation of the same weights and tokens in fp32 on the CPU.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from albertine.bench.gpu_checks import (
    checked_attention,
    checked_compilation,
    gradients,
    hidden_states,
    optimizer_updates,
    random_batch,
    random_model,
    relative_error,
)
from albertine.device import peak_memory, synchronized_time
from albertine.errors import WorkError
from albertine.model.encoder import ComputeOptions
from albertine.model.kernels.flash_attention import is_supported_head_size
from albertine.model.model import Model
from albertine.settings import ModelSettings
from albertine.train.optimizers import Optimizers
from albertine.train.settings import OptimizerName, PretrainTrainSettings

# Largest relative error of hidden states, and of gradients and updates, by precision.
_TOLERANCES = {"fp32": (1e-4, 1e-3), "bf16": (5e-2, 1e-1)}
_MIN_RUNS = 3


@dataclass(frozen=True)
class GpuPath:
    """A combination of work, precision, kernels and optimizer.

    Attributes:
        name: its name in the report.
        work: a forward pass; a forward and a backward pass; or a step of an optimizer with given gradients.
        precision: precision of its matrix products.
        kernels: whether to use machine-specific kernels, such as variable-length attention.
        recompute: whether the backward pass recomputes the activations.
        compile: whether the part of each layer after its attention is compiled.
        optimizer: name of the optimizer.
    """

    name: str
    work: Literal["forward", "training", "optimizer"]
    precision: Literal["fp32", "bf16"]
    kernels: bool = False
    recompute: bool = False
    compile: bool = False
    optimizer: OptimizerName = "adamw"

    @property
    def tolerance(self) -> float:
        """Largest relative error that the check accepts."""
        return _TOLERANCES[self.precision][self.work != "forward"]

    @property
    def options(self) -> ComputeOptions:
        """How the model computes on this path."""
        dtype = torch.float32 if self.precision == "fp32" else torch.bfloat16
        return ComputeOptions(dtype, recompute=self.recompute, compile=self.compile, kernels=self.kernels)


PATHS = (
    GpuPath("forward", "forward", "fp32"),
    GpuPath("forward", "forward", "bf16"),
    GpuPath("forward, variable-length attention", "forward", "bf16", kernels=True),
    GpuPath("forward, compiled", "forward", "bf16", kernels=True, compile=True),
    GpuPath("training", "training", "fp32"),
    GpuPath("training", "training", "bf16"),
    GpuPath("training, variable-length attention", "training", "bf16", kernels=True),
    GpuPath("training, recomputed", "training", "bf16", kernels=True, recompute=True),
    GpuPath("training, compiled", "training", "bf16", kernels=True, compile=True),
    GpuPath("training, compiled, recomputed", "training", "bf16", kernels=True, recompute=True, compile=True),
    *(GpuPath(f"step of {name}", "optimizer", "fp32", optimizer=name) for name in get_args(OptimizerName)),
)  # fmt: skip


@dataclass(frozen=True)
class PathJob:
    """A path, and how large and how long its check and its measurement are; sent to another process.

    Attributes:
        path: the path.
        model: settings of the model, which gets random weights.
        device: "cuda" or "cpu".
        check_lengths: lengths of the sequences for the check.
        lengths: lengths of the sequences for the measurement.
        seconds: time for the measurement.
    """

    path: GpuPath
    model: ModelSettings
    device: str
    check_lengths: tuple[int, ...]
    lengths: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class PathResult:
    """Error, speed and memory of a path.

    Attributes:
        name: name of the path.
        precision: its precision.
        error: relative error against fp32 on the CPU; None if it failed before the comparison.
        tolerance: largest error that is accepted.
        ms: median milliseconds of a run; None for a failure.
        tokens_per_second: tokens per second; None for a failure, and where no tokens are computed.
        launch_ms: median milliseconds until Python has launched all operations of a run; if it is near
            `ms`, the GPU waits for Python. None for a failure.
        peak_bytes: peak memory of the GPU, or of the process on a CPU; None for a failure.
        failure: what failed, in one line; empty if nothing did.
    """

    name: str
    precision: str
    error: float | None
    tolerance: float
    ms: float | None = None
    tokens_per_second: float | None = None
    launch_ms: float | None = None
    peak_bytes: int | None = None
    failure: str = ""


def run_path(job: PathJob) -> PathResult:
    """Check and measure a path; an error becomes a failure of the result."""
    path, error = job.path, None
    try:
        error = _check(job)
        if not error <= path.tolerance:  # also if it is NaN
            raise WorkError(f"relative error {error:.2g} is larger than {path.tolerance:g}")
        ms, launch_ms, peak_bytes = _measure(job)
    except Exception as failure:  # whatever a driver or a compiler raises is a result
        return PathResult(path.name, path.precision, error, path.tolerance, failure=one_line(failure))
    rate = None if path.work == "optimizer" else 1000 * sum(job.lengths) / ms
    return PathResult(path.name, path.precision, error, path.tolerance, ms, rate, launch_ms, peak_bytes)


def one_line(error: Exception) -> str:
    """Return what failed, for a line of the report."""
    text = " ".join(str(error).split())[:300]
    return text if isinstance(error, WorkError) else f"{type(error).__name__}: {text}"


def _check(job: PathJob) -> float:
    """Return the relative error of a path against fp32 on the CPU.

    Raise `WorkError` if the compiler or the kernel that the path is for did not run.
    """
    path, settings = job.path, job.model
    if path.work == "optimizer":
        actual = optimizer_updates(settings, path.optimizer, job.device)
        expected = optimizer_updates(settings, path.optimizer, "cpu")
        return relative_error(actual, expected)
    model = random_model(settings)
    model.configure(ComputeOptions(kernels=False))
    expected = _outputs(job, model, "cpu")
    model.configure(path.options)
    model.to(job.device)
    needs_kernel = path.kernels and job.device == "cuda" and _has_attention_kernel(settings)
    with checked_compilation() if path.compile else checked_attention(is_required=needs_kernel):
        actual = _outputs(job, model, job.device)
    return relative_error(actual, expected)


def _outputs(job: PathJob, model: Model, device: str) -> list[Tensor]:
    """Return the hidden states or the gradients of a random batch."""
    strip, targets = random_batch(job.model, job.check_lengths, device)
    return hidden_states(model, strip) if job.path.work == "forward" else gradients(model, strip, targets)


def _has_attention_kernel(settings: ModelSettings) -> bool:
    return is_supported_head_size(settings.hidden_size // settings.heads)


def _measure(job: PathJob) -> tuple[float, float, int]:
    """Return the median milliseconds of a run, those until Python has launched it, and the peak memory."""
    device = torch.device(job.device)
    model = random_model(job.model).to(device)
    model.configure(job.path.options)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    run = _prepare_run(job, model)
    for _ in range(2):  # the first one compiles
        run()
    seconds: list[float] = []
    launch_seconds: list[float] = []
    deadline = time.monotonic() + job.seconds
    while len(seconds) < _MIN_RUNS or time.monotonic() < deadline:
        started = synchronized_time(device)
        run()
        launch_seconds.append(time.perf_counter() - started)
        seconds.append(synchronized_time(device) - started)
    return 1000 * statistics.median(seconds), 1000 * statistics.median(launch_seconds), peak_memory(device)


def _prepare_run(job: PathJob, model: Model) -> Callable[[], object]:
    """Return a function that does the work of a path once."""
    if job.path.work == "optimizer":
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizers = Optimizers(model, PretrainTrainSettings(optimizer=job.path.optimizer), torch.float32)
        return lambda: optimizers.step(1e-6)
    strip, targets = random_batch(job.model, job.lengths, job.device)
    if job.path.work == "forward":
        return lambda: hidden_states(model, strip)

    def train() -> None:
        model.zero_grad()
        model(strip, targets).loss.backward()

    return train
