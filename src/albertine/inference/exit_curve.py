"""`albertine evaluate --exits all`: what a model scores with less depth, and what that saves.

Fixed depths and exit rules are measured on the same examples. The recommended setting is the one with the
fewest FLOPs whose score is within a tolerance of that of full depth.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from albertine import progress
from albertine.errors import InputError
from albertine.inference.ensemble_model import load_task_model
from albertine.inference.evaluate import check_evaluation, read_split
from albertine.inference.exits import note_missing_exits, rule_for_model
from albertine.inference.finetuned_model import FinetunedModel
from albertine.inference.settings import EvaluateSettings
from albertine.model.cost import prediction_flops
from albertine.randomness import named_generator
from albertine.settings.exit_rule import ExitRule, make_exit_rule
from albertine.tasks.examples import Example
from albertine.tasks.metrics.intervals import NORMAL_QUANTILE
from albertine.tasks.scorer import ExampleScores, Scorer
from albertine.tasks.sequences import EncodedExample

_MAX_FIXED_DEPTHS = 12
_PATIENCE = (1, 2, 3, 4, 6, 8)
_CONFIDENCE = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_QUANTILES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
# Resamples of the bootstrap: fewer for many examples, of which some metrics take seconds.
_MIN_RESAMPLES, _MAX_RESAMPLES, _RESAMPLED_EXAMPLES = 30, 200, 400_000
FULL_DEPTH = "full depth"


@dataclass(frozen=True)
class ExitPoint:
    """A setting of the depth and what it costs.

    Attributes:
        setting: options of the setting, or "full depth".
        score: primary metric of the task.
        low: lower end of the 95% interval of the score, from a bootstrap over the examples.
        high: upper end of that interval.
        mean_depth: mean number of steps of depth; an example counts with the mean of its samples.
        flops: FLOPs of encoder and head per example.
        seconds: time for all examples, without encoding and metrics.
    """

    setting: str
    score: float
    low: float
    high: float
    mean_depth: float
    flops: float
    seconds: float


@dataclass(frozen=True)
class ExitCurve:
    """The settings of one model on one split of its task.

    Attributes:
        model: name of the model.
        task: name of the task.
        split: name of the split.
        num_examples: number of examples.
        tolerance: points of the score that the recommended setting may lose.
        recommended: the recommended setting.
        points: all settings: full depth, fixed depths, patience, confidence, learned.
    """

    model: str
    task: str
    split: str
    num_examples: int
    tolerance: float
    recommended: str
    points: tuple[ExitPoint, ...]


def measure_exits(models: Sequence[str | Path], settings: EvaluateSettings) -> list[ExitCurve]:
    """Return the curve of each model on each part of the split."""
    check_evaluation(models, settings)
    curves = []
    for source in models:
        model = load_task_model(source, settings.engine_options, task=settings.task)
        if not isinstance(model, FinetunedModel):
            raise InputError(f"{source}: an ensemble; --exits measures one model, so name a member")
        note_missing_exits(model.engine, model.source)
        for split_name in model.task.split_names(settings.split, settings.data or ""):
            examples = list(read_split(model, split_name, settings, require_labels=True))
            points = measure_points(model, examples)
            curves.append(
                ExitCurve(
                    model.source,
                    model.card.task,
                    split_name,
                    len(examples),
                    settings.tolerance,
                    recommended_point(points, settings.tolerance).setting,
                    tuple(points),
                )
            )
    return curves


def recommended_point(points: Sequence[ExitPoint], tolerance: float) -> ExitPoint:
    """Return the cheapest point whose score is within a tolerance, in points, of that of full depth."""
    full = next(point for point in points if point.setting == FULL_DEPTH)
    within = [point for point in points if point.score >= full.score - tolerance / 100]
    return min(within, key=lambda point: (point.flops, -point.score))


def measure_points(
    model: FinetunedModel,
    examples: Sequence[Example],
    rules: Mapping[str, ExitRule] | None = None,
    batch_size: int | None = None,
) -> list[ExitPoint]:
    """Return the point of full depth and of each rule on labelled examples.

    Args:
        model: the model.
        examples: the examples.
        rules: exit rules by the names of their settings; None for those of `exit_rules`.
        batch_size: number of examples that are scored at a time, in their order; by default all.
    """
    encoded = model.create_scorer().encode(examples)
    model.create_scorer().score(encoded)  # the first pass is slower
    all_rules: dict[str, ExitRule | None] = {
        FULL_DEPTH: None,
        **(dict(exit_rules(model)) if rules is None else rules),
    }
    description = f"Measuring {len(all_rules)} settings"
    measure = partial(
        _measure, model, examples=examples, encoded=encoded, batch_size=batch_size or len(encoded)
    )
    first, *others = [
        measure(setting, rule)
        for setting, rule in progress.track(list(all_rules.items()), description, unit="settings")
    ]
    # Full depth is what all are compared with. A machine may have become faster or slower since.
    seconds = (first.seconds + measure(FULL_DEPTH, None).seconds) / 2
    return [replace(first, seconds=seconds), *others]


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


def _measure(
    model: FinetunedModel,
    setting: str,
    rule: ExitRule | None,
    examples: Sequence[Example],
    encoded: Sequence[EncodedExample],
    batch_size: int,
) -> ExitPoint:
    """Return the point of one setting."""
    scorer = Scorer(model.engine, model.task_type, rule)
    scores: list[ExampleScores] = []
    depths: list[list[int]] = []
    started = time.perf_counter()
    for first in range(0, len(encoded), batch_size):
        batch_scores, batch_depths = scorer.scores_and_depths(encoded[first : first + batch_size])
        scores += batch_scores
        depths += batch_depths or []
    seconds = time.perf_counter() - started
    predictions = [model.task_type.prediction(*one) for one in zip(examples, encoded, scores, strict=True)]
    settings = model.engine.model_settings
    depths = depths or [[settings.layers] * len(one.samples) for one in encoded]
    all_depths = [depth for example_depths in depths for depth in example_depths]
    samples = [sample for one in encoded for sample in one.samples]
    exit_depth = (rule.depth or settings.layers) if rule is not None and rule.can_exit else None
    flops = sum(
        prediction_flops(settings, model.engine.head_settings, len(ids), depth, exit_depth=exit_depth)
        for sample, depth in zip(samples, all_depths, strict=True)
        for ids in sample.ids
    )
    score = _score(model, examples, predictions)
    low, high = _bootstrap_interval(model, examples, predictions, score)
    mean_depth = fmean(fmean(example_depths) for example_depths in depths)
    return ExitPoint(setting, score, low, high, mean_depth, flops / len(examples), seconds)


def _score(
    model: FinetunedModel, examples: Sequence[Example], predictions: Sequence[Mapping[str, Any]]
) -> float:
    return model.task.primary_metric(model.task_type.compute_metrics(examples, predictions))


def _bootstrap_interval(
    model: FinetunedModel, examples: Sequence[Example], predictions: Sequence[Mapping[str, Any]], score: float
) -> tuple[float, float]:
    """Return the 95% interval of the score from its spread over resamples, the same for every setting.

    Where all resamples have the same score, as a perfect one does, the interval is that of no error in so
    many examples, by the rule of three.
    """
    generator, count, scores = named_generator("exit curve"), len(examples), []
    for _ in range(min(_MAX_RESAMPLES, max(_MIN_RESAMPLES, _RESAMPLED_EXAMPLES // count))):
        indices = torch.randint(0, count, (count,), generator=generator).tolist()
        resampled = [examples[index] for index in indices], [predictions[index] for index in indices]
        scores.append(_score(model, *resampled))
    margin = NORMAL_QUANTILE * float(np.std(scores, ddof=1)) or min(1.0, 3 / count)
    return score - margin, min(1.0, score + margin)
