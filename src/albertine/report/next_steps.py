"""The commands that use a fine-tuned model."""

import shlex
from pathlib import Path

from albertine.finetune.settings import FinetuneSettings
from albertine.report.page import Section, code_block, paragraphs
from albertine.tasks.card import TaskCard
from albertine.tasks.formats.locations import is_folder
from albertine.tasks.registry import find_task


def next_steps(source: str, card: TaskCard, settings: FinetuneSettings | None) -> Section:
    """Return the section of commands for a model; those on data use the data of its run where they can."""
    model, name = shlex.quote(source), shlex.quote(Path(source).resolve().name)
    labelled = _labelled_data(card, settings)
    evaluate = f"albertine evaluate {model} --data {shlex.quote(labelled or 'LABELLED.csv')}"
    explanation = "Evaluate it on labelled examples, predict new ones, serve it over HTTP, or make it faster."
    placeholders = "NEW.csv is a placeholder" if labelled else "LABELLED.csv and NEW.csv are placeholders"
    return Section(
        "Next steps",
        [
            paragraphs(f"{explanation} {placeholders} for your own data."),
            code_block(
                evaluate,
                f"albertine predict {model} --data NEW.csv --out answers.csv",
                f"albertine serve {model}",
                f"albertine export {model} --to onnx --out {name}-onnx",
            ),
        ],
    )


def _labelled_data(card: TaskCard, settings: FinetuneSettings | None) -> str | None:
    """Return data with labels on which the model was not trained; None if none is known."""
    if settings is None:
        return None
    if settings.dev is not None:
        return settings.dev
    is_official_folder = find_task(card.task).is_official and settings.data and is_folder(settings.data)
    return settings.data if is_official_folder else None
