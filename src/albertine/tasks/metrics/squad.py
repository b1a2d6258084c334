"""Metrics of SQuAD, as its official scripts compute them: exact match and F1.

Texts are compared without case, punctuation, articles and repeated spaces. A prediction is
scored against the reference that gives the best score. For a question without an answer,
only an empty prediction is correct.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized_answer(text: str) -> str:
    """Return text in lower case, without punctuation, articles and repeated spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(reference: str, prediction: str) -> float:
    """Return 1 if both texts are the same after normalization, else 0."""
    return float(normalized_answer(reference) == normalized_answer(prediction))


def token_f1(reference: str, prediction: str) -> float:
    """Return the F1 score of the words of a prediction."""
    reference_words = normalized_answer(reference).split()
    predicted_words = normalized_answer(prediction).split()
    if not reference_words or not predicted_words:
        return float(reference_words == predicted_words)
    num_common = sum((Counter(reference_words) & Counter(predicted_words)).values())
    if not num_common:
        return 0.0
    precision, recall = num_common / len(predicted_words), num_common / len(reference_words)
    return 2 * precision * recall / (precision + recall)


def best_scores(
    references: Sequence[str], prediction: str, *, allows_no_answer: bool = True
) -> tuple[float, float]:
    """Return the best exact match and the best F1 over all references.

    The scripts of SQuAD 1.1 and 2.0 treat references that are empty after normalization differently. For
    2.0, they are ignored; if there is no other reference, only the empty prediction is correct. For 1.1, they
    count for exact match, and their F1 is 0.
    """
    non_empty = [reference for reference in references if normalized_answer(reference)]
    if allows_no_answer:
        references = non_empty = non_empty or [""]
    return (
        max((exact_match(reference, prediction) for reference in references), default=0.0),
        max((token_f1(reference, prediction) for reference in non_empty), default=0.0),
    )


def squad_metrics(
    references: Sequence[Sequence[str]],
    predictions: Sequence[str],
    no_answer_scores: Sequence[float] | None = None,
    threshold: float = 0.0,
) -> dict[str, float]:
    """Return the metrics of the official scripts.

    Args:
        references: correct answers of each question; empty if it has no answer.
        predictions: the best answer to each question, before the threshold is applied.
        no_answer_scores: no-answer score of each question; None if all questions have answers.
        threshold: no-answer score above which the prediction becomes empty.
    """
    # Exact match and F1 of each question.
    scores = [
        best_scores(answers, prediction, allows_no_answer=no_answer_scores is not None)
        for answers, prediction in zip(references, predictions, strict=True)
    ]
    if no_answer_scores is None:
        return _means(scores)
    has_answer = [bool(answers) for answers in references]
    final_scores = [
        (float(not answerable),) * 2 if no_answer_score > threshold else pair
        for pair, no_answer_score, answerable in zip(scores, no_answer_scores, has_answer, strict=True)
    ]
    metrics = _means(final_scores)
    for name, is_answerable in (("answerable", True), ("unanswerable", False)):
        subset = [
            pair
            for pair, answerable in zip(final_scores, has_answer, strict=True)
            if answerable is is_answerable
        ]
        if subset:
            metrics |= {f"{key}_{name}": value for key, value in _means(subset).items()}
    for index, key in enumerate(("exact", "f1")):
        best, best_at = best_no_answer_threshold(
            [pair[index] for pair in scores], predictions, no_answer_scores, has_answer
        )
        metrics |= {f"best_{key}": best, f"best_{key}_threshold": best_at}
    return metrics


def _means(scores: Sequence[tuple[float, ...]]) -> dict[str, float]:
    """Return the means of exact match and F1."""
    count = max(1, len(scores))
    return {"exact": sum(pair[0] for pair in scores) / count, "f1": sum(pair[1] for pair in scores) / count}


def best_no_answer_threshold(
    scores: Sequence[float],
    predictions: Sequence[str],
    no_answer_scores: Sequence[float],
    has_answer: Sequence[bool],
) -> tuple[float, float]:
    """Return the best mean score over all thresholds, and its threshold, as the official script does.

    If leaving every question unanswered is best, the threshold is 0, even if scores are below 0.

    Args:
        scores: score of each question, exact match or F1, if its prediction is kept.
        predictions: the best answer to each question.
        no_answer_scores: no-answer score of each question.
        has_answer: whether each question has an answer.
    """
    # The total if every prediction is empty; then predictions are kept one by one.
    total = float(sum(not answerable for answerable in has_answer))
    order = sorted(range(len(no_answer_scores)), key=no_answer_scores.__getitem__)
    best, threshold = total, 0.0
    for index in order:
        total += scores[index] if has_answer[index] else -float(bool(predictions[index]))
        if total > best:
            best, threshold = total, no_answer_scores[index]
    return best / max(1, len(no_answer_scores)), threshold
