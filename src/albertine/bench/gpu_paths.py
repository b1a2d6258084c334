"""The code paths that only a GPU takes, or takes in another way: each is checked and timed.

A check compares a path with the plain computation of the same weights and tokens in fp32 on the CPU.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from albertine.device import peak_memory, synchronized_time
from albertine.errors import WorkError
from albertine.model.encoder import ComputeOptions
from albertine.model.heads import MaskedLMTargets, PretrainingTargets
from albertine.model.kernels.flash_attention import is_supported_head_size
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.train.optimizers import Optimizers
from albertine.train.settings import OptimizerName, PretrainTrainSettings

# Largest relative error of hidden states, and of gradients and updates, by precision.
_TOLERANCES = {"fp32": (1e-4, 1e-3), "bf16": (5e-2, 1e-1)}
_MIN_RUNS = 3
_FIRST_TOKEN = 5  # tokens 0 to 4 are special


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
        return ComputeOptions(dtype, self.recompute, self.compile, self.kernels)


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
    """Return the relative error of a path against fp32 on the CPU."""
    if job.path.work == "optimizer":
        return relative_error(_updates(job, job.device), _updates(job, "cpu"))
    model = random_model(job.model)
    compute = _hidden_states if job.path.work == "forward" else gradients
    model.configure(ComputeOptions(kernels=False))
    expected = compute(model, *random_batch(job.model, job.check_lengths))
    model.configure(job.path.options)
    model.to(job.device)
    with _checked_compilation() if job.path.compile else _checked_attention(job):
        actual = compute(model, *random_batch(job.model, job.check_lengths, job.device))
    return relative_error(actual, expected)


@contextmanager
def _checked_compilation() -> Iterator[None]:
    """Raise `WorkError` if the body compiles nothing."""
    torch.compiler.reset()  # a graph of an earlier path would be used again
    graphs_before = _compiled_graphs()
    yield
    if _compiled_graphs() == graphs_before:
        raise WorkError("nothing was compiled")


@contextmanager
def _checked_attention(job: PathJob) -> Iterator[None]:
    """Raise `WorkError` if the body does not call variable-length attention, and the path is for it.

    Not for compiled code: a dispatch mode keeps torch from compiling, also in later calls of the same code.
    """
    with _CalledOperations() as operations:
        yield
    has_kernel = is_supported_head_size(job.model.hidden_size // job.model.heads)
    needs_kernel = job.device == "cuda" and job.path.kernels and has_kernel
    if needs_kernel and not any("varlen_attn" in name for name in operations.names):
        raise WorkError("variable-length attention was not called")


def _compiled_graphs() -> int:
    """Return how many graphs torch has compiled in this process."""
    from torch._dynamo.utils import counters  # imports much

    return int(counters["stats"]["unique_graphs"])


class _CalledOperations(TorchDispatchMode):
    """Records the names of the called operations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))


def relative_error(actual: list[Tensor], expected: list[Tensor]) -> float:
    """Return the norm of the difference of all values, divided by that of the expected ones."""
    pairs = [(a.double().cpu(), e.double().cpu()) for a, e in zip(actual, expected, strict=True)]
    difference = sum(float((a - e).square().sum()) for a, e in pairs)
    return float((difference / sum(float(e.square().sum()) for _, e in pairs)) ** 0.5)


def _hidden_states(model: Model, strip: Strip, targets: PretrainingTargets) -> list[Tensor]:  # noqa: ARG001  # like `gradients`
    """Return the hidden states."""
    with torch.inference_mode():
        return [model.encoder(strip)]


def gradients(model: Model, strip: Strip, targets: PretrainingTargets) -> list[Tensor]:
    """Return the gradient of each parameter that has one, in order."""
    model.zero_grad()
    model(strip, targets).loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def _updates(job: PathJob, device: str) -> list[Tensor]:
    """Return the change of each parameter by two steps of an optimizer, with random gradients."""
    model = random_model(job.model).to(device)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizers = Optimizers(model, PretrainTrainSettings(optimizer=job.path.optimizer), torch.float32)
    generator = torch.Generator().manual_seed(1)
    for _ in range(2):
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator).to(device)
        optimizers.step(1e-2)
    return [parameter.detach() - old for old, parameter in zip(before, model.parameters(), strict=True)]


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
    """Return a function that performs a run."""
    if job.path.work == "optimizer":
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizers = Optimizers(model, PretrainTrainSettings(optimizer=job.path.optimizer), torch.float32)
        return lambda: optimizers.step(1e-6)
    batch = random_batch(job.model, job.lengths, job.device)
    if job.path.work == "forward":
        return lambda: _hidden_states(model, *batch)
    return lambda: model(*batch).loss.backward()


def random_model(settings: ModelSettings) -> Model:
    """Return a model with the same random weights at each call."""
    torch.manual_seed(0)
    return Model(settings, HeadSettings(kind="pretrain"))


def random_batch(
    settings: ModelSettings, lengths: tuple[int, ...], device: str = "cpu"
) -> tuple[Strip, PretrainingTargets]:
    """Return a strip of random tokens, every seventh of which is to be predicted."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(_FIRST_TOKEN, settings.vocab_size, (sum(lengths),), generator=generator)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    strip = Strip(tokens, torch.zeros_like(tokens), offsets)
    indices = torch.arange(0, len(tokens), 7)
    order_labels = torch.arange(len(lengths)) % 2
    targets = MaskedLMTargets(indices.to(device), tokens[indices].to(device))
    return strip.to(device), PretrainingTargets(targets, order_labels.to(device))
