"""Scores are those of scikit-learn, scipy and the official scripts' rules, whatever is thrown at them."""

import math
import re
import string
import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as oracle

from albertine.tasks.metrics.scores import compute_metric
from albertine.tasks.metrics.squad import normalized_answer, squad_metrics
from albertine.tasks.metrics.tagging import tag_entities, tagging_metrics
from albertine.tasks.registry import primary_metric

labels = st.integers(2, 4).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), min_size=1, max_size=40),
    )
)


@given(labels)
def test_classification_metrics_match_scikit_learn(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = drawn
    right, said = (np.array(column) for column in zip(*pairs, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "accuracy": oracle.accuracy_score(right, said),
            "f1": oracle.f1_score(right, said, labels=[1], average="macro", zero_division=0),
            "macro_f1": oracle.f1_score(right, said, average="macro", zero_division=0),
            "matthews": oracle.matthews_corrcoef(right, said),
        }
    for name, value in expected.items():
        assert compute_metric(name, right, said, count) == pytest.approx(value, abs=1e-12), name


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 5)), min_size=3, max_size=40))
def test_regression_metrics_match_scipy(pairs: list[tuple[float, int]]) -> None:
    right, said = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {"pearson": stats.pearsonr(right, said)[0], "spearman": stats.spearmanr(right, said)[0]}
    for name, value in expected.items():
        found = compute_metric(name, right, said, 0)
        if not math.isnan(value) and right.std() > 1e-6:
            assert found == pytest.approx(value, abs=1e-6), name
    assert compute_metric("pearson", right, np.ones_like(right), 0) == 0.0
    assert compute_metric("rmse", right, said, 0) == pytest.approx(
        math.sqrt(oracle.mean_squared_error(right, said))
    )


# The rules of SQuAD's scoring, written down a second time.


def normalized_words(text: str) -> list[str]:
    kept = "".join(one for one in text.lower() if one not in set(string.punctuation))
    return [word for word in re.split(r"\s+", re.sub(r"\b(?:a|an|the)\b", " ", kept)) if word]


def reference_exact_and_f1(gold: str, said: str) -> tuple[float, float]:
    right, given_ = normalized_words(gold), normalized_words(said)
    same = float(right == given_)
    if not right or not given_:
        return same, same
    shared = sum(min(count, Counter(given_)[word]) for word, count in Counter(right).items())
    return same, 2 * shared / (len(right) + len(given_))


def reference_squad_metrics(
    golds: Sequence[Sequence[str]], said: Sequence[str], doubts: Sequence[float], threshold: float
) -> dict[str, float]:
    raw = []
    for gold, one in zip(golds, said, strict=True):
        each = [reference_exact_and_f1(text, one) for text in gold if normalized_words(text)] or [
            reference_exact_and_f1("", one)
        ]
        raw.append((max(pair[0] for pair in each), max(pair[1] for pair in each)))
    after = [
        (float(not gold), float(not gold)) if doubt > threshold else pair
        for gold, pair, doubt in zip(golds, raw, doubts, strict=True)
    ]
    found = {}
    for at, key in enumerate(("exact", "f1")):
        found[key] = float(np.mean([pair[at] for pair in after]))
        for name, wanted in (("answerable", True), ("unanswerable", False)):
            part = [pair[at] for pair, gold in zip(after, golds, strict=True) if bool(gold) is wanted]
            if part:
                found[f"{key}_{name}"] = float(np.mean(part))
        running = best = sum(not gold for gold in golds)
        for place in np.argsort(doubts, kind="stable"):
            running += raw[place][at] if golds[place] else -bool(said[place])
            best = max(best, running)
        found[f"best_{key}"] = best / len(golds)
    return found


phrases = st.lists(
    st.sampled_from(
        ["the", "a", "An", "Key", "key!", "of", "Ida's", "Ida", "x-y", "café", "\t", "1,000", "."]
    ),
    max_size=4,
).map(" ".join)
questions = st.lists(
    st.tuples(st.lists(phrases, max_size=3), phrases, st.sampled_from([-1.5, -0.2, 0.0, 0.3, 2.0])),
    min_size=1,
    max_size=12,
)


