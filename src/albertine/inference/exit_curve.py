"""`albertine evaluate --exits all`: what a model scores with less depth, and what that saves.

Fixed depths and exit rules are measured on the same examples. The recommended setting is the one with the
fewest FLOPs whose score is within a tolerance of that of full depth. With few examples, a cheap setting may
be within it by chance; the cautious setting is within it with its whole interval.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from albertine import progress
from albertine.errors import InputError
from albertine.inference.ensemble_model import load_task_model
from albertine.inference.evaluate import check_evaluation, examples_name, print_example_warnings
from albertine.inference.exit_points import ExitPoint, measure_points
from albertine.inference.exits import note_missing_exits, rule_for_model
from albertine.inference.finetuned_model import FinetunedModel
from albertine.inference.read_split import read_split
from albertine.inference.settings import EvaluateSettings
from albertine.inference.training_data import warn_of_training_data
from albertine.settings.exit_rule import ExitRule, make_exit_rule
from albertine.tasks.encoding_counts import EncodingCounts

_MAX_FIXED_DEPTHS = 12
_PATIENCE = (1, 2, 3, 4, 6, 8)
_CONFIDENCE = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_QUANTILES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95)


@dataclass(frozen=True)
class ExitCurve:
    """The settings of one model on one split of its task.

    Attributes:
        model: name of the model.
        task: name of the task.
        split: name of the split.
        num_examples: number of examples.
        tolerance: points of the score that the recommended setting may lose.
        recommended: the cheapest setting whose score is within the tolerance.
        cautious: the cheapest one whose score is within it at the lower end of the interval, too.
        points: all settings: full depth, fixed depths, patience, confidence, learned.
    """

    model: str
    task: str
    split: str
    num_examples: int
    tolerance: float
    recommended: str
    cautious: str
    points: tuple[ExitPoint, ...]


def measure_exits(models: Sequence[str | Path], settings: EvaluateSettings) -> list[ExitCurve]:
    """Return the curve of each model on each part of the split."""
    check_evaluation(models, settings)
    assert settings.data is not None
    curves = []
    for source in models:
        model = load_task_model(source, settings.engine_options, task=settings.task, fixed_options=True)
        if not isinstance(model, FinetunedModel):
            raise InputError(f"{source}: an ensemble; --exits measures one model, so name a member")
        note_missing_exits(model.engine, model.source)
        warn_of_training_data(model, settings.data)
        for split_name in model.task.split_names(settings.split, settings.data):
            examples = list(read_split(model, split_name, settings, require_labels=True))
            counts = EncodingCounts(model.tokenizer.special_ids)
            points = measure_points(model, examples, dict(exit_rules(model)), counts=counts)
            name = f"{model.source}, {examples_name(split_name, settings.data)}"
            print_example_warnings(model.task_type, name, examples, counts)
            curves.append(
                ExitCurve(
                    model.source,
                    model.card.task,
                    split_name,
                    len(examples),
                    settings.tolerance,
                    recommended_point(points, settings.tolerance).setting,
                    cautious_point(points, settings.tolerance).setting,
                    tuple(points),
                )
            )
    return curves


def recommended_point(points: Sequence[ExitPoint], tolerance: float) -> ExitPoint:
    """Return the cheapest point whose score is within a tolerance, in points, of that of full depth."""
    within = [point for point in points if point.difference.value >= lowest_difference(tolerance)]
    return min(within, key=lambda point: (point.flops.value, -point.score.value))


def cautious_point(points: Sequence[ExitPoint], tolerance: float) -> ExitPoint:
    """Return the cheapest point whose difference is within a tolerance, in points, at its lower end, too."""
    within = [point for point in points if point.difference.low >= lowest_difference(tolerance)]
    return min(within, key=lambda point: (point.flops.value, -point.score.value))


def lowest_difference(tolerance: float) -> float:
    """Return the lowest difference within a tolerance, in points; a difference of two scores is rounded."""
    return -tolerance / 100 - 1e-9


def exit_rules(model: FinetunedModel) -> Iterator[tuple[str, ExitRule]]:
    """Yield the options and the rule of each setting but full depth."""
    layers = model.engine.model_settings.layers
    for depth in np.unique(
        np.linspace(1, layers - 1, min(layers - 1, _MAX_FIXED_DEPTHS)).round().astype(int)
    ):
        yield f"--depth {depth}", ExitRule(depth=int(depth))
    if model.engine.model_settings.depth_rule != "fixed":
        return
    names = [f"patience:{patience}" for patience in _PATIENCE if patience < layers - 1]
    if model.task_type.predicts_numbers and model.card.target_scale is None:
        progress.print_message(
            f"{model.source}: its task card has no target_scale, so patience is left out; "
            "evaluate it with --exit patience:K:T, where T is the change of a number that counts as none"
        )
        names = []
    if not model.task_type.predicts_numbers:
        names += [f"confidence:{confidence:g}" for confidence in _CONFIDENCE]
    if model.engine.head_settings.learned_exit:
        names += [f"learned:{quantile:g}" for quantile in _QUANTILES]
    for name in names:
        rule = make_exit_rule(name)
        assert rule is not None
        yield f"--exit {name}", rule_for_model(rule, model.engine, model.task_type, model.card, model.source)
