"""JSON schemas, with which task types describe their predictions to clients of a server."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
PROBABILITY: Schema = {"type": "number", "minimum": 0, "maximum": 1}


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


def one_of(values: Sequence[str]) -> Schema:
    """Return the schema of a text that is one of several values."""
    return {"enum": list(values)}
