"""Settings to TOML and back: a file a person reads, and overrides a person types.

`read` lays layers over each other, later ones winning key by key: a TOML file,
then what the command line says. A layer may name a preset for a table
(`preset = "albert-large"`); that sets every key of the table at once, and the
layer's own keys go on top. `write` prints every value with its explanation, and
reads back to equal settings.

Every complaint says where the value came from, so a layer carries its source.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from albertine.errors import InputError, nearest
from albertine.settings.presets import preset
from albertine.settings.schema import (
    SettingError,
    Settings,
    alternatives,
    described,
    fields,
    is_table,
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

    def complaint(self, key: str, value: object, problem: str) -> InputError:
        """Return the one line that a person gets for a wrong value in this layer."""
        if self.source is None:
            return InputError(f"--{key} {value}: {problem}")
        return InputError(f"{self.source}: {key} = {shown(value)}: {problem}")


def layer_from_file(path: Path) -> Layer:
    """Read a TOML file."""
    try:
        return Layer(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}; give --config an existing TOML file"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None


def read(tree: type[S], *layers: Layer) -> S:
    """Make settings from defaults and layers, the last layer winning; raise `InputError` with one line."""
    values: dict[str, Any] = {}
    origin: dict[str, Layer] = {}
    for layer in layers:
        _lay(tree, layer.values, layer, "", values, origin)
    return _build(tree, values, origin, "")


def _lay(
    tree: type[Settings],
    given: Mapping[str, Any],
    layer: Layer,
    prefix: str,
    values: dict[str, Any],
    origin: dict[str, Layer],
) -> None:
    """Lay one table of one layer over what earlier layers gave."""
    known = {field.name: hint for field, hint in fields(tree)}
    given = dict(given)
    if "preset" in given and "preset" not in known:
        _lay_preset(tree, given.pop("preset"), layer, prefix, values, origin)
    for name, value in given.items():
        key = prefix + name
        if name not in known:
            raise _unknown(layer, key, value, prefix, known)
        origin[key] = layer
        if is_table(known[name]):
            if not isinstance(value, Mapping):
                raise layer.complaint(key, value, f"is a table; set its keys, as in {key}.NAME")
            _lay(known[name], value, layer, key + ".", values.setdefault(name, {}), origin)
        else:
            values[name] = (
                _from_text(known[name], value) if layer.source is None else _from_toml(known[name], value)
            )


def _lay_preset(
    tree: type[Settings],
    name: object,
    layer: Layer,
    prefix: str,
    values: dict[str, Any],
    origin: dict[str, Layer],
) -> None:
    try:
        base = preset(tree, name)
    except InputError as error:
        option = prefix.rstrip(".") if layer.source is None else prefix + "preset"
        raise layer.complaint(option, name, str(error)) from None
    for field in dataclasses.fields(base):  # type: ignore[arg-type]  # every Settings is a dataclass
        values[field.name] = getattr(base, field.name)
        origin[prefix + field.name] = layer


def _unknown(layer: Layer, key: str, value: object, prefix: str, known: Mapping[str, Any]) -> InputError:
    near = nearest(key, [prefix + name for name in known])
    allowed = ", ".join(known)
    return layer.complaint(key, value, f"unknown setting{near}; known: {allowed}")


def _build(tree: type[S], values: Mapping[str, Any], origin: Mapping[str, Layer], prefix: str) -> S:
    """Make the tree from the inside out, and tell where a refused value came from."""
    tables = {
        field.name: _build(hint, values.get(field.name, {}), origin, f"{prefix}{field.name}.")
        for field, hint in fields(tree)
        if is_table(hint)
    }
    try:
        return tree(**{**values, **tables})
    except SettingError as error:
        key = prefix + error.key
        layer = origin.get(key)
        if layer is None:  # the value is a default that another setting rules out
            layer = next((one for name, one in origin.items() if name.startswith(prefix)), Layer({}))
        raise layer.complaint(key, error.value, error.problem) from None


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


def write(settings: Settings) -> str:
    """Return settings as TOML, every value with its explanation above it."""
    return "\n".join(_lines(settings, "")).strip() + "\n"


def _lines(settings: Settings, prefix: str) -> list[str]:
    lines: list[str] = []
    tables: list[str] = []
    for field, hint in fields(type(settings)):
        value = getattr(settings, field.name)
        doc = field.metadata["doc"]
        if is_table(hint):
            name = prefix + field.name
            tables += ["", f"# {doc}", f"[{name}]", *_lines(value, name + ".")]
        elif value is None:
            lines += [f"# {doc}", f"# {field.name} = ({described(hint)}; not set)"]
        else:
            lines += [f"# {doc}", f"{field.name} = {_toml(value)}"]
    return lines + tables


def _toml(value: object) -> str:
    """Write one value in TOML's notation."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    escaped = "".join(_escape(character) for character in str(value))
    return f'"{escaped}"'


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if ord(character) < 0x20 or ord(character) == 0x7F:
        return f"\\u{ord(character):04x}"
    return character
