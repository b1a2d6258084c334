"""GET /openapi.json: the description of the routes of this very model, for client generators and test tools.

The schemas of predictions are those of the task types; the others are in `openapi_schemas.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from albertine.deploy.endpoints import Endpoint, ServedModel
from albertine.deploy.openapi_schemas import (
    EMBED_REQUEST,
    EMBED_RESPONSE,
    ERROR,
    OPENAI_REQUEST,
    OPENAI_RESPONSE,
    PREDICT_REQUEST,
    PREDICT_RESPONSE,
    TOKENIZE_REQUEST,
    TOKENIZE_RESPONSE,
    item_schema,
    result_schema,
)
from albertine.deploy.paths import DEFAULT_PATHS, EMBED_PATH, OPEN_PATHS, OPENAI_PATHS, TOKENIZE_PATH
from albertine.deploy.request_record import REQUEST_ID_HEADER
from albertine.deploy.tei import MAX_REQUEST_ITEMS
from albertine.tasks.types.json_schema import COUNT, Schema, array_of
from albertine.version import __version__

_ERRORS: Mapping[int, str] = {
    400: "The request is wrong.",
    408: "The request did not arrive in time.",
    413: "The request is too large.",
    415: "The content type is not application/json.",
    421: "The header Host names another server.",
    422: "The request has `inputs` of a wrong form.",
    424: "The model cannot answer a request with `inputs`.",
    429: "The queue is full, for a request with `inputs`.",
    500: "The model computes numbers that are not finite, or an internal error.",
    503: "The queue is full, there are too many connections, no worker answers, or the server is stopping.",
}
_GET_ERRORS = (400, 421, 500, 503)
_OWN_ERRORS = (400, 408, 413, 415, 421, 500, 503)


def openapi_description(model: ServedModel, *, has_token: bool) -> dict[str, Any]:
    """Return the OpenAPI description of a server.

    Args:
        model: the model with its endpoints.
        has_token: whether requests need a token.
    """
    schemas: dict[str, Schema] = {"Error": ERROR}
    paths = _page_paths()
    for endpoint in model.endpoints.values():
        paths[endpoint.path] = {"post": _endpoint_operation(endpoint, schemas)}
    if model.embedder is not None:
        schemas |= {"EmbedRequest": EMBED_REQUEST, "EmbedResponse": EMBED_RESPONSE}
        paths[EMBED_PATH] = {"post": _embed_operation()}
    _add_tei_paths(model, paths, schemas)
    description: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"Albertine: {model.name}", "version": __version__},
        "servers": [{"url": "."}],
        "paths": paths,
        "components": {"schemas": schemas},
    }
    if has_token:
        _require_token(description)
    return description


def _require_token(description: dict[str, Any]) -> None:
    """Add the token to all operations but those that are open to all."""
    description["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    description["security"] = [{"token": []}]
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            if path in OPEN_PATHS and method == "get":
                operation["security"] = []
            else:
                operation["responses"]["401"] = _error("The token is missing or wrong.")


def _page_paths() -> dict[str, dict[str, Any]]:
    """Return the paths of GET requests."""
    text, json_object = {"type": "string"}, {"type": "object"}
    health = {
        "type": "object",
        "required": ["status", "workers", "workers_loaded"],
        "properties": {"status": {"enum": ["ok", "degraded"]}, "workers": COUNT, "workers_loaded": COUNT},
    }
    pages = (
        ("/", "page", "A page for trying the model.", "text/html", text),
        ("/info", "info", "The model, its endpoints and limits.", "application/json", json_object),
        ("/health", "health", "Whether all workers answer.", "application/json", health),
        ("/ping", "ping", "Whether all workers answer.", "application/json", health),
        ("/metrics", "metrics", "Metrics for Prometheus.", "text/plain", text),
        ("/openapi.json", "openapi", "This description.", "application/json", json_object),
    )
    return {
        path: {
            "get": {
                "operationId": name,
                "summary": summary,
                "parameters": [_REQUEST_ID],
                "responses": _responses({media_type: {"schema": schema}}, _GET_ERRORS),
            }
        }
        for path, name, summary, media_type, schema in pages
    }


def _endpoint_operation(endpoint: Endpoint, schemas: dict[str, Schema]) -> dict[str, Any]:
    """Return the POST operation of an endpoint, and add its schemas."""
    name = "".join(word.title() for word in endpoint.path.strip("/").split("-"))
    schemas[f"{name}Item"] = item_schema(endpoint)
    schemas[f"{name}Result"] = result_schema(endpoint)
    item, result = _reference(f"{name}Item"), _reference(f"{name}Result")
    requests: list[Schema] = [item, array_of(item, maximum=MAX_REQUEST_ITEMS)]
    responses: list[Schema] = [result, array_of(result)]
    errors: Sequence[int] = _OWN_ERRORS
    if endpoint.classifies:
        schemas |= {"TeiPredictRequest": PREDICT_REQUEST, "TeiPredictResponse": PREDICT_RESPONSE}
        requests.append(_reference("TeiPredictRequest"))
        responses.append(_reference("TeiPredictResponse"))
    if endpoint.path == "/predict":
        errors = tuple(_ERRORS)
    # `anyOf`, because an empty list of results has both forms.
    return _post(
        endpoint.path.strip("/"),
        endpoint.summary,
        {"anyOf": requests},
        {"anyOf": responses},
        errors,
    )


def _embed_operation() -> dict[str, Any]:
    return _post(
        "embed",
        "Return a vector for each text, as text-embeddings-inference does.",
        _reference("EmbedRequest"),
        _reference("EmbedResponse"),
        tuple(_ERRORS),
    )


def _add_tei_paths(model: ServedModel, paths: dict[str, dict[str, Any]], schemas: dict[str, Schema]) -> None:
    """Add the other paths of text-embeddings-inference, with their schemas."""
    if model.default_path is not None:
        operation = paths[model.default_path]["post"]
        for path, name in zip(DEFAULT_PATHS, ("default", "invocations"), strict=True):
            paths.setdefault(path, {})["post"] = {**operation, "operationId": name}
    if model.embedder is not None:
        schemas |= {"OpenAIRequest": OPENAI_REQUEST, "OpenAIResponse": OPENAI_RESPONSE}
        for path, name in zip(OPENAI_PATHS, ("openaiEmbeddings", "embeddings"), strict=True):
            summary = "Return a vector for each text, in the form of OpenAI."
            request, response = _reference("OpenAIRequest"), _reference("OpenAIResponse")
            paths[path] = {"post": _post(name, summary, request, response, tuple(_ERRORS))}
    schemas |= {"TokenizeRequest": TOKENIZE_REQUEST, "TokenizeResponse": TOKENIZE_RESPONSE}
    paths[TOKENIZE_PATH] = {
        "post": _post(
            "tokenize",
            "Return the tokens of each text, as text-embeddings-inference does.",
            _reference("TokenizeRequest"),
            _reference("TokenizeResponse"),
            tuple(_ERRORS),
        )
    }


def _post(
    name: str, summary: str, request: Schema, response: Schema, errors: Sequence[int]
) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": [_REQUEST_ID],
        "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
        "responses": _responses({"application/json": {"schema": response}}, errors),
    }


def _responses(content: Mapping[str, Any], errors: Sequence[int]) -> dict[str, Any]:
    success = {"description": "Success.", "headers": _RESPONSE_HEADERS, "content": content}
    return {"200": success, **{str(status): _error(_ERRORS[status]) for status in errors}}


def _error(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "headers": _RESPONSE_HEADERS,
        "content": {"application/json": {"schema": _reference("Error")}},
    }


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_REQUEST_ID = {
    "name": REQUEST_ID_HEADER,
    "in": "header",
    "description": "An id for this request; another one is made if it is missing or not valid.",
    "schema": {"type": "string"},
}
_RESPONSE_HEADERS = {
    REQUEST_ID_HEADER: {"description": "The id of the request.", "schema": {"type": "string"}}
}
