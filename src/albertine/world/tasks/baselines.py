"""The bag-of-words score of each task, fitted to train and scored on dev."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.linear_models import Floats, SparseRows, fit_logistic_regression, fit_ridge_regression
from albertine.world import bag_of_words
from albertine.world.tasks.glue import GlueExample, GlueTaskSpec
from albertine.world.tasks.race import RaceArticle
from albertine.world.tasks.squad import SquadParagraph, SquadQuestion

_MAX_NEGATIVES = 8  # wrong candidates per training question
_PENALTY = 1.0


def glue_baseline(task: GlueTaskSpec, train: Sequence[GlueExample], dev: Sequence[GlueExample]) -> float:
    """Return the dev score of a GLUE task by the task's metric."""
    rows = [bag_of_words.features(example.texts) for example in train]
    index = bag_of_words.feature_index(rows)
    train_features = bag_of_words.sparse_rows(rows, index)
    dev_features = bag_of_words.sparse_rows([bag_of_words.features(example.texts) for example in dev], index)
    if not task.labels:
        values = np.array([float(example.label) for example in train])
        weights = fit_ridge_regression(train_features, values, _PENALTY)
        gold_scores = np.array([float(example.label) for example in dev])
        return _correlation(dev_features.dot(weights), gold_scores)
    labels = np.array([task.labels.index(example.label) for example in train])
    targets = np.array([task.labels.index(example.label) for example in dev])
    weights = _fit_labels(train_features, labels, len(task.labels))
    predictions = np.stack([dev_features.dot(row) for row in weights]).argmax(axis=0)
    return (
        _correlation(predictions, targets)
        if task.metric == "Matthews"
        else float((predictions == targets).mean())
    )


def _fit_labels(rows: SparseRows, labels: NDArray[np.int64], num_labels: int) -> Floats:
    """Return the weights of a logistic regression: `[labels, width]`."""
    # Of two labels only the second has weights. Half the penalty on them is the same as the full penalty on
    # two vectors of weights with that difference.
    return fit_logistic_regression(rows, labels, num_labels, _PENALTY / 2 if num_labels == 2 else _PENALTY)


def _correlation(predictions: NDArray[Any], targets: NDArray[Any]) -> float:
    """Return Pearson's correlation, or 0 if one side is constant; for binary labels it is Matthews'."""
    if predictions.std() == 0 or targets.std() == 0:
        return 0.0
    return float(np.corrcoef(predictions, targets)[0, 1])


def race_baseline(train: Sequence[RaceArticle], dev: Sequence[RaceArticle]) -> float:
    """Return the dev accuracy on RACE: how often the best-scored option is the answer."""
    rows, train_targets = [], []
    for features, is_answer in _option_features(train):
        rows.append(features)
        train_targets.append(is_answer)
    index = bag_of_words.feature_index(rows)
    weights = _fit_labels(bag_of_words.sparse_rows(rows, index), np.array(train_targets, np.int64), 2)
    dev_options = list(_option_features(dev))
    scores = bag_of_words.sparse_rows([features for features, _ in dev_options], index).dot(
        weights[1] - weights[0]
    )
    predictions = scores.reshape(-1, 4).argmax(axis=1)
    targets = np.array([is_answer for _, is_answer in dev_options]).reshape(-1, 4).argmax(axis=1)
    return float((predictions == targets).mean())


def _option_features(articles: Sequence[RaceArticle]) -> Iterator[tuple[list[str], bool]]:
    """Yield the features of each option, and whether it is the answer.

    The features are the n-grams of the option, those that the article has too, and each
    n-gram together with the first two words of the question.
    """
    for article in articles:
        article_ngrams = bag_of_words.ngrams(" ".join(article.story.sentences))
        for question in article.questions:
            question_start = " ".join(question.question.split()[:2]).lower()
            for index, option in enumerate(question.options):
                option_ngrams = bag_of_words.ngrams(option)
                extra_features = {f"told:{ngram}" for ngram in option_ngrams & article_ngrams} | {
                    f"{question_start}|{ngram}" for ngram in option_ngrams
                }
                yield sorted(option_ngrams | extra_features), index == question.answer_index


def squad_baseline(train: Sequence[SquadParagraph], dev: Sequence[SquadParagraph]) -> float:
    """Return the dev exact match on SQuAD; the candidates are the phrases that are an answer in train."""
    answers = {
        span.text for paragraph in train for question in paragraph.answerable for span in question.answers
    }
    rows, targets = [], []
    for paragraph in train:
        for question in paragraph.answerable:
            gold = {span.text for span in question.answers}
            candidates = _candidates(paragraph, answers)
            negatives = [candidate for candidate in candidates if candidate[0] not in gold]
            positive = [candidate for candidate in candidates if candidate[0] == question.answers[0].text][:1]
            for candidate in (
                positive + negatives[:: max(1, len(negatives) // _MAX_NEGATIVES)][:_MAX_NEGATIVES]
            ):
                rows.append(_span_features(question, *candidate))
                targets.append(candidate[0] in gold)
    if not rows:  # no answer of the training part occurs as a phrase
        return 0.0
    index = bag_of_words.feature_index(rows)
    weights = _fit_labels(bag_of_words.sparse_rows(rows, index), np.array(targets, np.int64), 2)
    hits = []
    for paragraph in dev:
        candidates = _candidates(paragraph, answers)
        for question in paragraph.answerable:
            if not candidates:
                hits.append(False)
                continue
            bags = bag_of_words.sparse_rows(
                [_span_features(question, *candidate) for candidate in candidates], index
            )
            best = int(bags.dot(weights[1] - weights[0]).argmax())
            hits.append(candidates[best][0] in {span.text for span in question.answers})
    return float(np.mean(hits))


def _candidates(paragraph: SquadParagraph, known_answers: set[str]) -> list[tuple[str, str]]:
    """Return the known answers that occur in a text, each with its sentence."""
    candidates = []
    for sentence in paragraph.story.sentences:
        words = re.findall(r"[\w'-]+", sentence)
        for length in range(1, 6):
            for start in range(len(words) - length + 1):
                candidate = " ".join(words[start : start + length])
                if candidate in known_answers:
                    candidates.append((candidate, sentence))
    return candidates


def _span_features(question: SquadQuestion, candidate: str, sentence: str) -> list[str]:
    """Return the n-grams that question and sentence share, and the words of the candidate.

    Each word occurs alone and together with the first two words of the question.
    """
    question_start = " ".join(question.question.split()[:2]).lower()
    shared = [
        name for name in bag_of_words.features((question.question, sentence)) if name.startswith("both:")
    ]
    words = candidate.lower().split()
    return sorted(
        {*shared, *(f"{question_start}|{word}" for word in words), *(f"answer:{word}" for word in words)}
    )
