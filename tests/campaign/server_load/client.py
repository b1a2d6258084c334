"""A client that sends any bytes, and reads the responses of a server as strictly as HTTP demands."""

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

ANSWER_SECONDS = 20.0  # on a busy machine
_STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]*\r\n")
_FORBIDDEN = ("internal error", "defect", "bug in albertine", "traceback")
# docs/serving.md: results depend slightly on the other items of a batch.
_TOLERANCE = 1e-5


class WrongAnswer(Exception):  # noqa: N818  # what a trial finds, not an error of the client
    """What a server sent is not what it promises."""


@dataclass(frozen=True)
class Answer:
    """A response: its status and its body."""

    status: int
    body: bytes


@dataclass
class Connection:
    """A connection to a server on this machine."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        """Send bytes, without waiting for the server to take them."""
        self.writer.write(data)

    async def read_answer(self, *, has_body: bool = True) -> Answer | None:
        """Return the next response; None if the server closes the connection instead.

        Raises:
            WrongAnswer: if the response is not HTTP, or none comes in time.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                head = await self.reader.readuntil(b"\r\n\r\n")
                match = _STATUS_LINE.match(head)
                if match is None:
                    raise WrongAnswer(f"no HTTP: {head[:80]!r}")
                if match[1] == b"100":
                    return await self.read_answer(has_body=has_body)
                length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head, re.IGNORECASE)
                if length is None:
                    raise WrongAnswer(f"no Content-Length: {head[:200]!r}")
                body = await self.reader.readexactly(int(length[1])) if has_body else b""
                return Answer(int(match[1]), body)
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise WrongAnswer(f"half a response: {error.partial[-80:]!r}") from None
            return None
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise WrongAnswer(f"no answer and no end within {ANSWER_SECONDS:.0f} s") from None
            return None  # reset

    async def read_to_the_end(self) -> None:
        """Read and drop all that the server sends, until it closes the connection."""
        try:
            while await self.reader.read(1 << 16):
                pass
        except OSError:
            pass

    def reset(self) -> None:
        """Close the connection at once, so that the server gets a reset."""
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


def check_error(answer: Answer) -> None:
    """Raise `WrongAnswer` unless a response is an error of one line of JSON that blames the request."""
    text = answer.body.decode("utf-8", "replace")
    problem = ""
    if answer.status < 400:
        problem = "not refused"
    elif "\n" in text or len(text) > 1_000:
        problem = "not one line of bounded length"
    elif any(word in text.lower() for word in _FORBIDDEN):
        problem = "reported as a defect"
    else:
        try:
            is_error = json.loads(text).keys() == {"error"}
        except (ValueError, AttributeError):
            is_error = False
        if not is_error:
            problem = "no JSON error"
    if problem:
        raise WrongAnswer(f"{problem}: {answer.status} {text[:200]!r}")


def check_result(answer: Answer | None, expected: bytes) -> None:
    """Raise `WrongAnswer` unless a response is the result that the request gets alone."""
    if answer is None:
        raise WrongAnswer("a valid request was disconnected")
    if answer.status != 200:
        raise WrongAnswer(f"a valid request got {answer.status} {answer.body[:200]!r}")
    if answer.body != expected and not _is_close(json.loads(answer.body), json.loads(expected)):
        raise WrongAnswer(f"{answer.body[:200]!r} in place of {expected[:200]!r}")


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
