"""JSON schemas of items, results and errors, for the OpenAPI description."""

from collections.abc import Mapping
from typing import Any

from albertine.deploy.endpoints import Endpoint
from albertine.deploy.tei import MAX_REQUEST_ITEMS
from albertine.tasks.types.inputs import InputField
from albertine.tasks.types.json_schema import (
    COUNT,
    NUMBER,
    TEXT,
    Schema,
    array_of,
    object_of,
)

_FLAG: Schema = {"type": ["boolean", "null"]}
# Of a prediction, whatever its task type.
_PREDICTION_KEYS: Mapping[str, Schema] = {"truncated_tokens": COUNT, "depth": NUMBER}


def item_schema(endpoint: Endpoint) -> dict[str, Any]:
    """Return the schema of an item of an endpoint."""
    required = {field.name: _field_schema(field) for field in endpoint.fields if field.required}
    optional = {
        field.name: {"anyOf": [_field_schema(field), {"type": "null"}]}
        for field in endpoint.fields
        if not field.required
    }
    return object_of(required, optional, closed=True)


def _field_schema(field: InputField) -> Schema:
    texts: Schema = array_of(TEXT)
    if field.type == "texts":
        return array_of(TEXT, minimum=field.count or 0, maximum=field.count)
    return {"anyOf": [TEXT, texts]} if field.type == "words" else TEXT


def result_schema(endpoint: Endpoint) -> dict[str, Any]:
    """Return the schema of the result of an item."""
    schema = endpoint.result_schema
    return {**schema, "properties": {**schema["properties"], **_PREDICTION_KEYS}}


ERROR: Schema = object_of(
    {
        "error": TEXT,
        "error_type": {"enum": ["Validation", "Backend", "Overloaded"]},
        "request_id": TEXT,
    },
    {"message": TEXT, "type": TEXT, "code": COUNT},  # of the paths of OpenAI
    closed=True,
)

_DIRECTION: Schema = {"enum": ["right", "Right", None]}
_ONE_OR_TWO: Schema = array_of(TEXT, minimum=1, maximum=2)
_PARAMETERS: Schema = object_of(
    {},
    {"top_k": {"type": ["integer", "null"], "minimum": 1}, "function_to_apply": {"enum": ["none", None]}},
    closed=True,
)
PREDICT_REQUEST: Schema = object_of(
    {"inputs": {"anyOf": [TEXT, _ONE_OR_TWO, array_of(_ONE_OR_TWO, minimum=1, maximum=MAX_REQUEST_ITEMS)]}},
    {
        "raw_scores": _FLAG,
        "truncate": _FLAG,
        "truncation_direction": _DIRECTION,
        "parameters": {"anyOf": [_PARAMETERS, {"type": "null"}]},
    },
)
_PREDICTIONS: Schema = array_of(object_of({"score": NUMBER, "label": TEXT}))
PREDICT_RESPONSE: Schema = {"anyOf": [_PREDICTIONS, array_of(_PREDICTIONS)]}
_TEXTS: Schema = {"anyOf": [TEXT, array_of(TEXT, minimum=1, maximum=MAX_REQUEST_ITEMS)]}
EMBED_REQUEST: Schema = object_of(
    {"inputs": _TEXTS},
    {"normalize": _FLAG, "truncate": _FLAG, "truncation_direction": _DIRECTION},
)
EMBED_RESPONSE: Schema = array_of(array_of(NUMBER))
OPENAI_REQUEST: Schema = object_of(
    {"input": _TEXTS},
    {"model": {}, "user": {}, "encoding_format": {"enum": ["float", "base64", None]}},
)
OPENAI_RESPONSE: Schema = object_of(
    {
        "object": {"const": "list"},
        "data": array_of(
            object_of(
                {
                    "object": {"const": "embedding"},
                    "index": COUNT,
                    "embedding": {"anyOf": [array_of(NUMBER), TEXT]},
                }
            )
        ),
        "model": TEXT,
        "usage": object_of({"prompt_tokens": COUNT, "total_tokens": COUNT}),
    }
)
TOKENIZE_REQUEST: Schema = object_of({"inputs": _TEXTS}, {"add_special_tokens": _FLAG})
_POSITION: Schema = {"type": ["integer", "null"], "minimum": 0}
TOKENIZE_RESPONSE: Schema = array_of(
    array_of(
        object_of(
            {"id": COUNT, "text": TEXT, "special": {"type": "boolean"}, "start": _POSITION, "stop": _POSITION}
        )
    )
)
