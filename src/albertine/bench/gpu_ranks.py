"""Checks and measures in several processes that communicate: NCCL with one per GPU, gloo on a CPU.

One GPU has one process, which still runs NCCL; the traffic between GPUs is then not measured.
"""

from collections.abc import Callable

from albertine.bench.gpu_paths import PathResult, one_line
from albertine.bench.local_ranks import run_ranks
from albertine.errors import WorkError
from albertine.train.distributed import Distributed

# Called in each process; returns a relative error and the milliseconds of a run.
RankFunction = Callable[[Distributed], tuple[float, float]]


def check_ranks(
    name: str, tolerance: float, function: RankFunction, device: str, processes: int
) -> PathResult:
    """Run a check in several processes, and return the result of rank 0.

    Args:
        name: what is checked, for the report.
        tolerance: largest relative error that is accepted.
        function: the check.
        device: "cuda" or "cpu".
        processes: number of processes.
    """
    library = "NCCL" if device == "cuda" else "gloo"
    name = f"{name}, {library}, {processes} process{'es' if processes > 1 else ''}"
    error = None
    try:
        error, ms = run_ranks(function, processes, device, advice="see its messages")
        if not error <= tolerance:  # also if it is NaN
            raise WorkError(f"relative error {error:.2g} is larger than {tolerance:g}")
    except Exception as failure:  # whatever a driver raises is a result
        return PathResult(name, "fp32", error, tolerance, failure=one_line(failure))
    return PathResult(name, "fp32", error, tolerance, ms)
