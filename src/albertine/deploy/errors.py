"""Error responses: one line of JSON with the id of the request."""

from collections.abc import Mapping

from starlette.responses import JSONResponse

from albertine.deploy.paths import OPENAI_PATHS
from albertine.deploy.request_record import current_record, new_request_id
from albertine.errors import InputError


class ItemTooLong(InputError):  # noqa: N818  # what is wrong
    """An item of a request has too many characters."""


# Names of text-embeddings-inference for kinds of errors; all others are errors of the request.
_ERROR_TYPES: Mapping[int, str] = {424: "Backend", 429: "Overloaded", 500: "Backend", 503: "Overloaded"}


def error_response(
    status: int, message: str, headers: Mapping[str, str] | None = None, *, request_id: str | None = None
) -> JSONResponse:
    """Return an error response.

    Args:
        status: the HTTP status.
        message: what is wrong, and what to do.
        headers: more headers.
        request_id: id of the request; None for the one that this task answers.
    """
    record = current_record.get()
    if request_id is None:
        request_id = record.request_id if record else new_request_id()
    error_type = _ERROR_TYPES.get(status, "Validation")
    content: dict[str, object] = {"error": message, "error_type": error_type, "request_id": request_id}
    if record is not None and record.route in OPENAI_PATHS:
        content |= {"message": message, "type": error_type, "code": status}
    return JSONResponse(content, status, headers)
