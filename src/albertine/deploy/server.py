"""`albertine serve`: a model behind HTTP, from the first signal to the last.

Its address is taken before the model is loaded, and told when it can be asked; a signal
lets what is under way be answered first.
"""

import math
import resource
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from albertine import progress
from albertine.deploy.application import create_app
from albertine.deploy.batcher import RequestBatcher
from albertine.deploy.endpoints import load_served_model
from albertine.deploy.settings import ServeSettings
from albertine.errors import SAME_REQUEST_SECONDS, InputError

SHUTDOWN_TIMEOUT_SECONDS = (
    8  # seconds that what is under way may take once a signal asks for the end: Docker gives ten
)


def run_server(source: str, settings: ServeSettings, *, debug: bool = False) -> None:
    """Serve a model until a signal asks for the end."""
    startup_errors: list[OSError] = []
    with bind_socket(settings.host, settings.port) as listener:
        model = load_served_model(source, settings.device, settings.precision)
        executor = ThreadPoolExecutor(1, "desk")
        batchers = {
            path: RequestBatcher(offer.process_batch, executor) for path, offer in model.endpoints.items()
        }

        def on_startup() -> None:
            try:
                print(_url(listener), flush=True)
            except OSError as error:  # nobody can read it; the server would keep the reason to itself
                startup_errors.append(error)
                server.should_exit = True
            progress.print_message(
                f"{source}: {', '.join(f'POST {path}' for path in model.endpoints)}; "
                "a page for trying it at the address above; Ctrl-C ends it"
            )
            if settings.host in ("0.0.0.0", "::"):
                progress.print_message("whoever reaches this machine may ask: there is no password")

        server = SignalAwareServer(
            uvicorn_config(create_app(model, batchers, on_startup=on_startup, debug=debug))
        )
        try:
            server.run([listener])
        except KeyboardInterrupt:  # it has put all away, and hands the signal on
            progress.print_message(
                f"ended; answered: {sum(desk.num_answered for desk in batchers.values()):,}"
            )
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
    for failure in startup_errors:
        raise failure


class SignalAwareServer(uvicorn.Server):
    """A server to which a signal that comes twice at once is one request, as to every other command."""

    def __init__(self, config: uvicorn.Config):
        super().__init__(config)
        self._last_signal_time = -math.inf
        # Who is started in the background of a script is not to hear the Ctrl-C of those before it.
        self._ignores_sigint = signal.getsignal(signal.SIGINT) is signal.SIG_IGN

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Let what is under way be answered, and end; asked again later, do not wait for it."""
        if (
            self._ignores_sigint and sig == signal.SIGINT
        ) or time.monotonic() - self._last_signal_time < SAME_REQUEST_SECONDS:
            return
        self._last_signal_time = time.monotonic()
        self.force_exit = self.should_exit
        super().handle_exit(sig, frame)


def uvicorn_config(app: Starlette) -> uvicorn.Config:
    """Return how the server runs: what goes wrong is told by us, in one line."""
    max_open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return uvicorn.Config(
        app,
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        limit_concurrency=max(8, min(1_000, max_open_files // 2)),  # connections; more are told to come again
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_SECONDS,
    )


def bind_socket(host: str, port: int) -> socket.socket:
    """Take the address before anything is loaded, so that one that is taken is told at once."""
    try:
        family, socket_type, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise InputError(f"--host {host}: no address of this machine") from None
    listener = socket.socket(family, socket_type, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(2_048)  # who asks while the model is loaded waits
    except OSError as error:
        listener.close()
        raise InputError(
            f"--host {host} --port {port}: {error.strerror}; name another, or --port 0 for a free one"
        ) from None
    return listener


def _url(listener: socket.socket) -> str:
    """Return what a person types into a browser."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
