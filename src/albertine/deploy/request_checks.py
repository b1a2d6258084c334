"""Checks of a request's headers, before any endpoint reads the request.

A page of another site can make a browser send requests to this server. If the name of that site
resolves to the address of this server (DNS rebinding), the browser even lets the page read the
responses. The header Host of such a request names the other site. See
docs/decisions/limits-of-connections.md for the checks of uvicorn and starlette.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from albertine.deploy.addresses import parse_address
from albertine.deploy.errors import error_response
from albertine.display import display_text

WILDCARD_ADDRESSES = ("0.0.0.0", "::")
# A name or an address in the header Host, without the port.
_HOST_HEADER = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::\d*)?", re.ASCII)


@dataclass(frozen=True)
class AllowedHosts:
    """The hosts that a request may name.

    Attributes:
        names: names and addresses, in lower case.
        any_address: whether every IP address is allowed; a server on a wildcard address has several.
        any_name: whether every host is allowed.
    """

    names: frozenset[str]
    any_address: bool
    any_name: bool

    def allows(self, host: str) -> bool:
        """Return whether a request may name a host, which is a name or an address without brackets."""
        address = parse_address(host)
        if address is None:
            return self.any_name or host.lower() in self.names
        return self.any_name or self.any_address or str(address) in self.names


def allowed_hosts(bound_address: str, names: Iterable[str]) -> AllowedHosts:
    """Return the hosts that a request to a server may name.

    Args:
        bound_address: IP address on which the server listens.
        names: names of the server besides localhost; "*" allows all hosts.
    """
    normal_names = (str(parse_address(name) or name.lower()) for name in names)
    names = {"localhost", bound_address, *normal_names}
    return AllowedHosts(frozenset(names), bound_address in WILDCARD_ADDRESSES, "*" in names)


def parse_host(header: str) -> str | None:
    """Return the host of a header Host, without port and brackets; None if the header is malformed."""
    match = _HOST_HEADER.fullmatch(header)
    return (match[1] or match[2]) if match else None


class RequestChecks:
    """An ASGI application that refuses foreign hosts and ambiguous lengths, and forwards other requests."""

    def __init__(self, app: ASGIApp, hosts: AllowedHosts):
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with an error, or forward the request."""
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        """Return the error for a request with these headers; None if they are allowed."""
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may have used the other length, so the rest of the connection is not trusted either.
            return error_response(
                400, "Content-Length and Transfer-Encoding; send one of them", {"Connection": "close"}
            )
        header = headers.get("host")
        if header is None:  # possible in HTTP/1.0 only, which browsers do not use
            return None
        host = parse_host(header)
        if host is None:
            return error_response(400, f"Host {display_text(header) or '(empty)'}: not a host name")
        if not self._hosts.allows(host):
            return error_response(
                421,
                f"Host {display_text(host)}: not a name of this server; if it is one, start the server with "
                f"--allowed-hosts {display_text(host)}",
            )
        return None
