"""Reads and writes settings as TOML.

Each setting is written below its help text, which is a comment. Reading a written file gives
equal settings.
"""

import tomllib
from pathlib import Path

from albertine.display import toml_escaped
from albertine.errors import InputError
from albertine.input_files import check_regular_file
from albertine.settings.schema import Settings, is_table, type_description, typed_fields
from albertine.settings.sources import SettingsSource
from albertine.storage.objects import display_path, read_object
from albertine.storage.urls import storage_url

_MAX_BYTES = 100_000
_MAX_DOTS = 200  # in a line; a key with many parts takes the parser very long


def read_settings_file(path: Path, *, accept_pipe: bool = False) -> SettingsSource:
    """Return the settings in a TOML file; raise `InputError` if it cannot be read.

    Args:
        path: the file, here or on object storage.
        accept_pipe: whether it may be a pipe, which the user has named; opening a pipe may wait forever.
    """
    name = display_path(path)
    try:
        if (url := storage_url(path)) is not None:
            content = read_object(url, _MAX_BYTES)
            if content is None:
                raise InputError(f"{url}: no such file; give --config a TOML file")
        else:
            if not accept_pipe:
                check_regular_file(path)
            with path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise InputError(f"{name}: larger than {_MAX_BYTES:,} bytes; give --config a file of settings")
        return settings_from_toml(content.decode("utf-8-sig"), name)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}; give --config a TOML file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: byte {error.start} is not UTF-8; save the file as UTF-8") from None


def settings_from_toml(text: str, file_name: str) -> SettingsSource:
    """Return the settings in TOML text; raise `InputError`, which names the file, if it is not valid."""
    if any(line.count(".") > _MAX_DOTS for line in text.splitlines()):
        raise InputError(f"{file_name}: a line with more than {_MAX_DOTS} dots; remove the line")
    try:
        return SettingsSource(tomllib.loads(text), file_name)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file_name}: not valid TOML: {error}") from None


def settings_to_toml(settings: Settings) -> str:
    """Return settings as TOML, each value below its help text."""
    return "\n".join(_lines(settings, "")).strip() + "\n"


def _lines(settings: Settings, prefix: str) -> list[str]:
    """Return the lines of a table, nested tables last, as TOML requires."""
    lines: list[str] = []
    tables: list[str] = []
    for field, hint in typed_fields(type(settings)):
        value = getattr(settings, field.name)
        doc = field.metadata["doc"]
        if is_table(hint):
            name = prefix + field.name
            tables += ["", f"# {doc}", f"[{name}]", *_lines(value, name + ".")]
        elif value is None:
            lines += [f"# {doc}", f"# {field.name} = ({type_description(hint)}; not set)"]
        else:
            lines += [f"# {doc}", f"{field.name} = {_toml_value(value)}"]
    return lines + tables


def _toml_value(value: object) -> str:
    """Return a value in TOML notation."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else f'"{toml_escaped(str(value))}"'
