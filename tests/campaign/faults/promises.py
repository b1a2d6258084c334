"""What every command promises about its end, whatever the fault."""

from collections.abc import Collection

from albertine.errors import ExitStatus
from tests.campaign.commands import Outcome

MAX_LINE = 1_000  # characters of an error message
_REFUSALS = (ExitStatus.FAILED, ExitStatus.BAD_INPUT)
_SIGNS_OF_A_DEFECT = (
    "Traceback", "internal error", "panicked", "Exception ignored", "UserWarning", "a defect in Albertine",
    "resource_tracker", "RuntimeWarning",
)  # fmt: skip
_ALREADY_DONE = ("exists already", "already a finished corpus")


class BrokenPromise(Exception):  # noqa: N818  # the finding of a trial
    """What a command did against a promise, in one line."""


def check_end(outcome: Outcome, statuses: Collection[int]) -> None:
    """Raise `BrokenPromise` unless a command ended in time, with one of the statuses, and clearly."""
    stderr = outcome.stderr.decode(errors="replace")
    messages = [line for line in stderr.splitlines() if line.startswith("albertine: ")]
    last_line = messages[-1] if messages else stderr[-300:].strip()
    if outcome.exceeded:
        raise BrokenPromise(f"exceeded the limit of {outcome.exceeded} ({last_line[:200]})")
    if sign := next((sign for sign in _SIGNS_OF_A_DEFECT if sign in stderr), None):
        line = next(line for line in stderr.splitlines() if sign in line)
        raise BrokenPromise(f"status {outcome.status}, {sign}: {line[:300]} ... {stderr[-200:].strip()!r}")
    if outcome.status not in statuses:
        raise BrokenPromise(f"status {outcome.status}, not {sorted(statuses)}: {last_line[:300]}")
    if outcome.status in _REFUSALS:
        if len(messages) != 1:
            raise BrokenPromise(f"status {outcome.status} with {len(messages)} messages: {stderr[-300:]!r}")
        if len(messages[0]) > MAX_LINE or not messages[0].isprintable():
            raise BrokenPromise(f"an unprintable or endless message: {messages[0][:200]!r}")


def refusal(outcome: Outcome) -> str:
    """Return the message with which a command refused; empty if it did not."""
    if outcome.status not in _REFUSALS:
        return ""
    lines = outcome.stderr.decode(errors="replace").splitlines()
    return next((line for line in lines if line.startswith("albertine: ")), "")


def is_already_done(outcome: Outcome) -> bool:
    """Return whether a command refused because its result exists."""
    return any(sign in refusal(outcome) for sign in _ALREADY_DONE)
