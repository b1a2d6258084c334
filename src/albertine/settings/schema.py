"""What a setting is: a typed, frozen field with a sentence of explanation and its bounds.

Settings are plain frozen dataclasses. Each field is declared with `setting(...)`,
which keeps the explanation and the bounds beside the default; they serve the
help page, the checks and the reference documentation alike. A `Settings` object
that exists is valid: types, bounds and combinations are checked when it is made,
whether it comes from a TOML file, the command line or Python.
"""

import dataclasses
import math
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from albertine.errors import InputError, did_you_mean

T = TypeVar("T")


class SettingError(InputError):
    """A setting that cannot be: which one, its value, and what is allowed.

    Attributes:
        key: name of the setting.
        problem: the rest of the sentence, to be read after "KEY = VALUE".
        conflicting_keys: names of the settings that it does not fit, where it is not wrong by itself.
    """

    def __init__(self, key: str, value: object, problem: str, conflicting_keys: tuple[str, ...] = ()):
        super().__init__(f"{key} = {display_value(value)}: {problem}")
        self.key = key
        self.value = value
        self.problem = problem
        self.conflicting_keys = conflicting_keys

    def __reduce__(self) -> tuple[Any, ...]:  # from one process to another
        return type(self), (self.key, self.value, self.problem, self.conflicting_keys)


MAX_DISPLAY_LENGTH = 80


def toml_escaped(text: str) -> str:
    """Write text as it stands between double quotes in TOML: on one line, with no control characters."""
    return "".join(
        "\\" + one if one in '"\\' else one if one.isprintable() else f"\\U{ord(one):08x}" for one in text
    )


def display_text(text: str) -> str:
    """Write what a person gave on one line, cut where it goes on and on."""
    line = "".join(one if one.isprintable() else toml_escaped(one) for one in text[: MAX_DISPLAY_LENGTH + 1])
    return line if len(text) <= MAX_DISPLAY_LENGTH else line[:MAX_DISPLAY_LENGTH] + "..."


def display_value(value: object) -> str:
    """Write a value as a person would in TOML, on one line."""
    if value is None:
        return "(not set)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{...}"
    return display_text(f'"{value}"' if isinstance(value, str | Path) else str(value))


def setting(default: T, doc: str, *, minimum: float | None = None, maximum: float | None = None) -> T:
    """Declare one setting.

    Args:
        default: the value when nobody gives one; a `Settings` object makes a table.
        doc: one sentence for the help page and the reference.
        minimum: smallest allowed number.
        maximum: largest allowed number.
    """
    metadata = {"doc": doc, "least": minimum, "most": maximum}
    if isinstance(default, Settings):
        field: Any = dataclasses.field(default_factory=lambda: default, metadata=metadata)
    else:
        field = dataclasses.field(default=default, metadata=metadata)
    return field  # type: ignore[no-any-return]  # the declaration stands where its value will be


class Settings:
    """Base of every settings tree; subclasses are frozen dataclasses."""

    def __post_init__(self) -> None:
        for field, hint in typed_fields(type(self)):
            check_value(field, hint, getattr(self, field.name))
        self.check()

    def check(self) -> None:
        """Raise `SettingError` for values that are fine alone and impossible together."""


def typed_fields(settings_class: type[Settings]) -> list[tuple[dataclasses.Field[Any], Any]]:
    """Return the fields of a settings class with their resolved types."""
    hints = get_type_hints(settings_class)
    return [(field, hints[field.name]) for field in dataclasses.fields(settings_class)]  # type: ignore[arg-type]


def field_default(field: dataclasses.Field[Any]) -> Any:
    """Return a field's default; every setting has one."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def is_table(hint: Any) -> bool:
    """Tell whether a field's type is a settings tree of its own."""
    return isinstance(hint, type) and issubclass(hint, Settings)


def union_members(hint: Any) -> tuple[Any, ...]:
    """Return the types a value may have: the members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def type_description(hint: Any) -> str:
    """Say in words what a type allows."""
    if hint is type(None):
        return "nothing"
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(type_description(one) for one in get_args(hint) if one is not type(None))
    names = {
        int: "a whole number",
        float: "a number",
        str: "text in quotes",
        bool: "true or false",
        Path: "a path in quotes",
    }
    return "a table" if is_table(hint) else names[hint]


def check_value(field: dataclasses.Field[Any], hint: Any, value: object) -> None:
    """Raise `SettingError` if a value has another type than its field or lies out of bounds."""
    if not any(has_type(one, value) for one in union_members(hint)):
        choices = [str(c) for one in union_members(hint) for c in get_args(one) if get_origin(one) is Literal]
        raise SettingError(
            field.name, value, f"must be {type_description(hint)}{did_you_mean(str(value), choices)}"
        )
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    minimum, maximum = field.metadata.get("least"), field.metadata.get("most")
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingError(field.name, value, "must be a finite number")
    if minimum is not None and value < minimum:
        raise SettingError(field.name, value, f"must be at least {minimum:,}")
    if maximum is not None and value > maximum:
        raise SettingError(field.name, value, f"must be at most {maximum:,}")


def has_type(hint: Any, value: object) -> bool:
    """Tell whether a value has exactly this type; a whole number also serves as a float."""
    if hint is None or hint is type(None):
        return value is None
    if get_origin(hint) is Literal:
        return any(value == one and type(value) is type(one) for one in get_args(hint))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)
