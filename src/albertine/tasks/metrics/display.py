"""Metrics as text, and tables of them."""

from collections.abc import Iterable, Mapping

from albertine.display import display_text
from albertine.tasks.metrics.scores import LABEL_F1

_MAX_METRICS = 5  # columns of a table
_MAX_LABEL = 24  # characters
_TITLES = {
    "f1": "F1",
    "macro_f1": "macro F1",
    "matthews": "Matthews correlation",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
    "rmse": "RMSE",
    "exact": "exact match",
    "micro_f1": "micro F1",
    "exact_match": "exact match",
}
_EXPLANATIONS = {
    "accuracy": "The share of predictions that are right, in percent.",
    "f1": "Right answers in percent, lower both for answers that are missed and for those that are wrong.",
    "macro_f1": "The F1 of each label, averaged over the labels: rare labels count as much as common ones.",
    "matthews": "100 if all predictions are right, 0 for guessing, below 0 for worse; unlike accuracy, it "
    "stays at 0 for a model that always gives the most common label.",
    "pearson": "100 if predicted and right numbers are on a rising line, 0 if they have nothing in common.",
    "spearman": "100 if predictions are in the order of the right numbers, 0 if the order is random.",
    "rmse": "The typical distance of a prediction from the right number; lower is better.",
    "exact": "The share of answers with the same words as a right one, in percent.",
    "micro_f1": "Right labels in percent, over all examples together; lower both for labels that are missed "
    "and for those that are wrong.",
    "exact_match": "The share of examples whose labels are all right, in percent.",
    "precision": "The share of the entities found that are right, in percent.",
    "recall": "The share of the right entities that were found, in percent.",
}

_LABEL_F1_EXPLANATION = (
    "How well this label is found: lower both for examples that have it and are missed, and for others that "
    "are taken for it."
)


def shown_metrics(metrics: Iterable[str]) -> list[str]:
    """Return which of some metrics a table shows: the first ones, without thresholds and loss."""
    return [name for name in metrics if not _is_threshold(name) and name != "loss"][:_MAX_METRICS]


def format_metrics(metrics: Mapping[str, float]) -> str:
    """Return metrics as one line of text."""
    return ", ".join(f"{metric_title(name)} {format_metric(name, value)}" for name, value in metrics.items())


def metric_title(name: str) -> str:
    """Return the name of a metric in words; "best_f1_threshold" is "best F1 threshold"."""
    if name.startswith(LABEL_F1):
        label = display_text(name.removeprefix(LABEL_F1), _MAX_LABEL)
        return f"F1 of \u201c{label}\u201d"
    if name in _TITLES:
        return _TITLES[name]
    if name.startswith("best_"):
        return f"best {metric_title(name.removeprefix('best_'))}"
    if name.endswith("_threshold"):
        return f"{metric_title(name.removesuffix('_threshold'))} threshold"
    metric, separator, group = name.partition("_")
    return f"{metric_title(metric)} ({group})" if separator else name


def metric_explanation(name: str) -> str | None:
    """Return a sentence on how to read a metric; None if its name says it all."""
    if name.startswith(LABEL_F1):
        return _LABEL_F1_EXPLANATION
    if name.startswith("best_"):
        return None if name.endswith("_threshold") else "The score with the best threshold for no answer."
    return _EXPLANATIONS.get(name)


def format_metric(name: str, value: float) -> str:
    """Return a metric as text: in percent, except RMSE and thresholds."""
    return f"{value:.3f}" if name == "rmse" or _is_threshold(name) else f"{100 * value:.1f}"


def _is_threshold(name: str) -> bool:
    return name.endswith("_threshold") and not name.startswith(LABEL_F1)
