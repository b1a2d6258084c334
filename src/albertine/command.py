"""What all commands share: common options, settings and exit statuses.

A command is a plain function in `cli/`. This module adds the options that every command has,
reads the settings (a TOML file, then dotted options), and returns an exit status:
0 success, 1 failure, 2 wrong input, 3 a complete run that has learned nothing, 4 a check that has
found errors in data, 130 interrupted, 143 terminated. A failure prints one line on standard error;
`--debug` prints the traceback.
"""

import contextlib
import os
import re
import select
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from cyclopts import (
    UNSET,
    App,
    Argument,
    ArgumentCollection,
    CoercionError,
    Group,
    Parameter,
)

from albertine import progress
from albertine.error_messages import describe_error
from albertine.errors import ExitStatus, InputError
from albertine.interruptions import recent_interruption, report_interruption
from albertine.settings import (
    MODEL_PRESETS,
    Settings,
    SettingsSource,
    build_settings,
    read_settings_file,
    settings_to_toml,
)
from albertine.settings.schema import is_table
from albertine.storage.cache import with_urls
from albertine.storage.urls import storage_url

S = TypeVar("S", bound=Settings)

_SETTINGS_HELP = "These can also be set in the TOML file of --config, by the same dotted names."
_SETTINGS_GROUP = Group("Settings", help=_SETTINGS_HELP, sort_key=8)
_MODEL_SETTINGS_GROUP = Group(
    "Settings",
    help=f"{_SETTINGS_HELP} A preset sets all of --model.*: --model PRESET, one of "
    f"{', '.join(MODEL_PRESETS)}. The defaults in this list are those without a preset.",
    sort_key=8,
)
_COMMON_GROUP = Group("Every command", sort_key=9)

_OPTION = re.compile(r"--[A-Za-z][\w.-]*")
STANDARD_INPUT = "/dev/stdin"
_OUTPUT_OPTIONS = ("--out", "--plot", "--save")
PathOrUrl = Annotated[Path, "accepts URLs of object storage"]


def _settings_parameter(group: Group) -> Parameter:
    return Parameter(
        name="*", group=group, name_transform=lambda name: name.replace("_", "-"), negative_bool="no-"
    )


# The annotation of a parameter that declares a command's settings, for the help and the parser. Its value is
# always None: `options.read_settings(...)` returns the settings. `MODEL_SETTINGS_PARAMETER` is for commands
# with --model.* settings.
SETTINGS_PARAMETER = _settings_parameter(_SETTINGS_GROUP)
MODEL_SETTINGS_PARAMETER = _settings_parameter(_MODEL_SETTINGS_GROUP)


@Parameter(name="*", group=_COMMON_GROUP)
@dataclass(frozen=True)
class CommonOptions:
    """The options that every command has."""

    config: Annotated[
        Path | None,
        Parameter(
            help="TOML file of settings. Options override it; a preset replaces its whole table [model]."
        ),
    ] = None
    print_settings: Annotated[bool, Parameter(negative="", help="Print the settings as TOML and stop.")] = (
        False
    )
    quiet: Annotated[bool, Parameter(negative="", help="Print only results and errors.")] = False
    debug: Annotated[bool, Parameter(negative="", help="Print the traceback of an error.")] = False
    overrides: Annotated[Mapping[str, Any], Parameter(parse=False)] = field(default_factory=dict)

    @cached_property
    def file_settings(self) -> SettingsSource:
        """The values in the settings file, read once because it may be a pipe."""
        if self.config is None:
            return SettingsSource({})
        return read_settings_file(self.config, accept_pipe=True)

    def read_settings(
        self,
        settings_type: type[S],
        base: SettingsSource | None = None,
        defaults: S | None = None,
        **presets: str | None,
    ) -> S:
        """Return the settings of a command; with `--print-settings`, print them and end the command.

        Later sources override earlier ones: `defaults` (by default those of the type), `base`, the settings
        file, presets by table, dotted options.
        """
        preset_tables = {table: {"preset": name} for table, name in presets.items() if name is not None}
        for table in preset_tables:
            if "preset" in self.overrides.get(table, {}):
                first, second = preset_tables[table]["preset"], self.overrides[table]["preset"]
                raise InputError(f"{first} and --{table} {second}: two presets for {table}; give only one")
        settings = build_settings(
            settings_type,
            base or SettingsSource({}),
            self.file_settings,
            SettingsSource(preset_tables),
            SettingsSource(self.overrides),
            defaults=defaults,
        )
        if self.print_settings:
            sys.stdout.write(settings_to_toml(settings))
            raise _EarlyExit
        return settings

    def sets(self, key: str) -> bool:
        """Return whether the settings file or an option gives a setting, or anything in a table."""
        return key in self.overrides or key in self.file_settings.values


DEFAULT_OPTIONS = CommonOptions()


@dataclass(frozen=True)
class NoSettings(Settings):
    """The settings of a command without settings: a settings file with any key is refused."""


class _EarlyExit(Exception):  # noqa: N818  # not an error: the command is done
    """Ends a command early with success."""


