"""Layers of values become settings, the last layer winning key by key.

Defaults lie at the bottom, a TOML file over them, the command line on top. A
layer may name a preset for a table (`preset = "albert-large"`); that sets every
key of the table at once, and the layer's own keys go on top.

Every layer is checked by itself, so that a wrong value is refused even where a
later layer covers it; then the whole. Each complaint says where the value came
from: of several that do not fit each other, the one that was given last.
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
    """Values by key, in nested tables, and where they come from.

    Attributes:
        values: tables as mappings, the leaves as TOML or the command line gave them.
        file_name: a file's name; None for the command line, whose values are text yet to be read.
    """

    values: Mapping[str, Any]
    file_name: str | None = None

    @property
    def keys(self) -> frozenset[str]:
        """The settings that it gives, as in "model.layers"."""
        return frozenset(_keys(self.values, ""))

    def input_error(self, key: str, value: object, problem: str) -> InputError:
        """Return the one line that a person gets for a wrong value in this layer."""
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
    """Make settings from defaults and layers; raise `InputError` with one line."""
    merger = _SettingsMerger()
    for source in sources:
        merger.merge_table(settings_class, source.values, source, "", merger.values)
    return merger.build(settings_class, merger.values, "")


class _SettingsMerger:
    """What the layers give together, and which layer gave each key, in the order of giving."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, tuple[SettingsSource, object]] = {}

    def record_origin(self, key: str, source: SettingsSource, value: object) -> None:
        """Note who gave a key, as the latest."""
        self.origins.pop(key, None)
        self.origins[key] = (source, value)

    def merge_table(
        self,
        settings_class: type[Settings],
        given: Mapping[str, Any],
        source: SettingsSource,
        prefix: str,
        merged: dict[str, Any],
    ) -> None:
        """Lay one table of a layer over what earlier layers gave."""
        known = {field.name: (field, hint) for field, hint in typed_fields(settings_class)}
        given = dict(given)
        if "preset" in given and "preset" not in known:
            self._merge_preset(settings_class, given.pop("preset"), source, prefix, merged)
        for name, value in given.items():
            key = prefix + name
            if name not in known:
                near = did_you_mean(key, [prefix + one for one in known])
                raise source.input_error(key, value, f"unknown setting{near}; known: {', '.join(known)}")
            field, hint = known[name]
            if is_table(hint):
                if not isinstance(value, Mapping):
                    how = f'{key}.NAME, or its preset: [{key}] preset = "NAME"'
                    raise source.input_error(key, value, f"is a table; set its keys, as in {how}")
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
        """Make the tree from the inside out, and tell where a refused value came from."""
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
            return settings_class(**{**default_values, **values, **tables})
        except SettingError as error:
            raise self._conflict_error(error, prefix) from None

    def _conflict_error(self, error: SettingError, prefix: str) -> InputError:
        """Complain about the value that was given last of those that do not fit each other."""
        key = prefix + error.key
        involved = {key, *(prefix + other for other in error.conflicting_keys)}
        latest = next((one for one in reversed(self.origins) if one in involved), None)
        if latest is None:
            return error  # defaults that do not fit each other: nobody else to name
        source, value = self.origins[latest]
        if latest == key:
            return source.input_error(key, value, error.problem)
        return source.input_error(
            latest, value, f"does not fit {key} = {display_value(error.value)}, which {error.problem}"
        )


def _parse_option(hint: Any, text: object) -> object:
    """Read a command-line word as the type its setting has; what cannot be read stays text, to be refused."""
    if not isinstance(text, str):
        return text
    for one in union_members(hint):
        if one is type(None) and text.lower() == "none":
            return None
        if one is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if one in (int, float):
            try:
                return one(text)
            except ValueError:
                continue
        if one is Path:
            return Path(text)
        if get_origin(one) is Literal:
            for choice in get_args(one):
                if str(choice) == text:
                    return choice
    return text


def _convert_toml(hint: Any, value: object) -> object:
    """Turn what TOML has no type for into ours."""
    if isinstance(value, str) and Path in union_members(hint):
        return Path(value)
    return value
