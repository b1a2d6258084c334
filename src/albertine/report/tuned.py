"""The report of a tuned run, or of several of a kind: how it went, what each came to, and how to ask it."""

import json
import shlex
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.interop.load import load_checkpoint
from albertine.report.curves import tuning
from albertine.report.page import Page, Section, commands, side_by_side, table
from albertine.report.pretrained import what_it_is
from albertine.tasks.card import Card, card_in
from albertine.tasks.finetune import RESULTS
from albertine.tasks.metrics import headline, in_words, percent, worth_showing
from albertine.train.journal import JOURNAL, Line, held_out_scores, read_journal

_MOST_LABELS = 12  # that are named
_ANSWERS = {
    "classify": "one of its labels", "regress": "a number", "tag": "a label for each word",
    "span": "where the answer is", "choice": "which option",
}  # fmt: skip


def tuned(run: Path) -> Page:
    """Lay out a run: one by itself, or the folder of several, which is the best of them."""
    network = load_checkpoint(run)
    card = card_in(run, network)
    results = _results(run)
    scores = results["median"] if results else _best(run, card)
    curves = run / results["best"] if results else run
    quoted = shlex.quote(str(run))
    sections = [
        *_went(curves, card.task),
        *([Section("The runs", [_runs(run, results)])] if results else []),
        Section("The network", what_it_is(network.model, _ANSWERS[card.kind])),
        Section("What to do next", [commands(f"albertine predict {quoted} --data NEW --out OUT")]),
    ]
    facts = [(name, percent(name, scores[name])) for name in worth_showing(scores)]
    return Page(run.resolve().name, _lead(card), facts, sections)


def _results(run: Path) -> dict[str, Any] | None:
    """Return what runs came to; one of several, or one under way, has no such file."""
    file = run / RESULTS
    if not file.exists():
        return None
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not {"median", "best", "runs"} <= set(found):
        raise InputError(f"{file}: torn; run the same albertine finetune again: it writes this file anew")
    return found


def _best(run: Path, card: Card) -> dict[str, float]:
    """Return the best scores on dev so far."""
    measured = [held_out_scores(line) for line in _journal(run)]
    return max(filter(None, measured), key=lambda scores: headline(card.task, scores), default={})


def _went(run: Path, task: str) -> list[Section]:
    return [Section("How it learned", [side_by_side(tuning(run, task))])] if _journal(run) else []


def _journal(run: Path) -> list[Line]:
    return read_journal(run) if (run / JOURNAL).exists() else []


def _runs(run: Path, results: dict[str, Any]) -> str:
    rows = [
        [
            one["name"] or run.resolve().name, f"{one['lr']:.3g}", f"{one['batch']}", f"{one['dropout']:g}",
            f"{one['step']:,} of {one['steps']:,}", in_words(one["scores"]),
        ]
        for one in results["runs"]
    ]  # fmt: skip
    return table(("run", "rate", "batch", "dropout", "best at", "on dev"), rows, prose=True)


def _lead(card: Card) -> str:
    more = len(card.labels) - _MOST_LABELS
    named = ", ".join(card.labels[:_MOST_LABELS]) + (f" and {more:,} more" if more > 0 else "")
    return f"A model tuned on {card.task} ({card.kind})." + (f" Labels: {named}." if named else "")
