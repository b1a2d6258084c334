"""The bag-of-words score of each task, fitted to train and scored on dev."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.world import bag_of_words
from albertine.world.tasks.glue import GlueExample, GlueTaskSpec
from albertine.world.tasks.race import RaceArticle
from albertine.world.tasks.squad import SquadParagraph, SquadQuestion

_MAX_NEGATIVES = 8  # wrong candidates per training question


def glue_baseline(task: GlueTaskSpec, train: Sequence[GlueExample], dev: Sequence[GlueExample]) -> float:
    """Return the dev score of a GLUE task by the task's metric."""
    rows = [bag_of_words.features(example.texts) for example in train]
    index = bag_of_words.feature_index(rows)
    train_features = bag_of_words.sparse_features(rows, index)
    dev_features = bag_of_words.sparse_features(
        [bag_of_words.features(example.texts) for example in dev], index
    )
    if not task.labels:
        weights = bag_of_words.fit_ridge_regression(
            train_features, np.array([float(example.label) for example in train])
        )
        gold_scores = np.array([float(example.label) for example in dev])
        return _correlation(dev_features.dot(weights), gold_scores)
    labels = np.array([task.labels.index(example.label) for example in train])
    targets = np.array([task.labels.index(example.label) for example in dev])
    weights = bag_of_words.fit_softmax_regression(train_features, labels, len(task.labels))
    predictions = np.stack([dev_features.dot(row) for row in weights]).argmax(axis=0)
    return (
        _correlation(predictions, targets)
        if task.metric == "Matthews"
        else float((predictions == targets).mean())
    )


def _correlation(predictions: NDArray[Any], targets: NDArray[Any]) -> float:
    """Return Pearson's correlation, or 0 if a side is constant; of binary labels it is Matthews'."""
    if predictions.std() == 0 or targets.std() == 0:
        return 0.0
    return float(np.corrcoef(predictions, targets)[0, 1])


def race_baseline(train: Sequence[RaceArticle], dev: Sequence[RaceArticle]) -> float:
    """Return the dev accuracy on RACE: how often the best-scored option is the answer."""
    rows, right = [], []
    for texts, is_right in _option_features(train):
        rows.append(texts)
        right.append(is_right)
    index = bag_of_words.feature_index(rows)
    weights = bag_of_words.fit_softmax_regression(
        bag_of_words.sparse_features(rows, index), np.array(right, np.int64), 2
    )
    unseen = list(_option_features(dev))
    scores = bag_of_words.sparse_features([texts for texts, _ in unseen], index).dot(weights[1] - weights[0])
    best = scores.reshape(-1, 4).argmax(axis=1)
    targets = np.array([is_right for _, is_right in unseen]).reshape(-1, 4).argmax(axis=1)
    return float((best == targets).mean())


def _option_features(made: Sequence[RaceArticle]) -> Iterator[tuple[list[str], bool]]:
    """Yield the features of each option, and whether it is the answer.

    The features are its n-grams, those that the article has too, and each with the question's start.
    """
    for article in made:
        article_ngrams = bag_of_words.ngrams(" ".join(article.story.sentences))
        for choice in article.questions:
            question_start = " ".join(choice.question.split()[:2]).lower()
            for at, option in enumerate(choice.options):
                own = bag_of_words.ngrams(option)
                found = {f"told:{ngram}" for ngram in own & article_ngrams} | {
                    f"{question_start}|{ngram}" for ngram in own
                }
                yield sorted(own | found), at == choice.answer_index


def squad_baseline(train: Sequence[SquadParagraph], dev: Sequence[SquadParagraph]) -> float:
    """Return the dev exact match on SQuAD of the best candidate, a phrase that is an answer in train."""
    answers = {span.text for paragraph in train for asked in paragraph.answerable for span in asked.answers}
    rows, right = [], []
    for paragraph in train:
        for asked in paragraph.answerable:
            gold = {span.text for span in asked.answers}
            candidates = _candidates(paragraph, answers)
            negatives = [each for each in candidates if each[0] not in gold]
            positive = [each for each in candidates if each[0] == asked.answers[0].text][:1]
            for each in positive + negatives[:: max(1, len(negatives) // _MAX_NEGATIVES)][:_MAX_NEGATIVES]:
                rows.append(_span_features(asked, *each))
                right.append(each[0] in gold)
    index = bag_of_words.feature_index(rows)
    weights = bag_of_words.fit_softmax_regression(
        bag_of_words.sparse_features(rows, index), np.array(right, np.int64), 2
    )
    hits = []
    for paragraph in dev:
        candidates = _candidates(paragraph, answers)
        for asked in paragraph.answerable:
            if not candidates:
                hits.append(False)
                continue
            bags = bag_of_words.sparse_features([_span_features(asked, *each) for each in candidates], index)
            best = int(bags.dot(weights[1] - weights[0]).argmax())
            hits.append(candidates[best][0] in {span.text for span in asked.answers})
    return float(np.mean(hits))


def _candidates(paragraph: SquadParagraph, known_answers: set[str]) -> list[tuple[str, str]]:
    """Return the known answers that occur in a text, each with its sentence."""
    found = []
    for sentence in paragraph.story.sentences:
        words = re.findall(r"[\w'-]+", sentence)
        for length in range(1, 6):
            for at in range(len(words) - length + 1):
                candidate = " ".join(words[at : at + length])
                if candidate in known_answers:
                    found.append((candidate, sentence))
    return found


def _span_features(asked: SquadQuestion, candidate: str, sentence: str) -> list[str]:
    """Return the n-grams that question and sentence share, and the candidate's words."""
    question_start = " ".join(asked.question.split()[:2]).lower()
    both = [name for name in bag_of_words.features((asked.question, sentence)) if name.startswith("both:")]
    words = candidate.lower().split()
    return sorted(
        {*both, *(f"{question_start}|{word}" for word in words), *(f"answer:{word}" for word in words)}
    )
