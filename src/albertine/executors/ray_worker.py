"""What a worker of a Ray cluster does: it prepares itself for a call of `run`, and runs its jobs."""

import os
import platform
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.errors import AlbertineError, InputError
from albertine.version import __version__


@dataclass(frozen=True)
class JobSetup:
    """What the jobs of one call of `run` have in common.

    Attributes:
        function: called with each job.
        initializer: called once in each worker before its first job.
        initargs: arguments of `initializer`.
        folder: working folder of the command; paths are relative to it.
        version: Albertine's version in the command.
    """

    function: Callable[[Any], Any]
    initializer: Callable[..., None] | None
    initargs: tuple[Any, ...]
    folder: Path
    version: str = __version__

    def prepare_worker(self) -> None:
        """Make this process ready for the jobs."""
        if self.version != __version__:
            raise InputError(
                f"{platform.node()}: has Albertine {__version__}, the command {self.version}; install the "
                "same version on all nodes of the cluster"
            )
        try:
            os.chdir(self.folder)
        except OSError as error:
            raise InputError(
                f"{platform.node()}: {self.folder}: {error.strerror}; all nodes of the cluster need the "
                "folder of the command at the same path"
            ) from None
        progress.set_quiet(True)
        if self.initializer is not None:
            self.initializer(*self.initargs)


@dataclass(frozen=True)
class JobFailure:
    """The exception that a job raised."""

    error: Exception


_prepared: tuple[str, JobSetup] | None = None  # the call of `run` that this worker is prepared for


def run_job(call_id: str, setup_reference: tuple[Any], job: Any) -> Any:
    """Run a job in a worker of Ray; return its result or `JobFailure`.

    Args:
        call_id: id of the call of `run`.
        setup_reference: Ray's reference to the `JobSetup`, in a tuple.
        job: the job.
    """
    global _prepared
    try:
        if _prepared is None or _prepared[0] != call_id:
            import ray

            setup: JobSetup = ray.get(setup_reference[0])
            setup.prepare_worker()
            _prepared = call_id, setup
        return _prepared[1].function(job)
    except Exception as error:
        if not isinstance(error, AlbertineError):
            error.add_note(traceback.format_exc())  # the traceback itself cannot be pickled
        return JobFailure(error)
