"""How every command starts, speaks and ends; what a command does is elsewhere.

A command is a plain function in `cli.py`. This file gives it the options that
all commands have, reads its settings (a TOML file first, then dotted options),
and turns every ending into an exit status: 0 done, 1 the work failed, 2 the
input was wrong, 130 interrupted. A failure is one line on standard error;
`--debug` shows the traceback.
"""

import errno
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import App, ArgumentCollection, CycloptsError, Group, Parameter
from cyclopts.exceptions import UnknownCommandError, UnknownOptionError
from cyclopts.utils import UNSET

from albertine import progress
from albertine.errors import AlbertineError, Status
from albertine.settings import Layer, Settings, layer_from_file, read, write
from albertine.settings.schema import is_table

S = TypeVar("S", bound=Settings)

_SETTINGS_GROUP = Group(
    "Settings", help="Each also stands in the file given by --config, by the same dotted name.", sort_key=8
)
_SHARED_GROUP = Group("Every command", sort_key=9)

# Marks the parameter that shows a command's settings; what is typed there comes out of `shared.read(...)`.
SETTINGS = Parameter(name="*", group=_SETTINGS_GROUP, name_transform=lambda name: name)


@Parameter(name="*", group=_SHARED_GROUP)
@dataclass(frozen=True)
class Shared:
    """The options that every command has."""

    config: Annotated[
        Path | None, Parameter(help="TOML file of settings; options given here win over it.")
    ] = None
    print_settings: Annotated[bool, Parameter(negative="", help="Print the settings as TOML and stop.")] = (
        False
    )
    quiet: Annotated[bool, Parameter(negative="", help="Print results and errors only.")] = False
    debug: Annotated[bool, Parameter(negative="", help="Show the traceback of a failure.")] = False
    overrides: Annotated[Mapping[str, Any], Parameter(parse=False)] = field(default_factory=dict)

    def read(self, tree: type[S], **presets: str | None) -> S:
        """Read a command's settings: defaults, the file, presets by table, dotted options; the last wins."""
        layers = [] if self.config is None else [layer_from_file(self.config)]
        layers.append(Layer({table: {"preset": name} for table, name in presets.items() if name is not None}))
        settings = read(tree, *layers, Layer(self.overrides))
        if self.print_settings:
            sys.stdout.write(write(settings))
            raise _Finished
        return settings

    def gives(self, table: str) -> bool:
        """Tell whether the file or an option says anything about a table."""
        return table in self.overrides or (
            self.config is not None and table in layer_from_file(self.config).values
        )


SHARED = Shared()


class _Finished(Exception):  # noqa: N818  # it is no error: the command has done what was asked
    """Ends a command early and well."""


def run(app: App, arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name and return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        _perform(app, words)
        sys.stdout.flush()
    except _Finished:
        return Status.DONE
    except KeyboardInterrupt:
        print("\nalbertine: interrupted", file=sys.stderr)
        return Status.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough of it. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Status.DONE
    except Exception as error:
        if debug:
            traceback.print_exc()
        status, line = _explain(error, words)
        print(f"albertine: {line}", file=sys.stderr)
        return status
    return Status.DONE


def _perform(app: App, words: list[str]) -> None:
    """Parse, hand the settings options over as they were typed, and call the command."""
    overrides: dict[str, Any] = {}

    def capture(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        _take_settings(arguments, overrides)

    app.config = (capture,)
    command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    if "shared" in bound.signature.parameters:
        shared = replace(bound.arguments.get("shared", SHARED), overrides=overrides)
        bound.arguments["shared"] = shared
        progress.be_quiet(shared.quiet)
    command(*bound.args, **bound.kwargs)


def _take_settings(arguments: ArgumentCollection, overrides: dict[str, Any]) -> None:
    """Take what was typed for settings out of the parser's hands: one reader checks files and options alike.

    A table takes a preset's name: `--model albert-base` is `model.preset`.
    """
    for argument in arguments:
        groups = argument.parameter.group
        if argument.tokens and isinstance(groups, tuple) and _SETTINGS_GROUP in groups:
            token = argument.tokens[-1]
            table = overrides
            *tables, name = (*argument.keys, "preset") if is_table(argument.hint) else argument.keys
            for outer in tables:
                table = table.setdefault(outer, {})
            table[name] = token.value if token.implicit_value is UNSET else token.implicit_value
            argument.tokens.clear()


def _explain(error: Exception, words: Sequence[str]) -> tuple[Status, str]:
    """Put an error into one line, and say whose it is."""
    verb = next((word for word in words if not word.startswith("-")), "")
    if isinstance(error, AlbertineError):
        return error.status, str(error)
    if isinstance(error, CycloptsError):
        where = (
            "albertine --help"
            if isinstance(error, UnknownCommandError)
            else f"albertine {verb} --help".replace("  ", " ")
        )
        return Status.BAD_INPUT, f"{_one_line(error)} See: {where}"
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        advice = "; free some space and run the same command again" if error.errno == errno.ENOSPC else ""
        return Status.FAILED, f"{name}{error.strerror or error}{advice}"
    return Status.FAILED, (
        f"a defect in Albertine: {type(error).__name__}: {_one_line(error)}; "
        "run again with --debug and report what it prints"
    )


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, UnknownOptionError):
        return text if text.endswith("?") else text.rstrip(".") + "."
    return text
