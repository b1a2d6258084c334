"""The sections on a model's predictions on dev: what it gets wrong, and whether its probabilities hold."""

from collections.abc import Sequence

from albertine.finetune.dev_predictions import (
    DecisionColumns,
    DevPredictions,
    ExampleColumns,
    one_label_advice,
)
from albertine.report.calibration import calibration_html
from albertine.report.charts import Axes, Curve, line_chart
from albertine.report.confusion import confusion_html
from albertine.report.label_table import label_table_html
from albertine.report.page import Section, html_paragraphs
from albertine.report.scores_by_length import scores_by_length_html, truncation_html
from albertine.report.worst_errors import MAX_SHOWN, worst_errors_html
from albertine.tasks.types.task_type import TaskType

_MAX_POINTS = 1_000  # of a scatter chart


def dev_sections(predictions: DevPredictions, task_type: type[TaskType], *, balanced: bool) -> list[Section]:
    """Return the sections on the predictions of a model on dev.

    Args:
        predictions: its predictions.
        task_type: its task type.
        balanced: whether all labels had the same weight in training.
    """
    examples, decisions = predictions.examples, predictions.decisions
    unit = task_type.decision_unit
    is_share = not task_type.predicts_numbers
    return [
        Section(
            "What it gets wrong",
            [
                *_one_label_blocks(predictions, task_type, balanced=balanced),
                *_error_blocks(predictions, is_share=is_share),
            ],
        ),
        Section("Predicted and right numbers", [_scatter(examples)]),
        Section(
            "What it confuses",
            [_confusion(decisions, task_type)],
        ),
        Section(
            "How far its probabilities can be trusted",
            [calibration_html(decisions.probabilities, decisions.is_right, unit)],
        ),
        Section(
            "Short and long texts",
            [
                scores_by_length_html(
                    examples.lengths, examples.scores, task_type.score_title, is_share=is_share
                ),
                truncation_html(examples.truncated_tokens, examples.scores, is_share=is_share),
            ],
        ),
    ]


def _confusion(decisions: DecisionColumns, task_type: type[TaskType]) -> str:
    if task_type.absent_class is not None:
        return label_table_html(decisions, task_type.absent_class)
    return confusion_html(decisions.classes, decisions.expected, decisions.predicted, task_type.decision_unit)


def sample_note(predictions: DevPredictions) -> str:
    """Return a sentence that says which examples were scored, if they are a sample; else empty."""
    if predictions.num_scored == predictions.num_dev:
        return ""
    return (
        f"The sections below are about a sample: {predictions.num_scored:,} of the {predictions.num_dev:,} "
        "examples of dev, drawn at random."
    )


def _one_label_blocks(predictions: DevPredictions, task_type: type[TaskType], *, balanced: bool) -> list[str]:
    label = predictions.only_label(task_type)
    if label is None:
        return []
    advice = one_label_advice(label, balanced=balanced)
    return [html_paragraphs(f"{advice[0].upper()}{advice[1:]}.")]


def _error_blocks(predictions: DevPredictions, *, is_share: bool) -> list[str]:
    num_wrong, num_scored = predictions.num_wrong, predictions.num_scored
    if not predictions.worst:
        return [html_paragraphs(f"None of {num_scored:,} predictions on dev is wrong.")]
    num_shown = min(MAX_SHOWN, len(predictions.worst))
    shown = "all of them" if num_shown == num_wrong else f"the {num_shown:,} worst"
    wrong = "wrong" if set(predictions.examples.scores) <= {0.0, 1.0} else "not fully right"
    advice = "a confident error is often a hard text, a gap in the training examples, or a wrong label."
    if not is_share:
        text = f"The {num_shown:,} predictions on dev that are farthest from the right number."
    elif num_wrong == 1:
        text = f"1 of {num_scored:,} predictions on dev is {wrong}; here it is. Read it: {advice}"
    else:
        text = (
            f"{num_wrong:,} of {num_scored:,} predictions on dev are {wrong}; here are {shown}, the most "
            f"confident first. Read them: {advice}"
        )
    return [html_paragraphs(text), worst_errors_html(predictions.worst)]


def _scatter(examples: ExampleColumns) -> str:
    """Return the predicted against the right numbers, as points; empty for other task types."""
    if not examples.expected_numbers:
        return ""
    step = -(-len(examples.expected_numbers) // _MAX_POINTS)
    points: Sequence[tuple[float, float]] = list(
        zip(examples.expected_numbers[::step], examples.predicted_numbers[::step], strict=True)
    )
    low, high = min(examples.expected_numbers), max(examples.expected_numbers)
    sample = "" if step == 1 else f" One example in {step:,} is shown."
    return html_paragraphs(
        f"Each point is an example; predictions on the gray line are right.{sample}"
    ) + line_chart(
        "Predicted numbers, by the right number",
        Axes("right number", "predicted number"),
        [Curve("ideal", [(low, low), (high, high)], 4), Curve("", points, 1, dots=True, line=False)],
    )
