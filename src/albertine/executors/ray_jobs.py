"""The jobs of one call on a Ray cluster: submitting them, waiting, restarting those that are lost."""

import socket
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from albertine import progress
from albertine.errors import WorkError
from albertine.executors.executor import POLL_SECONDS
from albertine.executors.ray_worker import JobFailure, JobSetup, run_job

_MAX_LOSSES = 3  # of the workers of one job, after which the job itself is the likely cause
_SETTLE_SECONDS = 0.3  # until no job is being handed to a worker; see `RemoteJobs.stop`
_STOP_SECONDS = 60.0  # until a stopped job is killed; a training run writes a checkpoint in this time
_CONNECT_SECONDS = 5.0


@dataclass(eq=False)
class RemoteJob:
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


class LostNode(WorkError):  # noqa: N818  # what happened
    """The raylet of this machine has ended. Ray ends this process seconds later, without a message."""


class RemoteJobs:
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
        self._unfinished: dict[RemoteJob, None] = {}  # in the order of submission

    def submit(self, job: Any) -> RemoteJob:
        """Start a job."""
        one = RemoteJob(job, self._function.remote(*self._call, job))
        self._unfinished[one] = None
        return one

    def wait(self, waiting: Collection[RemoteJob]) -> list[RemoteJob]:
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

    def _fetch_result(self, one: RemoteJob) -> bool:
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


def _raylet_address() -> tuple[str, int]:
    """Return host and port of the raylet on this machine, through which this process uses the cluster."""
    import ray

    own_id = ray.get_runtime_context().get_node_id()
    node = next(node for node in ray.nodes() if node["NodeID"] == own_id)
    return node["NodeManagerAddress"], node["NodeManagerPort"]
