"""The HTTP server of one process: its listening socket, its limits, and how signals stop it."""

import errno
import math
import resource
import signal
import socket
import time
from dataclasses import dataclass
from types import FrameType

import uvicorn

from albertine.deploy.authorization import BearerToken
from albertine.deploy.connection import LimitedConnection
from albertine.deploy.request_recorder import RequestRecorder
from albertine.deploy.settings import ServeSettings
from albertine.errors import SAME_REQUEST_SECONDS, InputError

SHUTDOWN_TIMEOUT_SECONDS = 8  # Docker kills the process after 10 seconds
_LISTEN_BACKLOG = 2_048
_RESERVED_FILES = 32  # open files other than connections; an idle server has about ten


@dataclass(frozen=True)
class ServerJob:
    """What a process serves, and how.

    Attributes:
        source: the model.
        settings: the settings.
        token: the token that requests must have; None for none.
        debug: whether internal errors print a traceback.
        quiet: whether only errors are printed.
    """

    source: str
    settings: ServeSettings
    token: BearerToken | None
    debug: bool
    quiet: bool


class SignalAwareServer(uvicorn.Server):
    """A uvicorn server that counts two signals in quick succession as one, as all commands do."""

    def __init__(self, config: uvicorn.Config):
        super().__init__(config)
        self._last_signal_time = -math.inf
        # A shell starts background processes of a script with SIGINT ignored; uvicorn would handle it.
        self._ignores_sigint = signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests; let the kernel queue more connections than asyncio accepts at once."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_LISTEN_BACKLOG)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down after pending requests; stop at once if this is a second signal, sent later."""
        if (
            self._ignores_sigint and sig == signal.SIGINT
        ) or time.monotonic() - self._last_signal_time < SAME_REQUEST_SECONDS:
            return
        self._last_signal_time = time.monotonic()
        self.force_exit = self.should_exit
        super().handle_exit(sig, frame)


def max_connections(max_open_files: int) -> int:
    """Return how many connections a process accepts if it may open `max_open_files` files.

    A quarter more are open until they get status 503, and a quarter more are being accepted or closed.
    """
    return max(8, min(1_000, 2 * (max_open_files - _RESERVED_FILES) // 3))


def connection_limit() -> int:
    """Return how many connections this process accepts."""
    return max_connections(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def uvicorn_config(app: RequestRecorder, workers: int = 1) -> uvicorn.Config:
    """Return the configuration of uvicorn, with its log off because this package has its own.

    Args:
        app: the application.
        workers: number of processes that accept connections of the same socket.
    """
    limit = connection_limit()
    return uvicorn.Config(
        app,
        http=LimitedConnection,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing here depends on the address of a client
        limit_concurrency=limit,
        # How many connections asyncio accepts in one step of the event loop; one that is refused is closed
        # three steps later. Several workers accept one at a time, so that each gets some.
        backlog=max(2, limit // 16) if workers == 1 else 1,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
    )


_HOST_ADVICE = "use 127.0.0.1 for this machine alone, or 0.0.0.0 for all of its addresses"


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise `InputError` if the address or the port cannot be used."""
    try:
        family, socket_type, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise InputError(f"--host {host}: no such host name; {_HOST_ADVICE}") from None
    listener = socket.socket(family, socket_type, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(_LISTEN_BACKLOG)  # clients wait while the model is loaded
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise InputError(f"--host {host}: not an address of this machine; {_HOST_ADVICE}") from None
        raise InputError(
            f"--host {host} --port {port}: {error.strerror}; use another port, or --port 0 for a free one"
        ) from None
    return listener
