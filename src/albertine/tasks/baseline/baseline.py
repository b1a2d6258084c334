"""Predictions of the bag-of-words baseline: logistic regression for labels, ridge regression for numbers.

The penalties are fixed: C = 10 of scikit-learn's `LogisticRegression`, and alpha = 1 of its `Ridge`.
The baseline takes a random part of very large data, which bounds its memory and its time.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

import numpy as np

from albertine.linear_models import Floats, fit_logistic_regression, fit_ridge_regression
from albertine.randomness import Stream, random_bits
from albertine.tasks.baseline.features import FEATURE_CHUNK, TextFeatures
from albertine.tasks.baseline.tfidf import count_words
from albertine.tasks.examples import MultiLabelExample, TextExample, example_chunks

E = TypeVar("E", bound=TextExample)

_LOGISTIC_PENALTY = 0.1  # 1 / C
_RIDGE_PENALTY = 1.0  # alpha
_MAX_WORDS = 1 << 23  # of the training examples
_MAX_LOGITS = 1 << 23  # of the training examples
_MAX_WEIGHTS = 1 << 21  # of all labels together


def predict_labels(
    train: Sequence[TextExample], examples: Sequence[TextExample], *, balanced: bool = False
) -> list[str]:
    """Return the label of each example that a logistic regression predicts.

    Args:
        train: the labeled examples to which it is fitted, at least one.
        examples: the examples to predict.
        balanced: weigh rare labels in the loss as much as frequent ones.
    """
    train = _bounded_sample(train, _MAX_LOGITS // len({example.label for example in train}))
    names, labels = np.unique([str(example.label) for example in train], return_inverse=True)
    if len(names) == 1:
        return [str(names[0])] * len(examples)
    features = TextFeatures(train, _MAX_WEIGHTS // len(names))
    rows = features.rows(train)
    weights = fit_logistic_regression(rows, labels, len(names), _LOGISTIC_PENALTY, balanced=balanced)
    return [str(names[label]) for label in _scores(features, examples, weights).argmax(axis=1)]


def predict_label_probabilities(
    train: Sequence[MultiLabelExample], examples: Sequence[MultiLabelExample], *, balanced: bool = False
) -> tuple[list[str], Floats]:
    """Return the labels of train, and the probability of each label for each example, [examples, labels].

    Each label has a logistic regression of its own.

    Args:
        train: the labeled examples to which they are fitted, at least one.
        examples: the examples to predict.
        balanced: weigh the examples with a label in its loss as much as those without.
    """
    labels = sorted({label for example in train for label in example.labels or ()})
    if not labels:
        return [], np.zeros((len(examples), 0))
    sample = _bounded_sample(train, _MAX_LOGITS // len(labels))
    features = TextFeatures(sample, _MAX_WEIGHTS // len(labels))
    rows = features.rows(sample)
    weights = []
    for label in labels:
        has_label = np.array([label in (example.labels or ()) for example in sample], np.int64)
        if has_label.min() == has_label.max():  # nothing to fit: the last weight, the bias, decides
            weights.append(np.append(np.zeros(rows.width - 1), 1.0 if has_label[0] else -1.0))
        else:
            fitted = fit_logistic_regression(rows, has_label, 2, _LOGISTIC_PENALTY, balanced=balanced)
            weights.append(fitted[1])
    scores = _scores(features, examples, np.stack(weights))
    return labels, 1 / (1 + np.exp(-np.clip(scores, -500, 500)))


def predict_numbers(train: Sequence[TextExample], examples: Sequence[TextExample]) -> list[float]:
    """Return the number of each example that a ridge regression predicts.

    Args:
        train: the examples with numbers to which it is fitted, at least one.
        examples: the examples to predict.
    """
    train = _bounded_sample(train, _MAX_LOGITS)
    values = np.array([example.value for example in train], np.float64)
    features = TextFeatures(train, _MAX_WEIGHTS)
    weights = fit_ridge_regression(features.rows(train), values, _RIDGE_PENALTY)
    return [float(value) for value in _scores(features, examples, weights[None])[:, 0]]


def _scores(features: TextFeatures, examples: Sequence[TextExample], weights: Floats) -> Floats:
    """Return the product of the features of examples with the weights of each model: `[examples, models]`."""
    scores = [np.zeros((0, len(weights)))]
    for chunk in example_chunks(examples, FEATURE_CHUNK):
        rows = features.rows(chunk)
        scores.append(np.stack([rows.dot(row) for row in weights], axis=1))
    return np.concatenate(scores)


def _bounded_sample(examples: Sequence[E], max_examples: int) -> Sequence[E]:
    """Return the examples, or a random part of them if they are too many or have too many words."""
    if len(examples) <= max_examples and sum(example.length for example in examples) <= _MAX_WORDS:
        return examples
    order = np.argsort(random_bits(0, Stream.BASELINE_EXAMPLES, np.arange(len(examples))), kind="stable")
    sample = [examples[index] for index in order[:max_examples].tolist()]
    totals = accumulate(sum(map(count_words, example.texts)) for example in sample)
    count = sum(total <= _MAX_WORDS for total in totals)
    return sample[: max(1, count)]
