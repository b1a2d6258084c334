"""JSON schemas of items, results and errors, for the OpenAPI description."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from albertine.deploy.endpoints import Endpoint
from albertine.deploy.tei import MAX_REQUEST_ITEMS
from albertine.tasks.types.inputs import InputField

Schema: TypeAlias = Mapping[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_PROBABILITY: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_FLAG: Schema = {"type": ["boolean", "null"]}


def array_of(items: Schema, *, minimum: int = 0, maximum: int | None = None) -> dict[str, Any]:
    """Return the schema of a list."""
    schema: dict[str, Any] = {"type": "array", "items": items}
    if minimum:
        schema["minItems"] = minimum
    if maximum is not None:
        schema["maxItems"] = maximum
    return schema


def object_of(
    required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, *, closed: bool = False
) -> dict[str, Any]:
    """Return the schema of an object.

    Args:
        required: schemas of the keys that it must have.
        optional: schemas of the keys that it may have.
        closed: whether it may have no other keys.
    """
    schema: dict[str, Any] = {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
    }
    if closed:
        schema["additionalProperties"] = False
    return schema


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
    texts: Schema = array_of(_TEXT)
    if field.type == "texts":
        return array_of(_TEXT, minimum=field.count or 0, maximum=field.count)
    return {"anyOf": [_TEXT, texts]} if field.type == "words" else _TEXT


def result_schema(endpoint: Endpoint, labels: Sequence[str]) -> dict[str, Any]:
    """Return the schema of the result of an item.

    Args:
        endpoint: the endpoint.
        labels: the labels that the model predicts.
    """
    label: Schema = {"enum": list(labels)} if labels else _TEXT
    required: dict[str, dict[str, Schema]] = {
        "classify": {
            "label": label,
            "probability": _PROBABILITY,
            "probabilities": object_of(dict.fromkeys(labels, _PROBABILITY)),
        },
        "regress": {"value": _NUMBER},
        "tag": {
            "words": array_of(_TEXT),
            "tags": array_of(label),
            "probabilities": array_of(_PROBABILITY),
        },
        "span": {
            "answer": _TEXT,
            "candidates": array_of(object_of({"text": _TEXT, "start": _COUNT, "probability": _PROBABILITY})),
        },
        "choice": {
            "option": _COUNT,
            "letter": _TEXT,
            "text": _TEXT,
            "probability": _PROBABILITY,
            "probabilities": array_of(_PROBABILITY),
        },
        "fill-mask": {
            "masks": array_of(array_of(object_of({"token_str": _TEXT, "text": _TEXT, "score": _PROBABILITY})))
        },
        "order": {"in_order": _PROBABILITY},
    }
    optional: dict[str, Schema] = {}
    if endpoint.path == "/predict":
        optional = {"truncated_tokens": _COUNT, "depth": _NUMBER}
    if endpoint.type_name == "span":
        optional |= {
            "start": _COUNT,
            "end": _COUNT,
            "no_answer_score": _NUMBER,
            "no_answer_probability": _PROBABILITY,
            "best_answer": _TEXT,
        }
    return object_of(required[endpoint.type_name], optional)


ERROR: Schema = object_of(
    {
        "error": _TEXT,
        "error_type": {"enum": ["Validation", "Backend", "Overloaded"]},
        "request_id": _TEXT,
    },
    closed=True,
)

_DIRECTION: Schema = {"enum": ["right", "Right", None]}
_ONE_OR_TWO: Schema = array_of(_TEXT, minimum=1, maximum=2)
PREDICT_REQUEST: Schema = object_of(
    {"inputs": {"anyOf": [_TEXT, _ONE_OR_TWO, array_of(_ONE_OR_TWO, minimum=1, maximum=MAX_REQUEST_ITEMS)]}},
    {"raw_scores": _FLAG, "truncate": _FLAG, "truncation_direction": _DIRECTION},
)
_PREDICTIONS: Schema = array_of(object_of({"score": _NUMBER, "label": _TEXT}))
PREDICT_RESPONSE: Schema = {"anyOf": [_PREDICTIONS, array_of(_PREDICTIONS)]}
EMBED_REQUEST: Schema = object_of(
    {"inputs": {"anyOf": [_TEXT, array_of(_TEXT, minimum=1, maximum=MAX_REQUEST_ITEMS)]}},
    {"normalize": _FLAG, "truncate": _FLAG, "truncation_direction": _DIRECTION},
)
EMBED_RESPONSE: Schema = array_of(array_of(_NUMBER))
