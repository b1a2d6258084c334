"""Functions in place of the work of a server's worker; the module imports little, so that they start fast."""

import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

from albertine.deploy.metrics import ANSWERED, HEARTBEATS, MAX_VALUES
from albertine.errors import InputError

ENGINES = ("auto", "openvino")


def answer_then_wait(job: Any, listener: Any, memory: Any, index: int, connection: Connection) -> None:
    connection.send((["/predict"], "torch"))
    while True:
        memory[index * MAX_VALUES + HEARTBEATS] += 1
        time.sleep(0.1)


def answer_then_hang(job: Any, listener: Any, memory: Any, index: int, connection: Connection) -> None:
    if index:
        answer_then_wait(job, listener, memory, index, connection)
    memory[index * MAX_VALUES + HEARTBEATS] += 1
    connection.send((["/predict"], "torch"))
    os.kill(os.getpid(), signal.SIGSTOP)


def fail(job: Any, listener: Any, memory: Any, index: int, connection: Connection) -> None:
    connection.send(InputError("no model"))
    sys.exit(1)


def die(job: Any, listener: Any, memory: Any, index: int, connection: Connection) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def report_several_engines(job: Any, listener: Any, memory: Any, index: int, connection: Connection) -> None:
    connection.send((["/predict"], None))


def report_engine(job: Any, listener: Any, memory: Any, index: int, connection: Connection) -> None:
    """Choose a library as a model does, and note the one of the job in the metrics."""
    memory[index * MAX_VALUES + ANSWERED] = ENGINES.index(job.settings.engine)
    connection.send((["/predict"], ENGINES[1]))
    answer_then_wait(job, listener, memory, index, connection)


FINISH_SECONDS = 2.0


def finish_slowly(job: Any, listener: Any, memory: Any, index: int, connection: Connection) -> None:
    """Close the listener at a signal, as uvicorn does, and end when the last request is answered."""

    def stop(*_: object) -> None:
        listener.close()
        time.sleep(FINISH_SECONDS)
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    answer_then_wait(job, listener, memory, index, connection)
