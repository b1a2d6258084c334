"""Selects the best evaluation of a run, and tells whether its model has learned anything."""

import math
from collections.abc import Mapping

from albertine.tasks.metrics.display import format_metrics
from albertine.tasks.task import Task

LOSS = "loss"  # key of the held-out loss among the metrics of an evaluation

_MIN_METRIC = 0.01  # lower primary metrics count as 0: random tags have an F1 of half a percent
_LOSS_WEIGHT = 1e-6
_UNTRAINED_SCORE = 2.0  # worse than that of any trained model, which is at most 1 + _LOSS_WEIGHT


def score_to_minimize(task: Task, metrics: Mapping[str, float], step: int) -> float:
    """Return the number by which models are compared; the smallest is the best.

    The number is 1 minus the primary metric; a metric below 1% counts as 0. The held-out loss adds at
    most a millionth, so it decides only between equal metrics. Before the first step the output layer
    is random, so every trained model counts as better.

    Args:
        task: the task, with the metric by which models are compared.
        metrics: metrics on dev, with the held-out loss.
        step: number of steps that the model has taken.
    """
    if step == 0:
        return _UNTRAINED_SCORE
    loss = metrics.get(LOSS, math.nan)
    bounded_loss = loss / (1 + loss) if 0 <= loss < math.inf else 1.0
    return 1.0 - _significant_metric(task, metrics) + _LOSS_WEIGHT * bounded_loss


def nothing_learned_reason(
    task: Task, best: Mapping[str, float], untrained: Mapping[str, float], *, predictions_varied: bool
) -> str | None:
    """Return why the best model of a run has learned nothing; None if it has learned something.

    Args:
        task: see `score_to_minimize`.
        best: metrics of the best model, with the held-out loss.
        untrained: metrics before training, with the held-out loss; empty if unknown.
        predictions_varied: whether the predictions on dev have ever differed from each other.
    """
    if not predictions_varied:
        same = "nearly the same number" if task.task_type.predicts_numbers else "the same prediction"
        return f"every evaluation gave {same} for all examples of dev"
    if _significant_metric(task, best) == 0.0:
        names = task.primary_metrics or task.task_type.primary_metric_names(best)
        shown = {name: best[name] for name in names if name in best}
        return f"the best score on dev is {format_metrics(shown)}"
    if not untrained or _significant_metric(task, best) > _significant_metric(task, untrained):
        return None
    if best.get(LOSS, math.inf) < untrained.get(LOSS, math.inf):
        return None
    return "no evaluation was better than the one before training, by score or by loss"


def _significant_metric(task: Task, metrics: Mapping[str, float]) -> float:
    """Return the primary metric, or 0 if it is low, negative or NaN."""
    metric = task.primary_metric(metrics)
    return metric if metric >= _MIN_METRIC else 0.0
