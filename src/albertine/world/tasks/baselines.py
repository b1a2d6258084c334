"""The bag-of-words score of each task, fitted to train and scored on dev."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from albertine.linear_models import Floats, SparseRows, fit_logistic_regression, fit_ridge_regression
from albertine.world import bag_of_words
from albertine.world.tasks.glue import GlueExample, GlueTaskSpec
from albertine.world.tasks.race import RaceArticle
from albertine.world.tasks.squad import SquadParagraph, SquadQuestion

_MAX_NEGATIVES = 8  # wrong candidates per training question
_MAX_ANSWER_WORDS = 5
_NUM_OPTIONS = 4  # of a question of RACE
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
    predictions = scores.reshape(-1, _NUM_OPTIONS).argmax(axis=1)
    targets = np.array([is_answer for _, is_answer in dev_options]).reshape(-1, _NUM_OPTIONS).argmax(axis=1)
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
    known_answers = {
        span.text for paragraph in train for question in paragraph.answerable for span in question.answers
    }
    rows, is_answer = [], []
    for paragraph in train:
        candidates = _candidates(paragraph, known_answers)
        for question in paragraph.answerable:
            for candidate in _training_candidates(question, candidates):
                rows.append(_span_features(question, candidate))
                is_answer.append(candidate.text in _answer_texts(question))
    if not rows:  # no answer of the training part occurs as a phrase
        return 0.0
    index = bag_of_words.feature_index(rows)
    weights = _fit_labels(bag_of_words.sparse_rows(rows, index), np.array(is_answer, np.int64), 2)
    is_right = []
    for paragraph in dev:
        candidates = _candidates(paragraph, known_answers)
        for question in paragraph.answerable:
            best = _best_candidate(question, candidates, index, weights[1] - weights[0])
            is_right.append(best is not None and best.text in _answer_texts(question))
    return float(np.mean(is_right))


class _Candidate(NamedTuple):
    """A phrase that may be an answer, and its sentence."""

    text: str
    sentence: str


def _answer_texts(question: SquadQuestion) -> set[str]:
    return {span.text for span in question.answers}


def _training_candidates(question: SquadQuestion, candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Return the first right candidate, if there is one, and at most `_MAX_NEGATIVES` wrong ones."""
    right = [candidate for candidate in candidates if candidate.text == question.answers[0].text][:1]
    wrong = [candidate for candidate in candidates if candidate.text not in _answer_texts(question)]
    return right + wrong[:: max(1, len(wrong) // _MAX_NEGATIVES)][:_MAX_NEGATIVES]


def _best_candidate(
    question: SquadQuestion, candidates: Sequence[_Candidate], index: dict[str, int], weights: Floats
) -> _Candidate | None:
    """Return the candidate with the highest score; None if there are no candidates."""
    if not candidates:
        return None
    rows = bag_of_words.sparse_rows([_span_features(question, candidate) for candidate in candidates], index)
    return candidates[int(rows.dot(weights).argmax())]


def _candidates(paragraph: SquadParagraph, known_answers: set[str]) -> list[_Candidate]:
    """Return the known answers that occur in a text."""
    candidates = []
    for sentence in paragraph.story.sentences:
        words = re.findall(r"[\w'-]+", sentence)
        for length in range(1, _MAX_ANSWER_WORDS + 1):
            for start in range(len(words) - length + 1):
                candidate = " ".join(words[start : start + length])
                if candidate in known_answers:
                    candidates.append(_Candidate(candidate, sentence))
    return candidates


def _span_features(question: SquadQuestion, candidate: _Candidate) -> list[str]:
    """Return the n-grams that question and sentence share, and the words of the candidate.

    Each word occurs alone and together with the first two words of the question.
    """
    question_start = " ".join(question.question.split()[:2]).lower()
    shared = [
        name
        for name in bag_of_words.features((question.question, candidate.sentence))
        if name.startswith("both:")
    ]
    words = candidate.text.lower().split()
    return sorted(
        {*shared, *(f"{question_start}|{word}" for word in words), *(f"answer:{word}" for word in words)}
    )
