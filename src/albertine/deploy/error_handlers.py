"""The handlers that turn exceptions into error responses."""

import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from albertine.deploy.batcher import ServerBusy
from albertine.deploy.errors import error_response
from albertine.deploy.request_record import current_record
from albertine.deploy.server_log import ServerLog
from albertine.deploy.tei import TeiError
from albertine.display import display_text
from albertine.errors import InputError, WorkError, is_out_of_memory

_RETRY_HEADERS = {"Retry-After": "5"}
_DISCONNECTED = 499  # as in nginx's logs; no client reads it

ErrorHandler: TypeAlias = Callable[[Request, Exception], Coroutine[Any, Any, Response]]


def exception_handlers(routes: Sequence[Route], log: ServerLog, debug: bool) -> dict[Any, ErrorHandler]:
    """Return the handlers by exception class.

    Args:
        routes: routes of the application, which an error about an unknown path names.
        log: gets the errors of the server.
        debug: whether they print a traceback.
    """
    known = ", ".join(dict.fromkeys(route.path for route in routes))

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path, headers = display_text(request.scope["path"]), dict(error.headers or {})
        if error.status_code == 405:  # starlette names the methods of one route of the path
            headers["Allow"] = ", ".join(_allowed_methods(routes, request.scope["path"]))
        messages = {
            404: f"{path}: unknown path; known: {known}",
            405: f"{request.method} {path}: method not allowed; use {headers.get('Allow')}",
        }
        return error_response(error.status_code, messages.get(error.status_code, error.detail), headers)

    def log_error(line: str, error: Exception) -> None:
        record = current_record.get()
        log.error(line, record.request_id if record else None)
        if debug:
            traceback.print_exception(error)

    async def internal_error(_: Request, error: Exception) -> Response:
        details = _one_line(error)
        if is_out_of_memory(error):
            log_error(f"out of memory{f' ({details})' if details else ''}", error)
            return error_response(503, "out of memory; send fewer or shorter texts per request")
        line = f"internal error: {type(error).__name__}: {details}"
        log_error(f"{line}{'' if debug else '; start with --debug for the traceback'}", error)
        return error_response(500, line)

    async def work_error(_: Request, error: Exception) -> Response:
        log_error(_one_line(error), error)
        return error_response(500, str(error))

    return {
        InputError: _bad_request,
        TeiError: _tei_error,
        ServerBusy: _unavailable,
        HTTPException: http_error,
        ClientDisconnect: _client_disconnected,
        WorkError: work_error,
        MemoryError: internal_error,
        Exception: internal_error,
    }


async def _bad_request(_: Request, error: Exception) -> Response:
    return error_response(400, str(error))


async def _tei_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, TeiError)
    return error_response(error.http_status, str(error), _RETRY_HEADERS if error.http_status == 429 else None)


async def _unavailable(_: Request, error: Exception) -> Response:
    return error_response(503, str(error), _RETRY_HEADERS)


async def _client_disconnected(_: Request, error: Exception) -> Response:  # noqa: ARG001
    return Response(status_code=_DISCONNECTED)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _allowed_methods(routes: Sequence[Route], path: str) -> list[str]:
    return sorted({method for route in routes if route.path == path for method in route.methods or ()})
