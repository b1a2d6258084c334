"""`albertine bench gpu`: checks and measures every code path of a GPU, and writes one report.

A path that fails is a line of the report, and the others still run. They run in another process, which is
replaced after a failure, because an error of a GPU makes all later calls of its process fail.
"""

import platform
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from albertine import progress
from albertine.bench import gpu_communication, gpu_sharding
from albertine.bench.gpu_paths import PATHS, PathJob, PathResult, run_path
from albertine.bench.settings import GPU_ROW_TOKENS, GpuBenchSettings
from albertine.errors import InputError, WorkError
from albertine.executors.process_pool import ProcessPool
from albertine.model.cost import gradient_bytes
from albertine.settings import MODEL_PRESETS, ModelSettings
from albertine.version import __version__

_CHECK_LENGTHS = (1, 2, 17, 64, 128)
_LENGTHS = (*(GPU_ROW_TOKENS,) * 16, *(128,) * 64, *(33,) * 64)
_DRY_LENGTHS = (1, 2, 17)
_DRY_SECONDS = 0.0
_ADVICE = "its messages are above"


@dataclass(frozen=True)
class GpuReport:
    """The report.

    Attributes:
        device: name of the GPU or of the processor.
        versions: versions of Albertine, torch and CUDA.
        model: settings of the model.
        tokens: number of tokens of each measured step.
        lines: the results, in the order of the paths.
    """

    device: str
    versions: dict[str, str]
    model: ModelSettings
    tokens: int
    lines: list[PathResult]

    @property
    def failures(self) -> list[PathResult]:
        """The paths that failed."""
        return [line for line in self.lines if line.failure]

    def to_json(self) -> dict[str, Any]:
        """Return the report with stable keys."""
        return asdict(self)


def measure_gpu(settings: GpuBenchSettings) -> GpuReport:
    """Check and measure the selected paths, on the first GPU or in the dry form on the CPU."""
    if not (settings.dry or torch.cuda.is_available()):
        raise InputError("bench gpu: torch sees no GPU here; --dry runs the same code on the CPU")
    device = "cpu" if settings.dry else "cuda"
    model = settings.model
    if settings.dry and not any(key.startswith("model.") for key in settings.explicit_keys):
        model = MODEL_PRESETS["demo"]
    model = replace(model, dropout=0.0, attention_dropout=0.0)  # random numbers differ between devices
    only = settings.only or ""
    paths = [path for path in PATHS if only in path.name]
    has_communication, has_sharding = (only in check.NAME for check in (gpu_communication, gpu_sharding))
    if not (paths or has_communication or has_sharding):
        checks = (gpu_communication.NAME, gpu_sharding.NAME)
        names = "; ".join(dict.fromkeys([*(path.name for path in PATHS), *checks]))
        raise InputError(f'--only "{only}": in the name of no path; they are: {names}')
    check_lengths, lengths = (_DRY_LENGTHS,) * 2 if settings.dry else (_CHECK_LENGTHS, _LENGTHS)
    seconds = _DRY_SECONDS if settings.dry else 60 * settings.minutes / len(PATHS)
    jobs = [PathJob(path, model, device, check_lengths, lengths, seconds) for path in paths]
    lines = list(progress.track(_run_paths(jobs), "Measuring", unit="paths"))
    processes = 2 if settings.dry else torch.cuda.device_count()
    if has_communication:
        lines.append(gpu_communication.check_communication(device, gradient_bytes(model), processes))
    if has_sharding:
        lines.append(gpu_sharding.check_sharding(device, model, check_lengths, processes))
    return GpuReport(_device_name(device), _versions(), model, sum(lengths), lines)


def _run_paths(jobs: list[PathJob]) -> Iterator[PathResult]:
    """Yield the result of each job, in order; after a failure, a new process runs the others."""
    while jobs:
        try:
            # One worker takes the jobs in order.
            with closing(ProcessPool(1).run(run_path, jobs, in_order=True, advice=_ADVICE)) as results:
                for _, result in results:
                    jobs = jobs[1:]
                    yield result
                    if result.failure:
                        break
        except WorkError as error:  # the process died
            path, jobs = jobs[0].path, jobs[1:]
            yield PathResult(path.name, path.precision, None, path.tolerance, failure=str(error))


def _device_name(device: str) -> str:
    if device == "cuda":
        return f"{torch.cuda.get_device_name()} ({torch.cuda.device_count()} available)"
    return f"{platform.machine()} CPU, {torch.backends.cpu.get_cpu_capability()}"


def _versions() -> dict[str, str]:
    versions = {"albertine": __version__, "torch": torch.__version__}
    return versions | ({"cuda": torch.version.cuda} if torch.version.cuda else {})
