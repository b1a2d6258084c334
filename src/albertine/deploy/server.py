"""`albertine serve`: the server process, from binding its address to a graceful shutdown.

The address is bound before the model is loaded, and printed when the server accepts requests.
After a signal, the server finishes pending requests before it stops.
"""

import math
import resource
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

import uvicorn

from albertine import progress
from albertine.deploy.authorization import BearerToken, read_token
from albertine.deploy.connection import LimitedConnection
from albertine.deploy.metrics import ANSWERED, TRUNCATED, new_values
from albertine.deploy.request_checks import WILDCARD_ADDRESSES
from albertine.deploy.request_recorder import RequestRecorder
from albertine.deploy.server_log import ServerLog
from albertine.deploy.settings import ServeSettings
from albertine.errors import SAME_REQUEST_SECONDS, InputError

SHUTDOWN_TIMEOUT_SECONDS = 8  # Docker kills the process after 10 seconds
_LISTEN_BACKLOG = 2_048
_RESERVED_FILES = 32  # for all but connections; a server without any has opened about ten


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


def run_server(source: str, settings: ServeSettings, *, debug: bool = False) -> None:
    """Serve a model until a signal stops the process."""
    job = ServerJob(source, settings, read_token(settings.token_file), debug, progress.is_quiet())
    log = ServerLog(settings.log_format)
    with bind_socket(settings.host, settings.port) as listener:

        def on_ready(paths: Sequence[str]) -> None:
            _announce(job, listener, paths, log)

        # The process that only starts workers does not import torch.
        if settings.workers == 1:
            from albertine.deploy.model_server import serve_model

            values = new_values(1)
            serve_model(job, listener, values, on_ready)
        else:
            from albertine.deploy.supervisor import Supervisor

            supervisor = Supervisor(job, listener, log)
            values = supervisor.values
            supervisor.run(on_ready)
    answered, truncated = int(values[:, ANSWERED].sum()), int(values[:, TRUNCATED].sum())
    log.message(f"stopped; answered: {answered:,}{f', truncated: {truncated:,}' if truncated else ''}")


def _announce(job: ServerJob, listener: socket.socket, paths: Sequence[str], log: ServerLog) -> None:
    """Print the address of a server that accepts requests, and what one should know about it."""
    print(_url(listener), flush=True)
    workers = job.settings.workers
    log.message(
        f"{job.source}: {', '.join(f'POST {path}' for path in paths)}; "
        f"{f'{workers} workers; ' if workers > 1 else ''}"
        "open the address above in a browser to try it; stop with Ctrl-C"
    )
    if job.token is None and listener.getsockname()[0] in WILDCARD_ADDRESSES:
        log.message(
            "warning: there is no token; anyone who can reach this machine can send requests; "
            "--token-file sets one"
        )


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
    """Return how many connections a process accepts that may open a number of files.

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
        # asyncio accepts so many at once; three more steps of the event loop pass until one is closed.
        # A worker leaves some for the others.
        backlog=max(2, limit // 16) if workers == 1 else 1,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
    )


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise `InputError` if the address or the port cannot be used."""
    try:
        family, socket_type, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise InputError(f"--host {host}: not an address of this machine") from None
    listener = socket.socket(family, socket_type, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(_LISTEN_BACKLOG)  # clients wait while the model is loaded
    except OSError as error:
        listener.close()
        raise InputError(
            f"--host {host} --port {port}: {error.strerror}; use another port, or --port 0 for a free one"
        ) from None
    return listener


def _url(listener: socket.socket) -> str:
    """Return the address for a browser."""
    host, port = listener.getsockname()[:2]
    if host in WILDCARD_ADDRESSES:
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
