"""Cores of this process, and signals while other processes are started."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def block_signals(*signals: signal.Signals) -> Iterator[None]:
    """Delay signals while the `with` block runs; processes that are started in it never receive them.

    In the main thread, SIGINT and SIGTERM are always delayed, because a worker whose start is interrupted
    would print a traceback. Another thread may receive them, but Python handles them in the main thread.
    """
    received: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(signal.getsignal(number)):
                handlers[number] = signal.signal(number, lambda number, _: received.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # new processes inherit the mask
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # signals that the caller blocked stay blocked
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for received_number in dict.fromkeys(received):
            signal.raise_signal(received_number)
