"""`albertine serve`: from binding the address to the message after a graceful shutdown.

The address is bound before the model is loaded, and printed when the server accepts requests.
After a signal, the server finishes pending requests before it stops.
"""

import socket
from collections.abc import Sequence

from albertine import progress
from albertine.deploy.authorization import read_token
from albertine.deploy.http_server import ServerJob, bind_socket
from albertine.deploy.metrics import ANSWERED, TRUNCATED, new_values
from albertine.deploy.request_checks import WILDCARD_ADDRESSES
from albertine.deploy.server_log import ServerLog
from albertine.deploy.settings import ServeSettings
from albertine.settings.engine import EngineName


def run_server(source: str, settings: ServeSettings, *, debug: bool = False) -> None:
    """Serve a model until a signal stops the process."""
    job = ServerJob(source, settings, read_token(settings.token_file), debug, progress.is_quiet())
    log = ServerLog(settings.log_format)
    with bind_socket(settings.host, settings.port) as listener:

        def on_ready(paths: Sequence[str], _engine: EngineName | None) -> None:
            _announce(job, listener, paths, log)

        # Imported here, because a process that only starts workers needs no model.
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


def _url(listener: socket.socket) -> str:
    """Return the address for a browser."""
    host, port = listener.getsockname()[:2]
    if host in WILDCARD_ADDRESSES:
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
