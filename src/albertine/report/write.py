"""`albertine report RUN`: write the report of a pre-training or fine-tuning run."""

from pathlib import Path

from albertine import progress
from albertine.errors import InputError
from albertine.interop.hub import refuse_ensemble
from albertine.interop.huggingface import TASK_CARD_FILE
from albertine.report.finetuning_page import finetuning_page
from albertine.report.pretraining_page import pretraining_page
from albertine.train.metrics_log import METRICS_FILE
from albertine.train.run_folder import SETTINGS_FILE, read_run_settings

REPORT_FILE = "report.html"


def write_report(run: Path) -> Path:
    """Write the report of a run to its folder, and return its path."""
    refuse_ensemble(run)
    if not (run / TASK_CARD_FILE).exists() and not (run / METRICS_FILE).exists():
        if (run / SETTINGS_FILE).exists():
            raise InputError(
                f"{run / METRICS_FILE}: missing, and the report is made of it; restore the file, or run the "
                "report after the first step"
            )
        raise InputError(
            f"{run}: not a run; give the --out folder of albertine pretrain or albertine finetune"
        )
    if (run / TASK_CARD_FILE).exists():
        page = finetuning_page(run)
    elif "task" in read_run_settings(run).keys:
        raise InputError(f"{run}: no evaluation on dev yet; run the report again later")
    else:
        page = pretraining_page(run)
    page.write(run / REPORT_FILE)
    progress.print_message(f"{run / REPORT_FILE}: open it in a browser")
    return run / REPORT_FILE
