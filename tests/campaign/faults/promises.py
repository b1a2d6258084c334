"""Checks what every command promises about its end, whatever the fault."""

from collections.abc import Collection

from albertine.errors import ExitStatus
from tests.campaign.commands import Outcome
from tests.campaign.messages import MAX_LINE_LENGTH, error_messages, find_defect

_REFUSALS = (ExitStatus.FAILED, ExitStatus.BAD_INPUT)
_ALREADY_DONE = ("exists already", "already a finished corpus")


class BrokenPromise(Exception):  # noqa: N818  # the finding of a trial
    """What a command did against a promise, in one line."""


def check_end(outcome: Outcome, statuses: Collection[int]) -> None:
    """Raise `BrokenPromise` unless a command ended within its limits, with an expected status, and clearly.

    A command that fails must print one error message of one line.
    """
    stderr = outcome.stderr.decode(errors="replace")
    messages = error_messages(stderr)
    last_line = messages[-1] if messages else stderr[-300:].strip()
    if outcome.exceeded:
        raise BrokenPromise(f"exceeded the limit of {outcome.exceeded} ({last_line[:200]})")
    if defect := find_defect(stderr):
        raise BrokenPromise(f"status {outcome.status}, {defect[:300]} ... {stderr[-200:].strip()!r}")
    if outcome.status not in statuses:
        raise BrokenPromise(f"status {outcome.status}, not {sorted(statuses)}: {last_line[:300]}")
    if outcome.status in _REFUSALS:
        if len(messages) != 1:
            raise BrokenPromise(f"status {outcome.status} with {len(messages)} messages: {stderr[-300:]!r}")
        if len(messages[0]) > MAX_LINE_LENGTH or not messages[0].isprintable():
            raise BrokenPromise(f"an unprintable or too long message: {messages[0][:200]!r}")


def refusal(outcome: Outcome) -> str:
    """Return the error message of a command that failed; empty if it did not fail."""
    if outcome.status not in _REFUSALS:
        return ""
    return next(iter(error_messages(outcome.stderr.decode(errors="replace"))), "")


def is_already_done(outcome: Outcome) -> bool:
    """Return whether a command refused because its result exists."""
    return any(sign in refusal(outcome) for sign in _ALREADY_DONE)
