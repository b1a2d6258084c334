"""A small HTTP client for measurements on this machine: it takes little time beside the server."""

import asyncio
import re
import time
from collections.abc import Sequence
from itertools import count
from types import TracebackType

from albertine.errors import WorkError

_RESPONSE_SECONDS = 120.0
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


class HttpConnection:
    """A connection to a server on this machine, for one request after another."""

    def __init__(self, port: int):
        self._port = port

    async def __aenter__(self) -> "HttpConnection":
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    async def get(self, path: str) -> bytes:
        """Return the body of the response to a GET request."""
        return await self._exchange(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    async def post(self, path: str, body: bytes) -> bytes:
        """Return the body of the response to a POST request with a JSON body."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return await self._exchange(head.encode() + body)

    async def _exchange(self, request: bytes) -> bytes:
        self._writer.write(request)
        try:
            async with asyncio.timeout(_RESPONSE_SECONDS):
                head = await self._reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                body = await self._reader.readexactly(int(length[1]) if length else 0)
        except (OSError, asyncio.IncompleteReadError) as error:  # a TimeoutError is an OSError too
            raise WorkError(f"a request to port {self._port} got no response ({error!r})") from None
        if not head.startswith(b"HTTP/1.1 200 "):
            raise WorkError(f"a request got {head[9:12].decode()} {body[:200].decode(errors='replace')}")
        return body


async def send_from_callers(
    port: int, path: str, bodies: Sequence[bytes], callers: int, seconds: float
) -> list[float]:
    """Send requests one after another from each of several callers; return the latency of each in seconds.

    Args:
        port: port of the server.
        path: path of the requests.
        bodies: their JSON bodies, which the callers use in turn.
        callers: number of callers, each with a connection of its own.
        seconds: time after which no caller sends another request.
    """
    deadline = time.perf_counter() + seconds
    numbers, latencies = count(), list[float]()

    async def call() -> None:
        async with HttpConnection(port) as connection:
            while (started := time.perf_counter()) < deadline:
                await connection.post(path, bodies[next(numbers) % len(bodies)])
                latencies.append(time.perf_counter() - started)

    await asyncio.gather(*(call() for _ in range(callers)))
    return latencies
