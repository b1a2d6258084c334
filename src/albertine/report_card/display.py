"""The numbers of a report card as text, the same on the terminal and on the page."""

from collections.abc import Mapping, Sequence
from statistics import median

from albertine.report_card.card import ReportCard

CHANCE = "50.0"
_UNKNOWN = "-"


def score_text(score: float | None) -> str:
    """Return a score in percent; a dash if there is none."""
    return _UNKNOWN if score is None else f"{100 * score:.1f}"


def scores_text(scores: Sequence[float]) -> str:
    """Return the median of the scores of several seeds, with their range."""
    text = score_text(median(scores))
    return text if len(scores) == 1 else f"{text} ({score_text(min(scores))} to {score_text(max(scores))})"


def interval_text(low: float | None, high: float | None) -> str:
    """Return an interval in percent."""
    return _UNKNOWN if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f}"


def estimate_text(estimate: Mapping[str, float | None], *, is_share: bool) -> tuple[str, str]:
    """Return the value and the interval of an estimate, in percent if it is a share."""
    value, low, high = (estimate[key] for key in ("value", "low", "high"))
    if is_share:
        return score_text(value), interval_text(low, high)
    if value is None or low is None or high is None:
        return _UNKNOWN, _UNKNOWN
    return f"{value:.3f}", f"{low:.3f} to {high:.3f}"


def phenomenon_title(name: str) -> str:
    """Return the name of a phenomenon in words."""
    return "all phenomena" if name == "overall" else name.replace("_", " ")


def tasks_note(card: ReportCard) -> str:
    """Return what the columns of the tasks mean."""
    seeds = f"; medians of {card.seeds} seeds, with the range" if card.seeds > 1 else ""
    return (
        "untrained: the same network and recipe without pre-training; "
        f"\N{PLUS-MINUS SIGN}: half the 95% interval that follows from the number of dev examples{seeds}"
    )
