"""`albertine report RUN`: write the report of a pre-training or fine-tuning run."""

from pathlib import Path

from albertine import progress
from albertine.errors import InputError
from albertine.interop.hub import TASK_CARD_FILE, local_model, refuse_ensemble
from albertine.report.finetuning_page import finetuning_page
from albertine.report.page import Page
from albertine.report.pretraining_page import pretraining_page
from albertine.storage.objects import display_path
from albertine.storage.urls import storage_url
from albertine.train.metrics_log import METRICS_FILE
from albertine.train.run_folder import SETTINGS_FILE, not_a_run_error, read_run_settings

REPORT_FILE = "report.html"


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write the report of a run, and return its path.

    Args:
        run: folder or URL of the run.
        out: file to write; by default report.html in the folder.
    """
    source = display_path(run)
    if out is None and storage_url(run) is not None:
        raise InputError(f"{source}: a run on object storage; name a file for its report with --out")
    page = _read_page(local_model(run), source)
    out = out or run / REPORT_FILE
    page.write(out)
    progress.print_message(f"{out}: open it in a browser")
    return out


def _read_page(run: Path, source: str) -> Page:
    """Return the report of a run.

    Args:
        run: its local folder.
        source: how commands name it: its folder as the user gave it, or its URL.
    """
    refuse_ensemble(run)
    if not (run / TASK_CARD_FILE).exists() and not (run / METRICS_FILE).exists():
        if (run / SETTINGS_FILE).exists():
            raise InputError(
                f"{run / METRICS_FILE}: missing, and the report is made of it; restore the file, or run the "
                "report after the first step"
            )
        raise not_a_run_error(run, source)
    if (run / TASK_CARD_FILE).exists():
        return finetuning_page(run, source)
    if "task" in read_run_settings(run).keys:
        raise InputError(f"{source}: no evaluation on dev yet; run the report again later")
    return pretraining_page(run, source)
