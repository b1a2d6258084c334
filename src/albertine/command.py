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
from albertine.errors import AlbertineError, ExitStatus, InputError, Terminated, did_you_mean
from albertine.settings import (
    MODEL_PRESETS,
    Settings,
    SettingsSource,
    build_settings,
    read_settings_file,
    settings_to_toml,
)
from albertine.settings.schema import display_text, is_table

S = TypeVar("S", bound=Settings)

_SETTINGS_GROUP = Group(
    "Settings",
    help="Each also stands in the file of --config under its dotted name. Where there are --model.* "
    f"settings, --model NAME starts from a preset: {', '.join(MODEL_PRESETS)}.",
    sort_key=8,
)
_COMMON_GROUP = Group("Every command", sort_key=9)

# Marks the parameter that shows a command's settings; what is typed there comes out of `shared.read(...)`.
# Help spells options with dashes; as in the file, with underscores, they may be typed too (`_spelled`).
SETTINGS_PARAMETER = Parameter(
    name="*",
    group=_SETTINGS_GROUP,
    name_transform=lambda name: name.replace("_", "-"),
    negative_bool="no-",
)


@Parameter(name="*", group=_COMMON_GROUP)
@dataclass(frozen=True)
class CommonOptions:
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
    def file_layer(self) -> SettingsSource:
        """The settings file, read once: it may be a pipe."""
        return SettingsSource({}) if self.config is None else read_settings_file(self.config)

    def read_settings(
        self, settings_type: type[S], base: SettingsSource | None = None, **presets: str | None
    ) -> S:
        """Read a command's settings: defaults, the file, presets by table, dotted options; the last wins.

        What is `base` the file comes before all of them, after the defaults.
        """
        preset_tables = {table: {"preset": name} for table, name in presets.items() if name is not None}
        for table in preset_tables:
            if "preset" in self.overrides.get(table, {}):
                both_presets = (
                    f"{preset_tables[table]['preset']} and --{table} {self.overrides[table]['preset']}"
                )
                raise InputError(f"{both_presets}: two presets for one {table}; give one")
        settings = build_settings(
            settings_type,
            base or SettingsSource({}),
            self.file_layer,
            SettingsSource(preset_tables),
            SettingsSource(self.overrides),
        )
        if self.print_settings:
            sys.stdout.write(settings_to_toml(settings))
            raise _EarlyExit
        return settings

    def sets_table(self, table: str) -> bool:
        """Tell whether the file or an option says anything about a table."""
        return table in self.overrides or table in self.file_layer.values

    @property
    def given_keys(self) -> frozenset[str]:
        """The settings that the file or an option names, as in "model.layers"."""
        return self.file_layer.keys | SettingsSource(self.overrides).keys


DEFAULT_OPTIONS = CommonOptions()

# What the system says of a path that somebody gave, and that no other attempt would find better.
_PATH_ERRNOS = {
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP,
    errno.EACCES, errno.EPERM, errno.EROFS,
}  # fmt: skip


@dataclass(frozen=True)
class NoSettings(Settings):
    """The settings of a command that has none: a file with any is refused."""


class _EarlyExit(Exception):  # noqa: N818  # it is no error: the command has done what was asked
    """Ends a command early and well."""


