"""The report of a campaign: how many trials ran, and the promises that were not kept."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

REPORT_FILE = "report.json"


@dataclass(frozen=True)
class Finding:
    """A promise that was not kept.

    Attributes:
        part: part of the campaign: "faults", "input" or "server".
        subject: the reader, the command or the kind of request.
        problem: what happened, in one line.
        reproduce: shell command that reproduces it.
    """

    part: str
    subject: str
    problem: str
    reproduce: str


@dataclass
class Report:
    """Counts and findings of a campaign.

    Attributes:
        seed: seed of the campaign.
        counts: number of trials by part and subject, such as "input: config.json".
        findings: all findings, in order.
    """

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def count(self, part: str, subject: str, trials: int = 1) -> None:
        """Add trials to the counts."""
        self.counts[f"{part}: {subject}"] += trials

    def add(self, finding: Finding) -> None:
        """Add a finding and print it."""
        self.findings.append(finding)
        print(
            f"FOUND {finding.part}: {finding.subject}: {finding.problem}\n  {finding.reproduce}", flush=True
        )

    def write(self, folder: Path) -> None:
        """Write the report as JSON into a folder."""
        content = {
            "seed": self.seed,
            "counts": dict(self.counts),
            "findings": [asdict(finding) for finding in self.findings],
        }
        (folder / REPORT_FILE).write_text(json.dumps(content, indent=2) + "\n")
