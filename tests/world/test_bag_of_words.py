"""Tests that a bag of words does not solve the tasks, and that the linear models agree with scikit-learn."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from albertine.world import bag_of_words
from albertine.world.tasks import baselines, glue, race, squad

# The highest dev score allowed for a bag of words after about a thousand training examples.
MAX_SCORES = {
    "CoLA": 0.25,
    "SST-2": 0.70,
    "MRPC": 0.65,
    "STS-B": 0.85,
    "QQP": 0.85,
    "MNLI": 0.65,
    "QNLI": 0.78,
    "RTE": 0.65,
    "WNLI": 0.60,
}


def examples(
    name: str, train: int, dev: int
) -> tuple[glue.GlueTaskSpec, list[glue.GlueExample], list[glue.GlueExample]]:
    """Return a task, and the given numbers of examples of its train and dev splits."""
    task = next(task for task in glue.TASKS if task.name == name)
    seen: set[tuple[str, ...]] = set()
    held_out = next(split for split in task.splits if split.partition == "dev")
    rows = list(glue.make_examples(task, held_out, dev, 0, seen))
    return task, list(glue.make_examples(task, task.splits[-1], train, 0, seen)), rows


@pytest.mark.parametrize("name", [*MAX_SCORES])
def test_bag_of_words_scores_on_glue(name: str) -> None:
    assert baselines.glue_baseline(*examples(name, 1500, 400)) < MAX_SCORES[name]


@pytest.mark.parametrize(("level", "max_score"), [("middle", 0.7), ("high", 0.55)])
def test_bag_of_words_scores_on_race(level: str, max_score: float) -> None:
    train, held_out = (
        race.make_articles(level, split, count, 0) for split, count in (("train", 900), ("dev", 400))
    )
    assert baselines.race_baseline(train, held_out) < max_score


def test_bag_of_words_scores_on_squad() -> None:
    train, held_out = (
        squad.make_paragraphs(split, count, 0) for split, count in (("train", 900), ("dev", 400))
    )
    assert baselines.squad_baseline(train, held_out) < 0.75


@pytest.mark.parametrize("name", ["SST-2", "QNLI", "MNLI", "QQP"])
def test_softmax_regression_agrees_with_scikit_learn(name: str) -> None:
    task, train, held_out = examples(name, 800, 300)
    rows = [bag_of_words.features(example.texts) for example in train]
    index = bag_of_words.feature_index(rows)
    labels = np.array([task.labels.index(example.label) for example in train])
    weights = bag_of_words.fit_softmax_regression(
        bag_of_words.sparse_features(rows, index), labels, len(task.labels)
    )
    unseen_rows = [bag_of_words.features(example.texts) for example in held_out]
    unseen_features = bag_of_words.sparse_features(unseen_rows, index)
    scores = np.stack([unseen_features.dot(row) for row in weights], axis=1)

    counter = CountVectorizer(analyzer=lambda row: row, vocabulary=index)
    # With two classes, scikit-learn has weights for only one of them, which doubles the penalty.
    inverse_penalty = 2.0 if len(task.labels) == 2 else 1.0
    reference = LogisticRegression(C=inverse_penalty, max_iter=2000).fit(counter.transform(rows), labels)
    expected = reference.predict(counter.transform(unseen_rows))
    assert (scores.argmax(axis=1) == expected).mean() > 0.98


def test_ridge_regression_agrees_with_scikit_learn() -> None:
    _, train, held_out = examples("STS-B", 800, 200)
    rows = [bag_of_words.features(example.texts) for example in train]
    index = bag_of_words.feature_index(rows)
    values = np.array([float(example.label) for example in train])
    weights = bag_of_words.fit_ridge_regression(bag_of_words.sparse_features(rows, index), values)
    unseen_rows = [bag_of_words.features(example.texts) for example in held_out]
    counter = CountVectorizer(analyzer=lambda row: row, vocabulary=index)
    expected = Ridge(alpha=1.0).fit(counter.transform(rows), values).predict(counter.transform(unseen_rows))
    assert np.corrcoef(bag_of_words.sparse_features(unseen_rows, index).dot(weights), expected)[0, 1] > 0.995


def test_features_of_one_text_and_of_two() -> None:
    assert bag_of_words.features(["The cat sat"]) == ["cat", "cat sat", "sat", "the", "the cat"]
    assert bag_of_words.features(["a b", "b c"]) == ["0:a", "0:a b", "0:b", "1:b", "1:b c", "1:c", "both:b"]
