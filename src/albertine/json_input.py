"""Parses JSON of any origin, up to a limit, with one class of errors, and checks the types of its values."""

import dataclasses
import json
import math
import types
from typing import Any, BinaryIO, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from albertine.errors import did_you_mean

T = TypeVar("T")

MAX_JSON_BYTES = 128 << 20
_MAX_VALUES = 8_000_000  # each takes up to 100 bytes of memory

NOT_UTF_8 = "not UTF-8"  # how the readers of rows and lines describe what they cannot decode
PERHAPS_UTF_16 = "not text in UTF-8 (perhaps UTF-16, or no text)"  # of content with zero bytes
RECODE = (
    "find the encoding of the original, such as WINDOWS-1252, KOI8-R or SHIFT_JIS, and convert it, as in: "
    "iconv -f ENCODING -t UTF-8"
)


class JsonError(ValueError):
    """Content that is not JSON, too large, or of other types; the message does not name the file.

    Attributes:
        advice: what to do about the file.
    """

    advice = "copy or download it again"


class JsonSizeError(JsonError):
    """JSON that is too large."""

    advice = "divide it"


def parse_json(content: bytes) -> Any:
    """Return the values of a JSON document in UTF-8; raise `JsonError` if it is invalid or too large."""
    # Each value but the first follows a separator, so short content cannot have too many values.
    if len(content) > _MAX_VALUES and sum(map(content.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        raise JsonSizeError(f"JSON of more than {_MAX_VALUES:,} values")
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise JsonError(NOT_UTF_8) from None
    except RecursionError:
        raise JsonError("not JSON (nested too deeply)") from None
    except json.JSONDecodeError as error:
        if b"\0" in content:
            raise JsonError(PERHAPS_UTF_16) from None
        raise JsonError(f"not JSON ({error})") from None
    except ValueError:  # Python reads no integers of thousands of digits
        raise JsonError("not JSON (a number has too many digits)") from None


def read_json(stream: BinaryIO) -> Any:
    """Return the values of a JSON file; raise `JsonError` if it is invalid or too large."""
    content = stream.read(MAX_JSON_BYTES + 1)
    if len(content) > MAX_JSON_BYTES:
        raise JsonSizeError(f"JSON of more than {MAX_JSON_BYTES >> 20} MiB")
    return parse_json(content)


def dataclass_from_json(dataclass: type[T], values: object) -> T:
    """Return an instance of a dataclass from a JSON object; raise `JsonError` for values of another type.

    Args:
        dataclass: a dataclass whose fields are numbers, texts, `Any`, lists, tuples (from lists), dicts,
            literals, unions of these, or such dataclasses.
        values: the fields; those with a default may be missing. An instance of a dataclass is kept.
    """
    if not isinstance(values, dict):
        raise JsonError(f"{_type_name(values)}, expected an object")
    hints = get_type_hints(dataclass)
    fields = dataclasses.fields(dataclass)  # type: ignore[arg-type]  # a dataclass
    unknown = next((name for name in values if name not in hints), None)
    if unknown is not None:
        hint = did_you_mean(str(unknown)[:80], hints)
        raise JsonError(f"unknown field {ascii(unknown)[:80]}{hint}")
    for field in fields:
        is_required = field.default is field.default_factory is dataclasses.MISSING
        if is_required and field.name not in values:
            raise JsonError(f"no field {field.name}")
    return dataclass(**{name: _convert(hints[name], value, name) for name, value in values.items()})


def _convert(hint: Any, value: Any, name: str) -> Any:
    """Return a JSON value as the type of a field; raise `JsonError` if it has another type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        member = next((one for one in arguments if _matches(one, value)), None)
        if member is not None:
            return _convert(member, value, name)
    elif _matches(hint, value):
        if origin in (list, tuple):
            return origin(_convert(arguments[0], item, f"an item of {name}") for item in value)
        if origin is dict:
            return {key: _convert(arguments[1], item, f"a value of {name}") for key, item in value.items()}
        if dataclasses.is_dataclass(hint) and isinstance(value, dict):
            try:
                return dataclass_from_json(hint, value)  # type: ignore[arg-type]  # a class
            except JsonError as error:
                raise JsonError(f"{name}: {error}") from None
        return value
    raise JsonError(f"{name} is {_type_name(value)}, expected {_describe_type(hint)}")


def _matches(hint: Any, value: Any) -> bool:
    """Return whether a value has a type; the types of its items are not checked."""
    origin = get_origin(hint)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(hint))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and _fits_float(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
    if hint is None or hint is type(None):
        return value is None
    if dataclasses.is_dataclass(hint):
        return isinstance(value, dict) or type(value) is hint
    if origin is tuple:
        return isinstance(value, list)
    return isinstance(value, origin or hint)


def _fits_float(number: float) -> bool:
    """Return whether an integer or a number is finite as a float."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _type_name(value: object) -> str:
    """Return the name of a JSON value's type, or the value if it is a number, true, false or null."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)[:80]
    return "text" if isinstance(value, str) else "a list" if isinstance(value, list) else "an object"


def _describe_type(hint: Any) -> str:
    """Return the name of a field's type, for a message."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_describe_type, arguments))
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    names: dict[Any, str] = {
        int: "an integer",
        float: "a number",
        str: "text",
        list: "a list",
        tuple: "a list",
        bool: "true or false",
    }
    type_name: Any = origin or hint
    return names.get(type_name, "null" if hint is type(None) else "an object")
