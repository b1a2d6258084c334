"""Decides whether a command handled its input as docs/reliability.md promises.

The command must accept the input, or refuse it in one printable line of bounded length with status
1 or 2, in bounded time and memory. It must leave nothing half-written.
"""

import json
import re
import signal
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from albertine.errors import ExitStatus
from tests.campaign.commands import Limits, Outcome
from tests.campaign.messages import MAX_LINE_LENGTH, PREFIX, find_defect

LIMITS = Limits(seconds=10.0, memory=1 << 30)
# For a second run after exceeded seconds: on a busy machine only the processor time shows a slow command.
PATIENT_LIMITS = replace(LIMITS, seconds=40.0)
_EXCEEDED = "it took more than"
_ACCEPTED = (ExitStatus.DONE, ExitStatus.NOTHING_LEARNED, ExitStatus.PROBLEMS_FOUND)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def find_problem(
    outcome: Outcome,
    arguments: Sequence[str],
    folder: Path,
    new_files: Collection[str],
    resumable: Sequence[str],
    *,
    is_large: bool,
) -> str | None:
    """Return what is wrong with the outcome of a command in one line, or None.

    Args:
        outcome: the outcome.
        arguments: arguments of the command.
        folder: folder in which it ran.
        new_files: paths in the folder that did not exist before.
        resumable: files and folders that a failed command may leave, because the same command resumes.
        is_large: whether the time may grow with the size of the damaged file.
    """
    if is_large and outcome.exceeded == "seconds":
        return None
    if outcome.exceeded or (outcome.cpu_seconds > LIMITS.seconds and not is_large):
        limit = f"{LIMITS.seconds:.0f} s" if outcome.exceeded != "memory" else f"{LIMITS.memory >> 20:,} MiB"
        return f"{_EXCEEDED} {limit}"
    return (
        _status_problem(outcome)
        or _stderr_problem(outcome, is_quiet="--quiet" in arguments)
        or _stdout_problem(outcome, arguments)
        or _files_problem(outcome, folder, new_files, resumable)
    )


def is_exceeded_limit(problem: str) -> bool:
    """Return whether a problem is that a command exceeded its time or memory."""
    return problem.startswith(_EXCEEDED)


def _status_problem(outcome: Outcome) -> str | None:
    stderr = outcome.stderr.decode("utf-8", "replace")
    defect = find_defect(stderr)
    if defect is not None:
        return abbreviated(defect)
    if outcome.status < 0:
        return f"ended by {signal.Signals(-outcome.status).name}: {abbreviated(stderr[-200:])}"
    if outcome.status not in (*_ACCEPTED, ExitStatus.FAILED, ExitStatus.BAD_INPUT):
        return f"status {outcome.status}: {abbreviated(stderr[-200:])}"
    return None


def _stderr_problem(outcome: Outcome, *, is_quiet: bool) -> str | None:
    try:
        lines = outcome.stderr.decode().removesuffix("\n").split("\n") if outcome.stderr else []
    except UnicodeDecodeError:
        return f"standard error is not UTF-8: {abbreviated(ascii(outcome.stderr))}"
    errors = [line for line in lines if line.startswith(PREFIX)]
    if outcome.status == ExitStatus.DONE and errors:
        return f"status 0 with an error: {abbreviated(errors[0])}"
    if outcome.status != ExitStatus.DONE and (len(errors) != 1 or lines[-1] != errors[0]):
        return (
            f"status {outcome.status} without one last line of error: {abbreviated(' | '.join(lines[-3:]))}"
        )
    if is_quiet and len(lines) > len(errors):
        return f"--quiet prints more than the error: {abbreviated(' | '.join(lines))}"
    for line in lines:
        if len(line) > MAX_LINE_LENGTH:
            return f"a line of {len(line):,} characters: {abbreviated(line)}"
        if not line.isprintable():
            return f"a line that is not printable: {abbreviated(line)}"
    return None


def _stdout_problem(outcome: Outcome, arguments: Sequence[str]) -> str | None:
    try:
        text = outcome.stdout.decode()
    except UnicodeDecodeError:
        return "standard output is not UTF-8"
    control = _CONTROL.search(text)
    if control:
        return f"a control character on standard output: {abbreviated(text[control.start() :][:60])}"
    is_json = outcome.status == ExitStatus.DONE and "--json" in arguments and text.startswith(("{", "["))
    return _json_problem("standard output", text) if is_json else None


def _json_problem(name: str, text: str) -> str | None:
    """Return what is wrong with JSON of Albertine; NaN and infinity are not JSON."""
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        return f"{name}: {error}"
    return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} in the output")


def _files_problem(
    outcome: Outcome, folder: Path, new_files: Collection[str], resumable: Sequence[str]
) -> str | None:
    partial = next((name for name in sorted(new_files) if ".partial" in name), None)
    if partial is not None:
        name = re.sub(r"[.][0-9a-f]{8}[.]", ".*.", partial)  # without the random part
        return f"status {outcome.status} leaves {abbreviated(name)}"
    if outcome.status not in _ACCEPTED:
        left = next((name for name in sorted(new_files) if not _is_within(name, resumable)), None)
        return None if left is None else f"status {outcome.status} leaves {abbreviated(left)}"
    for name in new_files:
        if name.endswith(".jsonl") and "/" not in name:
            for line in (folder / name).read_text(encoding="utf-8").split("\n")[:-1]:
                problem = _json_problem(name, line)
                if problem:
                    return problem
    return None


def _is_within(name: str, folders: Sequence[str]) -> bool:
    """Return whether a path is one of some files and folders, or inside one."""
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)


def abbreviated(text: str) -> str:
    """Return text as one printable line for a report."""
    line = "".join(char if char.isprintable() and char.isascii() else ascii(char)[1:-1] for char in text)
    return line if len(line) <= 240 else f"{line[:160]} ... {line[-60:]}"


def problem_kind(problem: str) -> str:
    """Return a problem without the names, numbers and quotations that differ between its occurrences."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|/\S*|\d[\d,.]*|\S*\.\S*", "_", problem)[:100]
