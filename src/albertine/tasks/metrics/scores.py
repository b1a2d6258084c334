"""The scores of labels, numbers and tags, as the official scripts of the tasks compute them.

Each is between 0 and 1 (correlations between -1 and 1). Where a score is not defined,
since all answers are one, it is 0, as scikit-learn has it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_MAX_SHOWN = 5  # scores in a table


def compute_metric(name: str, labels: Array, predictions: Array, num_labels: int) -> float:
    """Return a score by its name."""
    match name:
        case "accuracy":
            return float((labels == predictions).mean())
        case "f1":
            return f1(labels, predictions, 1)
        case "macro_f1":
            return float(np.mean([f1(labels, predictions, one) for one in np.union1d(labels, predictions)]))
        case "matthews":
            return matthews(labels, predictions, num_labels)
        case "pearson":
            return pearson(labels, predictions)
        case "spearman":
            return pearson(fractional_ranks(labels), fractional_ranks(predictions))
        case "rmse":
            return float(np.sqrt(((labels - predictions) ** 2).mean()))
    raise ValueError(name)


def f1(labels: Array, predictions: Array, label: int) -> float:
    """Return the F1 of one label."""
    true_positives = int(((labels == label) & (predictions == label)).sum())
    all_of_it = int((labels == label).sum() + (predictions == label).sum())
    return 2 * true_positives / all_of_it if all_of_it else 0.0


def matthews(label_ids: Array, predictions: Array, num_labels: int) -> float:
    """Return the correlation of Matthews, for any number of labels."""
    table = np.zeros((num_labels, num_labels), np.float64)
    np.add.at(table, (label_ids, predictions), 1)
    true, predicted = table.sum(1), table.sum(0)
    together = np.trace(table) * table.sum() - true @ predicted
    spread = (table.sum() ** 2 - predicted @ predicted) * (table.sum() ** 2 - true @ true)
    return float(together / np.sqrt(spread)) if spread > 0 else 0.0


def pearson(labels: Array, predictions: Array) -> float:
    """Return the linear correlation."""
    a, b = labels - labels.mean(), predictions - predictions.mean()
    spread = np.sqrt((a @ a) * (b @ b))
    return float(np.clip(a @ b / spread, -1, 1)) if spread > 0 else 0.0


def fractional_ranks(values: Array) -> NDArray[np.float64]:
    """Return the ranks of values; equal ones share the mean of theirs."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    found: NDArray[np.float64] = (ends - (counts - 1) / 2)[group]
    return found


def tagging_metrics(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Score tags by word; where they are B-X, I-X and O, also what they mark, as CoNLL does."""
    flat_right, flat_given = ([tag for tags in all_ for tag in tags] for all_ in (labels, predictions))
    num_correct = sum(a == b for a, b in zip(flat_right, flat_given, strict=True))
    scores = {"accuracy": num_correct / max(1, len(flat_right))}
    if any(tag[1:2] == "-" and tag[0] in _ENTITY_PREFIXES for tag in flat_right):
        true_entities = {(at, *one) for at, tags in enumerate(labels) for one in tag_entities(tags)}
        predicted_entities = {(at, *one) for at, tags in enumerate(predictions) for one in tag_entities(tags)}
        num_shared = len(true_entities & predicted_entities)
        scores = {
            "f1": 2 * num_shared / (len(true_entities) + len(predicted_entities))
            if true_entities or predicted_entities
            else 0.0,
            "precision": num_shared / len(predicted_entities) if predicted_entities else 0.0,
            "recall": num_shared / len(true_entities) if true_entities else 0.0,
            **scores,
        }
    return scores


_INSIDE_PREFIXES, _END_PREFIXES, _ENTITY_PREFIXES = frozenset("IEL"), frozenset("ELSU"), frozenset("BIELSU")


def tag_entities(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return start, end and name of what tags mark; what goes on with nothing begins anew.

    Beside B- (begins) and I- (goes on), E- and L- end, S- and U- stand alone, as in the schemes with them.
    """
    found: list[tuple[int, int, str]] = []
    start, name = 0, ""
    for at, tag in enumerate([*tags, "O"]):
        prefix, _, entity_type = tag.partition("-")
        continues = prefix in _INSIDE_PREFIXES and entity_type == name and bool(name)
        if name and not continues:
            found.append((start, at, name))
            name = ""
        if prefix in _ENTITY_PREFIXES and entity_type and not continues:
            start, name = at, entity_type
        if prefix in _END_PREFIXES and name:
            found.append((start, at + 1, name))
            name = ""
    return found


# How the paper joins the scores of several tasks (its Tables 2 and 9, and GLUE's own average).


def primary_metric(task: str, metrics: Mapping[str, float]) -> float:
    """Return the one number of a task: the mean of those that its benchmark averages."""
    match task:
        case "squad-1.1" | "squad-2.0" | "span":
            return (metrics["exact"] + metrics["f1"]) / 2
        case "mrpc" | "qqp":
            return (metrics["f1"] + metrics["accuracy"]) / 2
        case "sts-b" | "regress":
            return (metrics["pearson"] + metrics["spearman"]) / 2
        case "cola":
            return metrics["matthews"]
        case "tag":
            return metrics.get("f1", metrics["accuracy"])
    return metrics["accuracy"]


def shown_metrics(metrics: Mapping[str, float]) -> list[str]:
    """Return the names of the scores that go into a table."""
    return [name for name in metrics if not name.endswith("_threshold")][:_MAX_SHOWN]


def format_metrics(metrics: Mapping[str, float]) -> str:
    """Write scores on one line."""
    return ", ".join(f"{name} {format_metric(name, value)}" for name, value in metrics.items())


def format_metric(name: str, value: float) -> str:
    """Write a score in percent, and what is none as it is."""
    return f"{value:.3f}" if name == "rmse" or name.endswith("_threshold") else f"{100 * value:.1f}"
