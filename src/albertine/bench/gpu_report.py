"""The report of `albertine bench gpu`: a table for people, and JSON for programs."""

import io
import json
from pathlib import Path

from rich.console import Console

from albertine import progress
from albertine.atomic import atomic_file
from albertine.bench.gpu import GpuReport
from albertine.bench.gpu_paths import PathResult
from albertine.errors import WorkError
from albertine.progress import format_bytes
from albertine.storage.output_file import check_output_path

JSON_FILE, TEXT_FILE = "gpu.json", "gpu.txt"
_TEXT_WIDTH = 120


def check_report_folder(out: Path) -> None:
    """Raise `InputError` if the files of a report cannot be written into a folder."""
    for name in (JSON_FILE, TEXT_FILE):
        check_output_path(out / name)


def show_gpu_report(report: GpuReport, out: Path, *, as_json: bool) -> None:
    """Write a report into a folder and print it; raise `WorkError` if a path failed."""
    out.mkdir(parents=True, exist_ok=True)
    with atomic_file(out / JSON_FILE) as file:
        file.write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
    text = io.StringIO()
    _print_report(report, Console(file=text, width=_TEXT_WIDTH))
    with atomic_file(out / TEXT_FILE) as file:
        file.write_text(text.getvalue(), encoding="utf-8")
    if as_json:
        progress.print_json(report.to_json())
    else:
        _print_report(report, progress.result_console())
    progress.print_message(f"{out}: {JSON_FILE} and {TEXT_FILE}")
    if report.failures:
        first = report.failures[0]
        raise WorkError(
            f"{len(report.failures)} of {len(report.lines)} paths failed, the first one {_name(first)}: "
            f"{first.failure}; {out / TEXT_FILE} has all of them"
        )


def _name(line: PathResult) -> str:
    return f"{line.name} ({line.precision})"


def _print_report(report: GpuReport, console: Console) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    console.print(f"{report.device}; {versions}; {report.tokens:,} tokens per step", highlight=False)
    table = progress.result_table(
        *("path", "precision", "error", "allowed", "ms", "launched", "tokens/s", "memory"),
        left_aligned=("path", "precision"),
    )
    for line in report.lines:
        table.add_row(
            line.name,
            line.precision,
            "" if line.error is None else f"{line.error:.1e}",
            f"{line.tolerance:.0e}",
            "failed" if line.ms is None else f"{line.ms:,.1f}",
            "" if line.launch_ms is None else f"{line.launch_ms:,.1f}",
            "" if line.tokens_per_second is None else f"{line.tokens_per_second:,.0f}",
            "" if line.peak_bytes is None else format_bytes(line.peak_bytes),
        )
    console.print(table)
    for line in report.failures:
        console.print(f"{_name(line)}: {line.failure}", highlight=False, markup=False)
