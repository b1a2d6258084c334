"""Output of `albertine check`: one line per finding."""

import re
from collections.abc import Iterator

from albertine import progress
from albertine.check.check import CheckReport
from albertine.check.findings import Finding
from albertine.display import counted

_PLURAL = re.compile(
    r"\b(answer|document|file|label|line|number|part|passage|question|repetition|row|text|token|word)s\b"
)


def show_report(report: CheckReport, *, as_json: bool) -> None:
    """Print a report on standard output."""
    if as_json:
        progress.print_json(report.to_json())
        return
    for finding in report.findings:
        print(progress.printable_line(finding_line(finding)))
    checked = [f"corpora checked: {report.corpora}"] if report.corpora else []
    if report.texts or not report.corpora:
        checked.append(f"rows and documents checked: {report.texts:,}")
    print("; ".join([*checked, summary(report)]))


def summary(report: CheckReport) -> str:
    """Return the number of findings, as in "1 error, 2 warnings, 1 note"."""
    counts = ((report.count(severity), severity) for severity in ("error", "warning", "note"))
    return ", ".join(counted(count, name) for count, name in counts)


def finding_line(finding: Finding) -> str:
    """Return a finding as one line: severity, count, problem, example with its place, what to do."""
    return "; ".join(_parts(finding))


def _singular(message: str) -> str:
    """Return a message about several things as one about a single thing."""
    return _PLURAL.sub(r"\1", message, count=1).replace(" that are ", " that is ", 1)


def _parts(finding: Finding) -> Iterator[str]:
    number = f"{finding.count:,} " if finding.count and finding.kind != "language" else ""
    number = "no " if finding.kind == "no-text" else number
    message = _singular(finding.message) if finding.count == 1 else finding.message
    yield f"{finding.severity}: {number}{message}"
    if finding.example and finding.location:
        yield f"{finding.location}: {finding.example}"
    elif finding.example or finding.location:
        yield f"in {finding.location}" if finding.location else finding.example
    if finding.advice:
        yield finding.advice
