"""Scores of short and long texts, and of truncated ones."""

from collections.abc import Sequence

import numpy as np

from albertine.report.charts import Bar, bar_chart
from albertine.report.page import html_paragraphs

_NUM_GROUPS = 4
_MIN_EXAMPLES = 20  # the scores of fewer are chance


def scores_by_length_html(
    lengths: Sequence[int], scores: Sequence[float], score_title: str, *, is_share: bool
) -> str:
    """Return the mean score of groups of examples by the length of their texts; empty for few examples.

    Args:
        lengths: characters of each example.
        scores: score of each example.
        score_title: what the scores are, in words.
        is_share: whether scores are between 0 and 1, and high ones are good; else they are distances.
    """
    groups = length_groups(lengths)
    if len(lengths) < _MIN_EXAMPLES or len(groups) < 2:
        return ""
    score, length = np.array(scores, np.float64), np.array(lengths)
    means = [float(score[group].mean()) for group in groups]
    full = 1.0 if is_share else max(means) or 1.0
    bars = [
        Bar(
            f"{length[group].min():,} to {length[group].max():,} characters",
            mean / full,
            f"{_score_text(mean, is_share=is_share)} of {len(group):,}"
            if is_share
            else f"{_score_text(mean, is_share=is_share)} ({len(group):,})",
            1,
        )
        for group, mean in zip(groups, means, strict=True)
    ]
    return bar_chart(f"By length of the texts: {score_title}", bars)


def length_groups(lengths: Sequence[int]) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the indices of about equally many examples in each group, short ones first.

    Examples of the same length are in the same group, so there may be fewer than four groups.
    """
    length = np.array(lengths, np.int64)
    edges = np.unique(np.quantile(length, np.linspace(0, 1, _NUM_GROUPS + 1)[1:-1], method="lower"))
    group_of = np.searchsorted(edges, length)
    groups = (np.flatnonzero(group_of == number) for number in range(len(edges) + 1))
    return [group for group in groups if len(group)]


def truncation_html(truncated_tokens: Sequence[int], scores: Sequence[float], *, is_share: bool) -> str:
    """Return sentences on how many examples were truncated, and on their score."""
    lost, score = np.array(truncated_tokens, np.int64), np.array(scores, np.float64)
    is_truncated = lost > 0
    if not is_truncated.any():
        return html_paragraphs("No example was truncated: the model read all texts to their end.")
    text = (
        f"{int(is_truncated.sum()):,} of {len(lost):,} examples were truncated, by "
        f"{lost[is_truncated].mean():,.0f} tokens on average and {lost.max():,} at most; the model did not "
        "read what was cut off."
    )
    if not is_truncated.all():
        truncated, others = (
            _score_text(float(score[chosen].mean()), is_share=is_share)
            for chosen in (is_truncated, ~is_truncated)
        )
        text += f" Their mean score is {truncated}, that of the others {others}."
    return html_paragraphs(
        f"{text} --sequence.max-length raises the limit, if the model's own maximum is higher."
    )


def _score_text(score: float, *, is_share: bool) -> str:
    return f"{score:.0%}" if is_share else f"{score:.3g}"
