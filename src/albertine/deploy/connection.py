"""A client's connection: uvicorn's HTTP/1.1 protocol, with limits on slow and idle clients.

uvicorn limits the time between two requests. It does not limit the time in which the head of a
request arrives or the client receives a response, and it refuses new connections even if others are
idle.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from types import MappingProxyType

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol, RequestResponseCycle

from albertine.deploy.errors import error_response
from albertine.deploy.request_record import (
    REQUEST_ID_HEADER,
    RequestRecord,
    new_request_id,
    record_of,
)
from albertine.deploy.request_recorder import RequestRecorder

CLIENT_TIMEOUT_SECONDS = 30.0
# A connection that has waited for less time is not closed in favor of a new one, because its request
# may be on the way.
MIN_IDLE_SECONDS = 1.0
_REFUSAL_SECONDS, _REFUSAL_BYTES = 1.0, 1 << 20  # limits of reading a request that is refused
_TOO_MANY = "too many connections; retry later"
_CLOSE_HEADERS: Mapping[str, str] = MappingProxyType({"Connection": "close"})
_RETRY_HEADERS: Mapping[str, str] = MappingProxyType({"Retry-After": "5", **_CLOSE_HEADERS})


async def _refuse_request(scope: Scope, receive: Receive, send: Send) -> None:
    """Respond with status 503 after reading the request: closing a connection with unread data resets it."""
    received, more_body = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(_REFUSAL_SECONDS):
            while more_body and received < _REFUSAL_BYTES:
                message = await receive()
                received += len(message.get("body", b""))
                more_body = message.get("more_body", False)
    await error_response(503, _TOO_MANY, _RETRY_HEADERS)(scope, receive, send)


class LimitedConnection(H11Protocol):
    """A connection that is closed if its client is too slow, or if it is idle and there are too many.

    Attributes:
        waiting_since: time of the event loop at which it began to wait for its client.
    """

    waiting_since = 0.0
    _timer: asyncio.TimerHandle | None = None
    _unsent_bytes = inf
    _is_refused, _num_discarded = False, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request; if there are too many connections, close an idle one or refuse this one."""
        super().connection_made(transport)
        # uvicorn's own check refuses clients while idle connections exist.
        limit, self.limit_concurrency = self.limit_concurrency, None
        self._wait_for_client()
        if limit is not None and len(self.connections) > limit and not self._close_an_idle_connection():
            if len(self.connections) > limit + limit // 4:
                # Waiting for the request would keep the file descriptor open for longer.
                self._refuse(503, _TOO_MANY, _RETRY_HEADERS)
                self.transport.close()
            self.app = self._recorder.for_app(_refuse_request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer of the client."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process data from the client; the time limit of a request begins when the previous one ends."""
        if self._is_refused:
            self._num_discarded += len(data)
            if self._num_discarded > _REFUSAL_BYTES:
                self.transport.close()
            return
        super().data_received(data)
        self._update_timer()

    def on_response_complete(self) -> None:
        """Wait for the client to receive the response and to send another request."""
        self._stop_waiting()
        super().on_response_complete()
        self._update_timer()

    def pause_writing(self) -> None:
        """Wait for the client to receive more of a response."""
        super().pause_writing()
        self._update_timer()

    def resume_writing(self) -> None:
        """Continue to write responses."""
        super().resume_writing()
        self._update_timer()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # uvicorn's message is always the same
        """Respond to malformed HTTP with an error."""
        self._refuse(400, "not a valid HTTP request, or its head is too long")

    @property
    def _recorder(self) -> RequestRecorder:
        """The application, which also records the requests that this class refuses."""
        recorder = self.config.loaded_app
        assert isinstance(recorder, RequestRecorder)
        return recorder

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has to send or receive data before the server can continue."""
        return self._is_answered or self.cycle.more_body or self.flow.write_paused

    @property
    def _is_answered(self) -> bool:
        """Whether all requests have their responses; the head of another one may be arriving."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete or cycle.disconnected

    def _update_timer(self) -> None:
        """Run the timer while the server waits for the client, and only then."""
        if self._is_refused:
            return
        if not self.waits_for_client:
            self._stop_waiting()
        elif self._timer is None:
            self._wait_for_client()

    def _wait_for_client(self) -> None:
        self.waiting_since = self.loop.time()
        self._timer = self.loop.call_later(CLIENT_TIMEOUT_SECONDS, self._time_out)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._unsent_bytes = None, inf

    def _time_out(self) -> None:
        """Send status 408 or close the connection, unless its client is still receiving a long response."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if 0 < unsent_bytes < self._unsent_bytes:
            self._unsent_bytes = unsent_bytes
            self._wait_for_client()
        elif unsent_bytes or (self._is_answered and not self.conn.trailing_data[0]):
            self.transport.abort()
        else:
            self._refuse(408, f"the request was not complete within {CLIENT_TIMEOUT_SECONDS:.0f} seconds")

    def _refuse(self, status: int, message: str, headers: Mapping[str, str] = _CLOSE_HEADERS) -> None:
        """Send an error, unless a response has begun, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            # The application itself records a request that it is answering.
            pending = None if self._is_answered else record_of(dict(self.cycle.scope))
            record = pending or RequestRecord(new_request_id())
            record.status = status
            if pending is None:
                self._recorder.record(record)
            headers = {**headers, REQUEST_ID_HEADER: record.request_id}
            response = error_response(status, message, headers, request_id=record.request_id)
            head = h11.Response(
                status_code=status, headers=response.raw_headers, reason=STATUS_PHRASES[status]
            )
            is_head = not self._is_answered and self.cycle.scope["method"] == "HEAD"  # its answer has no body
            body = [] if is_head else [h11.Data(data=bytes(response.body))]
            for event in (head, *body, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:  # its handler would write into the closed connection
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._close_after_reading()

    def _close_after_reading(self) -> None:
        """Close the connection after reading what the client still sends, up to limits.

        Closing it with unread data would reset it, and the client could lose the response.
        """
        self._stop_waiting()
        self._is_refused = True
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self.transport.resume_reading()
        self._timer = self.loop.call_later(_REFUSAL_SECONDS, self.transport.close)

    def _close_an_idle_connection(self) -> bool:
        """Close the connection that has waited longest for its client; return whether there is one."""
        latest = self.loop.time() - MIN_IDLE_SECONDS
        idle = [
            connection
            for connection in self.connections
            if isinstance(connection, LimitedConnection)
            and connection.waiting_since <= latest
            and connection.waits_for_client
        ]
        if not idle:
            return False
        oldest = min(idle, key=lambda connection: connection.waiting_since)
        oldest.transport.abort()
        self.connections.discard(oldest)
        return True
