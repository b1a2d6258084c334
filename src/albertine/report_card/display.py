"""The numbers of a report card as text, the same on the terminal and on the page."""

from collections.abc import Sequence
from statistics import median

from albertine.display import display_text
from albertine.report_card.card import ReportCard, TaskScores
from albertine.report_card.results import EstimatedScore, HeldOutScores

CHANCE = 0.5  # of sentence orders and minimal pairs
TASK_TITLES = (
    "task",
    "metric",
    "pre-trained",
    "not pre-trained",
    "TF-IDF",
    "most common",
    "\N{PLUS-MINUS SIGN}",
)
_UNKNOWN = "-"


def score_text(score: float | None) -> str:
    """Return a score in percent; a dash if there is none."""
    return _UNKNOWN if score is None else f"{100 * score:.1f}"


def scores_text(scores: Sequence[float]) -> str:
    """Return the median of the scores of several seeds, with their range."""
    text = score_text(median(scores))
    return text if len(scores) == 1 else f"{text} ({score_text(min(scores))} to {score_text(max(scores))})"


def interval_text(low: float, high: float) -> str:
    """Return an interval in percent."""
    return f"{100 * low:.1f} to {100 * high:.1f}"


def share_text(estimate: EstimatedScore | None) -> tuple[str, str]:
    """Return a share and its interval, in percent."""
    if estimate is None:
        return _UNKNOWN, _UNKNOWN
    return score_text(estimate.value), interval_text(estimate.low, estimate.high)


def loss_text(estimate: EstimatedScore | None) -> tuple[str, str]:
    """Return a loss and its interval."""
    if estimate is None:
        return _UNKNOWN, _UNKNOWN
    return f"{estimate.value:.3f}", f"{estimate.low:.3f} to {estimate.high:.3f}"


def held_out_rows(scores: HeldOutScores) -> list[tuple[str, str, str, str]]:
    """Return name, value, interval and chance of each score on held-out text."""
    return [
        ("loss on [MASK] tokens", *loss_text(scores.mask_token_loss), ""),
        ("accuracy on [MASK] tokens, %", *share_text(scores.mask_token_accuracy), ""),
        ("accuracy of sentence order, %", *share_text(scores.order_accuracy), score_text(CHANCE)),
    ]


def task_row(task: TaskScores) -> tuple[str, ...]:
    """Return the cells of a task, below `TASK_TITLES`."""
    return (
        task.recipe.title,
        task.recipe.metric_title,
        scores_text(task.pretrained),
        scores_text(task.untrained),
        score_text(task.baselines.tf_idf),
        score_text(task.baselines.most_common_label),
        score_text(task.margin),
    )


def phenomenon_title(name: str) -> str:
    """Return the name of a phenomenon in words."""
    return "all phenomena" if name == "overall" else display_text(name.replace("_", " "))


def tasks_note(card: ReportCard) -> str:
    """Return how to read the table of the tasks."""
    seeds = "Scores are medians of several seeds, with their range. " if card.seeds > 1 else ""
    return (
        f"{seeds}\N{PLUS-MINUS SIGN} is half the 95% interval that follows from the number of dev examples: "
        "scores that differ by less may differ by chance. A dash means that there is no such baseline."
    )
