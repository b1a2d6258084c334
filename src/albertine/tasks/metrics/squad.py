"""Metrics of SQuAD, as its official scripts compute them: exact match and F1, with unanswerable questions.

Texts are compared without case, punctuation, articles and repeated spaces. A prediction is
scored against the reference that fits best. For a question without an answer, an empty
prediction is correct and any other is wrong.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized_answer(text: str) -> str:
    """Return text without what does not count in the comparison."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(reference: str, prediction: str) -> float:
    """Return 1 if both texts are the same, else 0."""
    return float(normalized_answer(reference) == normalized_answer(prediction))


def token_f1(reference: str, prediction: str) -> float:
    """Return the F1 score of the words of a prediction."""
    reference_words, predicted_words = (
        normalized_answer(reference).split(),
        normalized_answer(prediction).split(),
    )
    if not reference_words or not predicted_words:
        return float(reference_words == predicted_words)
    common = sum((Counter(reference_words) & Counter(predicted_words)).values())
    if not common:
        return 0.0
    precision, recall = common / len(predicted_words), common / len(reference_words)
    return 2 * precision * recall / (precision + recall)


def best_scores(
    references: Sequence[str], prediction: str, *, allows_no_answer: bool = True
) -> tuple[float, float]:
    """Return exact match and F1 against the reference that fits best.

    If questions may have no answer, references without a word do not count, and the empty prediction is
    correct if no reference is left. Otherwise, the F1 without a common word is 0.
    """
    if allows_no_answer:
        counted = [gold for gold in references if normalized_answer(gold)] or [""]
        return max(exact_match(gold, prediction) for gold in counted), max(
            token_f1(gold, prediction) for gold in counted
        )
    best = max((token_f1(gold, prediction) for gold in references if normalized_answer(gold)), default=0.0)
    return max((exact_match(gold, prediction) for gold in references), default=0.0), best


def squad_metrics(
    references: Sequence[Sequence[str]],
    predictions: Sequence[str],
    no_answer_scores: Sequence[float] | None = None,
    threshold: float = 0.0,
) -> dict[str, float]:
    """Return the metrics of the official scripts.

    Args:
        references: correct answers of each question; empty if it has no answer.
        predictions: the best answer to each question, also where none is given in the end.
        no_answer_scores: scores of no answer; None if all questions have answers.
        threshold: score of no answer above which the prediction is empty.
    """
    allows_no_answer = no_answer_scores is not None
    raw = [
        best_scores(gold, one, allows_no_answer=allows_no_answer)
        for gold, one in zip(references, predictions, strict=True)
    ]
    if no_answer_scores is None:
        return _means(raw)
    has_answer = [bool(gold) for gold in references]
    thresholded = [
        (float(not answerable),) * 2 if doubt > threshold else one
        for one, doubt, answerable in zip(raw, no_answer_scores, has_answer, strict=True)
    ]
    found = _means(thresholded)
    for name, wanted in (("answerable", True), ("unanswerable", False)):
        subset = [
            one for one, answerable in zip(thresholded, has_answer, strict=True) if answerable is wanted
        ]
        if subset:
            found |= {f"{key}_{name}": value for key, value in _means(subset).items()}
    for at, key in enumerate(("exact", "f1")):
        best, where = best_threshold([one[at] for one in raw], predictions, no_answer_scores, has_answer)
        found |= {f"best_{key}": best, f"best_{key}_threshold": where}
    return found


def _means(pairs: Sequence[tuple[float, ...]]) -> dict[str, float]:
    count = max(1, len(pairs))
    return {"exact": sum(one[0] for one in pairs) / count, "f1": sum(one[1] for one in pairs) / count}


def best_threshold(
    scores: Sequence[float],
    predictions: Sequence[str],
    no_answer_scores: Sequence[float],
    has_answer: Sequence[bool],
) -> tuple[float, float]:
    """Return the best mean that a threshold gives, and the threshold, as the official script does."""
    total = float(sum(not one for one in has_answer))  # of empty predictions
    order = sorted(range(len(no_answer_scores)), key=no_answer_scores.__getitem__)
    best, threshold = total, min(0.0, no_answer_scores[order[0]] - 1.0) if order else 0.0
    for at in order:
        total += scores[at] if has_answer[at] else -float(bool(predictions[at]))
        if total > best:
            best, threshold = total, no_answer_scores[at]
    return best / max(1, len(no_answer_scores)), threshold