@given(questions, st.sampled_from([-1.0, 0.0, 1.0]))
def test_squad_metrics_match_reference(drawn: list[tuple[list[str], str, float]], threshold: float) -> None:
    golds, said, doubts = (list(column) for column in zip(*drawn, strict=True))
    expected = reference_squad_metrics(golds, said, doubts, threshold)
    found = squad_metrics(golds, said, doubts, threshold)
    for key, value in expected.items():
        assert found[key] == pytest.approx(value), key
    assert set(found) == set(expected) | {"best_exact_threshold", "best_f1_threshold"}


@given(questions)
def test_best_threshold_reaches_best_f1_without_ties(
    drawn: list[tuple[list[str], str, float]],
) -> None:
    golds, said, _ = (list(column) for column in zip(*drawn, strict=True))
    doubts = [0.1 * at - 0.3 for at in range(len(golds))]
    threshold = squad_metrics(golds, said, doubts)["best_f1_threshold"]
    after = squad_metrics(golds, said, doubts, threshold)
    # An article alone counts as something said, and is worth as much as nothing.
    if all(bool(one) == bool(normalized_answer(one)) for one in said):
        assert after["f1"] == pytest.approx(after["best_f1"])


@pytest.mark.parametrize(
    ("gold", "said", "exact", "f1"),
    [
        ("The Key", "key", 1, 1),
        ("a key, of brass", "key of brass!", 1, 1),
        ("the brass key", "brass", 0, 2 / 3),
        ("Ida", "", 0, 0),
        ("key key", "key", 0, 2 / 3),
        ("Zürich", "zürich", 1, 1),
    ],
)
def test_exact_match_and_f1(gold: str, said: str, exact: float, f1: float) -> None:
    assert squad_metrics([[gold]], [said]) == pytest.approx({"exact": exact, "f1": f1})


def test_squad_1_counts_references_without_words() -> None:
    assert squad_metrics([["The", "x"]], ["the"]) == {"exact": 1.0, "f1": 0.0}
    assert squad_metrics([["a"]], ["the"]) == {"exact": 1.0, "f1": 0.0}


def test_tag_entities_and_metrics() -> None:
    assert tag_entities(["B-A", "I-A", "O", "I-B", "B-B", "I-A"]) == [
        (0, 2, "A"),
        (3, 4, "B"),
        (4, 5, "B"),
        (5, 6, "A"),
    ]
    assert tag_entities(["O", "O"]) == []
    assert tag_entities(["S-A", "B-B", "E-B", "U-A", "B-A", "I-A", "L-A", "E-B"]) == [
        (0, 1, "A"),
        (1, 3, "B"),
        (3, 4, "A"),
        (4, 7, "A"),
        (7, 8, "B"),
    ]
    right = [["B-A", "I-A", "O"], ["B-B", "O"]]
    assert tagging_metrics(right, right) == {"f1": 1, "precision": 1, "recall": 1, "accuracy": 1}
    found = tagging_metrics(right, [["B-A", "O", "O"], ["B-B", "B-A"]])
    assert found == pytest.approx({"f1": 2 / 5, "precision": 1 / 3, "recall": 1 / 2, "accuracy": 3 / 5})
    assert tagging_metrics([["N", "V"]], [["N", "N"]]) == {"accuracy": 0.5}  # no marks, words alone


def test_primary_metric() -> None:
    assert primary_metric("squad-1.1", {"exact": 0.5, "f1": 0.7}) == pytest.approx(0.6)
    assert primary_metric("mrpc", {"f1": 0.9, "accuracy": 0.8}) == pytest.approx(0.85)
    assert primary_metric("sts-b", {"pearson": 0.5, "spearman": 0.4}) == pytest.approx(0.45)
    assert primary_metric("cola", {"matthews": 0.3, "accuracy": 0.7}) == 0.3
    assert primary_metric("tag", {"accuracy": 0.7}) == 0.7
    assert primary_metric("race", {"accuracy": 0.7, "accuracy_middle": 0.9}) == 0.7
