"""The scores of labels, numbers and tags, as the official scripts of the tasks compute them.

Each is between 0 and 1 (correlations between -1 and 1). Where a score is not defined,
since all answers are one, it is 0, as scikit-learn has it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
_SHOWN = 5  # scores in a table


def score(name: str, right: Numbers, given: Numbers, labels: int) -> float:
    """Return a score by its name."""
    match name:
        case "accuracy":
            return float((right == given).mean())
        case "f1":
            return f1(right, given, 1)
        case "macro_f1":
            return float(np.mean([f1(right, given, one) for one in np.union1d(right, given)]))
        case "matthews":
            return matthews(right, given, labels)
        case "pearson":
            return pearson(right, given)
        case "spearman":
            return pearson(ranks(right), ranks(given))
        case "rmse":
            return float(np.sqrt(((right - given) ** 2).mean()))
    raise ValueError(name)


def f1(right: Numbers, given: Numbers, label: int) -> float:
    """Return the F1 of one label."""
    hits = int(((right == label) & (given == label)).sum())
    all_of_it = int((right == label).sum() + (given == label).sum())
    return 2 * hits / all_of_it if all_of_it else 0.0


def matthews(right: Numbers, given: Numbers, labels: int) -> float:
    """Return the correlation of Matthews, for any number of labels."""
    table = np.zeros((labels, labels), np.float64)
    np.add.at(table, (right, given), 1)
    true, predicted = table.sum(1), table.sum(0)
    together = np.trace(table) * table.sum() - true @ predicted
    spread = (table.sum() ** 2 - predicted @ predicted) * (table.sum() ** 2 - true @ true)
    return float(together / np.sqrt(spread)) if spread > 0 else 0.0


def pearson(right: Numbers, given: Numbers) -> float:
    """Return the linear correlation."""
    a, b = right - right.mean(), given - given.mean()
    spread = np.sqrt((a @ a) * (b @ b))
    return float(np.clip(a @ b / spread, -1, 1)) if spread > 0 else 0.0


def ranks(values: Numbers) -> NDArray[np.float64]:
    """Return the ranks of values; equal ones share the mean of theirs."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    found: NDArray[np.float64] = (ends - (counts - 1) / 2)[group]
    return found


def tagging(right: Sequence[Sequence[str]], given: Sequence[Sequence[str]]) -> dict[str, float]:
    """Score tags by word; where they are B-X, I-X and O, also what they mark, as CoNLL does."""
    flat_right, flat_given = ([tag for tags in all_ for tag in tags] for all_ in (right, given))
    hits = sum(a == b for a, b in zip(flat_right, flat_given, strict=True))
    scores = {"accuracy": hits / max(1, len(flat_right))}
    if any(tag[1:2] == "-" and tag[0] in _MARKS for tag in flat_right):
        true = {(at, *one) for at, tags in enumerate(right) for one in marked(tags)}
        found = {(at, *one) for at, tags in enumerate(given) for one in marked(tags)}
        both = len(true & found)
        scores = {
            "f1": 2 * both / (len(true) + len(found)) if true or found else 0.0,
            "precision": both / len(found) if found else 0.0,
            "recall": both / len(true) if true else 0.0,
            **scores,
        }
    return scores


_GO_ON, _END, _MARKS = frozenset("IEL"), frozenset("ELSU"), frozenset("BIELSU")


def marked(tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return start, end and name of what tags mark; what goes on with nothing begins anew.

    Beside B- (begins) and I- (goes on), E- and L- end, S- and U- stand alone, as in the schemes with them.
    """
    found: list[tuple[int, int, str]] = []
    start, name = 0, ""
    for at, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        goes_on = prefix in _GO_ON and kind == name and bool(name)
        if name and not goes_on:
            found.append((start, at, name))
            name = ""
        if prefix in _MARKS and kind and not goes_on:
            start, name = at, kind
        if prefix in _END and name:
            found.append((start, at + 1, name))
            name = ""
    return found


# How the paper joins the scores of several tasks (its Tables 2 and 9, and GLUE's own average).


def headline(task: str, scores: Mapping[str, float]) -> float:
    """Return the one number of a task: the mean of those that its benchmark averages."""
    match task:
        case "squad-1.1" | "squad-2.0" | "span":
            return (scores["exact"] + scores["f1"]) / 2
        case "mrpc" | "qqp":
            return (scores["f1"] + scores["accuracy"]) / 2
        case "sts-b" | "regress":
            return (scores["pearson"] + scores["spearman"]) / 2
        case "cola":
            return scores["matthews"]
        case "tag":
            return scores.get("f1", scores["accuracy"])
    return scores["accuracy"]


def worth_showing(scores: Mapping[str, float]) -> list[str]:
    """Return the names of the scores that go into a table."""
    return [name for name in scores if not name.endswith("_threshold")][:_SHOWN]


def in_words(scores: Mapping[str, float]) -> str:
    """Write scores on one line."""
    return ", ".join(f"{name} {percent(name, value)}" for name, value in scores.items())


def percent(name: str, value: float) -> str:
    """Write a score in percent, and what is none as it is."""
    return f"{value:.3f}" if name == "rmse" or name.endswith("_threshold") else f"{100 * value:.1f}"
