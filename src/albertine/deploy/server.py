"""`albertine serve`: a model behind HTTP, with a page for trying it.

`POST` a question as JSON, or a list of them, to a path that `GET /about` names; what is
wrong with a question comes back as one line. The port is open before it is told, and a
signal lets what is under way be answered first.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from albertine import progress
from albertine.deploy.desk import Busy, Desk
from albertine.deploy.offers import Offer, Served, served
from albertine.deploy.settings import ServeSettings
from albertine.errors import InputError
from albertine.version import __version__

MOST_BYTES = 4 << 20  # of a request
MOST_QUESTIONS = 1_024  # of a request
# The page brings all that it needs, and asks nobody but this server.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; connect-src 'self'"
)
_PATIENCE = 30  # seconds that what is under way may take once a signal asks for the end


def serve(source: str, settings: ServeSettings) -> None:
    """Serve a model until a signal asks for the end."""
    with listening(settings.host, settings.port) as listener:
        model = served(source, settings.device, settings.precision)
        counter = Counter()
        config = configuration(application(model, counter))
        listener.listen(config.backlog)
        print(_address(listener), flush=True)
        progress.say(
            f"{source}: {', '.join(f'POST {path}' for path in model.offers)}; "
            "a page for trying it at the address above; Ctrl-C ends it"
        )
        try:
            uvicorn.Server(config).run([listener])
        except KeyboardInterrupt:  # it has put all away, and hands the signal on
            progress.say(f"ended; answered: {counter.answers:,}")


def configuration(answering: Starlette) -> uvicorn.Config:
    """Return how the server runs: what goes wrong is told by us, in one line."""
    return uvicorn.Config(
        answering,
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE,
    )


class Counter:
    """Counts answers."""

    def __init__(self) -> None:
        self.answers = 0


def application(model: Served, counter: Counter) -> Starlette:
    """Return what answers requests about a model."""
    hand = ThreadPoolExecutor(1, "desk")
    desks = {path: Desk(offer.answered, hand) for path, offer in model.offers.items()}

    @asynccontextmanager
    async def working(_: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(desk.work()) for desk in desks.values()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            hand.shutdown(wait=False, cancel_futures=True)

    async def answer(request: Request) -> Response:
        offer = model.offers[request.url.path]
        told = await _json(request)
        asked = _questions(told, offer)
        found = await desks[offer.path].ask(asked)
        counter.answers += len(found)
        return JSONResponse(found if isinstance(told, list) else found[0])

    page = (files(__package__) / "page.html").read_text(encoding="utf-8")
    about = {
        "model": model.name,
        "labels": model.labels,
        "asked": [
            {"path": one.path, "kind": one.kind, "fields": [asdict(field) for field in one.fields]}
            for one in model.offers.values()
        ],
        "albertine": __version__,
    }

    async def show(_: Request) -> Response:
        return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})

    async def tell(_: Request) -> Response:
        return JSONResponse(about)

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    routes = [Route("/", show), Route("/about", tell), Route("/health", health)]
    routes += [Route(path, answer, methods=["POST"]) for path in model.offers]
    return Starlette(routes=routes, lifespan=working, exception_handlers=_handlers(routes))


async def _json(request: Request) -> Any:
    """Read what was sent, unless it is too much."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"more than {progress.size(MOST_BYTES)}; send less at a time")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON ({error})") from None


def _questions(told: Any, offer: Offer) -> list[Any]:
    """Read one question or a list of them; say which is wrong."""
    if not isinstance(told, list):
        return [offer.question(told)]
    if len(told) > MOST_QUESTIONS:
        raise InputError(f"{len(told):,} questions; send {MOST_QUESTIONS:,} at a time at most")
    asked = []
    for number, one in enumerate(told):
        try:
            asked.append(offer.question(one))
        except InputError as error:
            raise InputError(f"question {number}: {error}") from None
    return asked


def _handlers(routes: Sequence[Route]) -> dict[Any, Any]:
    """Return what answers for what went wrong: always JSON with one line."""
    known = ", ".join(route.path for route in routes)

    async def refused(_: Request, error: Exception) -> Response:
        return _said(400, str(error))

    async def busy(_: Request, error: Exception) -> Response:
        return _said(503, str(error), {"Retry-After": "1"})

    async def elsewhere(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = {404: f"{request.url.path}: no such path; known: {known}", 405: _method(request, error)}
        headers = dict(error.headers or {})
        return _said(error.status_code, said.get(error.status_code, error.detail), headers)

    async def left(_: Request, error: Exception) -> Response:  # noqa: ARG001  # nobody is there to read it
        return Response(status_code=400)

    async def defect(_: Request, error: Exception) -> Response:
        line = f"a defect in Albertine: {type(error).__name__}: {' '.join(str(error).split())}"
        progress.say(line)
        return _said(500, line)

    return {
        InputError: refused,
        Busy: busy,
        HTTPException: elsewhere,
        ClientDisconnect: left,
        Exception: defect,
    }


def _method(request: Request, error: HTTPException) -> str:
    allowed = (error.headers or {}).get("Allow", "another")
    return f"{request.method} {request.url.path}: not possible; {allowed} is"


def _said(status: int, line: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": line}, status, headers)


def listening(host: str, port: int) -> socket.socket:
    """Take the address before anything is loaded, so that one that is taken is told at once."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise InputError(f"--host {host}: no address of this machine") from None
    listener = socket.socket(family, kind, number)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise InputError(
            f"--host {host} --port {port}: {error.strerror}; name another, or --port 0 for a free one"
        ) from None
    return listener


def _address(listener: socket.socket) -> str:
    """Return what a person types into a browser."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"
