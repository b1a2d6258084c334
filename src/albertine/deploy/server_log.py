"""The log of the server on standard error: one line per request, messages and errors, as text or JSON.

A line never has a text of a request, a query or a header other than the request's id.
"""

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from albertine import progress
from albertine.deploy.request_record import RequestRecord
from albertine.display import display_text

LogFormat: TypeAlias = Literal["text", "json"]
_MAX_PATH_LENGTH = 200


class ServerLog:
    """Writes lines; with `--quiet` only errors."""

    def __init__(self, log_format: LogFormat):
        self._is_json = log_format == "json"

    def request(self, record: RequestRecord) -> None:
        """Write the line of a request that has its response."""
        if progress.is_quiet():
            return
        milliseconds = round(1_000 * record.seconds, 3)
        method, path = display_text(record.method, 20), display_text(record.path, _MAX_PATH_LENGTH)
        if self._is_json:
            self._write_json(
                id=record.request_id,
                method=method,
                path=path,
                status=record.status,
                milliseconds=milliseconds,
                texts=record.num_texts,
                tokens=record.num_tokens,
            )
        else:
            _write_line(
                f"{_now()} {method} {path} {record.status or '-'} {milliseconds:.1f} ms, "
                f"texts {record.num_texts}, tokens {record.num_tokens}, id {record.request_id}"
            )

    def redirect_progress_messages(self) -> None:
        """If the format is JSON, also write the messages of `albertine.progress` as JSON."""
        if self._is_json:
            progress.set_message_writer(self.message)

    def message(self, text: str) -> None:
        """Write a message, unless quiet."""
        if not self._is_json:
            progress.print_message(text)
        elif not progress.is_quiet():
            self._write_json(level="info", message=text)

    def error(self, text: str, request_id: str | None = None) -> None:
        """Write an error of the server.

        Args:
            text: the error.
            request_id: id of the request that caused it; None if none did.
        """
        if self._is_json:
            self._write_json(level="error", message=text, **({"id": request_id} if request_id else {}))
        else:
            progress.end_line()
            _write_line(f"albertine: {text}{f' (request {request_id})' if request_id else ''}")

    def _write_json(self, **fields: Any) -> None:
        _write_line(json.dumps({"time": _now(), **fields}))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write_line(line: str) -> None:
    """Write a line at once, so that the lines of several processes do not mix."""
    with suppress(OSError, ValueError):  # a log that nothing reads any more must not stop the server
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
