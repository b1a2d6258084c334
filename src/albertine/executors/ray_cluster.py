"""Jobs on a Ray cluster: the running one, or else one that is started on this machine for the command.

A job whose worker or node is lost runs again on another. See docs/scale.md.
"""

import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.display import counted
from albertine.errors import InputError, WorkError
from albertine.executors.executor import JobT, ResultT, run_window
from albertine.executors.ray_address import running_cluster
from albertine.executors.ray_jobs import LostNode, RemoteJobs
from albertine.executors.ray_worker import JobSetup
from albertine.extras import install_command
from albertine.interruptions import recent_interruption
from albertine.processes import block_signals, num_cores

# Variables of Ray, in this process and in those that it starts: send no usage statistics; keep the cluster's
# messages off standard output, which is for results; give workers the priority of the command.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_worker_niceness": "0",
}


class _OwnGroups:
    """While it is entered, processes that this thread starts get process groups of their own.

    A signal to the group of the command must not reach those of its cluster: if it ends the raylet, Ray ends
    the command before that can clean up. Ray has no option for it. A hook at fork works, because Ray starts
    its processes with a `preexec_fn`. Elsewhere than on Linux Ray itself needs the group, to end them.
    """

    _thread: int | None = None  # the one that starts a cluster
    _is_registered = False

    def __enter__(self) -> None:
        if sys.platform == "linux":
            if not _OwnGroups._is_registered:
                os.register_at_fork(after_in_child=self._leave_group)
                _OwnGroups._is_registered = True
            _OwnGroups._thread = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        _OwnGroups._thread = None

    @staticmethod
    def _leave_group() -> None:
        if _OwnGroups._thread == threading.get_ident():
            os.setpgid(0, 0)


def _start_advice(address: str | None) -> str:
    """Return what to do if a cluster cannot be joined, or one for this machine cannot be started."""
    if address is None:
        return "if this machine is busy, run the same command again later"
    advice = "a cluster with tokens needs RAY_AUTH_MODE=token"
    return f"{advice}; if the cluster has ended, run ray stop" if address == "auto" else advice


class RayCluster:
    """Runs jobs on a Ray cluster; see `Executor`. The first call of `run` joins or starts the cluster."""

    def __init__(self, max_jobs: int = 0):
        if find_spec("ray") is None:
            raise InputError(f"--cluster ray: needs an extra; {install_command('scale')}")
        self._max_jobs = max_jobs
        self._is_open = False
        self._folder: Path | None = None  # of the cluster that this object has started

    def run(
        self,
        function: Callable[[JobT], ResultT],
        jobs: Iterable[JobT],
        *,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
        on_poll: Callable[[], None] | None = None,
        in_order: bool = False,
        cores: int = 1,
        gpus: int = 0,
        advice: str,
    ) -> Iterator[tuple[JobT, ResultT]]:
        """Yield each job with its result; see `Executor.run`."""
        self._open(cores)
        remote = RemoteJobs(
            JobSetup(function, initializer, initargs, Path.cwd()), cores, gpus, on_poll, advice
        )
        try:
            max_pending = partial(self._max_pending, cores, gpus)
            for job, one in run_window(jobs, remote.submit, remote.wait, max_pending, in_order=in_order):
                yield job, one.result
        except BaseException as error:
            # Ray replaces what the handler of a signal raises by a plain KeyboardInterrupt.
            interruption = recent_interruption() if isinstance(error, KeyboardInterrupt) else None
            if not isinstance(error, LostNode):  # with it, all jobs of this machine have ended
                remote.stop()
            raise interruption or error from None

    def close(self) -> None:
        """Leave the cluster; end it if this object has started it."""
        if self._is_open:
            import ray

            with block_signals():
                ray.shutdown()
                self._is_open = False
                if self._folder is not None:
                    shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self, cores: int) -> None:
        """Join the running cluster or start one, unless it is open; a new one has at least some cores."""
        if self._is_open:
            return
        os.environ.update(_ENVIRONMENT)
        import ray

        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        address = running_cluster()
        # A signal during the start would leave processes.
        with block_signals():
            self._is_open = True
            if address is None:
                # Short, because the path of a socket is limited to about 100 characters.
                self._folder = Path(tempfile.mkdtemp(prefix="albertine-ray-", dir="/tmp"))
                options |= {"include_dashboard": False, "_temp_dir": str(self._folder)}
                options["num_cpus"] = max(cores, num_cores())
            handler = signal.getsignal(signal.SIGTERM)  # which Ray replaces
            try:
                with _OwnGroups() if address is None else nullcontext():
                    ray.init(address or "local", **options)
            except Exception as error:  # of many types; plain ones if a process of Ray starts too slowly
                problem = str(error).rstrip(". ") or type(error).__name__
                raise WorkError(f"--cluster ray: {problem}; {_start_advice(address)}") from None
            finally:
                if threading.current_thread() is threading.main_thread():
                    signal.signal(signal.SIGTERM, handler)
        nodes = [node for node in ray.nodes() if node["Alive"]]
        total_cores = int(sum(node["Resources"].get("CPU", 0) for node in nodes))
        place = "a cluster of this machine alone"
        if address is not None:
            place = f"the cluster at {ray.get_runtime_context().gcs_address}"
        progress.print_message(
            f"Ray: {place}, {counted(len(nodes), 'node')} with {counted(total_cores, 'core')}"
        )

    def _max_pending(self, cores: int, gpus: int) -> int:
        """Return how many jobs to submit before the first has finished; nodes may come and go."""
        import ray

        slots = sum(
            min(
                int(node["Resources"].get("CPU", 0)) // cores,
                int(node["Resources"].get("GPU", 0)) // gpus if gpus else 1 << 30,
            )
            for node in ray.nodes()
            if node["Alive"]
        )
        if not slots:
            needs = f"{cores} cores" + (f" and {gpus} GPUs" if gpus else "")
            raise WorkError(
                f"--cluster ray: no node of the cluster has {needs} for a job; add one and run the same "
                "command again"
            )
        # Twice as many, so that a worker need not wait for its next job.
        return min(2 * slots, self._max_jobs or 2 * slots)
