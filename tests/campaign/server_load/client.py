"""A client that sends any bytes, and checks the responses of a server."""

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

RESPONSE_SECONDS = 20.0  # on a busy machine
_STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]*\r\n")
_VALID_ID = re.compile(rb"[A-Za-z0-9_.:/+=@-]{1,128}")
_ERROR_KEYS = {"error", "error_type", "request_id"}
_SIGNS_OF_A_DEFECT = ("internal error", "defect", "bug in albertine", "traceback")
# Results depend slightly on the other items of a batch; see docs/serving.md.
_TOLERANCE = 1e-5


class WrongResponse(Exception):  # noqa: N818  # what a trial finds, not an error of the client
    """A response that a server must not send; or none, where it must send one."""


@dataclass(frozen=True)
class Response:
    """A response to a request."""

    status: int
    body: bytes
    request_id: str


def _request_id(head: bytes) -> str:
    """Return the id in the head of a response; raise `WrongResponse` if it has not exactly one."""
    ids: list[bytes] = re.findall(rb"\r\nx-request-id: ([^\r\n]*)", head, re.IGNORECASE)
    if len(ids) != 1 or not _VALID_ID.fullmatch(ids[0]):
        raise WrongResponse(f"request ids {ids!r}")
    if b"evil" in head.lower():
        raise WrongResponse(f"a header from the request: {head[:200]!r}")
    return ids[0].decode()


@dataclass
class Connection:
    """A connection to a server on this machine."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        """Send bytes, without waiting for the server to receive them."""
        self.writer.write(data)

    async def read_response(self, *, has_body: bool = True) -> Response | None:
        """Return the next response; None if the server closes the connection instead.

        Args:
            has_body: whether the response has a body; that to a HEAD request has none.

        Raises:
            WrongResponse: if the response is not HTTP or not complete, or if none comes in time.
        """
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                head = await self.reader.readuntil(b"\r\n\r\n")
                match = _STATUS_LINE.match(head)
                if match is None:
                    raise WrongResponse(f"not HTTP: {head[:80]!r}")
                if match[1] == b"100":  # "Continue": the response follows
                    return await self.read_response(has_body=has_body)
                length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head, re.IGNORECASE)
                if length is None:
                    raise WrongResponse(f"no Content-Length: {head[:200]!r}")
                body = await self.reader.readexactly(int(length[1])) if has_body else b""
                return Response(int(match[1]), body, _request_id(head))
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise WrongResponse(f"half a response: {error.partial[-80:]!r}") from None
            return None
        except TimeoutError:
            raise WrongResponse(f"no response and no end within {RESPONSE_SECONDS:.0f} s") from None
        except OSError:  # the server has reset the connection
            return None

    async def read_to_end(self) -> None:
        """Read and discard what the server sends, until it closes the connection."""
        try:
            while await self.reader.read(1 << 16):
                pass
        except OSError:
            pass

    def reset(self) -> None:
        """Close the connection with a TCP reset."""
        raw_socket = self.writer.get_extra_info("socket")
        raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@asynccontextmanager
async def connect(port: int) -> AsyncIterator[Connection]:
    """Open a connection, and close it at the end."""
    connection = Connection(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))
    try:
        yield connection
    finally:
        connection.writer.transport.abort()


def check_error(response: Response) -> None:
    """Raise `WrongResponse` unless a response is an error: one line of JSON that blames the request."""
    text = response.body.decode("utf-8", "replace")
    if problem := _error_problem(response.status, text, response.request_id):
        raise WrongResponse(f"{problem}: {response.status} {text[:200]!r}")


def _error_problem(status: int, text: str, request_id: str) -> str | None:
    if status < 400:
        return "not refused"
    if "\n" in text or len(text) > 1_000:
        return "not one line of bounded length"
    if any(sign in text.lower() for sign in _SIGNS_OF_A_DEFECT):
        return "reported as a defect"
    try:
        content = json.loads(text)
    except ValueError:
        return "not JSON"
    if not isinstance(content, dict) or content.keys() != _ERROR_KEYS:
        return "not a JSON error"
    return None if content["request_id"] == request_id else f"not the id {request_id}"


def check_result(response: Response | None, expected: bytes) -> None:
    """Raise `WrongResponse` unless a response has the result that the request gets alone."""
    if response is None:
        raise WrongResponse("a valid request was disconnected")
    if response.status != 200:
        raise WrongResponse(f"a valid request got {response.status} {response.body[:200]!r}")
    if response.body != expected and not _is_close(json.loads(response.body), json.loads(expected)):
        raise WrongResponse(f"{response.body[:200]!r} in place of {expected[:200]!r}")


def _is_close(actual: Any, expected: Any) -> bool:
    """Return whether two JSON values are equal up to rounding."""
    if isinstance(actual, dict) and isinstance(expected, dict):
        return actual.keys() == expected.keys() and _all_close(
            (actual[key], expected[key]) for key in expected
        )
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and _all_close(zip(actual, expected, strict=True))
    if isinstance(actual, float) and isinstance(expected, float):
        return abs(actual - expected) <= _TOLERANCE * max(1.0, abs(expected))
    return bool(actual == expected)


def _all_close(pairs: Iterable[tuple[Any, Any]]) -> bool:
    return all(_is_close(actual, expected) for actual, expected in pairs)
