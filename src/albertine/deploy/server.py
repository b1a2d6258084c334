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
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from albertine import progress
from albertine.deploy.application import create_app
from albertine.deploy.batcher import BatchFunction, BatchInput, BatchOutput, RequestBatcher
from albertine.deploy.connection import LimitedConnection
from albertine.deploy.endpoints import load_served_model
from albertine.deploy.request_checks import WILDCARD_ADDRESSES, allowed_hosts
from albertine.deploy.settings import ServeSettings
from albertine.errors import SAME_REQUEST_SECONDS, InputError
from albertine.settings.exit_rule import make_exit_rule

SHUTDOWN_TIMEOUT_SECONDS = 8  # Docker kills the process after 10 seconds
_LISTEN_BACKLOG = 2_048
_RESERVED_FILES = 32  # for all but connections; a server without any has opened about ten


def run_server(source: str, settings: ServeSettings, *, debug: bool = False) -> None:
    """Serve a model until a signal stops the process."""
    startup_errors: list[OSError] = []
    with bind_socket(settings.host, settings.port) as listener:
        model = load_served_model(
            source, settings.engine_options, make_exit_rule(settings.exit, settings.depth)
        )
        truncations = TruncationLog()
        executor = ThreadPoolExecutor(1, "batcher")
        batchers = {
            path: RequestBatcher(truncations.watch(endpoint.process_batch), executor)
            for path, endpoint in model.endpoints.items()
        }

        def on_startup() -> None:
            try:
                print(_url(listener), flush=True)
            except OSError as error:  # uvicorn would hide it if raised here; it is raised after the shutdown
                startup_errors.append(error)
                server.should_exit = True
            progress.print_message(
                f"{source}: {', '.join(f'POST {path}' for path in model.endpoints)}; "
                "open the address above in a browser to try it; stop with Ctrl-C"
            )
            if listener.getsockname()[0] in WILDCARD_ADDRESSES:
                progress.print_message(
                    "warning: there is no password; anyone who can reach this machine can send requests"
                )

        names = (settings.host, socket.gethostname(), *settings.allowed_host_names())
        hosts = allowed_hosts(listener.getsockname()[0], names)
        server = SignalAwareServer(
            uvicorn_config(create_app(model, batchers, hosts, on_startup=on_startup, debug=debug))
        )
        try:
            server.run([listener])
        except KeyboardInterrupt:  # raised again by uvicorn after its shutdown
            num_answered = sum(batcher.num_answered for batcher in batchers.values())
            truncated = f", truncated: {truncations.count:,}" if truncations.count else ""
            progress.print_message(f"stopped; answered: {num_answered:,}{truncated}")
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
    for error in startup_errors:
        raise error


class TruncationLog:
    """Counts truncated items, and prints a message about the first one.

    Attributes:
        count: number of truncated items.
    """

    def __init__(self) -> None:
        self.count = 0

    def watch(self, process_batch: BatchFunction) -> BatchFunction:
        """Return `process_batch` with counting of truncated items."""

        def watched(items: Sequence[BatchInput]) -> Sequence[BatchOutput]:
            results = process_batch(items)
            num_truncated = sum("truncated_tokens" in result for result in results)
            if num_truncated and not self.count:
                progress.print_message(
                    "an item is too long for the model and was truncated; its response has truncated_tokens; "
                    "later truncated items are only counted"
                )
            self.count += num_truncated
            return results

        return watched


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


def uvicorn_config(app: Starlette) -> uvicorn.Config:
    """Return the configuration of uvicorn, with its log off because this package prints the errors."""
    limit = max_connections(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
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
        backlog=max(2, limit // 16),
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
