"""Prints what was exported."""

from pathlib import Path

from albertine import progress
from albertine.export.result import ExportResult
from albertine.export.settings import ExportSettings
from albertine.progress import format_bytes
from albertine.storage.objects import display_path


def show_export(source: str, out: Path, settings: ExportSettings, result: ExportResult) -> None:
    """Print the files of an export, how close it is to its source, and how to run it."""
    name = display_path(out)
    files, size = ", ".join(result.files), format_bytes(result.num_bytes)
    progress.print_message(f"{name}: {files}, {size}, weights in {settings.precision}")
    if settings.precision == "fp32":
        progress.print_message(
            f"{name}: verified; its outputs equal those of {source} to {result.difference:.1g}"
        )
    elif result.scores is None:
        progress.print_message(
            f"{name}: not judged; --data, or --corpus for a pre-trained model, shows what int8 loses"
        )
    else:
        progress.print_message(f"{name}: {result.scores.text}")
    progress.print_message(f"{name}/README.md shows how to run it")