def run_command(app: App, arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name and return the exit status."""
    args = [_with_dashes(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    try:
        with contextlib.suppress(_EarlyExit):
            _dispatch(app, args)
        sys.stdout.flush()
    except SystemExit as system_exit:
        # Only the parser's own commands end the process themselves, and only over what was typed.
        return ExitStatus.BAD_INPUT if system_exit.code else ExitStatus.DONE
    except KeyboardInterrupt as interrupt:
        progress.end_line()
        print("\nalbertine: interrupted", file=sys.stderr)
        return ExitStatus.TERMINATED if isinstance(interrupt, Terminated) else ExitStatus.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough of it: that is no failure.
        _discard_output()
        return ExitStatus.DONE
    except Exception as error:
        progress.end_line()
        if any(word in ("--debug", "--debug=true") for word in args):
            traceback.print_exc()
        status, line = _describe_error(app, error, args)
        if not getattr(error, "told", False):
            print(f"albertine: {line}", file=sys.stderr)
        _discard_output()
        return status
    return ExitStatus.DONE


def _with_dashes(argument: str) -> str:
    """Spell an option with dashes, as the help page does; its value stays as it is.

    A lone dash, which the parser would take for an option, is standard input by its other name.
    """
    if argument == "-":
        return "/dev/stdin"
    option, equals, value = argument.partition("=")
    return (option.replace("_", "-") if option.startswith("--") else option) + equals + value


def _discard_output() -> None:
    """Let go of what could not be written, or Python would try again at exit and complain itself."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(app: App, args: list[str]) -> None:
    """Parse, hand the settings options over as they were typed, and call the command."""
    overrides: dict[str, Any] = {}

    def capture_settings(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        _extract_settings(arguments, overrides)

    app.config = (capture_settings,)
    command, bound, _ = app.parse_args(
        args,
        exit_on_error=False,
        print_error=False,
        console=progress.result_console(progress.MIN_TABLE_WIDTH),
    )
    progress.set_quiet(False)
    if "shared" in bound.signature.parameters:
        options = replace(bound.arguments.get("shared", DEFAULT_OPTIONS), overrides=overrides)
        bound.arguments["shared"] = options
        progress.set_quiet(options.quiet)
    command(*bound.args, **bound.kwargs)


def _extract_settings(arguments: ArgumentCollection, overrides: dict[str, Any]) -> None:
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
            for parent in tables:
                table = table.setdefault(parent, {})
            table[name] = token.value if token.implicit_value is UNSET else token.implicit_value
            argument.tokens.clear()


def _describe_error(app: App, error: Exception, args: Sequence[str]) -> tuple[ExitStatus, str]:
    """Put an error into one line, and say whose it is."""
    if isinstance(error, AlbertineError):
        return error.status, _one_line(error)
    if isinstance(error, CycloptsError):
        return (
            ExitStatus.BAD_INPUT,
            f"{_describe_usage_error(app, error, args)}; see {_command_name(app, args)} --help",
        )
    if isinstance(error, OSError):
        name = f"{display_text(str(error.filename))}: " if error.filename else ""
        advice = "; free some space and run the same command again" if error.errno == errno.ENOSPC else ""
        if error.errno in _PATH_ERRNOS:
            return ExitStatus.BAD_INPUT, f"{name}{error.strerror}; name another path"
        return ExitStatus.FAILED, f"{name}{error.strerror or error}{advice}"
    if isinstance(error, MemoryError):
        return ExitStatus.FAILED, f"not enough memory ({_one_line(error)}); take a smaller model or batch"
    return ExitStatus.FAILED, (
        f"a defect in Albertine: {type(error).__name__}: {_one_line(error)}; "
        "run again with --debug and report what it prints"
    )


def _command_name(app: App, args: Sequence[str]) -> str:
    """Return the command that the words got to, as one types it."""
    names = [app.name[0]]
    for word in args:
        if word not in app:
            break
        app = app[word]
        names.append(word)
    return " ".join(names)


def _describe_usage_error(app: App, error: CycloptsError, args: Sequence[str]) -> str:
    """Say what is wrong with the words that were typed."""
    if isinstance(error, UnknownOptionError):
        return _describe_unknown_option(error, args)
    if isinstance(error, UnusedCliTokensError):
        return f"{display_text(' '.join(error.unused_tokens or []))}: more arguments than the command takes"
    if isinstance(error, CoercionError) and error.token:
        expected = {int: "a whole number", bool: "yes or no"}.get(error.target_type or str, "of another kind")
        name = error.token.keyword or (error.argument.name if error.argument else "")
        return f"{name} {display_text(error.token.value)}: must be {expected}"
    if isinstance(error, MissingArgumentError):
        return _describe_missing_argument(error)
    if isinstance(error, UnknownCommandError):
        if args[0].startswith("-"):
            return f"{display_text(args[0])}: options come after the command"
        return _describe_unknown_command(app, args)
    return _one_line(error).rstrip(".")


def _describe_missing_argument(error: MissingArgumentError) -> str:
    """Say which word is missing."""
    assert error.argument is not None
    return f"{error.keyword}: its value is missing" if error.keyword else f"{error.argument.name} is missing"


def _describe_unknown_command(app: App, args: Sequence[str]) -> str:
    """Name a word that is no command, and those that there are in its place."""
    for word in args:
        if word not in app:
            known = [name for name in app if not name.startswith("-")]
            message = f"{display_text(word) or 'an empty word'}: no such command{did_you_mean(word, known)}"
            return f"{message}; known: {', '.join(known)}"
        app = app[word]
    return f"{display_text(' '.join(args))}: a command is missing"


def _describe_unknown_option(error: UnknownOptionError, args: Sequence[str]) -> str:
    """Name an unknown option with its value, and the one that was meant, or those of its table."""
    given = error.token.value or error.token.keyword or ""
    option = given.partition("=")[0]
    following = args[args.index(given) + 1 :] if given in args else []
    value = f" {following[0]}" if following and not following[0].startswith("-") else ""
    options = [
        name for one in error.argument_collection if one.parse for name in one.names if name.startswith("--")
    ]
    table = option.rpartition(".")[0]
    same_table = [name for name in options if name.rpartition(".")[0] == table]
    known = ", ".join(same_table or [name for name in options if "." not in name])
    return f"{display_text(given + value)}: unknown option{did_you_mean(option, options)}; known: {known}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
