"""Merges sources of settings: defaults, then a TOML file, then the command line; the last one wins per key.

A source may name a preset for a table (`preset = "albert-large"`). The preset sets all keys
of the table; keys of the same source override it.

Each source is validated by itself, so that an invalid value is an error even if a later
source overrides it; then the merged settings are validated. An error names the source
of the value. If values contradict each other, it names the one that was given last.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from albertine.errors import InputError, did_you_mean
from albertine.settings.presets import find_preset
from albertine.settings.schema import (
    SettingError,
    Settings,
    check_value,
    display_text,
    display_value,
    field_default,
    is_table,
    typed_fields,
    union_members,
)

S = TypeVar("S", bound=Settings)


@dataclasses.dataclass(frozen=True)
class SettingsSource:
    """Values of settings from one file or from the command line.

    Attributes:
        values: nested mappings for tables; leaves as in TOML, or unparsed text of the command line.
        file_name: name of the file; None for the command line.
    """

    values: Mapping[str, Any]
    file_name: str | None = None

    @property
    def keys(self) -> frozenset[str]:
        """Dotted names of the settings in this source, as in "model.layers"."""
        return frozenset(_keys(self.values, ""))

    def input_error(self, key: str, value: object, problem: str) -> InputError:
        """Return the error for an invalid value in this source; its message names the option or the file."""
        if self.file_name is None:
            option = key.replace("_", "-")
            return InputError(f"--{option} {display_text(str(value))}: {problem}")
        return InputError(f"{self.file_name}: {display_text(key)} = {display_value(value)}: {problem}")


def _keys(values: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def build_settings(settings_class: type[S], *sources: SettingsSource) -> S:
    """Return settings from the defaults and sources of rising priority; raise `InputError` if invalid.

    Their `explicit_keys` are the keys of the sources.
    """
    merger = _SettingsMerger()
    for source in sources:
        merger.given_keys |= source.keys
        merger.merge_table(settings_class, source.values, source, "", merger.values)
    return merger.build(settings_class, merger.values, "")


class _SettingsMerger:
    """The merged values of all sources, and the source of each key.

    Attributes:
        values: the merged values, in nested mappings.
        origins: source and original value of each dotted key, in the order in which they were given.
        given_keys: dotted keys that a source contains; a preset is one key.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.given_keys: set[str] = set()
        self.origins: dict[str, tuple[SettingsSource, object]] = {}

    def record_origin(self, key: str, source: SettingsSource, value: object) -> None:
        """Record the source and the value of a key, as the key that was given last."""
        self.origins.pop(key, None)
        self.origins[key] = (source, value)

    def merge_table(
        self,
        settings_class: type[Settings],
        table: Mapping[str, Any],
        source: SettingsSource,
        prefix: str,
        merged: dict[str, Any],
    ) -> None:
        """Merge one table of a source into `merged`, which holds the values of earlier sources."""
        known = {field.name: (field, hint) for field, hint in typed_fields(settings_class)}
        table = dict(table)
        if "preset" in table and "preset" not in known:
            self._merge_preset(settings_class, table.pop("preset"), source, prefix, merged)
        for name, value in table.items():
            key = prefix + name
            if name not in known:
                similar = did_you_mean(key, [prefix + one for one in known])
                raise source.input_error(key, value, f"unknown setting{similar}; known: {', '.join(known)}")
            field, hint = known[name]
            if is_table(hint):
                if not isinstance(value, Mapping):
                    example = f'{key}.NAME, or its preset: [{key}] preset = "NAME"'
                    raise source.input_error(key, value, f"must be a table; set its keys, as in {example}")
                self.merge_table(hint, value, source, key + ".", merged.setdefault(name, {}))
                continue
            merged[name] = (
                _parse_option(hint, value) if source.file_name is None else _convert_toml(hint, value)
            )
            self.record_origin(key, source, value)
            try:
                check_value(field, hint, merged[name])
            except SettingError as error:
                raise source.input_error(key, value, error.problem) from None

    def _merge_preset(
        self,
        settings_class: type[Settings],
        name: object,
        source: SettingsSource,
        prefix: str,
        merged: dict[str, Any],
    ) -> None:
        try:
            preset_settings = find_preset(settings_class, name)
        except InputError as error:
            option = prefix.rstrip(".") if source.file_name is None else prefix + "preset"
            raise source.input_error(option, name, str(error)) from None
        for field, _ in typed_fields(settings_class):
            merged[field.name] = getattr(preset_settings, field.name)
            self.record_origin(prefix + field.name, source, merged[field.name])

    def build(
        self, settings_class: type[S], values: Mapping[str, Any], prefix: str, default: Settings | None = None
    ) -> S:
        """Return the settings object, with nested tables built first.

        Args:
            settings_class: class of the object.
            values: merged values of its keys.
            prefix: dotted name of the table, for messages.
            default: object with the values of other keys; None for the defaults of the class.
        """
        default_values = (
            {}
            if default is None
            else {field.name: getattr(default, field.name) for field, _ in typed_fields(settings_class)}
        )
        tables = {
            field.name: self.build(
                hint,
                values.get(field.name, {}),
                f"{prefix}{field.name}.",
                default_values.get(field.name) or field_default(field),
            )
            for field, hint in typed_fields(settings_class)
            if is_table(hint)
        }
        try:
            settings = settings_class(**{**default_values, **values, **tables})
        except SettingError as error:
            raise self._conflict_error(error, prefix) from None
        own_keys = {key.removeprefix(prefix) for key in self.given_keys if key.startswith(prefix)}
        settings.record_explicit_keys(key for key in own_keys if "." not in key)
        return settings

    def _conflict_error(self, error: SettingError, prefix: str) -> InputError:
        """Return the error for contradicting values; its message names the value that was given last."""
        key = prefix + error.key
        involved = {key, *(prefix + other for other in error.conflicting_keys)}
        latest = next((one for one in reversed(self.origins) if one in involved), None)
        if latest is None:
            return error  # the defaults contradict each other: no source to name
        source, value = self.origins[latest]
        if latest == key:
            return source.input_error(key, value, error.problem)
        return source.input_error(
            latest, value, f"does not fit {key} = {display_value(error.value)}, which {error.problem}"
        )


def _parse_option(hint: Any, text: object) -> object:
    """Return a command-line argument as the type of its setting, or unchanged if it cannot be parsed."""
    if not isinstance(text, str):
        return text
    for member in union_members(hint):
        if member is type(None) and text.lower() == "none":
            return None
        if member is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if member in (int, float):
            try:
                return member(text)
            except ValueError:
                continue
        if member is Path:
            return Path(text)
        if get_origin(member) is Literal:
            for choice in get_args(member):
                if str(choice) == text:
                    return choice
    return text


def _convert_toml(hint: Any, value: object) -> object:
    """Return a TOML value, with text as a `Path` where the setting is one."""
    if isinstance(value, str) and Path in union_members(hint):
        return Path(value)
    return value