def run_command(app: App, arguments: Sequence[str] | None = None) -> int:
    """Run the command given by the arguments, and return its exit status."""
    args = list(sys.argv[1:] if arguments is None else arguments)
    try:
        args = _normalized_arguments(args)
        with contextlib.suppress(_EarlyExit):
            _dispatch(app, args)
        sys.stdout.flush()
    except SystemExit as system_exit:
        # Only cyclopts's own commands raise it, such as --install-completion.
        return ExitStatus.BAD_INPUT if system_exit.code else ExitStatus.DONE
    except KeyboardInterrupt as interruption:
        return _end_interrupted(interruption)
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _is_output_closed():  # as `head` does: not a failure
            _flush_or_discard_output()
            return ExitStatus.DONE
        if recent := recent_interruption():
            return _end_interrupted(recent)
        status, line = describe_error(app, error, args)
        with contextlib.suppress(OSError):  # standard error may be closed, too
            progress.end_line()
            if _is_debugging(args):
                traceback.print_exc()
            if not getattr(error, "already_shown", False):
                print(progress.printable_line(f"albertine: {with_urls(line)}"), file=sys.stderr)
        _flush_or_discard_output()
        return status
    return ExitStatus.DONE


def _end_interrupted(interruption: KeyboardInterrupt) -> ExitStatus:
    with contextlib.suppress(OSError):  # standard error may be closed
        progress.end_line()
    return report_interruption(interruption)


def _is_debugging(arguments: Sequence[str]) -> bool:
    """Return whether the option is given; there are no parsed options if parsing is what failed."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(word in ("--debug", "--debug=true") for word in options)


def _normalized_arguments(arguments: Sequence[str]) -> list[str]:
    """Return arguments with the names of options spelled with dashes, as in the help.

    A value that is a lone dash becomes /dev/stdin, because the parser would take it for an option; a label
    separator stays a dash. Raise `InputError` for `--out -` and other options that name outputs.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words: list[str] = []
    for word in arguments[:end]:
        option, equals, value = word.partition("=")
        if word == "-" and words and words[-1] == "--label-separator":
            words[-1] += "=-"
        elif (output := _output_of_dash(words, word)) is not None:
            raise InputError(f"{output} -: must be a file or a folder; results cannot be written to a pipe")
        elif word == "-":
            words.append(STANDARD_INPUT)
        else:
            words.append((option.replace("_", "-") if _OPTION.fullmatch(option) else option) + equals + value)
    return [*words, *(STANDARD_INPUT if word == "-" else word for word in arguments[end:])]


def _output_of_dash(words: Sequence[str], word: str) -> str | None:
    """Return the option whose value is a lone dash, if it names an output; `words` come before `word`."""
    option = word.removesuffix("=-") if word.endswith("=-") else words[-1] if word == "-" and words else ""
    return option if option in _OUTPUT_OPTIONS else None


def _is_output_closed() -> bool:
    """Return whether the reader of standard output has closed it."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError, AttributeError):  # it is not a file, or there is no poll
        return True
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _flush_or_discard_output() -> None:
    """Write what standard output holds; if that fails, discard it, because Python would retry at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(app: App, args: list[str]) -> None:
    """Parse the arguments, collect the settings options unparsed, and call the command."""
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
    _refuse_urls_for_local_paths(command, bound.arguments)
    if "options" in bound.signature.parameters:
        options = replace(bound.arguments.get("options", DEFAULT_OPTIONS), overrides=overrides)
        bound.arguments["options"] = options
        progress.set_quiet(options.quiet)
    command(*bound.args, **bound.kwargs)


def _refuse_urls_for_local_paths(command: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise `InputError` if an argument is a URL of object storage and is not a `PathOrUrl`.

    Without this, an output would be written into a local folder named "s3:".
    """
    for name, value in arguments.items():
        for path in value if isinstance(value, tuple) else (value,):
            if not isinstance(path, Path) or (url := storage_url(path)) is None:
                continue
            hint = get_type_hints(command, include_extras=True).get(name)
            if PathOrUrl not in (hint, *get_args(hint)):
                raise InputError(f"{url}: a URL, where {name.upper()} must be a local path")


def _extract_settings(arguments: ArgumentCollection, overrides: dict[str, Any]) -> None:
    """Move arguments that are settings to `overrides`, as text; `read_settings` checks them like the file.

    A whole table takes the name of a preset: `--model albert-base` sets `model.preset`.
    """
    for argument in arguments:
        if any(token.value == "" and token.implicit_value is UNSET for token in argument.tokens):
            raise InputError(f"{argument.name}: empty value; check that the shell variable is set")
        groups = argument.parameter.group
        is_setting = isinstance(groups, tuple) and {_SETTINGS_GROUP, _MODEL_SETTINGS_GROUP} & {*groups}
        if argument.tokens and is_setting:
            token = argument.tokens[-1]
            table = overrides
            *tables, name = (*argument.keys, "preset") if is_table(argument.hint) else argument.keys
            for parent in tables:
                table = table.setdefault(parent, {})
            table[name] = token.value if token.implicit_value is UNSET else token.implicit_value
            argument.tokens.clear()
        else:
            _check_values(argument)


def _check_values(argument: Argument) -> None:
    """Raise `CoercionError` for values that the parser would change: 1.5 to 2, and none to no value."""
    types = {argument.hint, *get_args(argument.hint)}
    for token in argument.tokens:
        is_none = token.value.lower() in ("none", "null") and NoneType in types and not types & {str, Path}
        if is_none or (int in types and not token.value.lstrip("+-").isdigit()):
            expected = next(one for one in (*get_args(argument.hint), argument.hint) if one is not NoneType)
            raise CoercionError(token=token, argument=argument, target_type=expected)
