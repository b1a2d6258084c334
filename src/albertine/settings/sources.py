"""Merges sources of settings, such as a TOML file and the command line; later ones override earlier ones.

A source may name a preset for a table (`preset = "albert-large"`). The preset sets all keys
of the table; other keys of the same source override it. A preset of the model may also set keys of
other tables, but only those that no source contains.

Keys that no source contains have their defaults. Each value is validated when its source is merged,
so an invalid value is an error even if a later source overrides it. Combinations are validated after
merging. An error message names the source of the value. If two values contradict each other, it names
the one that was given last.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from albertine.display import display_text, display_value
from albertine.errors import InputError, did_you_mean
from albertine.settings.presets import find_preset, has_presets, training_of_preset
from albertine.settings.schema import (
    SettingError,
    Settings,
    check_value,
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
        values: values by key, with nested mappings for tables. From the command line they are text that
            is not parsed yet, or True or False for a flag.
        file_name: name of the file; None for the command line.
        key_names: names of keys in the file, for error messages, if they differ from the dotted names.
    """

    values: Mapping[str, Any]
    file_name: str | None = None
    key_names: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def keys(self) -> frozenset[str]:
        """Dotted names of the settings in this source, as in "model.layers"."""
        return frozenset(_dotted_keys(self.values, ""))

    def input_error(self, key: str, value: object, problem: str) -> InputError:
        """Return an error about a value in this source; its message names the option, or file and key."""
        if self.file_name is None:
            option = f"--{key.replace('_', '-')}"
            shown = "" if value is True else f" {display_text(str(value))}"  # a flag
            return InputError(f"{option}{shown}: {problem}")
        key = self.key_names.get(key, key)
        return InputError(f"{self.file_name}: {display_text(key)} = {display_value(value)}: {problem}")


def _dotted_keys(values: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _dotted_keys(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def build_settings(settings_class: type[S], *sources: SettingsSource, defaults: S | None = None) -> S:
    """Return settings with the values of all sources; a later source overrides an earlier one.

    The `explicit_keys` of the result are the keys of all sources; other keys have their defaults.
    Raises `InputError` if a value is invalid.

    Args:
        settings_class: class of the settings.
        sources: the sources.
        defaults: settings whose values keys have that no source contains; None for the defaults of the class.
    """
    merger = _SettingsMerger()
    for source in sources:
        merger.explicit_keys |= source.keys
        merger.merge_table(settings_class, source.values, source, "", merger.values)
    merger.add_training_of_preset(settings_class)
    return merger.build(settings_class, merger.values, "", defaults)


class _SettingsMerger:
    """The merged values of all sources, and the source of each key.

    Attributes:
        values: the merged values, in nested mappings.
        origins: source and unconverted value of each dotted key, in the order in which the keys were last
            given.
        explicit_keys: dotted keys that a source contains; a preset is one key.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.explicit_keys: set[str] = set()
        self.origins: dict[str, tuple[SettingsSource, object]] = {}
        self._training: Mapping[str, Mapping[str, object]] = {}

    def record_origin(self, key: str, source: SettingsSource, value: object) -> None:
        """Record the source and the value of a key, and move the key to the end of `origins`."""
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
                similar = did_you_mean(key, [prefix + known_name for known_name in known])
                raise source.input_error(key, value, f"unknown setting{similar}; known: {', '.join(known)}")
            field, hint = known[name]
            if is_table(hint):
                if not isinstance(value, Mapping):
                    example = f"{key}.{typed_fields(hint)[0][0].name}"
                    if has_presets(hint):
                        example = f"{key}.preset or {example}"
                    raise source.input_error(key, value, f"must be a table; set its keys, such as {example}")
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
        """Merge all values of a preset into `merged`, and record the source as their origin."""
        try:
            preset_settings = find_preset(settings_class, name)
        except InputError as error:
            # On the command line, the option of the whole table takes the preset: `--model albert-base`.
            key = prefix.rstrip(".") if source.file_name is None else prefix + "preset"
            raise source.input_error(key, name, str(error)) from None
        for field, _ in typed_fields(settings_class):
            merged[field.name] = getattr(preset_settings, field.name)
            self.record_origin(prefix + field.name, source, merged[field.name])
        self._training = training_of_preset(str(name))

    def add_training_of_preset(self, settings_class: type[Settings]) -> None:
        """Add what the preset of the model sets in other tables, for keys that no source contains."""
        tables = {field.name for field, hint in typed_fields(settings_class) if is_table(hint)}
        for table in tables & self._training.keys():
            self.values[table] = {**self._training[table], **self.values.get(table, {})}

    def build(
        self, settings_class: type[S], values: Mapping[str, Any], prefix: str, default: Settings | None = None
    ) -> S:
        """Return the settings object of a table, with nested tables built first.

        Args:
            settings_class: class of the object.
            values: merged values of its keys.
            prefix: dotted name of the table with a dot at its end; empty for the whole settings.
            default: object that has the values of all other keys; None for the defaults of the class.
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
        table_keys = {key.removeprefix(prefix) for key in self.explicit_keys if key.startswith(prefix)}
        return settings.with_explicit_keys(key for key in table_keys if "." not in key)

    def _conflict_error(self, error: SettingError, prefix: str) -> InputError:
        """Return an error for values that contradict each other; it names the one that was given last."""
        key = prefix + error.key
        involved_keys = {key, *(prefix + conflicting for conflicting in error.conflicting_keys)}
        latest_key = next((given for given in reversed(self.origins) if given in involved_keys), None)
        if latest_key is None:
            return error  # the defaults contradict each other, so there is no source to name
        source, value = self.origins[latest_key]
        if latest_key == key:
            return source.input_error(key, value, error.problem)
        return source.input_error(
            latest_key, value, f"does not fit {key} = {display_value(error.value)}, which {error.problem}"
        )


def _parse_option(hint: Any, text: object) -> object:
    """Return a command-line argument converted to the type of its setting; unchanged if it cannot be."""
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
    """Return a TOML value, converted from text to a `Path` if the setting is a path."""
    if isinstance(value, str) and Path in union_members(hint):
        return Path(value)
    return value
