"""One line for every error of a command: what is wrong, where, and what to do."""

import errno
from collections.abc import Sequence
from typing import Any, get_args

from cyclopts import (
    App,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnknownOptionError,
    UnusedCliTokensError,
)

from albertine.display import display_text
from albertine.errors import AlbertineError, ExitStatus, did_you_mean, is_out_of_memory

_MAX_PATH_LENGTH = 400  # in a message, so that most paths are shown whole
# System errors about a path that the user gave: wrong input, because a retry fails again.
_PATH_ERRNOS = {
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP,
    errno.EACCES, errno.EPERM, errno.EROFS,
}  # fmt: skip


def describe_error(app: App, error: Exception, args: Sequence[str]) -> tuple[ExitStatus, str]:
    """Return the exit status and the one-line message for an error."""
    if isinstance(error, AlbertineError):
        return error.status, _one_line(error)
    if isinstance(error, CycloptsError):
        return (
            ExitStatus.BAD_INPUT,
            f"{_describe_usage_error(app, error, args)}; see {_command_name(app, args)} --help",
        )
    if isinstance(error, OSError):
        name = f"{display_text(str(error.filename), _MAX_PATH_LENGTH)}: " if error.filename else ""
        advice = "; free disk space and run the same command again" if error.errno == errno.ENOSPC else ""
        if error.filename and error.errno in _PATH_ERRNOS:
            return ExitStatus.BAD_INPUT, f"{name}{error.strerror}; name another path"
        return ExitStatus.FAILED, f"{name}{error.strerror or error}{advice}"
    if is_out_of_memory(error):
        return (
            ExitStatus.FAILED,
            f"out of memory ({_one_line(error)}); use a smaller model or micro-batch, or fewer workers",
        )
    return ExitStatus.FAILED, (
        f"internal error: {type(error).__name__}: {_one_line(error)}; "
        "run again with --debug and report the traceback"
    )


def _command_name(app: App, args: Sequence[str]) -> str:
    """Return the name of the command that the arguments select, such as `albertine corpus build`."""
    names = [app.name[0]]
    for word in args:
        if word not in app:
            break
        app = app[word]
        names.append(word)
    return " ".join(names)


def _describe_usage_error(app: App, error: CycloptsError, args: Sequence[str]) -> str:
    """Return the message for arguments that the parser rejects."""
    if isinstance(error, UnknownOptionError):
        return _describe_unknown_option(error)
    if isinstance(error, UnusedCliTokensError):
        return f"{display_text(' '.join(error.unused_tokens or []))}: unexpected argument"
    if isinstance(error, CoercionError) and error.token:
        name = error.token.keyword or (error.argument.name if error.argument else "")
        return f"{name} {display_text(error.token.value)}: must be {_expected_value(error.target_type)}"
    if isinstance(error, RepeatArgumentError):
        return f"{error.token.keyword}: given twice; give it once (a list of values, if it takes one, as a,b)"
    if isinstance(error, MissingArgumentError):
        return _describe_missing_argument(error)
    if isinstance(error, UnknownCommandError):
        if args[0].startswith("-"):
            return f"{display_text(args[0])}: options come after the command"
        return _describe_unknown_command(app, args)
    return _one_line(error).rstrip(".")


def _expected_value(target_type: Any) -> str:
    """Return what the value of an option must be, in words."""
    choices = [str(value) for value in get_args(target_type)]
    if choices:
        return choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"
    return {int: "an integer", float: "a number", bool: "yes or no"}.get(target_type, "of another type")


def _describe_missing_argument(error: MissingArgumentError) -> str:
    """Return the message for a missing argument or a missing value."""
    assert error.argument is not None
    return f"{error.keyword}: the value is missing" if error.keyword else f"{error.argument.name} is missing"


def _describe_unknown_command(app: App, args: Sequence[str]) -> str:
    """Return the message for an unknown command, with the known ones."""
    for word in args:
        if word not in app:
            known = [name for name in app if not name.startswith("-")]
            message = f"{display_text(word) or 'empty argument'}: unknown command{did_you_mean(word, known)}"
            return f"{message}; known: {', '.join(known)}"
        app = app[word]
    return f"{display_text(' '.join(args))}: a command is missing"


# The field of a corpus may have any name; the columns of labeled rows have an option for each use.
_OTHER_NAMES = {"--field": "--text", "--text": "--field"}


def _describe_unknown_option(error: UnknownOptionError) -> str:
    """Return the message for an unknown option, with a similar option and those of the same table."""
    given = error.token.value or error.token.keyword or ""
    option = given.partition("=")[0]
    options = [
        name
        for argument in error.argument_collection
        if argument.parse
        for name in argument.names
        if name.startswith("--")
    ]
    table = option.rpartition(".")[0]
    same_table = [name for name in options if name.rpartition(".")[0] == table]
    known = ", ".join(same_table or [name for name in options if "." not in name])
    other_name = _OTHER_NAMES.get(option)
    hint = f" (here: {other_name})" if other_name in options else did_you_mean(option, options)
    return f"{display_text(given)}: unknown option{hint}; known: {known}"


def _one_line(error: Exception) -> str:
    """Return the message of an error, with line breaks as spaces."""
    return " ".join(str(error).split())
