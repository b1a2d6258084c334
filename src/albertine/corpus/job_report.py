"""Reports of encoding jobs: unreadable records, and characters that the vocabulary lacks.

The report of a job is a JSON file beside its part, so that a resumed build can read it. It has
the checksum of the part, and its own.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from albertine.checksums import file_checksum
from albertine.corpus.checked_json import read_checked_json, write_checked_json

_MAX_LISTED = 100


@dataclass
class JobReport:
    """Counts over the text of one job, or of all jobs.

    Attributes:
        skipped: number of files, lines or records that could not be read.
        skipped_locations: location and problem of the first of these, at most `_MAX_LISTED`.
        tokens: number of tokens.
        unknown_tokens: number of unknown tokens among them.
        lost_characters: how often each character without a token occurs.
    """

    skipped: int = 0
    skipped_locations: list[str] = field(default_factory=list)
    tokens: int = 0
    unknown_tokens: int = 0
    lost_characters: Counter[str] = field(default_factory=Counter)


def report_file(part: Path) -> Path:
    """Return the path of the report that belongs to a part."""
    return part.with_suffix(".json")


def write_report(part: Path, content: Path, report: JobReport) -> None:
    """Write the report of a job.

    Args:
        part: the part that the job writes.
        content: the file that becomes the part.
        report: counts over the text of the part.
    """
    write_checked_json(report_file(part), {"report": vars(report), "part_checksum": file_checksum(content)})


def is_intact(part: Path) -> bool:
    """Return whether a part and its report exist and are undamaged."""
    try:
        return bool(read_checked_json(report_file(part))["part_checksum"] == file_checksum(part))
    except (FileNotFoundError, ValueError):
        return False


def sum_reports(parts: Iterable[Path]) -> JobReport:
    """Return the sum of the reports of the parts."""
    total = JobReport()
    for part in parts:
        report = JobReport(**read_checked_json(report_file(part))["report"])
        total.skipped += report.skipped
        total.skipped_locations += report.skipped_locations[: _MAX_LISTED - len(total.skipped_locations)]
        total.tokens += report.tokens
        total.unknown_tokens += report.unknown_tokens
        total.lost_characters.update(report.lost_characters)
    return total
