"""Output of `albertine check`: one line per finding."""

import re
from collections.abc import Iterator

from albertine import progress
from albertine.check.check import CheckReport
from albertine.check.findings import Finding

_PLURAL = re.compile(r"\b(document|file|label|line|repetition|row|text|token|word)s\b")


def show_report(report: CheckReport, *, as_json: bool) -> None:
    """Print a report on standard output."""
    if as_json:
        progress.print_json(report.to_json())
        return
    for finding in report.findings:
        print(progress.printable_line(finding_line(finding)))
    print(f"{report.texts:,} rows and documents checked: {summary(report)}")


def summary(report: CheckReport) -> str:
    """Return the number of findings, as in "1 error, 2 warnings, 1 note"."""
    counts = ((report.count(severity), severity) for severity in ("error", "warning", "note"))
    return ", ".join(f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts)


def finding_line(finding: Finding) -> str:
    """Return a finding as one line: severity, count, problem, example with its place, what to do."""
    return "; ".join(_parts(finding))


def _parts(finding: Finding) -> Iterator[str]:
    counted = f"{finding.count:,} " if finding.count and not finding.message.startswith("language:") else ""
    counted = "no " if finding.kind == "no-text" else counted
    message = _PLURAL.sub(r"\1", finding.message, count=1) if finding.count == 1 else finding.message
    yield f"{finding.severity}: {counted}{message}"
    if finding.example and finding.location:
        yield f"{finding.location}: {finding.example}"
    elif finding.example or finding.location:
        yield f"in {finding.location}" if finding.location else finding.example
    if finding.advice:
        yield finding.advice
