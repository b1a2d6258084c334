"""Responses of the supervisor while no worker answers: status 503, so that clients do not wait for one."""

import socket
import time
from contextlib import suppress

from albertine.deploy.errors import error_response
from albertine.deploy.request_record import REQUEST_ID_HEADER, new_request_id
from albertine.deploy.server_log import ServerLog

_MESSAGE = "no worker of the server answers; others are being started; retry later"
_MAX_CONNECTIONS = 256
# A connection that is closed before its request is read is reset, and its client may miss the response.
_READ_SECONDS = 2.0
_READ_BYTES = 1 << 16


class Refusals:
    """Accepts connections in place of the workers, and responds with an error."""

    def __init__(self, listener: socket.socket, log: ServerLog):
        self._listener, self._log = listener, log
        self._is_refusing = False
        self._accepted: dict[socket.socket, float] = {}  # when each was accepted

    def update(self, *, is_refusing: bool) -> None:
        """Respond to connections that wait, if no worker answers; close those that have their response."""
        if is_refusing and not self._is_refusing:
            self._log.error("no worker answers; requests get status 503 until one does")
        self._is_refusing = is_refusing
        if is_refusing:
            self._listener.setblocking(False)  # a worker may accept the connection first
            while len(self._accepted) < _MAX_CONNECTIONS and self._refuse_one():
                pass
        for connection, accepted in list(self._accepted.items()):
            if time.monotonic() - accepted > _READ_SECONDS or _is_read(connection):
                connection.close()
                del self._accepted[connection]

    def _refuse_one(self) -> bool:
        """Respond to a connection; return whether there was one."""
        try:
            connection, _ = self._listener.accept()
        except OSError:  # none waits, or there are too many open files
            return False
        connection.setblocking(False)
        with suppress(OSError):  # the client has disconnected
            connection.send(_response())
            connection.shutdown(socket.SHUT_WR)
        self._accepted[connection] = time.monotonic()
        return True


def _response() -> bytes:
    request_id = new_request_id()
    headers = {"Connection": "close", "Retry-After": "5", REQUEST_ID_HEADER: request_id}
    response = error_response(503, _MESSAGE, headers, request_id=request_id)
    lines = (b"%s: %s\r\n" % header for header in response.raw_headers)
    return b"".join((b"HTTP/1.1 503 Service Unavailable\r\n", *lines, b"\r\n", response.body))


def _is_read(connection: socket.socket) -> bool:
    """Read what a client has sent; return whether it has closed the connection."""
    try:
        while connection.recv(_READ_BYTES):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
