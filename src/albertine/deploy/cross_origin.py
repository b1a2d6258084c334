"""Pages of other sites that may use the server (CORS); by default none may.

starlette answers the browser's preflight requests and adds the headers. Here its errors become JSON.
"""

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from albertine.deploy.errors import error_response
from albertine.deploy.request_record import REQUEST_ID_HEADER


class CrossOriginAccess(CORSMiddleware):
    """An ASGI application that lets pages of some origins send requests and read responses."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]):
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=("GET", "HEAD", "POST"),
            allow_headers=("Authorization", "Content-Type", REQUEST_ID_HEADER),
            expose_headers=(REQUEST_ID_HEADER, "Retry-After"),
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the response to a preflight request."""
        response = super().preflight_response(request_headers)
        if response.status_code < 400:
            return response
        reason = bytes(response.body).decode().removeprefix("Disallowed CORS ")
        return error_response(
            400,
            f"cross-origin request refused: {reason} not allowed; the server allows origins with "
            "--cors-origins, the methods GET, HEAD and POST, and the headers Authorization, Content-Type and "
            f"{REQUEST_ID_HEADER}",
            {"Vary": response.headers["Vary"]},
        )
