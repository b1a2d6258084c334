"""One process that loads a model and serves it until a signal: the whole server, or one of its workers."""

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.deploy.application import Access, create_app, create_batchers, server_routes
from albertine.deploy.http_server import ServerJob, SignalAwareServer, connection_limit, uvicorn_config
from albertine.deploy.metrics import ServerMetrics
from albertine.deploy.model_loading import load_served_model
from albertine.deploy.request_checks import allowed_hosts
from albertine.deploy.server_log import ServerLog
from albertine.settings.engine import EngineName
from albertine.settings.exit_rule import make_exit_rule


def serve_model(
    job: ServerJob,
    listener: socket.socket,
    values: NDArray[np.float64],
    on_ready: Callable[[Sequence[str], EngineName | None], None],
    worker: int = 0,
) -> None:
    """Serve a model until a signal stops the process.

    Args:
        job: what to serve, and how.
        listener: the listening socket, which workers share.
        values: the metrics of all workers, `[workers, MAX_VALUES]`.
        on_ready: called with the paths of POST requests and the library that runs the model, when the server
            handles requests and signals.
        worker: number of this process among the workers.
    """
    startup_error: OSError | None = None
    settings, log = job.settings, ServerLog(job.settings.log_format)
    log.redirect_progress_messages()
    if settings.workers > 1:
        torch.set_num_threads(max(1, torch.get_num_threads() // settings.workers))
    rule = make_exit_rule(settings.exit, settings.depth)
    model = load_served_model(job.source, settings.engine_options, rule, task=settings.task)
    metrics = ServerMetrics(server_routes(model), list(model.batch_functions), values, worker)
    executor = ThreadPoolExecutor(1, "batcher")
    batchers = create_batchers(model, executor, metrics)

    def on_startup() -> None:
        nonlocal startup_error
        try:
            on_ready(model.post_paths, model.engine)
        except OSError as error:  # uvicorn would hide it if raised here; it is raised after the shutdown
            startup_error = error
            server.should_exit = True

    names = (settings.host, socket.gethostname(), *settings.allowed_host_names())
    hosts = allowed_hosts(listener.getsockname()[0], names)
    app = create_app(
        model,
        batchers,
        Access(hosts, settings.allowed_origins(), job.token),
        log,
        metrics,
        max_connections=connection_limit(),
        on_startup=on_startup,
        debug=job.debug,
    )
    server = SignalAwareServer(uvicorn_config(app, settings.workers))
    try:
        server.run([listener])
    except KeyboardInterrupt:  # raised again by uvicorn after its shutdown
        pass
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
    if startup_error is not None:
        raise startup_error
