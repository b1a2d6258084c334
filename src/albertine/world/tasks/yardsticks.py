"""What a bag of words reaches on each task, measured on the examples that were just made."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.world import baseline
from albertine.world.tasks.glue import Example, Task
from albertine.world.tasks.race import Article
from albertine.world.tasks.squad import Asked, Paragraph

_MOST_WRONG = 8  # candidates to learn from beside the right one


def on_pairs(task: Task, train: Sequence[Example], held_out: Sequence[Example]) -> float:
    """Return the score of a task of GLUE, as it is scored there."""
    rows = [baseline.features(example.texts) for example in train]
    index = baseline.index_of(rows)
    seen = baseline.bags_of(rows, index)
    unseen = baseline.bags_of([baseline.features(example.texts) for example in held_out], index)
    if not task.labels:
        weights = baseline.fit_numbers(seen, np.array([float(example.label) for example in train]))
        gold_scores = np.array([float(example.label) for example in held_out])
        return _correlation(unseen.times(weights), gold_scores)
    labels = np.array([task.labels.index(example.label) for example in train])
    wanted = np.array([task.labels.index(example.label) for example in held_out])
    weights = baseline.fit_classes(seen, labels, len(task.labels))
    guessed = np.stack([unseen.times(row) for row in weights]).argmax(axis=0)
    return _correlation(guessed, wanted) if task.metric == "Matthews" else float((guessed == wanted).mean())


def _correlation(guessed: NDArray[Any], wanted: NDArray[Any]) -> float:
    """Return Pearson's correlation, which Matthews' is of zeros and ones; 0 where a side never changes."""
    if guessed.std() == 0 or wanted.std() == 0:
        return 0.0
    return float(np.corrcoef(guessed, wanted)[0, 1])


def on_options(train: Sequence[Article], held_out: Sequence[Article]) -> float:
    """Return how often the best of four options is the right one."""
    rows, right = [], []
    for texts, is_right in _options(train):
        rows.append(texts)
        right.append(is_right)
    index = baseline.index_of(rows)
    weights = baseline.fit_classes(baseline.bags_of(rows, index), np.array(right, np.int64), 2)
    unseen = list(_options(held_out))
    scores = baseline.bags_of([texts for texts, _ in unseen], index).times(weights[1] - weights[0])
    best = scores.reshape(-1, 4).argmax(axis=1)
    wanted = np.array([is_right for _, is_right in unseen]).reshape(-1, 4).argmax(axis=1)
    return float((best == wanted).mean())


def _options(made: Sequence[Article]) -> Iterator[tuple[list[str], bool]]:
    """Yield the features of each option: its words, which of them the article has, and what is asked."""
    for article in made:
        told = baseline.ngrams(" ".join(article.story.sentences))
        for choice in article.asked:
            begun = " ".join(choice.question.split()[:2]).lower()
            for at, option in enumerate(choice.options):
                own = baseline.ngrams(option)
                found = {f"told:{ngram}" for ngram in own & told} | {f"{begun}|{ngram}" for ngram in own}
                yield sorted(own | found), at == choice.right


def on_spans(train: Sequence[Paragraph], held_out: Sequence[Paragraph]) -> float:
    """Return how often the best candidate is an answer: anything in the text that ever was one."""
    answers = {span.text for paragraph in train for asked in paragraph.asked for span in asked.answers}
    rows, right = [], []
    for paragraph in train:
        for asked in paragraph.asked:
            gold = {span.text for span in asked.answers}
            candidates = _candidates(paragraph, answers)
            wrong = [each for each in candidates if each[0] not in gold]
            taken = [each for each in candidates if each[0] == asked.answers[0].text][:1]
            for each in taken + wrong[:: max(1, len(wrong) // _MOST_WRONG)][:_MOST_WRONG]:
                rows.append(_span_features(asked, *each))
                right.append(each[0] in gold)
    index = baseline.index_of(rows)
    weights = baseline.fit_classes(baseline.bags_of(rows, index), np.array(right, np.int64), 2)
    hits = []
    for paragraph in held_out:
        candidates = _candidates(paragraph, answers)
        for asked in paragraph.asked:
            if not candidates:
                hits.append(False)
                continue
            bags = baseline.bags_of([_span_features(asked, *each) for each in candidates], index)
            best = int(bags.times(weights[1] - weights[0]).argmax())
            hits.append(candidates[best][0] in {span.text for span in asked.answers})
    return float(np.mean(hits))


def _candidates(paragraph: Paragraph, answers: set[str]) -> list[tuple[str, str]]:
    """Return what in a text may be an answer, each with the sentence where it stands."""
    found = []
    for sentence in paragraph.story.sentences:
        words = re.findall(r"[\w'-]+", sentence)
        for length in range(1, 6):
            for at in range(len(words) - length + 1):
                candidate = " ".join(words[at : at + length])
                if candidate in answers:
                    found.append((candidate, sentence))
    return found


def _span_features(asked: Asked, candidate: str, sentence: str) -> list[str]:
    """Return what question and sentence share, and what kind of answer goes with what kind of question."""
    begun = " ".join(asked.question.split()[:2]).lower()
    both = [name for name in baseline.features((asked.question, sentence)) if name.startswith("both:")]
    words = candidate.lower().split()
    return sorted({*both, *(f"{begun}|{word}" for word in words), *(f"answer:{word}" for word in words)})
