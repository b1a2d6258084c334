"""The commands that use a fine-tuned model."""

import shlex
from pathlib import Path

from albertine.engines.conversion import is_convertible
from albertine.finetune.settings import FinetuneSettings
from albertine.model.model import Model
from albertine.report.page import Section, code_block, paragraphs
from albertine.tasks.card import TaskCard
from albertine.tasks.formats.locations import is_folder
from albertine.tasks.registry import find_task


def next_steps(source: str, card: TaskCard, settings: FinetuneSettings | None, model: Model) -> Section:
    """Return the section of commands that evaluate, serve and export a model, and predict with it.

    Args:
        source: name of the model in the commands.
        card: its task.
        settings: settings of its run, whose dev data the first command names; None if they are not known.
        model: the model.
    """
    quoted, name = shlex.quote(source), shlex.quote(Path(source).resolve().name)
    labelled = _labelled_data(card, settings)
    evaluate = f"albertine evaluate {quoted} --data {shlex.quote(labelled or 'LABELLED.csv')}"
    commands = [
        evaluate,
        f"albertine predict {quoted} --data NEW.csv --out answers.csv",
        f"albertine serve {quoted}",
    ]
    if is_convertible(model):
        commands.append(f"albertine export {quoted} --to onnx --out {name}-onnx")
    explanation = "Evaluate it on labelled examples, predict new ones, or serve it over HTTP."
    if is_convertible(model):
        explanation += " An export is faster; it needs pip install 'albertine[deploy]'."
    placeholders = "NEW.csv is a placeholder" if labelled else "LABELLED.csv and NEW.csv are placeholders"
    return Section(
        "Next steps",
        [
            paragraphs(f"{explanation} {placeholders} for your own data."),
            code_block(*commands),
        ],
    )


def _labelled_data(card: TaskCard, settings: FinetuneSettings | None) -> str | None:
    """Return the dev data of a run.

    None if the run held examples out of its training data, on which an evaluation would be too good.
    """
    if settings is None:
        return None
    if settings.dev is not None:
        return settings.dev
    is_official_folder = find_task(card.task).is_official and settings.data and is_folder(settings.data)
    return settings.data if is_official_folder else None
