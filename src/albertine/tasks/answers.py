"""SQuAD's scores, by the rules of its official scripts: exact match, F1, and what not answering is worth.

Texts are compared without case, punctuation, articles and double spaces. An answer's
score is the best over all that count as right. Where a question has no answer, saying
nothing is right and anything else is wrong.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def plain(text: str) -> str:
    """Take away what does not count."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(gold: str, given: str) -> float:
    """Return 1 if both are the same."""
    return float(plain(gold) == plain(given))


def overlap(gold: str, given: str) -> float:
    """Return the F1 of the words of both."""
    right, said = plain(gold).split(), plain(given).split()
    if not right or not said:
        return float(right == said)
    common = sum((Counter(right) & Counter(said)).values())
    if not common:
        return 0.0
    precision, recall = common / len(said), common / len(right)
    return 2 * precision * recall / (precision + recall)


def scored(golds: Sequence[str], given: str, *, maybe_none: bool = True) -> tuple[float, float]:
    """Return exact match and F1 against all that are right.

    Where there may be no answer, golds without any word do not count, and nothing is right if none is
    left. Where there always is one, an F1 without a common word is 0.
    """
    if maybe_none:
        count = [gold for gold in golds if plain(gold)] or [""]
        return max(exact(gold, given) for gold in count), max(overlap(gold, given) for gold in count)
    best = max((overlap(gold, given) for gold in golds if plain(gold)), default=0.0)
    return max((exact(gold, given) for gold in golds), default=0.0), best


def assess(
    golds: Sequence[Sequence[str]],
    given: Sequence[str],
    doubts: Sequence[float] | None = None,
    threshold: float = 0.0,
) -> dict[str, float]:
    """Score answers.

    Args:
        golds: the answers that are right to each question; none where there is no answer.
        given: the answers, as if there were one to every question.
        doubts: how sure it is that there is none; above the threshold, nothing is said.
        threshold: that one.
    """
    maybe_none = doubts is not None
    raw = [scored(gold, one, maybe_none=maybe_none) for gold, one in zip(golds, given, strict=True)]
    if doubts is None:
        return _means(raw)
    has = [bool(gold) for gold in golds]
    after = [
        (float(not answerable),) * 2 if doubt > threshold else one
        for one, doubt, answerable in zip(raw, doubts, has, strict=True)
    ]
    found = _means(after)
    for name, wanted in (("answerable", True), ("unanswerable", False)):
        part = [one for one, answerable in zip(after, has, strict=True) if answerable is wanted]
        if part:
            found |= {f"{key}_{name}": value for key, value in _means(part).items()}
    for at, key in enumerate(("exact", "f1")):
        best, where = best_threshold([one[at] for one in raw], given, doubts, has)
        found |= {f"best_{key}": best, f"best_{key}_threshold": where}
    return found


def _means(pairs: Sequence[tuple[float, ...]]) -> dict[str, float]:
    count = max(1, len(pairs))
    return {"exact": sum(one[0] for one in pairs) / count, "f1": sum(one[1] for one in pairs) / count}


def best_threshold(
    scores: Sequence[float], given: Sequence[str], doubts: Sequence[float], has: Sequence[bool]
) -> tuple[float, float]:
    """Return the best mean that a threshold can give, and the threshold, as the official script finds it."""
    total = float(sum(not one for one in has))  # nothing is answered
    order = sorted(range(len(doubts)), key=doubts.__getitem__)
    best, where = total, min(0.0, doubts[order[0]] - 1.0) if order else 0.0
    for at in order:
        total += scores[at] if has[at] else -float(bool(given[at]))
        if total > best:
            best, where = total, doubts[at]
    return best / max(1, len(doubts)), where
