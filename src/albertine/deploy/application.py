"""The web application: the endpoints of a model, a page for trying them, GET /info and GET /health.

A request body is one item or a list of items, as JSON. Every error is returned as one line in
JSON; the HTTP status shows whether the request or the server caused it.
"""

import asyncio
import json
import re
import sys
import traceback
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from hashlib import sha256
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from albertine import progress
from albertine.deploy.batcher import RequestBatcher, ServerBusy
from albertine.deploy.endpoints import Endpoint, ServedModel
from albertine.deploy.request_checks import AllowedHosts, RequestChecks, error_response
from albertine.errors import InputError
from albertine.settings.schema import display_text
from albertine.version import __version__

MAX_BODY_BYTES = 1_000_000
MAX_REQUEST_ITEMS = 1_024
_SHUTDOWN_MESSAGE = "the server is shutting down; retry later"

RequestHandler = Callable[[Request], Awaitable[Response]]


def create_app(
    model: ServedModel,
    batchers: Mapping[str, RequestBatcher],
    hosts: AllowedHosts,
    *,
    on_startup: Callable[[], None] = lambda: None,
    debug: bool = False,
) -> Starlette:
    """Return the application that serves a model.

    Args:
        model: the model and its endpoints.
        batchers: batcher of each endpoint, by path.
        hosts: the hosts that a request may name.
        on_startup: called when the server handles requests and signals.
        debug: whether internal errors print a traceback.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(batcher.run()) for batcher in batchers.values()]
        on_startup()
        yield
        for task in tasks:
            task.cancel()

    page = (files(__package__) / "page.html").read_text(encoding="utf-8")
    routes = [
        Route(
            "/",
            _constant_handler(
                HTMLResponse(page, headers={"Content-Security-Policy": _content_security_policy(page)})
            ),
        ),
        Route("/info", _constant_handler(JSONResponse(_model_info(model)))),
        Route("/health", _constant_handler(JSONResponse({"status": "ok"}))),
    ]
    routes += [
        Route(path, _endpoint_handler(endpoint, batchers[path]), methods=["POST"])
        for path, endpoint in model.endpoints.items()
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(RequestChecks, hosts)],
        lifespan=lifespan,
        exception_handlers=_exception_handlers(routes, debug),
    )
    app.router.redirect_slashes = False  # behind a proxy, redirects would name the wrong address
    return app


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
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


def _model_info(model: ServedModel) -> dict[str, Any]:
    """Return the response of GET /info."""
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


def _endpoint_handler(endpoint: Endpoint, batcher: RequestBatcher) -> RequestHandler:
    """Return the handler of POST requests to an endpoint."""

    async def handler(request: Request) -> Response:
        _check_content_type(request)
        try:
            payload = _parse_json(await _read_body(request))
            results = await _unless_disconnected(request, batcher.submit(_parse_items(payload, endpoint)))
        except asyncio.CancelledError:  # by uvicorn, when the timeout of a graceful shutdown has passed
            return error_response(503, _SHUTDOWN_MESSAGE)
        return JSONResponse(results if isinstance(payload, list) else results[0])

    return handler


def _check_content_type(request: Request) -> None:
    """Raise an error if the content is not JSON.

    Without asking the server, browsers let pages of other sites send only content of other types.
    """
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(
            415, f"Content-Type {display_text(content_type) or '(missing)'}: must be application/json"
        )


async def _read_body(request: Request) -> bytes:
    """Return the body of a request, up to the size limit."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(
                413, f"the request is larger than {progress.format_bytes(MAX_BODY_BYTES)}; send fewer items"
            )
    return bytes(body)


async def _unless_disconnected(request: Request, pending: Awaitable[list[Any]]) -> list[Any]:
    """Return the results, or raise `ClientDisconnect` if the client disconnects first."""
    results, disconnect = asyncio.ensure_future(pending), asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait((results, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if not results.done():
            raise ClientDisconnect
        return results.result()
    finally:
        for future in (results, disconnect):
            future.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON ({error})") from None


def _parse_items(payload: Any, endpoint: Endpoint) -> list[tuple[Any, int]]:
    """Return the batch input of each item of a request, with its size in characters; errors name the item."""
    if not isinstance(payload, list):
        return [endpoint.parse_item(payload)]
    if len(payload) > MAX_REQUEST_ITEMS:
        raise InputError(f"{len(payload):,} items; send at most {MAX_REQUEST_ITEMS:,} per request")
    items = []
    for number, item in enumerate(payload, 1):
        try:
            items.append(endpoint.parse_item(item))
        except InputError as error:
            raise InputError(f"item {number}: {error}") from None
    return items


def _exception_handlers(routes: Sequence[Route], debug: bool) -> dict[Any, Any]:
    """Return the handlers that turn errors into JSON responses of one line, by exception class."""
    known = ", ".join(route.path for route in routes)

    async def bad_request(_: Request, error: Exception) -> Response:
        return error_response(400, str(error))

    async def unavailable(_: Request, error: Exception) -> Response:
        return error_response(503, str(error), {"Retry-After": "5"})

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, headers = display_text(request.scope["path"]), dict(error.headers or {})
        messages = {
            404: f"{path}: unknown path; known: {known}",
            405: f"{request.method} {path}: method not allowed; use {headers.get('Allow', 'another path')}",
        }
        return error_response(error.status_code, messages.get(error.status_code, error.detail), headers)

    async def client_disconnected(_: Request, error: Exception) -> Response:  # noqa: ARG001  # no client is left to read it
        return Response(status_code=400)

    async def out_of_memory(_: Request, error: Exception) -> Response:
        return error_response(
            503, f"out of memory ({' '.join(str(error).split())}); send fewer items per request"
        )

    async def internal_error(_: Request, error: Exception) -> Response:
        line = f"internal error: {type(error).__name__}: {' '.join(str(error).split())}"
        progress.end_line()
        print(
            f"albertine: {line}{'' if debug else '; start with --debug for the traceback'}",
            file=sys.stderr,
            flush=True,
        )
        if debug:
            traceback.print_exception(error)
        return error_response(500, line)

    return {
        InputError: bad_request,
        ServerBusy: unavailable,
        HTTPException: http_error,
        ClientDisconnect: client_disconnected,
        MemoryError: out_of_memory,
        Exception: internal_error,
    }
