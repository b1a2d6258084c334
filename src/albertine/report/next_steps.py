"""The commands that use a fine-tuned model."""

import shlex
from pathlib import Path

from albertine.engines.conversion import has_equal_steps, is_convertible
from albertine.finetune.settings import FinetuneSettings
from albertine.model.model import Model
from albertine.report.page import Section, code_block, html_paragraphs
from albertine.tasks.card import TaskCard
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
    labeled = _labeled_data(card, settings)
    data = f"--data {shlex.quote(labeled or 'LABELED.csv')}"
    commands = [
        f"albertine evaluate {quoted} {data}",
        f"albertine predict {quoted} --data NEW.csv --out answers.csv",
        f"albertine serve {quoted}",
    ]
    explanation = "Evaluate it on labeled examples, predict new ones, or serve it over HTTP."
    if is_convertible(model):
        commands.append(f"albertine export {quoted} --to onnx --precision int8 {data} --out {name}-int8")
        explanation += (
            " An export in int8 runs without PyTorch and has a quarter of the bytes; what int8 loses is "
            "measured on the labeled examples. It needs the extra `deploy`."
        )
        if has_equal_steps(model):
            commands.append(f"albertine export {quoted} --to web --out {name}-web")
            explanation += (
                " The one for the web is a page, which computes in the browser; it also needs Node.js."
            )
    placeholders = "NEW.csv is a placeholder" if labeled else "LABELED.csv and NEW.csv are placeholders"
    return Section(
        "Next steps",
        [
            html_paragraphs(f"{explanation} {placeholders} for your own data."),
            code_block(*commands),
        ],
    )


def _labeled_data(card: TaskCard, settings: FinetuneSettings | None) -> str | None:
    """Return the dev data of a run; None if its settings are not known.

    Also None if its dev examples were held out of the training data: an evaluation would contain both.
    """
    if settings is None:
        return None
    if settings.dev is not None:
        return settings.dev
    has_dev = settings.data is not None and find_task(card.task).has_dev_split(settings.data)
    return settings.data if has_dev else None
