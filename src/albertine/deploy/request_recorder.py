"""ASGI middleware that gives each request an id, and logs and counts it when it has ended."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from albertine.deploy.metrics import TRUNCATED, ServerMetrics
from albertine.deploy.request_record import REQUEST_ID_HEADER, RequestRecord, current_record, start_record
from albertine.deploy.server_log import ServerLog


class RequestRecorder:
    """The outermost middleware: it logs the requests of an application and counts them in the metrics."""

    def __init__(self, app: ASGIApp, log: ServerLog, metrics: ServerMetrics):
        self._app, self._log, self._metrics = app, log, metrics

    def for_app(self, app: ASGIApp) -> "RequestRecorder":
        """Return a recorder for another application with the same log and metrics."""
        return RequestRecorder(app, self._log, self._metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, add its id to the response, and record it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        record = start_record(scope, self._metrics.routes)
        current_record.set(record)  # each request has a task and so a context of its own

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                # If the connection has already refused the request (408), that status stays.
                if record.status is None:
                    record.status = message["status"]
                id_header = (REQUEST_ID_HEADER.lower().encode(), record.request_id.encode())
                message = {**message, "headers": [*message.get("headers", ()), id_header]}
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            self.record(record)

    def record(self, record: RequestRecord) -> None:
        """Log and count a request that has ended; without a response its status is None."""
        # Endpoints in the form of text-embeddings-inference may refuse a long text instead of truncating it.
        if record.status == 200:
            self._count_truncated(record.num_truncated)
        self._metrics.request_done(record)
        self._log.request(record)

    def _count_truncated(self, count: int) -> None:
        """Count truncated items, and print a message about the first one."""
        if count and not self._metrics.total(TRUNCATED):
            self._log.message(
                "an item is too long for the model and was truncated; shorten or divide such texts; "
                "later ones are only counted, in albertine_truncated_items_total"
            )
        self._metrics.add(TRUNCATED, count)
