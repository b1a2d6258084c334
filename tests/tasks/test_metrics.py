"""Tests of the metrics against scikit-learn, scipy and a second implementation of SQuAD's rules."""

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
from sklearn import metrics as sklearn_metrics

from albertine.tasks.metrics.scores import compute_metric
from albertine.tasks.metrics.squad import normalized_answer, squad_metrics
from albertine.tasks.metrics.tagging import tag_entities, tagging_metrics
from albertine.tasks.registry import primary_metric

labels_and_predictions = st.integers(2, 4).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), min_size=1, max_size=40),
    )
)


@given(labels_and_predictions)
def test_classification_metrics_match_scikit_learn(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    _, pairs = drawn
    labels, predictions = (np.array(column) for column in zip(*pairs, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "accuracy": sklearn_metrics.accuracy_score(labels, predictions),
            "f1": sklearn_metrics.f1_score(labels, predictions, labels=[1], average="macro", zero_division=0),
            "macro_f1": sklearn_metrics.f1_score(labels, predictions, average="macro", zero_division=0),
            "matthews": sklearn_metrics.matthews_corrcoef(labels, predictions),
        }
    for name, value in expected.items():
        assert compute_metric(name, labels, predictions) == pytest.approx(value, abs=1e-12), name


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 5)), min_size=3, max_size=40))
def test_regression_metrics_match_scipy(pairs: list[tuple[float, int]]) -> None:
    labels, predictions = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "pearson": stats.pearsonr(labels, predictions)[0],
            "spearman": stats.spearmanr(labels, predictions)[0],
        }
    for name, value in expected.items():
        actual = compute_metric(name, labels, predictions)
        if not math.isnan(value) and labels.std() > 1e-6:
            assert actual == pytest.approx(value, abs=1e-6), name
    assert compute_metric("pearson", labels, np.ones_like(labels)) == 0.0
    assert compute_metric("pearson", np.full(3, 0.2), np.full(3, 0.2)) == 0.0  # whose mean is another float
    assert compute_metric("rmse", labels, predictions) == pytest.approx(
        math.sqrt(sklearn_metrics.mean_squared_error(labels, predictions))
    )


# A second implementation of SQuAD's rules.


def normalized_words(text: str) -> list[str]:
    without_punctuation = "".join(char for char in text.lower() if char not in set(string.punctuation))
    without_articles = re.sub(r"\b(?:a|an|the)\b", " ", without_punctuation)
    return [word for word in re.split(r"\s+", without_articles) if word]


def reference_exact_and_f1(reference: str, prediction: str) -> tuple[float, float]:
    reference_words, predicted_words = normalized_words(reference), normalized_words(prediction)
    exact = float(reference_words == predicted_words)
    if not reference_words or not predicted_words:
        return exact, exact
    predicted_counts = Counter(predicted_words)
    num_common = sum(min(count, predicted_counts[word]) for word, count in Counter(reference_words).items())
    return exact, 2 * num_common / (len(reference_words) + len(predicted_words))


def reference_squad_metrics(
    references: Sequence[Sequence[str]],
    predictions: Sequence[str],
    no_answer_scores: Sequence[float],
    threshold: float,
) -> dict[str, float]:
    scores = []
    for answers, prediction in zip(references, predictions, strict=True):
        non_empty = [answer for answer in answers if normalized_words(answer)] or [""]
        pairs = [reference_exact_and_f1(answer, prediction) for answer in non_empty]
        scores.append((max(exact for exact, _ in pairs), max(f1 for _, f1 in pairs)))
    final_scores = [
        (float(not answers), float(not answers)) if no_answer_score > threshold else pair
        for answers, pair, no_answer_score in zip(references, scores, no_answer_scores, strict=True)
    ]
    metrics = {}
    for index, key in enumerate(("exact", "f1")):
        metrics[key] = float(np.mean([pair[index] for pair in final_scores]))
        for name, is_answerable in (("answerable", True), ("unanswerable", False)):
            subset = [
                pair[index]
                for pair, answers in zip(final_scores, references, strict=True)
                if bool(answers) is is_answerable
            ]
            if subset:
                metrics[f"{key}_{name}"] = float(np.mean(subset))
        total = best = sum(not answers for answers in references)
        best_at = 0.0
        for question in np.argsort(no_answer_scores, kind="stable"):
            total += scores[question][index] if references[question] else -bool(predictions[question])
            if total > best:
                best, best_at = total, no_answer_scores[question]
        metrics |= {f"best_{key}": best / len(references), f"best_{key}_threshold": best_at}
    return metrics


