"""The scores of a fine-tuned model beside those of a bag of words and of a model that reads nothing."""

from collections.abc import Mapping, Sequence
from html import escape

from albertine.display import counted
from albertine.finetune.baseline import BaselineResult
from albertine.finetune.dev_predictions import DevPredictions
from albertine.report.page import Section, html_paragraphs, html_table
from albertine.tasks.metrics.display import format_metric, metric_explanation, metric_title, shown_metrics

Column = tuple[str, Mapping[str, float]]


def comparison_columns(
    scores: Mapping[str, float], baseline: BaselineResult | None, predictions: DevPredictions | None
) -> list[Column]:
    """Return name and metrics of the model and of what it is compared with."""
    constant = predictions.constant if predictions else None
    return [
        ("this model", scores),
        *([("bag of words", baseline.metrics)] if baseline else []),
        *([(constant.description, constant.metrics)] if constant else []),
    ]


def key_figures(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """Return the metrics of the model for the top of the page; of a single metric, all that is compared."""
    scores = columns[0][1]
    names = shown_metrics(scores)
    if len(names) == 1:
        (name,) = names
        titles = [metric_title(name), *(title for title, _ in columns[1:])]
        return [(title, _cell(name, values)) for title, (_, values) in zip(titles, columns, strict=True)]
    return [(metric_title(name), format_metric(name, scores[name])) for name in shown_metrics(scores)]


def key_figure_notes(columns: Sequence[Column]) -> list[str]:
    """Return the scores with which each key figure is compared."""
    (_, scores), *others = columns
    if len(shown_metrics(scores)) == 1:
        return []
    return [
        ", ".join(
            f"{other}: {format_metric(name, values[name])}" for other, values in others if name in values
        )
        for name in shown_metrics(scores)
    ]


def score_section(columns: Sequence[Column], advice: str | None, num_dev: int | None, note: str) -> Section:
    """Return the section that compares the scores and says how to read them.

    Args:
        columns: see `comparison_columns`.
        advice: what would improve the model, if a bag of words is ahead; else None.
        num_dev: number of examples of dev; None if unknown.
        note: a sentence on what the following sections are about; may be empty.
    """
    names = shown_metrics(columns[0][1])
    rows = [[metric_title(name), *(_cell(name, values) for _, values in columns)] for name in names]
    explanations = {metric_title(name): text for name in names if (text := metric_explanation(name))}
    explanation_html = "".join(
        f"<dt>{escape(title)}</dt><dd>{escape(text)}</dd>" for title, text in explanations.items()
    )
    where = f"On the {counted(num_dev, 'example')} of dev, which" if num_dev else "On dev, which"
    blocks = [
        html_paragraphs(
            f"{where} the model did not train on. The best model of the run was chosen by them, so its score "
            "on new texts may be a little lower."
        ),
        html_table(("", *(name for name, _ in columns)), rows),
        f"<dl>{explanation_html}</dl>" if explanation_html else "",
        html_paragraphs(*(text for text in (as_sentence(advice) if advice else "", note) if text)),
    ]  # fmt: skip
    return Section("Scores", blocks if rows else [])


def as_sentence(text: str) -> str:
    """Return a text with a capital letter at its start and a period at its end."""
    return f"{text[:1].upper()}{text[1:]}."


def _cell(name: str, values: Mapping[str, float]) -> str:
    return format_metric(name, values[name]) if name in values else ""
