"""The report card as one HTML page."""

from pathlib import Path

from albertine.display import counted
from albertine.report.charts import Bar, Interval, bar_chart, interval_chart
from albertine.report.page import Page, Section, html_paragraphs, html_table, side_by_side
from albertine.report_card.card import ReportCard, TaskScores
from albertine.report_card.display import (
    CHANCE,
    TASK_TITLES,
    held_out_rows,
    interval_text,
    phenomenon_title,
    score_text,
    share_text,
    task_row,
    tasks_note,
)
from albertine.report_card.recipe import PAIRS_PER_PARADIGM, TASK_RECIPES

_OPTIMIZER_TITLES = {"muon": "Muon", "adamw": "AdamW"}


def card_page(card: ReportCard) -> Page:
    """Return the page of a report card."""
    name = Path(card.model).name or card.model
    sections = [
        Section("Held-out text", _held_out_blocks(card)),
        Section("Minimal pairs", _pairs_blocks(card)),
        Section("Tasks", _task_blocks(card)),
        Section("Recipe", _recipe_blocks(card)),
        Section("Skipped", _skipped_blocks(card)),
    ]
    return Page(f"Report card of {name}", _summary(card), _key_figures(card), sections)


def _summary(card: ReportCard) -> str:
    """Return what pre-training gains, in a sentence or two."""
    if card.mean_gain is None:
        return "What a pre-trained model has learned, on text that it was not trained on."
    points = _rounded_points(card.mean_gain)
    gain = (
        f"Pre-training {'gains' if points >= 0 else 'loses'} {abs(points):.1f} points on average over "
        f"{counted(len(card.tasks), 'task')}, compared with the same network "
        "fine-tuned without pre-training."
    )
    ahead = [task.recipe.title for task in card.tasks if (task.baselines.tf_idf or 0.0) > task.score]
    return gain + (f" A linear model on TF-IDF is ahead on {', '.join(ahead)}." if ahead else "")


def _rounded_points(gain: float) -> float:
    """Return a gain in points with one decimal; +0.0 for a tiny loss, which is none."""
    return round(100 * gain, 1) + 0.0


def _key_figures(card: ReportCard) -> list[tuple[str, str]]:
    figures = [("encoder parameters", f"{card.parameters:,}")]
    if card.held_out is not None:
        mask_accuracy, _ = share_text(card.held_out.mask_token_accuracy)
        order_accuracy, _ = share_text(card.held_out.order_accuracy)
        figures += [("% of [MASK] tokens correct", mask_accuracy), ("% of orders correct", order_accuracy)]
    if card.blimp is not None:
        figures.append(("% of BLiMP correct", score_text(card.blimp.overall.accuracy)))
    if card.mean_gain is not None:
        figures.append(("points gained by pre-training", f"{_rounded_points(card.mean_gain):+.1f}"))
    return figures


def _held_out_blocks(card: ReportCard) -> list[str]:
    if card.held_out is None:
        return []
    explanation = (
        f"{card.held_out.sequences:,} samples of documents that are held out of the corpus. A model that "
        f"knows only token frequencies has a loss of {card.held_out.unigram_loss:.3f}."
    )
    table = html_table(("", "score", "95% interval", "chance"), held_out_rows(card.held_out))
    return [html_paragraphs(explanation), table]


def _pairs_blocks(card: ReportCard) -> list[str]:
    if card.blimp is None:
        return []
    phenomena = sorted(card.blimp.phenomena, key=lambda one: -one.accuracy)
    intervals = [
        Interval(
            phenomenon_title(one.name),
            one.accuracy,
            one.low,
            one.high,
            f"{score_text(one.accuracy)} ({interval_text(one.low, one.high)})",
        )
        for one in (card.blimp.overall, *phenomena)
    ]
    explanation = (
        "BLiMP has pairs of sentences that differ in one point of grammar. The chart shows how often the "
        "model finds the acceptable sentence more probable, with 95% intervals. The dashed line is chance: "
        "blue is above it, red below it, and gray may be chance. "
        f"{len(card.blimp.paradigms)} paradigms, at most {PAIRS_PER_PARADIGM} pairs of each."
    )
    return [
        html_paragraphs(explanation),
        interval_chart("Acceptable sentence preferred, %", intervals, CHANCE),
    ]


def _task_blocks(card: ReportCard) -> list[str]:
    if not card.tasks:
        return []
    explanation = (
        "Each bar is a score on dev after the same short fine-tuning. Without pre-training, the "
        "same network starts from the weights with which a pre-training run begins. "
        "TF-IDF is a linear model that counts words and pairs of words."
    )
    return [
        html_paragraphs(explanation),
        side_by_side(map(_task_chart, card.tasks)),
        html_table(TASK_TITLES, [task_row(task) for task in card.tasks]),
        html_paragraphs(tasks_note(card)),
    ]


def _task_chart(task: TaskScores) -> str:
    bars = [
        Bar("pre-trained", task.score, score_text(task.score), 1),
        Bar("without pre-training", task.untrained_score, score_text(task.untrained_score), 2),
    ]
    for name, score in (
        ("TF-IDF", task.baselines.tf_idf),
        ("most common label", task.baselines.most_common_label),
    ):
        if score is not None:
            bars.append(Bar(name, score, score_text(score), 4))
    return bar_chart(f"{task.recipe.question} ({task.recipe.title}, {task.recipe.metric_title})", bars)


def _recipe_blocks(card: ReportCard) -> list[str]:
    if not card.tasks:
        return []
    explanation = (
        f"Report cards with recipe {card.recipe['version']} can be compared. This model was fine-tuned with "
        f"{_OPTIMIZER_TITLES[card.recipe['optimizer']]}, a peak learning rate of "
        f"{card.recipe['learning_rate']:g}, and linear warm-up and decay; optimizer and rate follow from its "
        "width. The model of the last step counts: nothing is selected on dev."
    )
    rows = [
        (
            task.recipe.title,
            f"{task.data.train_examples:,}",
            f"{task.data.dev_examples:,}",
            str(task.recipe.epochs),
            str(task.recipe.batch_size),
            f"{task.recipe.steps(task.data.train_examples):,}",
        )
        for task in card.tasks
    ]
    header = ("", "training examples", "dev examples", "epochs", "batch size", "steps")
    notes = []
    compared = _titles_with(card, "matching")
    if compared:
        notes.append(f"On {' and '.join(compared)}, the head compares the two texts token by token.")
    marked = _titles_with(card, "mark_matches")
    if marked:
        notes.append(f"The tokens that both texts have in common are marked on {', '.join(marked)}.")
    if any(task.recipe is TASK_RECIPES["squad-1.1"] for task in card.tasks):
        notes.append("XQuAD has no training part: the questions on its last passages, a quarter, are dev.")
    return [html_paragraphs(explanation), html_table(header, rows), html_paragraphs(*notes)]


def _titles_with(card: ReportCard, setting: str) -> list[str]:
    """Return the titles of the tasks whose fine-tuning has a setting."""
    return [task.recipe.title for task in card.tasks if card.recipe["tasks"][task.recipe.task][setting]]


def _skipped_blocks(card: ReportCard) -> list[str]:
    rows = list(card.skipped_parts.items())
    return [html_table(("part", "reason"), rows, wrap_last_column=True)] if rows else []
