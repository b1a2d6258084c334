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

from albertine.errors import InputError, nearest
from albertine.settings.presets import preset
from albertine.settings.schema import (
    SettingError,
    Settings,
    alternatives,
    check_value,
    default_of,
    fields,
    is_table,
    shortened,
    shown,
)

S = TypeVar("S", bound=Settings)


@dataclasses.dataclass(frozen=True)
class Layer:
    """Values by key, in nested tables, and where they come from.

    Attributes:
        values: tables as mappings, the leaves as TOML or the command line gave them.
        source: a file's name; None for the command line, whose values are text yet to be read.
    """

    values: Mapping[str, Any]
    source: str | None = None

    @property
    def keys(self) -> frozenset[str]:
        """The settings that it gives, as in "model.layers"."""
        return frozenset(_keys(self.values, ""))

    def complaint(self, key: str, value: object, problem: str) -> InputError:
        """Return the one line that a person gets for a wrong value in this layer."""
        if self.source is None:
            option = key.replace("_", "-")
            return InputError(f"--{option} {shortened(str(value))}: {problem}")
        return InputError(f"{self.source}: {shortened(key)} = {shown(value)}: {problem}")


def _keys(values: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def read(tree: type[S], *layers: Layer) -> S:
    """Make settings from defaults and layers; raise `InputError` with one line."""
    laid = _Laid()
    for layer in layers:
        laid.lay(tree, layer.values, layer, "", laid.values)
    return laid.build(tree, laid.values, "")


class _Laid:
    """What the layers give together, and which layer gave each key, in the order of giving."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origin: dict[str, tuple[Layer, object]] = {}

    def note(self, key: str, layer: Layer, value: object) -> None:
        """Note who gave a key, as the latest."""
        self.origin.pop(key, None)
        self.origin[key] = (layer, value)

    def lay(
        self,
        tree: type[Settings],
        given: Mapping[str, Any],
        layer: Layer,
        prefix: str,
        values: dict[str, Any],
    ) -> None:
        """Lay one table of a layer over what earlier layers gave."""
        known = {field.name: (field, hint) for field, hint in fields(tree)}
        given = dict(given)
        if "preset" in given and "preset" not in known:
            self._lay_preset(tree, given.pop("preset"), layer, prefix, values)
        for name, value in given.items():
            key = prefix + name
            if name not in known:
                near = nearest(key, [prefix + one for one in known])
                raise layer.complaint(key, value, f"unknown setting{near}; known: {', '.join(known)}")
            field, hint = known[name]
            if is_table(hint):
                if not isinstance(value, Mapping):
                    how = f'{key}.NAME, or its preset: [{key}] preset = "NAME"'
                    raise layer.complaint(key, value, f"is a table; set its keys, as in {how}")
                self.lay(hint, value, layer, key + ".", values.setdefault(name, {}))
                continue
            values[name] = _from_text(hint, value) if layer.source is None else _from_toml(hint, value)
            self.note(key, layer, value)
            try:
                check_value(field, hint, values[name])
            except SettingError as error:
                raise layer.complaint(key, value, error.problem) from None

    def _lay_preset(
        self, tree: type[Settings], name: object, layer: Layer, prefix: str, values: dict[str, Any]
    ) -> None:
        try:
            base = preset(tree, name)
        except InputError as error:
            option = prefix.rstrip(".") if layer.source is None else prefix + "preset"
            raise layer.complaint(option, name, str(error)) from None
        for field, _ in fields(tree):
            values[field.name] = getattr(base, field.name)
            self.note(prefix + field.name, layer, values[field.name])

    def build(
        self, tree: type[S], values: Mapping[str, Any], prefix: str, default: Settings | None = None
    ) -> S:
        """Make the tree from the inside out, and tell where a refused value came from."""
        kept = (
            {} if default is None else {field.name: getattr(default, field.name) for field, _ in fields(tree)}
        )
        tables = {
            field.name: self.build(
                hint,
                values.get(field.name, {}),
                f"{prefix}{field.name}.",
                kept.get(field.name) or default_of(field),
            )
            for field, hint in fields(tree)
            if is_table(hint)
        }
        try:
            return tree(**{**kept, **values, **tables})
        except SettingError as error:
            raise self._blame(error, prefix) from None

    def _blame(self, error: SettingError, prefix: str) -> InputError:
        """Complain about the value that was given last of those that do not fit each other."""
        key = prefix + error.key
        involved = {key, *(prefix + other for other in error.others)}
        latest = next((one for one in reversed(self.origin) if one in involved), None)
        if latest is None:
            return error  # defaults that do not fit each other: nobody else to name
        layer, value = self.origin[latest]
        if latest == key:
            return layer.complaint(key, value, error.problem)
        return layer.complaint(
            latest, value, f"does not fit {key} = {shown(error.value)}, which {error.problem}"
        )


def _from_text(hint: Any, text: object) -> object:
    """Read a command-line word as the type its setting has; what cannot be read stays text, to be refused."""
    if not isinstance(text, str):
        return text
    for one in alternatives(hint):
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


def _from_toml(hint: Any, value: object) -> object:
    """Turn what TOML has no type for into ours."""
    if isinstance(value, str) and Path in alternatives(hint):
        return Path(value)
    return value
