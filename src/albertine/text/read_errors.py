"""Errors in data: the first one stops reading, or all are counted and left out."""

from dataclasses import dataclass, field

from albertine.errors import InputError
from albertine.json_input import NOT_UTF_8, RECODE

_MAX_LISTED = 100


class UnreadableData(InputError):  # noqa: N818  # what was found
    """A part of the data cannot be used.

    Attributes:
        location: file and line, or the like.
        problem: what is wrong there.
    """

    def __init__(self, location: str, problem: str):
        super().__init__(location, problem)  # so that a process can send it to another
        self.location, self.problem = location, problem

    def __str__(self) -> str:
        if self.problem == NOT_UTF_8:  # mostly a whole file, of which --on-error skip would leave little
            return f"{self.location}: {self.problem} (left out with --on-error skip); {RECODE}"
        return f"{self.location}: {self.problem}; fix it, or use --on-error skip"


@dataclass
class ReadErrors:
    """Raises the first read error, or with `skip` counts all errors and lists the first ones.

    Attributes:
        skip: count errors instead of raising them.
        count: number of errors.
        messages: location and problem of the first errors.
    """

    skip: bool
    count: int = 0
    messages: list[str] = field(default_factory=list)

    def handle(self, location: str, problem: str) -> None:
        """Raise an error, or record it if errors are skipped."""
        if not self.skip:
            raise UnreadableData(location, problem)
        self.record(f"{location}: {problem}")

    def add(self, other: "ReadErrors") -> None:
        """Add the errors of another reader."""
        self.count += other.count
        self.messages += other.messages[: _MAX_LISTED - len(self.messages)]

    @property
    def summary(self) -> str:
        """The number of errors and the first one, for a message."""
        return f"{self.count:,} unreadable records skipped, first: {self.messages[0]}"

    def record(self, message: str, count: int = 1) -> None:
        """Count an error of one or more records; list its message if fewer than `_MAX_LISTED` are listed."""
        self.count += count
        if len(self.messages) < _MAX_LISTED:
            self.messages.append(message)
