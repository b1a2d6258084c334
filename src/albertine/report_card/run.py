"""`albertine report-card`: compute all parts of a card that are missing, and write it as page and as JSON."""

from pathlib import Path

from albertine import progress
from albertine.atomic import atomic_file, is_unused
from albertine.corpus.corpus import open_corpus
from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load import load_masked_lm
from albertine.json_output import json_text
from albertine.model.parameter_counts import count_parameters
from albertine.report_card.card import ReportCard, read_card
from albertine.report_card.finetune_runs import train_all
from albertine.report_card.page import card_page
from albertine.report_card.settings import ReportCardSettings
from albertine.report_card.task_data import DataSources, find_sources
from albertine.report_card.workspace import INPUTS_FILE, CardWorkspace

PAGE_FILE, JSON_FILE = "report-card.html", "report-card.json"
_LOCK_FILE = "report-card.lock"


def make_report_card(model: str, out: Path, settings: ReportCardSettings) -> ReportCard:
    """Compute the report card of a model, or the parts of it that are missing, and write it.

    Args:
        model: a run, the folder of a checkpoint, or a hub name.
        out: folder of the card: a new one, or the folder of an interrupted or smaller card.
        settings: corpus and data, of which parts may be missing.
    """
    if settings.corpus is not None:
        open_corpus(settings.corpus)
    sources, skipped_parts = _find_parts(settings)
    checkpoint = locate_checkpoint(model)
    with progress.quiet_output():
        loaded = load_masked_lm(checkpoint, model)
    _prepare_folder(out)
    busy_message = f"{out}: in use by another report card; wait for it, or give another --out"
    with file_lock(out / _LOCK_FILE, busy_message):
        workspace = CardWorkspace(out, checkpoint, settings, sources, loaded.settings)
        workspace.record_inputs(loaded)
        del loaded
        for title, missing in skipped_parts.items():
            progress.print_message(f"skipped: {title} ({missing})")
        _compute_parts(workspace)
        parameters = count_parameters(workspace.model_settings).encoder
        card = read_card(workspace, model, parameters, skipped_parts)
        with atomic_file(out / JSON_FILE) as partial:
            partial.write_text(json_text(card.to_json(), indent=2) + "\n", encoding="utf-8")
        card_page(card).write(out / PAGE_FILE)
    progress.print_message(f"{out / PAGE_FILE}: open it in a browser")
    return card


def _find_parts(settings: ReportCardSettings) -> tuple[DataSources, dict[str, str]]:
    """Return the data of the parts, and why the other parts are skipped, by title."""
    skipped_parts = {}
    if settings.corpus is None:
        skipped_parts["Held-out text"] = "no --corpus is given"
    if settings.data is None:
        skipped_parts["BLiMP and all tasks"] = "no --data is given"
        sources = DataSources({}, None, {})
    else:
        sources = find_sources(settings.data)
        skipped_parts |= {title: f"{settings.data} has no {name}" for title, name in sources.missing.items()}
    if settings.corpus is None and sources.blimp is None and not sources.tasks:
        raise InputError(
            f"nothing to report: {'; '.join(dict.fromkeys(skipped_parts.values()))}; "
            "give --corpus, a folder of a corpus, or --data, a folder with tasks"
        )
    if settings.seeds > 1 and not sources.tasks:
        raise InputError(
            f"--seeds {settings.seeds}: {settings.data} has no task to fine-tune on; leave it out"
        )
    return sources, skipped_parts


def _prepare_folder(out: Path) -> None:
    """Create the folder of a card; raise `InputError` if it holds something else."""
    is_card = (out / INPUTS_FILE).exists()
    if not is_card and not is_unused(out, _LOCK_FILE):
        raise InputError(
            f"{out}: exists and is not a report card (it has no {INPUTS_FILE}); "
            "give another --out or remove it"
        )
    out.mkdir(parents=True, exist_ok=True)


def _compute_parts(workspace: CardWorkspace) -> None:
    """Compute the parts that have no result: the short ones first, so that wrong input shows early."""
    workspace.probe_model()
    for task in workspace.sources.tasks:
        workspace.copy_data(task)
    workspace.score_minimal_pairs()
    for task in workspace.sources.tasks:
        workspace.score_baselines(task)
    train_all(workspace)
