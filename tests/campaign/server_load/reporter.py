"""Reports the problems of servers, with commands that reproduce them."""

import shlex
from pathlib import Path

from tests.campaign.findings import Finding, Report
from tests.campaign.server_load.process import ServerProcess


class Reporter:
    """Counts trials, and reports a problem once for each subject and beginning of the message."""

    def __init__(self, report: Report, examples: Path, work: Path):
        self._report, self._examples, self._folder = report, examples, work / "findings"
        self._reported: set[tuple[str, str]] = set()

    def count(self, subject: str, trials: int = 1) -> None:
        """Add trials to the counts of the campaign."""
        self._report.count("server", subject, trials)

    def add(self, server: ServerProcess, subject: str, problem: str, data: bytes = b"") -> None:
        """Report a problem.

        Args:
            server: the server.
            subject: what was tried.
            problem: what happened, in one line.
            data: the bytes that reproduce the problem; empty if only a campaign can.
        """
        if (subject, problem[:20]) in self._reported:
            return
        self._reported.add((subject, problem[:20]))
        if data:
            command = self._replay_command(server, subject, data)
        else:
            command = f"make campaign SEED={self._report.seed}"
        self._report.add(Finding("server", f"{server.model}: {subject}", problem, command))

    def _replay_command(self, server: ServerProcess, subject: str, data: bytes) -> str:
        """Write the bytes into a file, and return the command that sends them again."""
        self._folder.mkdir(exist_ok=True)
        name = "".join(character if character.isalnum() else "-" for character in subject)
        file = self._folder / f"{len(self._reported)}-{name}.http"
        file.write_bytes(data)
        paths = [str(self._examples / server.model), str(file)]
        return shlex.join(["python", "-m", "tests.campaign.server_load.replay", *paths])
