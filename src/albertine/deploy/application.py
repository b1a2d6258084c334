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
from albertine.deploy.desk import Busy, Desk
from albertine.deploy.offers import Offer, Served
from albertine.errors import InputError
from albertine.settings.schema import shortened
from albertine.version import __version__

MOST_BYTES = 1_000_000  # of a request
MOST_QUESTIONS = 1_024  # of a request
SLOWEST = 30.0  # seconds in which a request must have come whole
# The page brings all that it needs, and asks nobody but this server.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'"
)
_ENDING = "the server is ending; ask again later"

Endpoint = Callable[[Request], Awaitable[Response]]


def application(
    model: Served, desks: Mapping[str, Desk], *, begun: Callable[[], None] = lambda: None, debug: bool = False
) -> Starlette:
    """Return what answers requests about a model.

    Args:
        model: with what it can be asked.
        desks: where that is asked, by path.
        begun: is called when signals are heard and callers too.
        debug: whether defects show where they are.
    """

    @asynccontextmanager
    async def working(_: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(desk.work()) for desk in desks.values()]
        begun()
        yield
        for task in tasks:
            task.cancel()

    page = (files(__package__) / "page.html").read_text(encoding="utf-8")
    routes = [
        Route("/", _always(HTMLResponse(page, headers={"Content-Security-Policy": POLICY}))),
        Route("/about", _always(JSONResponse(_about(model)))),
        Route("/health", _always(JSONResponse({"status": "ok"}))),
    ]
    routes += [
        Route(path, _answering(offer, desks[path]), methods=["POST"]) for path, offer in model.offers.items()
    ]
    app = Starlette(routes=routes, lifespan=working, exception_handlers=_handlers(routes, debug))
    app.router.redirect_slashes = False  # a proxy may hold another address than ours
    return app


def _always(response: Response) -> Endpoint:
    async def endpoint(_: Request) -> Response:
        return response

    return endpoint


def _about(model: Served) -> dict[str, Any]:
    return {
        "model": model.name,
        "labels": model.labels,
        "asked": [
            {
                "path": one.path,
                "kind": one.kind,
                "mask": one.mask,
                "fields": [asdict(field) for field in one.fields],
            }
            for one in model.offers.values()
        ],
        "albertine": __version__,
    }


def _answering(offer: Offer, desk: Desk) -> Endpoint:
    """Return what answers questions at a path."""

    async def endpoint(request: Request) -> Response:
        try:
            told = _json(await asyncio.wait_for(_body(request), SLOWEST))
            found = await _unless_left(request, desk.ask(_questions(told, offer)))
        except TimeoutError:
            raise HTTPException(408, f"nothing whole came within {SLOWEST:.0f} seconds") from None
        except asyncio.CancelledError:  # patience is at its end
            return _said(503, _ENDING)
        return JSONResponse(found if isinstance(told, list) else found[0])

    return endpoint


async def _body(request: Request) -> bytes:
    """Read what was sent, unless it is too much."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"more than {progress.size(MOST_BYTES)}; send less at a time")
    return bytes(body)


async def _unless_left(request: Request, asking: Awaitable[list[Any]]) -> list[Any]:
    """Wait for answers as long as the caller does."""
    answers, leaving = asyncio.ensure_future(asking), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((answers, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answers.done():
            raise ClientDisconnect
        return answers.result()
    finally:
        for one in (answers, leaving):
            one.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON ({error})") from None


def _questions(told: Any, offer: Offer) -> list[tuple[Any, int]]:
    """Read one question or a list of them; say which is wrong."""
    if not isinstance(told, list):
        return [offer.question(told)]
    if len(told) > MOST_QUESTIONS:
        raise InputError(f"{len(told):,} questions; send {MOST_QUESTIONS:,} at a time at most")
    asked = []
    for number, one in enumerate(told, 1):
        try:
            asked.append(offer.question(one))
        except InputError as error:
            raise InputError(f"question {number}: {error}") from None
    return asked


def _handlers(routes: Sequence[Route], debug: bool) -> dict[Any, Any]:
    """Return what answers for what went wrong: always JSON with one line."""
    known = ", ".join(route.path for route in routes)

    async def refused(_: Request, error: Exception) -> Response:
        return _said(400, str(error))

    async def busy(_: Request, error: Exception) -> Response:
        return _said(503, str(error), {"Retry-After": "5"})

    async def elsewhere(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, headers = shortened(request.scope["path"]), dict(error.headers or {})
        said = {
            404: f"{path}: no such path; known: {known}",
            405: f"{request.method} {path}: not possible; possible: {headers.get('Allow', 'nothing')}",
        }
        return _said(error.status_code, said.get(error.status_code, error.detail), headers)

    async def left(_: Request, error: Exception) -> Response:  # noqa: ARG001  # nobody is there to read it
        return Response(status_code=400)

    async def too_much(_: Request, error: Exception) -> Response:
        return _said(503, f"not enough memory ({' '.join(str(error).split())}); send less at a time")

    async def defect(_: Request, error: Exception) -> Response:
        line = f"a defect in Albertine: {type(error).__name__}: {' '.join(str(error).split())}"
        progress.end_line()
        print(f"albertine: {line}{'' if debug else '; --debug shows where'}", file=sys.stderr, flush=True)
        if debug:
            traceback.print_exception(error)
        return _said(500, line)

    return {
        InputError: refused,
        Busy: busy,
        HTTPException: elsewhere,
        ClientDisconnect: left,
        MemoryError: too_much,
        Exception: defect,
    }


def _said(status: int, line: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": line}, status, headers)
