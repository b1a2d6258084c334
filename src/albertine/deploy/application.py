"""What answers requests: a question as JSON, or a list of them, the page, and what is asked where.

Whatever goes wrong comes back as JSON with one line, and a status that says whose it is.
"""

import asyncio
import json
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from albertine import progress
from albertine.deploy.batcher import RequestBatcher, ServerBusy
from albertine.deploy.endpoints import Endpoint, ServedModel
from albertine.errors import InputError
from albertine.settings.schema import display_text
from albertine.version import __version__

MAX_BODY_BYTES = 1_000_000  # of a request
MAX_REQUEST_ITEMS = 1_024  # of a request
BODY_TIMEOUT_SECONDS = 30.0  # seconds in which a request must have come whole
# The page brings all that it needs, and asks nobody but this server.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'"
)
_SHUTDOWN_MESSAGE = "the server is ending; ask again later"

RequestHandler = Callable[[Request], Awaitable[Response]]


def create_app(
    model: ServedModel,
    batchers: Mapping[str, RequestBatcher],
    *,
    on_startup: Callable[[], None] = lambda: None,
    debug: bool = False,
) -> Starlette:
    """Return what answers requests about a model.

    Args:
        model: with what it can be asked.
        batchers: where that is asked, by path.
        on_startup: is called when signals are heard and callers too.
        debug: whether defects show where they are.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(desk.run()) for desk in batchers.values()]
        on_startup()
        yield
        for task in tasks:
            task.cancel()

    page = (files(__package__) / "page.html").read_text(encoding="utf-8")
    routes = [
        Route(
            "/",
            _constant_handler(
                HTMLResponse(page, headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY})
            ),
        ),
        Route("/about", _constant_handler(JSONResponse(_model_info(model)))),
        Route("/health", _constant_handler(JSONResponse({"status": "ok"}))),
    ]
    routes += [
        Route(path, _endpoint_handler(offer, batchers[path]), methods=["POST"])
        for path, offer in model.endpoints.items()
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=_exception_handlers(routes, debug))
    app.router.redirect_slashes = False  # a proxy may hold another address than ours
    return app


def _constant_handler(response: Response) -> RequestHandler:
    async def handler(_: Request) -> Response:
        return response

    return handler


def _model_info(model: ServedModel) -> dict[str, Any]:
    return {
        "model": model.name,
        "labels": model.labels,
        "asked": [
            {
                "path": one.path,
                "kind": one.type_name,
                "mask": one.mask_token,
                "fields": [asdict(field) for field in one.fields],
            }
            for one in model.endpoints.values()
        ],
        "albertine": __version__,
    }


def _endpoint_handler(endpoint: Endpoint, batcher: RequestBatcher) -> RequestHandler:
    """Return what answers questions at a path."""

    async def handler(request: Request) -> Response:
        try:
            told = _parse_json(await asyncio.wait_for(_read_body(request), BODY_TIMEOUT_SECONDS))
            found = await _unless_disconnected(request, batcher.submit(_parse_items(told, endpoint)))
        except TimeoutError:
            raise HTTPException(
                408, f"nothing whole came within {BODY_TIMEOUT_SECONDS:.0f} seconds"
            ) from None
        except asyncio.CancelledError:  # patience is at its end
            return _error_response(503, _SHUTDOWN_MESSAGE)
        return JSONResponse(found if isinstance(told, list) else found[0])

    return handler


async def _read_body(request: Request) -> bytes:
    """Read what was sent, unless it is too much."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(
                413, f"more than {progress.format_bytes(MAX_BODY_BYTES)}; send less at a time"
            )
    return bytes(body)


async def _unless_disconnected(request: Request, pending: Awaitable[list[Any]]) -> list[Any]:
    """Wait for answers as long as the caller does."""
    answers, disconnect = asyncio.ensure_future(pending), asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait((answers, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if not answers.done():
            raise ClientDisconnect
        return answers.result()
    finally:
        for one in (answers, disconnect):
            one.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON ({error})") from None


def _parse_items(payload: Any, endpoint: Endpoint) -> list[tuple[Any, int]]:
    """Read one question or a list of them; say which is wrong."""
    if not isinstance(payload, list):
        return [endpoint.parse_item(payload)]
    if len(payload) > MAX_REQUEST_ITEMS:
        raise InputError(f"{len(payload):,} questions; send {MAX_REQUEST_ITEMS:,} at a time at most")
    items = []
    for number, one in enumerate(payload, 1):
        try:
            items.append(endpoint.parse_item(one))
        except InputError as error:
            raise InputError(f"question {number}: {error}") from None
    return items


def _exception_handlers(routes: Sequence[Route], debug: bool) -> dict[Any, Any]:
    """Return what answers for what went wrong: always JSON with one line."""
    known = ", ".join(route.path for route in routes)

    async def bad_request(_: Request, error: Exception) -> Response:
        return _error_response(400, str(error))

    async def unavailable(_: Request, error: Exception) -> Response:
        return _error_response(503, str(error), {"Retry-After": "5"})

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, headers = display_text(request.scope["path"]), dict(error.headers or {})
        said = {
            404: f"{path}: no such path; known: {known}",
            405: f"{request.method} {path}: not possible; possible: {headers.get('Allow', 'nothing')}",
        }
        return _error_response(error.status_code, said.get(error.status_code, error.detail), headers)

    async def client_disconnected(_: Request, error: Exception) -> Response:  # noqa: ARG001  # nobody is there to read it
        return Response(status_code=400)

    async def out_of_memory(_: Request, error: Exception) -> Response:
        return _error_response(
            503, f"not enough memory ({' '.join(str(error).split())}); send less at a time"
        )

    async def internal_error(_: Request, error: Exception) -> Response:
        line = f"a defect in Albertine: {type(error).__name__}: {' '.join(str(error).split())}"
        progress.end_line()
        print(f"albertine: {line}{'' if debug else '; --debug shows where'}", file=sys.stderr, flush=True)
        if debug:
            traceback.print_exception(error)
        return _error_response(500, line)

    return {
        InputError: bad_request,
        ServerBusy: unavailable,
        HTTPException: http_error,
        ClientDisconnect: client_disconnected,
        MemoryError: out_of_memory,
        Exception: internal_error,
    }


def _error_response(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status, headers)