phrases = st.lists(
    st.sampled_from(
        ["the", "a", "An", "Key", "key!", "of", "Ida's", "Ida", "x-y", "café", "\t", "1,000", "."]
    ),
    max_size=4,
).map(" ".join)
# References, prediction and no-answer score of each question.
questions = st.lists(
    st.tuples(st.lists(phrases, max_size=3), phrases, st.sampled_from([-1.5, -0.2, 0.0, 0.3, 2.0])),
    min_size=1,
    max_size=12,
)


@given(questions, st.sampled_from([-1.0, 0.0, 1.0]))
def test_squad_metrics_match_reference(drawn: list[tuple[list[str], str, float]], threshold: float) -> None:
    references, predictions, no_answer_scores = (list(column) for column in zip(*drawn, strict=True))
    expected = reference_squad_metrics(references, predictions, no_answer_scores, threshold)
    actual = squad_metrics(references, predictions, no_answer_scores, threshold)
    for key, value in expected.items():
        assert actual[key] == pytest.approx(value), key
    assert set(actual) == set(expected)


@given(questions)
def test_best_threshold_reaches_best_f1_without_ties(
    drawn: list[tuple[list[str], str, float]],
) -> None:
    references, predictions, _ = (list(column) for column in zip(*drawn, strict=True))
    no_answer_scores = [0.1 + 0.1 * index for index in range(len(references))]
    threshold = squad_metrics(references, predictions, no_answer_scores)["best_f1_threshold"]
    metrics = squad_metrics(references, predictions, no_answer_scores, threshold)
    # Predictions such as "the" are excluded: to a question without an answer, they are wrong in the best F1,
    # but correct in the F1 at a threshold, which compares normalized texts.
    if all(bool(prediction) == bool(normalized_answer(prediction)) for prediction in predictions):
        assert metrics["f1"] == pytest.approx(metrics["best_f1"])


@pytest.mark.parametrize(
    ("reference", "prediction", "exact", "f1"),
    [
        ("The Key", "key", 1, 1),
        ("a key, of brass", "key of brass!", 1, 1),
        ("the brass key", "brass", 0, 2 / 3),
        ("Ida", "", 0, 0),
        ("key key", "key", 0, 2 / 3),
        ("Zürich", "zürich", 1, 1),
    ],
)
def test_exact_match_and_f1(reference: str, prediction: str, exact: float, f1: float) -> None:
    assert squad_metrics([[reference]], [prediction]) == pytest.approx({"exact": exact, "f1": f1})


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
    tags = [["B-A", "I-A", "O"], ["B-B", "O"]]
    assert tagging_metrics(tags, tags) == {"f1": 1, "precision": 1, "recall": 1, "accuracy": 1}
    metrics = tagging_metrics(tags, [["B-A", "O", "O"], ["B-B", "B-A"]])
    assert metrics == pytest.approx({"f1": 2 / 5, "precision": 1 / 3, "recall": 1 / 2, "accuracy": 3 / 5})
    assert tagging_metrics([["N", "V"]], [["N", "N"]]) == {"accuracy": 0.5}  # no entities
    assert tagging_metrics([["I-", "N"]], [["N", "I-"]]) == {"accuracy": 0}  # nor types of entities
    # The model has tags of entities, the evaluated rows have none.
    none, tag_set = [["O", "O"]], ("O", "B-A", "I-A")
    right = {"f1": 1, "precision": 1, "recall": 1, "accuracy": 1}
    assert tagging_metrics(none, none, tag_set) == right
    wrong = {"f1": 0, "precision": 0, "recall": 0, "accuracy": 0.5}
    assert tagging_metrics(none, [["B-A", "O"]], tag_set) == wrong


def test_primary_metric() -> None:
    assert primary_metric("squad-1.1", {"exact": 0.5, "f1": 0.7}) == pytest.approx(0.6)
    assert primary_metric("mrpc", {"f1": 0.9, "accuracy": 0.8}) == pytest.approx(0.85)
    assert primary_metric("sts-b", {"pearson": 0.5, "spearman": 0.4}) == pytest.approx(0.45)
    assert primary_metric("cola", {"matthews": 0.3, "accuracy": 0.7}) == 0.3
    assert primary_metric("tag", {"accuracy": 0.7}) == 0.7
    assert primary_metric("race", {"accuracy": 0.7, "accuracy_middle": 0.9}) == 0.7
