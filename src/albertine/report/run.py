"""`albertine report RUN`: one page about a run, of whatever kind, in its folder."""

from pathlib import Path

from albertine import progress
from albertine.errors import InputError
from albertine.interop.huggingface import CARD
from albertine.report.pretrained import pretrained
from albertine.report.tuned import tuned
from albertine.train.folder import settings_of
from albertine.train.journal import JOURNAL

REPORT = "report.html"


def report(run: Path) -> Path:
    """Write the report of a run into its folder."""
    if not (run / CARD).exists() and not (run / JOURNAL).exists():
        raise InputError(f"{run}: no run; a report tells of what albertine pretrain or finetune made")
    if (run / CARD).exists():
        page = tuned(run)
    elif "task" in settings_of(run).keys:
        raise InputError(f"{run}: no model of it has been scored yet; there is nothing to report")
    else:
        page = pretrained(run)
    page.write(run / REPORT)
    progress.say(f"{run / REPORT}: open it in a browser")
    return run / REPORT
