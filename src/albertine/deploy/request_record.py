"""What the server notes about each request: its id, and what its log line and the metrics need.

A client may choose the id of its request with the header X-Request-Id, so that one id follows a request
through several services. The id is in the response's header, in the log and in the body of an error.
"""

import re
import time
import uuid
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

REQUEST_ID_HEADER = "X-Request-Id"
# Characters of ids that other programs make. Others could forge a line of a log or a field of it.
_VALID_ID = re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII)
_SCOPE_KEY = "albertine.record"

OTHER_ROUTE = "other"  # of all unknown paths, so that clients cannot create time series


@dataclass
class RequestRecord:
    """A request, from its arrival to the end of its response.

    Attributes:
        request_id: the id.
        method: the HTTP method; "-" if the head of the request was not received.
        path: the path without the query; "-" if the head was not received.
        route: the path if it is one of the server's, else `OTHER_ROUTE`.
        status: status of the response; None before it.
        num_texts: number of texts in the body.
        num_tokens: number of tokens that the model read for it.
        num_truncated: number of its items that the model read only in part.
        depths: depth of each of its items, if they may exit before the last step.
        started: time of its arrival, on the clock of `time.perf_counter`.
    """

    request_id: str
    method: str = "-"
    path: str = "-"
    route: str = OTHER_ROUTE
    status: int | None = None
    num_texts: int = 0
    num_tokens: int = 0
    num_truncated: int = 0
    depths: Sequence[float] = ()
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Time since the arrival."""
        return time.perf_counter() - self.started


# The record of the request that this task answers.
current_record: ContextVar[RequestRecord | None] = ContextVar("current_record", default=None)


def new_request_id() -> str:
    """Return a random id."""
    return uuid.uuid4().hex


def request_id_from(headers: Headers) -> str:
    """Return the id that a client has chosen, or a new one if there is no valid one."""
    given = headers.getlist(REQUEST_ID_HEADER)
    return given[0] if len(given) == 1 and _VALID_ID.fullmatch(given[0]) else new_request_id()


def start_record(scope: Scope, known_routes: frozenset[str]) -> RequestRecord:
    """Return the record of a request that arrives, and store it in its scope."""
    path = scope["path"]
    record = RequestRecord(
        request_id_from(Headers(scope=scope)),
        scope["method"],
        path,
        path if path in known_routes else OTHER_ROUTE,
    )
    scope[_SCOPE_KEY] = record
    return record


def record_of(scope: Scope | None) -> RequestRecord | None:
    """Return the record of a request that the application has begun to answer."""
    record: Any = (scope or {}).get(_SCOPE_KEY)
    return record if isinstance(record, RequestRecord) else None
