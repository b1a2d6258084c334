"""Declaration and validation of settings.

Settings are frozen dataclasses. Each field is declared with `setting(...)`, which stores a
help text and bounds beside the default, for the help page, the validation and the reference
documentation. An object validates types, bounds and combinations when it is created, whether
from a TOML file, the command line or Python. So every `Settings` object is valid.
"""

import dataclasses
import math
import types
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from albertine.display import display_value
from albertine.errors import InputError, did_you_mean

T = TypeVar("T")


class SettingError(InputError):
    """Error for an invalid value of a setting; its message is "KEY = VALUE: PROBLEM".

    Attributes:
        key: name of the setting.
        value: the invalid value.
        problem: what is wrong and what is allowed.
        conflicting_keys: names of the settings that the value contradicts; empty if it is invalid by itself.
    """

    def __init__(self, key: str, value: object, problem: str, conflicting_keys: tuple[str, ...] = ()):
        super().__init__(f"{key} = {display_value(value)}: {problem}")
        self.key = key
        self.value = value
        self.problem = problem
        self.conflicting_keys = conflicting_keys

    def __reduce__(self) -> tuple[Any, ...]:  # errors are pickled between processes
        return type(self), (self.key, self.value, self.problem, self.conflicting_keys)


def setting(default: T, doc: str, *, minimum: float | None = None, maximum: float | None = None) -> T:
    """Return the dataclass field of one setting.

    Args:
        default: the default value; a `Settings` object makes the setting a table.
        doc: one sentence for the help page and the reference documentation.
        minimum: smallest allowed number.
        maximum: largest allowed number.
    """
    metadata = {"doc": doc, "minimum": minimum, "maximum": maximum}
    if isinstance(default, Settings):
        field: Any = dataclasses.field(default_factory=lambda: default, metadata=metadata)
    else:
        field = dataclasses.field(default=default, metadata=metadata)
    return field  # type: ignore[no-any-return]  # dataclasses replace the field by its value


@dataclasses.dataclass(frozen=True)
class Settings:
    """Base class of all settings; subclasses are frozen dataclasses.

    A path may be given as text; it is stored as a `Path`.

    Attributes:
        earlier_values: what runs of earlier versions had, for settings that their files lack.
    """

    earlier_values: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    _recorded_keys: ClassVar[frozenset[str] | None] = None

    def __post_init__(self) -> None:
        for field, hint in typed_fields(type(self)):
            value = getattr(self, field.name)
            if isinstance(value, str) and Path in union_members(hint):
                object.__setattr__(self, field.name, Path(value))
            check_value(field, hint, getattr(self, field.name))
        self.check()

    @property
    def explicit_keys(self) -> frozenset[str]:
        """Dotted names of the settings that the user has given, as in "model.layers".

        `build_settings` records the keys of its sources; a preset is recorded as the key "preset".
        An object made in Python, also by `dataclasses.replace`, has no such record. Its explicit
        keys are those whose values differ from the defaults.
        """
        return frozenset(_explicit_keys(self, type(self)(), ""))

    def with_explicit_keys(self, keys: Iterable[str]) -> Self:
        """Return a copy that records which keys of this table were given; nested tables have their own."""
        recorded = copy(self)
        object.__setattr__(recorded, "_recorded_keys", frozenset(keys))
        return recorded

    def check(self) -> None:
        """Raise `SettingError` if values contradict each other; subclasses override this."""


def typed_fields(settings_class: type[Settings]) -> list[tuple[dataclasses.Field[Any], Any]]:
    """Return the fields of a settings class with their resolved types."""
    hints = _resolved_types(settings_class)  # type: ignore[arg-type]  # a class is hashable
    return [(field, hints[field.name]) for field in dataclasses.fields(settings_class)]


@cache
def _resolved_types(settings_class: Any) -> dict[str, Any]:
    return get_type_hints(settings_class)


def _explicit_keys(settings: Settings, default: Settings, prefix: str) -> Iterator[str]:
    recorded = settings._recorded_keys
    if recorded is not None:
        yield from (prefix + key for key in recorded)
    for field, hint in typed_fields(type(settings)):
        value, default_value = getattr(settings, field.name), getattr(default, field.name)
        if is_table(hint):
            yield from _explicit_keys(value, default_value, f"{prefix}{field.name}.")
        elif recorded is None and value != default_value:
            yield prefix + field.name


def first_changed(settings: Settings, names: Iterable[str]) -> str | None:
    """Return the first of some settings whose value is not the default; None if there is none.

    A command refuses settings that it does not use, but not a value that equals the default, because a
    settings file may state all values.
    """
    default = type(settings)()
    return next((name for name in names if getattr(settings, name) != getattr(default, name)), None)


def field_default(field: dataclasses.Field[Any]) -> Any:
    """Return the default of a field; every setting has one."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def is_table(hint: Any) -> bool:
    """Return whether a field's type is a settings class, which is a table in TOML."""
    return isinstance(hint, type) and issubclass(hint, Settings)


def union_members(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def type_description(hint: Any) -> str:
    """Return a description of the values that a type allows, for error messages."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(type_description(member) for member in get_args(hint) if member is not type(None))
    descriptions = {
        int: "an integer",
        float: "a number",
        str: "text in quotes",
        bool: "true or false",
        Path: "a path in quotes",
    }
    return "a table" if is_table(hint) else descriptions[hint]


def check_value(field: dataclasses.Field[Any], hint: Any, value: object) -> None:
    """Raise `SettingError` if a value has the wrong type for its field or is out of bounds."""
    if not any(has_type(member, value) for member in union_members(hint)):
        choices = [
            str(choice)
            for member in union_members(hint)
            if get_origin(member) is Literal
            for choice in get_args(member)
        ]
        raise SettingError(
            field.name, value, f"must be {type_description(hint)}{did_you_mean(str(value), choices)}"
        )
    if isinstance(value, str | Path) and "\0" in str(value):  # file systems and TOML do not allow it
        raise SettingError(field.name, value, "must not contain a null character")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    minimum, maximum = field.metadata.get("minimum"), field.metadata.get("maximum")
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingError(field.name, value, "must be a finite number")
    if minimum is not None and value < minimum:
        raise SettingError(field.name, value, f"must be at least {minimum:,}")
    if maximum is not None and value > maximum:
        raise SettingError(field.name, value, f"must be at most {maximum:,}")
    if isinstance(value, int) and abs(value) >= 1 << 63:
        raise SettingError(field.name, value, "must fit into 64 bits")


def has_type(hint: Any, value: object) -> bool:
    """Return whether a value fits a type; a bool is not a number, and an int is also a float."""
    if hint is type(None):
        return value is None
    if get_origin(hint) is Literal:
        return any(value == choice and type(value) is type(choice) for choice in get_args(hint))
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)
