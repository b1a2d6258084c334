"""Charts of the metrics logs of one run or several: pre-training over tokens, fine-tuning over steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from albertine.pretrain.unigram_baseline import no_context_baseline
from albertine.report.charts import Axes, Curve, ReferenceLine, line_chart
from albertine.tasks.metrics.display import metric_title
from albertine.tasks.task import Task
from albertine.train import metrics_log
from albertine.train.metrics_log import (
    HELD_OUT_PREFIX,
    CurvePoint,
    downsampled,
    held_out_scores,
    metric_curve,
    read_metrics,
)

_SAME_LOSS = 0.01  # nats; the baseline is measured on samples, which other seeds choose
_MAX_POINTS = 200  # longer curves are averaged down to this number
_PAIR_TITLES = {"sop": "Order of two segments", "nsp": "Whether two segments are from the same text"}


@dataclass(frozen=True)
class PlottedRun:
    """A run, with its label and the number of its color."""

    name: str
    run: Path
    color: int

    def metrics(self) -> list[metrics_log.MetricsLine]:
        """Return the lines of the metrics log."""
        return read_metrics(self.run)


def pretraining_charts(runs: Sequence[PlottedRun], pair: str) -> list[str]:
    """Return charts of the MLM loss, of that of next tokens if a run predicts them, and of the pair accuracy.

    They show held-out text if all runs were evaluated, otherwise training. The baselines are drawn only if
    they are the same for all runs. The model never sees a next token, so without context it knows only the
    frequencies.
    """
    logs = [run.metrics() for run in runs]
    prefix = HELD_OUT_PREFIX if all(metric_curve(log, f"{HELD_OUT_PREFIX}mlm_loss") for log in logs) else ""
    kind = "held-out" if prefix else "training"

    def curves(metric: str, scale: float = 1.0) -> list[Curve]:
        points = [_metric_points(log, f"{prefix}{metric}") for log in logs]
        return [
            Curve(run.name, [(tokens, scale * value) for tokens, value in curve], run.color)
            for run, curve in zip(runs, points, strict=True)
            if curve
        ]

    baselines, loss_axes = _baselines(logs), Axes("training tokens", f"{kind} loss (nats)")
    charts = [line_chart("Masked tokens", loss_axes, curves("mlm_loss"), baselines)]
    if next_curves := curves("next_loss"):
        charts.append(line_chart("Next tokens", loss_axes, next_curves, baselines[:1]))
    if pair in _PAIR_TITLES:
        axes = Axes("training tokens", f"{kind} accuracy (%)", 40, 100)
        chance = [ReferenceLine("chance", 50)]
        charts.append(line_chart(_PAIR_TITLES[pair], axes, curves("pair_accuracy", 100), chance))
    return charts


def _baselines(logs: Sequence[Sequence[metrics_log.MetricsLine]]) -> list[ReferenceLine]:
    """Return the losses without context, if they are the same for all runs."""
    unigram_losses = {
        next((line["mlm_unigram_loss"] for line in log if "mlm_unigram_loss" in line), None) for log in logs
    }
    known = [loss for loss in unigram_losses if loss is not None]
    if not known or len(known) < len(unigram_losses) or max(known) - min(known) >= _SAME_LOSS:
        return []
    unigram_loss = sum(known) / len(known)
    return [
        ReferenceLine("token frequencies", unigram_loss),
        ReferenceLine("no context", no_context_baseline(unigram_loss)),
    ]


def finetuning_charts(run: Path, task: Task) -> list[str]:
    """Return charts of the training loss and of the score on dev."""
    return finetuning_comparison_charts([PlottedRun("", run, 1)], task)


def finetuning_comparison_charts(runs: Sequence[PlottedRun], task: Task) -> list[str]:
    """Return charts of the training losses and of the scores on dev of several runs."""
    losses, scores = [], []
    for run in runs:
        metrics = run.metrics()
        points = downsampled(metric_curve(metrics, "loss"), _MAX_POINTS)
        losses.append(Curve(run.name, points, run.color))
        scores.append(Curve(run.name, _score_points(metrics, task), run.color, dots=True))
    return [
        line_chart("Training loss", Axes("step", "loss", 0), losses),
        line_chart("Score on dev", Axes("step", f"{_score_name(task)} (%)"), scores),
    ]


def _score_name(task: Task) -> str:
    """Return the name of the score by which models are compared, if it is one metric."""
    names = task.primary_metrics or task.task_type.primary_metrics
    return metric_title(names[0]) if len(names) == 1 else "score"


def _score_points(metrics: Sequence[metrics_log.MetricsLine], task: Task) -> list[CurvePoint]:
    """Return (step, score in percent) of each evaluation on dev."""
    evaluations = [(line["step"], held_out_scores(line)) for line in metrics]
    return [(step, 100 * task.primary_metric(scores)) for step, scores in evaluations if scores]


def _metric_points(metrics: Sequence[metrics_log.MetricsLine], name: str) -> list[CurvePoint]:
    """Return (tokens, value) of a metric, at most `_MAX_POINTS`."""
    tokens = dict(metric_curve(metrics, "tokens")) | {0: 0}
    points = [(tokens[step], value) for step, value in metric_curve(metrics, name) if step in tokens]
    return downsampled(points, _MAX_POINTS)
