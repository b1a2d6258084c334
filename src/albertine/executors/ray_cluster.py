"""Jobs on a Ray cluster: the running one, or else one that is started on this machine for the command.

A job whose worker or node is lost runs again on another. See docs/scale.md.
"""

import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.errors import InputError, WorkError
from albertine.executors.executor import POLL_SECONDS, JobT, ResultT, run_window
from albertine.executors.ray_worker import JobFailure, JobSetup, run_job
from albertine.interruptions import recent_interruption
from albertine.processes import block_signals

_MAX_LOSSES = 3  # of the workers of one job, after which the job itself is the likely cause
_SETTLE_SECONDS = 0.3  # until no job is being handed to a worker; see `_RemoteJobs.stop`
_STOP_SECONDS = 60.0  # until a stopped job is killed; a training run writes a checkpoint in this time
_CONNECT_SECONDS = 5.0

# Read when Ray is imported, and by the processes that it starts: send no statistics to its authors; print no
# messages of the cluster on standard output, where results are; give workers the priority of the command.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "1",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
    "RAY_worker_niceness": "0",
}


@dataclass(eq=False)
class _RemoteJob:
    """A job that Ray has, or has finished.

    Attributes:
        job: the job.
        reference: Ray's reference to its result.
        losses: number of workers that were lost while they ran it.
        result: its result, when it is finished.
    """

    job: Any
    reference: Any
    losses: int = 0
    result: Any = None


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


class LostNode(WorkError):  # noqa: N818  # what happened
    """The raylet of this machine has ended. Ray ends this process seconds later, without a message."""


class _RemoteJobs:
    """The jobs of one call of `run`."""

    def __init__(
        self, setup: JobSetup, cores: int, gpus: int, on_poll: Callable[[], None] | None, advice: str
    ):
        import ray

        self._raylet = _raylet_address()

        # In a tuple, so that Ray does not resolve the reference for each job.
        self._call = uuid.uuid4().hex, (ray.put(setup),)
        options = {"num_cpus": cores, "num_gpus": gpus, "max_retries": 0}
        self._function = ray.remote(run_job).options(**options)
        self._on_poll, self._advice = on_poll, advice
        self._unfinished: dict[_RemoteJob, None] = {}  # in the order of submission

    def submit(self, job: Any) -> _RemoteJob:
        """Start a job."""
        one = _RemoteJob(job, self._function.remote(*self._call, job))
        self._unfinished[one] = None
        return one

    def wait(self, waiting: Collection[_RemoteJob]) -> list[_RemoteJob]:
        """Return some jobs that are finished; start those again whose worker was lost."""
        import ray

        self._check_raylet()
        by_reference = {one.reference: one for one in waiting}
        done, _ = ray.wait(list(by_reference), timeout=POLL_SECONDS)
        if self._on_poll:
            self._on_poll()
        finished = []
        for one in map(by_reference.__getitem__, done):
            if self._fetch_result(one):
                del self._unfinished[one]
                finished.append(one)
            else:
                one.reference = self._function.remote(*self._call, one.job)
        return finished

    def _fetch_result(self, one: _RemoteJob) -> bool:
        """Fetch the result of a finished job, or raise its error; return False if its worker was lost."""
        import ray
        from ray import exceptions

        try:
            one.result = ray.get(one.reference)
        except (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.OutOfMemoryError,
            exceptions.ObjectLostError,
        ):
            one.losses += 1
            if one.losses > _MAX_LOSSES:
                raise WorkError(
                    f"{one.losses} workers of the Ray cluster died with the same job, probably for lack of "
                    f"memory; {self._advice}"
                ) from None
            progress.print_message("a worker of the Ray cluster was lost; its job runs again")
            return False
        except exceptions.RayError as error:
            last_line = str(error).strip().rpartition("\n")[2]
            raise WorkError(f"--cluster ray: a job could not be run: {last_line}") from None
        if isinstance(one.result, JobFailure):
            raise one.result.error
        return True

    def _check_raylet(self) -> None:
        """Raise `LostNode` if the raylet of this machine no longer answers."""
        try:
            socket.create_connection(self._raylet, _CONNECT_SECONDS).close()
        except OSError:
            raise LostNode(
                "--cluster ray: the node of this command was lost (Ray's daemon has ended, perhaps for lack "
                "of memory); run the same command again"
            ) from None

    def stop(self) -> None:
        """Interrupt the jobs as Ctrl-C does and wait for them; kill those that do not end."""
        import ray

        # The last ones first, so that no worker begins a job that is to be stopped too.
        references = [one.reference for one in reversed(self._unfinished)]
        # If a job is cancelled while Ray hands it to a worker, for example just after another job has ended,
        # Ray aborts this process. See docs/decisions/jobs-on-ray.md.
        references = _still_running(references, _SETTLE_SECONDS)
        for reference in references:
            ray.cancel(reference)
        for reference in _still_running(references, _STOP_SECONDS):
            ray.cancel(reference, force=True)


def _still_running(references: Sequence[Any], seconds: float) -> list[Any]:
    """Return those of some jobs that have not ended after some seconds."""
    import ray

    if not references:
        return []
    return ray.wait(list(references), num_returns=len(references), timeout=seconds)[1]  # type: ignore[no-any-return]


class RayCluster:
    """Runs jobs on a Ray cluster; see `Executor`. The first call of `run` joins or starts the cluster."""

    def __init__(self, max_jobs: int = 0):
        if find_spec("ray") is None:
            raise InputError("--cluster ray: needs an extra; pip install 'albertine[scale]'")
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
        remote = _RemoteJobs(
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
                options["num_cpus"] = max(cores, os.cpu_count() or 1)
            handler = signal.getsignal(signal.SIGTERM)  # which Ray replaces
            try:
                with _OwnGroups() if address is None else nullcontext():
                    ray.init(address or "local", **options)
            except (ConnectionError, OSError, RuntimeError, ValueError) as error:
                advice = "; a cluster with tokens needs RAY_AUTH_MODE=token" if address else ""
                raise WorkError(f"--cluster ray: {error}{advice}") from None
            finally:
                if threading.current_thread() is threading.main_thread():
                    signal.signal(signal.SIGTERM, handler)

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


def _raylet_address() -> tuple[str, int]:
    """Return host and port of the raylet on this machine, through which this process uses the cluster."""
    import ray

    own_id = ray.get_runtime_context().get_node_id()
    node = next(node for node in ray.nodes() if node["NodeID"] == own_id)
    return node["NodeManagerAddress"], node["NodeManagerPort"]


def running_cluster() -> str | None:
    """Return the cluster to join: HOST:PORT of the environment, "auto" for that of `ray start`, or None."""
    address = os.environ.get("RAY_ADDRESS", "")
    if address == "local":
        return None
    if address not in ("", "auto"):
        _check_answers(f"RAY_ADDRESS={address}", address)
        return address
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    file = Path(folder, "ray", "ray_current_cluster")
    if not file.exists():
        return None
    address = file.read_text(encoding="utf-8").strip()
    _check_answers(f"{file}: {address}", address)
    return "auto"


def _check_answers(place: str, address: str) -> None:
    """Raise `InputError` unless something listens at an address; Ray would try for two minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise InputError(f"{place}: expected HOST:PORT; run the command on a node of the cluster")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"{place}: no cluster answers ({error}); start it, or set RAY_ADDRESS=local to use this machine"
        ) from None
