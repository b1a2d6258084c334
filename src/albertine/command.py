"""How every command starts and ends; what a command does is elsewhere.

A command is a plain function in `cli.py`. This file gives it the options that
all commands have, reads its settings (a TOML file first, then dotted options),
and turns every ending into an exit status: 0 done, 1 the work failed, 2 the
input was wrong, 130 interrupted, 143 terminated. A failure is one line on standard error;
`--debug` shows the traceback.
"""

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

from cyclopts import (
    UNSET,
    App,
    ArgumentCollection,
    CoercionError,
    CycloptsError,
    Group,
    MissingArgumentError,
    Parameter,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from albertine import progress
from albertine.errors import AlbertineError, InputError, Status, Terminated, nearest
from albertine.settings import MODELS, Layer, Settings, layer_from_file, read, write
from albertine.settings.schema import is_table, shortened

S = TypeVar("S", bound=Settings)

_SETTINGS_GROUP = Group(
    "Settings",
    help="Each also stands in the file of --config under its dotted name. Where there are --model.* "
    f"settings, --model NAME starts from a preset: {', '.join(MODELS)}.",
    sort_key=8,
)
_SHARED_GROUP = Group("Every command", sort_key=9)

# Marks the parameter that shows a command's settings; what is typed there comes out of `shared.read(...)`.
# Help spells options with dashes; as in the file, with underscores, they may be typed too (`_spelled`).
SETTINGS = Parameter(
    name="*",
    group=_SETTINGS_GROUP,
    name_transform=lambda name: name.replace("_", "-"),
    negative_bool="no-",
)


@Parameter(name="*", group=_SHARED_GROUP)
@dataclass(frozen=True)
class Shared:
    """The options that every command has."""

    config: Annotated[
        Path | None,
        Parameter(help="TOML file of settings. Options win over it; a preset replaces its whole table."),
    ] = None
    print_settings: Annotated[bool, Parameter(negative="", help="Print the settings as TOML and stop.")] = (
        False
    )
    quiet: Annotated[bool, Parameter(negative="", help="Print results and errors only.")] = False
    debug: Annotated[bool, Parameter(negative="", help="Show the traceback of a failure.")] = False
    overrides: Annotated[Mapping[str, Any], Parameter(parse=False)] = field(default_factory=dict)

    @cached_property
    def file(self) -> Layer:
        """The settings file, read once: it may be a pipe."""
        return Layer({}) if self.config is None else layer_from_file(self.config)

    def read(self, tree: type[S], under: Layer | None = None, **presets: str | None) -> S:
        """Read a command's settings: defaults, the file, presets by table, dotted options; the last wins.

        What is `under` the file comes before all of them, after the defaults.
        """
        named = {table: {"preset": name} for table, name in presets.items() if name is not None}
        for table in named:
            if "preset" in self.overrides.get(table, {}):
                twice = f"{named[table]['preset']} and --{table} {self.overrides[table]['preset']}"
                raise InputError(f"{twice}: two presets for one {table}; give one")
        settings = read(tree, under or Layer({}), self.file, Layer(named), Layer(self.overrides))
        if self.print_settings:
            sys.stdout.write(write(settings))
            raise _Finished
        return settings

    def gives(self, table: str) -> bool:
        """Tell whether the file or an option says anything about a table."""
        return table in self.overrides or table in self.file.values

    @property
    def given(self) -> frozenset[str]:
        """The settings that the file or an option names, as in "model.layers"."""
        return self.file.keys | Layer(self.overrides).keys


SHARED = Shared()

# What the system says of a path that somebody gave, and that no other attempt would find better.
_WRONG_PATHS = {
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP,
    errno.EACCES, errno.EPERM, errno.EROFS,
}  # fmt: skip


@dataclass(frozen=True)
class NoSettings(Settings):
    """The settings of a command that has none: a file with any is refused."""


class _Finished(Exception):  # noqa: N818  # it is no error: the command has done what was asked
    """Ends a command early and well."""


def run(app: App, arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name and return the exit status."""
    words = [_spelled(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    try:
        with contextlib.suppress(_Finished):
            _perform(app, words)
        sys.stdout.flush()
    except SystemExit as ended:
        # Only the parser's own commands end the process themselves, and only over what was typed.
        return Status.BAD_INPUT if ended.code else Status.DONE
    except KeyboardInterrupt as end:
        progress.end_line()
        print("\nalbertine: interrupted", file=sys.stderr)
        return Status.TERMINATED if isinstance(end, Terminated) else Status.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough of it: that is no failure.
        _abandon_output()
        return Status.DONE
    except Exception as error:
        progress.end_line()
        if any(word in ("--debug", "--debug=true") for word in words):
            traceback.print_exc()
        status, line = _explain(app, error, words)
        if not getattr(error, "told", False):
            print(f"albertine: {line}", file=sys.stderr)
        _abandon_output()
        return status
    return Status.DONE


def _spelled(word: str) -> str:
    """Spell an option with dashes, as the help page does; its value stays as it is.

    A lone dash, which the parser would take for an option, is standard input by its other name.
    """
    if word == "-":
        return "/dev/stdin"
    option, equals, value = word.partition("=")
    return (option.replace("_", "-") if option.startswith("--") else option) + equals + value


def _abandon_output() -> None:
    """Let go of what could not be written, or Python would try again at exit and complain itself."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _perform(app: App, words: list[str]) -> None:
    """Parse, hand the settings options over as they were typed, and call the command."""
    overrides: dict[str, Any] = {}

    def capture(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        _take_settings(arguments, overrides)

    app.config = (capture,)
    command, bound, _ = app.parse_args(
        words, exit_on_error=False, print_error=False, console=progress.results(progress.NARROWEST)
    )
    progress.be_quiet(False)
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
        if any(token.value == "" and token.implicit_value is UNSET for token in argument.tokens):
            raise InputError(f"{argument.name}: empty; is a variable not set?")
        groups = argument.parameter.group
        if argument.tokens and isinstance(groups, tuple) and _SETTINGS_GROUP in groups:
            token = argument.tokens[-1]
            table = overrides
            *tables, name = (*argument.keys, "preset") if is_table(argument.hint) else argument.keys
            for outer in tables:
                table = table.setdefault(outer, {})
            table[name] = token.value if token.implicit_value is UNSET else token.implicit_value
            argument.tokens.clear()


def _explain(app: App, error: Exception, words: Sequence[str]) -> tuple[Status, str]:
    """Put an error into one line, and say whose it is."""
    if isinstance(error, AlbertineError):
        return error.status, _one_line(error)
    if isinstance(error, CycloptsError):
        return Status.BAD_INPUT, f"{_misuse(app, error, words)}; see {_named(app, words)} --help"
    if isinstance(error, OSError):
        name = f"{shortened(str(error.filename))}: " if error.filename else ""
        advice = "; free some space and run the same command again" if error.errno == errno.ENOSPC else ""
        if error.errno in _WRONG_PATHS:
            return Status.BAD_INPUT, f"{name}{error.strerror}; name another path"
        return Status.FAILED, f"{name}{error.strerror or error}{advice}"
    if isinstance(error, MemoryError):
        return Status.FAILED, f"not enough memory ({_one_line(error)}); take a smaller model or batch"
    return Status.FAILED, (
        f"a defect in Albertine: {type(error).__name__}: {_one_line(error)}; "
        "run again with --debug and report what it prints"
    )


def _named(app: App, words: Sequence[str]) -> str:
    """Return the command that the words got to, as one types it."""
    names = [app.name[0]]
    for word in words:
        if word not in app:
            break
        app = app[word]
        names.append(word)
    return " ".join(names)


def _misuse(app: App, error: CycloptsError, words: Sequence[str]) -> str:
    """Say what is wrong with the words that were typed."""
    if isinstance(error, UnknownOptionError):
        return _unknown_option(error, words)
    if isinstance(error, UnusedCliTokensError):
        return f"{shortened(' '.join(error.unused_tokens or []))}: more arguments than the command takes"
    if isinstance(error, CoercionError) and error.token:
        kind = {int: "a whole number", bool: "yes or no"}.get(error.target_type or str, "of another kind")
        name = error.token.keyword or (error.argument.name if error.argument else "")
        return f"{name} {shortened(error.token.value)}: must be {kind}"
    if isinstance(error, MissingArgumentError):
        return _missing(error)
    if isinstance(error, UnknownCommandError):
        if words[0].startswith("-"):
            return f"{shortened(words[0])}: options come after the command"
        return _unknown_command(app, words)
    return _one_line(error).rstrip(".")


def _missing(error: MissingArgumentError) -> str:
    """Say which word is missing."""
    assert error.argument is not None
    return f"{error.keyword}: its value is missing" if error.keyword else f"{error.argument.name} is missing"


def _unknown_command(app: App, words: Sequence[str]) -> str:
    """Name a word that is no command, and those that there are in its place."""
    for word in words:
        if word not in app:
            known = [name for name in app if not name.startswith("-")]
            meant = f"{shortened(word) or 'an empty word'}: no such command{nearest(word, known)}"
            return f"{meant}; known: {', '.join(known)}"
        app = app[word]
    return f"{shortened(' '.join(words))}: a command is missing"


def _unknown_option(error: UnknownOptionError, words: Sequence[str]) -> str:
    """Name an unknown option with its value, and the one that was meant, or those of its table."""
    typed = error.token.value or error.token.keyword or ""
    option = typed.partition("=")[0]
    after = words[words.index(typed) + 1 :] if typed in words else []
    value = f" {after[0]}" if after and not after[0].startswith("-") else ""
    options = [
        name for one in error.argument_collection if one.parse for name in one.names if name.startswith("--")
    ]
    table = option.rpartition(".")[0]
    beside = [name for name in options if name.rpartition(".")[0] == table]
    known = ", ".join(beside or [name for name in options if "." not in name])
    return f"{shortened(typed + value)}: unknown option{nearest(option, options)}; known: {known}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
