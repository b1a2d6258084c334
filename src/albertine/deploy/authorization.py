"""An optional bearer token, which every request must have except those of the page and of health checks.

The token is read from a file or from the environment, never from an argument, because every user of the
machine can read the arguments of a process.
"""

import hmac
import os
import re
from hashlib import sha256
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from albertine.deploy.errors import error_response
from albertine.deploy.paths import OPEN_PATHS
from albertine.errors import InputError

TOKEN_VARIABLE = "ALBERTINE_TOKEN"
_TOKEN = re.compile(r"[\w.~+/-]+=*", re.ASCII)  # RFC 6750
_MIN_LENGTH, _MAX_LENGTH = 16, 4_096
_WORDS = re.compile(r"bearer +(\S+)", re.ASCII | re.IGNORECASE)


class BearerToken:
    """A token, of which only the hash is kept, so that no message or traceback can show it."""

    def __init__(self, token: str):
        self._hash = _hash(token)

    def matches(self, token: str) -> bool:
        """Return whether a token is this one, in a time that does not depend on where they differ."""
        return hmac.compare_digest(self._hash, _hash(token))


def _hash(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def read_token(file: Path | None) -> BearerToken | None:
    """Return the token of a file or of the environment; None if there is neither."""
    value = os.environ.get(TOKEN_VARIABLE)
    if file is None:
        return None if value is None else _parse_token(value, TOKEN_VARIABLE)
    if value is not None:
        raise InputError(f"--token-file {file}: {TOKEN_VARIABLE} is set too; give only one token")
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_LENGTH + 1)
    except OSError as error:
        raise InputError(f"--token-file {file}: {error.strerror}; name another file") from None
    return _parse_token(content.decode("utf-8", "replace"), f"--token-file {file}")


def _parse_token(content: str, source: str) -> BearerToken:
    """Return a token without the line break after it; the error messages do not show it."""
    token = content.rstrip("\r\n")
    if not _MIN_LENGTH <= len(token) <= _MAX_LENGTH:
        # Of a file, only the first characters are read.
        count = f"more than {_MAX_LENGTH:,}" if len(token) > _MAX_LENGTH else f"{len(token):,}"
        raise InputError(
            f"{source}: the token has {count} characters; it must have {_MIN_LENGTH} to "
            f"{_MAX_LENGTH:,}; openssl rand -hex 32 makes one"
        )
    if not _TOKEN.fullmatch(token):
        raise InputError(f"{source}: not a token; it may have letters, digits and - . _ ~ + / only")
    return BearerToken(token)


class BearerTokenCheck:
    """An ASGI application that refuses requests without the token, and forwards other requests."""

    def __init__(self, app: ASGIApp, token: BearerToken):
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with status 401, or forward the request."""
        app = self._app
        if scope["type"] == "http" and not _is_open(scope):
            problem = self._problem(Headers(scope=scope).getlist("authorization"))
            if problem is not None:
                message, challenge = problem
                app = error_response(401, message, {"WWW-Authenticate": challenge})
        await app(scope, receive, send)

    def _problem(self, given: list[str]) -> tuple[str, str] | None:
        """Return the message and the challenge for wrong Authorization headers; None if they are right."""
        realm = 'Bearer realm="albertine"'
        if not given:
            return "no token; send the header Authorization: Bearer TOKEN", realm
        match = _WORDS.fullmatch(given[0]) if len(given) == 1 else None
        if match is None:
            return "Authorization: must be one header of the form Bearer TOKEN", realm
        if not self._token.matches(match[1]):
            return "Authorization: not the token of this server", f'{realm}, error="invalid_token"'
        return None


def _is_open(scope: Scope) -> bool:
    """Return whether a request needs no token."""
    return scope["path"] in OPEN_PATHS and scope["method"] in ("GET", "HEAD")
