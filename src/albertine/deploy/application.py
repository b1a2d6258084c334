"""The web application: the endpoints of a model, a page for trying them, and routes about the server.

A request body is JSON. Every error is returned as one line in JSON; the HTTP status shows whether the
request or the server caused it. A request passes, from the outside: the recorder (id, log, metrics), the
checks of host and lengths, cross-origin access, the token, the routes.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from albertine.deploy import metrics, tei
from albertine.deploy.authorization import BearerToken, BearerTokenCheck
from albertine.deploy.batcher import RequestBatcher
from albertine.deploy.cross_origin import CrossOriginAccess
from albertine.deploy.endpoints import ServedModel
from albertine.deploy.error_handlers import exception_handlers
from albertine.deploy.handlers import (
    RequestHandler,
    embed_handler,
    endpoint_handler,
    json_handler,
    openai_handler,
    tokenize_handler,
)
from albertine.deploy.heartbeats import send_heartbeats
from albertine.deploy.metrics import LOADED, ServerMetrics
from albertine.deploy.openapi import openapi_description
from albertine.deploy.paths import DEFAULT_PATHS, EMBED_PATH, OPENAI_PATHS, PAGE_PATHS, TOKENIZE_PATH
from albertine.deploy.request_checks import AllowedHosts, RequestChecks
from albertine.deploy.request_recorder import RequestRecorder
from albertine.deploy.server_log import ServerLog
from albertine.version import __version__


@dataclass(frozen=True)
class Access:
    """Who may use the server.

    Attributes:
        hosts: the hosts that a request may name.
        origins: origins of pages of other sites that may use it.
        token: the token that a request must have; None for no token.
    """

    hosts: AllowedHosts
    origins: Sequence[str] = ()
    token: BearerToken | None = None


def server_routes(model: ServedModel) -> tuple[str, ...]:
    """Return the paths of the application of a model."""
    return tuple(dict.fromkeys((*PAGE_PATHS, *model.post_paths, *model.tei_paths)))


def create_batchers(
    model: ServedModel, executor: Executor, server_metrics: ServerMetrics
) -> dict[str, RequestBatcher]:
    """Return the batchers of a model, by name; see `ServedModel.batch_functions`.

    Args:
        model: the model.
        executor: runs one batch at a time.
        server_metrics: gets the sizes of queues and batches.
    """
    return {
        name: RequestBatcher(process_batch, executor, server_metrics.for_batcher(name))
        for name, process_batch in model.batch_functions.items()
    }


def create_app(
    model: ServedModel,
    batchers: Mapping[str, RequestBatcher],
    access: Access,
    log: ServerLog,
    server_metrics: ServerMetrics,
    *,
    max_connections: int,
    on_startup: Callable[[], None] = lambda: None,
    debug: bool = False,
) -> RequestRecorder:
    """Return the application that serves a model.

    Args:
        model: the model and its endpoints.
        batchers: its batchers, by name.
        access: who may use the server.
        log: the log of the server.
        server_metrics: the metrics of the server.
        max_connections: the limit that /info names.
        on_startup: called when the server handles requests and signals.
        debug: whether internal errors print a traceback.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        coroutines = [batcher.run() for batcher in batchers.values()]
        tasks = [asyncio.create_task(one) for one in (*coroutines, send_heartbeats(server_metrics))]
        server_metrics.set_loaded()
        on_startup()
        yield
        for task in tasks:
            task.cancel()

    routes = [*_page_routes(model, access, server_metrics, max_connections), *_model_routes(model, batchers)]
    middleware = [Middleware(RequestChecks, access.hosts)]
    if access.origins:
        middleware.append(Middleware(CrossOriginAccess, access.origins))
    if access.token is not None:
        middleware.append(Middleware(BearerTokenCheck, access.token))
    app = Starlette(
        routes=routes,
        middleware=middleware,
        lifespan=lifespan,
        exception_handlers=exception_handlers(routes, log, debug),
    )
    app.router.redirect_slashes = False  # behind a proxy, redirects would name the wrong address
    return RequestRecorder(app, log, server_metrics)


def _page_routes(
    model: ServedModel, access: Access, server_metrics: ServerMetrics, max_connections: int
) -> list[Route]:
    """Return the routes of GET requests; see `create_app`."""

    async def metrics_handler(_: Request) -> Response:
        return Response(server_metrics.text(), headers={"Content-Type": metrics.CONTENT_TYPE})

    async def health_handler(_: Request) -> Response:
        workers, loaded = server_metrics.num_workers(), server_metrics.total(LOADED)
        status = "ok" if loaded == workers else "degraded"
        return JSONResponse({"status": status, "workers": workers, "workers_loaded": loaded})

    page = (files(__package__) / "page.html").read_text(encoding="utf-8")
    html = HTMLResponse(page, headers={"Content-Security-Policy": _content_security_policy(page)})
    info = _model_info(model) | tei.model_info(model, max_connections)
    description = openapi_description(model, has_token=access.token is not None)
    return [
        Route("/", _constant_handler(html)),
        Route("/info", _constant_handler(JSONResponse(info))),
        Route("/health", health_handler),
        Route("/ping", health_handler),
        Route("/metrics", metrics_handler),
        Route("/openapi.json", _constant_handler(JSONResponse(description))),
    ]


def _model_routes(model: ServedModel, batchers: Mapping[str, RequestBatcher]) -> list[Route]:
    """Return the routes of POST requests."""
    handlers = {
        path: endpoint_handler(endpoint, model, batchers) for path, endpoint in model.endpoints.items()
    }
    if model.embedder is not None:
        handlers[EMBED_PATH] = embed_handler(model, batchers)
        handlers |= dict.fromkeys(OPENAI_PATHS, openai_handler(model, batchers))
    if model.default_path is not None:
        handlers |= dict.fromkeys(DEFAULT_PATHS, handlers[model.default_path])
    handlers[TOKENIZE_PATH] = tokenize_handler(batchers)
    return [Route(path, json_handler(handle), methods=["POST"]) for path, handle in handlers.items()]


def _constant_handler(response: Response) -> RequestHandler:
    async def handler(_: Request) -> Response:
        return response

    return handler


def _content_security_policy(page: str) -> str:
    """Return the policy that allows only the page's own script and style, and requests to this server."""

    def hash_of(tag: str) -> str:
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {hash_of('script')}; style-src {hash_of('style')}; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _model_info(model: ServedModel) -> dict[str, Any]:
    """Return Albertine's own keys of GET /info."""
    return {
        "model": model.name,
        "labels": model.labels,
        "max_length": model.max_length,
        "endpoints": [
            {
                "path": endpoint.path,
                "type": endpoint.type_name,
                "mask_token": endpoint.mask_token,
                "fields": [asdict(field) for field in endpoint.fields],
            }
            for endpoint in model.endpoints.values()
        ],
        "albertine": __version__,
    }
