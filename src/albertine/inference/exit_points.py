"""What settings of the depth score and cost, measured on the same examples.

The examples are taken in groups, and each group with all settings in turn. So a machine that becomes slower
meanwhile is slower for all of them, and the groups give the interval of a time.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
import torch

from albertine import progress
from albertine.errors import InputError
from albertine.inference.finetuned_model import FinetunedModel
from albertine.model.cost import prediction_flops
from albertine.randomness import named_generator
from albertine.settings.exit_rule import ExitRule
from albertine.tasks.examples import Example
from albertine.tasks.metrics.intervals import NORMAL_QUANTILE, Estimate, ratio_estimate
from albertine.tasks.scorer import ExampleScores, Scorer
from albertine.tasks.sequences import EncodedExample

# Resamples of the bootstrap: fewer for many examples, of which some metrics take seconds.
_MIN_RESAMPLES, _MAX_RESAMPLES, _RESAMPLED_EXAMPLES = 30, 200, 400_000
_MIN_GROUPS, _MAX_GROUPS, _GROUP_EXAMPLES = 5, 20, 64
FULL_DEPTH = "full depth"


@dataclass(frozen=True)
class ExitPoint:
    """A setting of the depth and what it costs.

    Attributes:
        setting: options of the setting, or "full depth".
        score: primary metric of the task; its interval is from a bootstrap over the examples.
        difference: difference of the score from that of full depth, from the same resamples.
        mean_depth: mean number of steps of depth; an example counts with the mean of its samples.
        flops: FLOPs of encoder and head, relative to full depth.
        time: time without encoding and metrics, relative to full depth.
        seconds: this time.
    """

    setting: str
    score: Estimate
    difference: Estimate
    mean_depth: float
    flops: Estimate
    time: Estimate
    seconds: float


@dataclass
class _Pass:
    """All examples with one setting.

    Attributes:
        scorer: scores with the setting.
        rule: the rule of the setting; None for full depth.
        seconds: time of each group.
        scores: scores of each example.
        depths: depth of each sample of each example; empty without a rule.
    """

    scorer: Scorer
    rule: ExitRule | None
    seconds: list[float] = field(default_factory=list)
    scores: list[ExampleScores] = field(default_factory=list)
    depths: list[list[int]] = field(default_factory=list)

    def run(self, group: Sequence[EncodedExample]) -> None:
        """Score a group."""
        started = time.perf_counter()
        scores, depths = self.scorer.scores_and_depths(group)
        self.seconds.append(time.perf_counter() - started)
        self.scores += scores
        self.depths += depths or []


def measure_points(
    model: FinetunedModel,
    examples: Sequence[Example],
    rules: Mapping[str, ExitRule],
    batch_size: int | None = None,
) -> list[ExitPoint]:
    """Return the point of full depth and of each rule on labelled examples.

    Args:
        model: the model.
        examples: the examples.
        rules: exit rules by the names of their settings.
        batch_size: number of examples that are scored at a time, in their order; by default many.
    """
    if len(examples) < 2:
        raise InputError(f"{model.source}: exits are compared on two examples at least; give more data")
    encoded = model.create_scorer().encode(examples)
    size = batch_size or _group_size(len(encoded))
    size = min(size, -(-len(encoded) // 2))  # one group alone has no interval
    groups = [encoded[first : first + size] for first in range(0, len(encoded), size)]
    all_rules: dict[str, ExitRule | None] = {FULL_DEPTH: None, **rules}
    passes = {
        setting: _Pass(Scorer(model.engine, model.task_type, rule), rule)
        for setting, rule in all_rules.items()
    }
    for one in passes.values():
        one.scorer.score(groups[0])  # the first time is slower
    for group in progress.track(groups, f"Measuring {len(passes)} settings", unit="groups"):
        for one in passes.values():
            one.run(group)
    return _points(model, examples, encoded, passes)


def _group_size(count: int) -> int:
    """Return how many of some examples make a group."""
    groups = min(_MAX_GROUPS, max(_MIN_GROUPS, count // _GROUP_EXAMPLES))
    return -(-count // groups)


def _points(
    model: FinetunedModel,
    examples: Sequence[Example],
    encoded: Sequence[EncodedExample],
    passes: Mapping[str, _Pass],
) -> list[ExitPoint]:
    """Return the point of each pass, compared with that of full depth, the first."""
    points = []
    full: tuple[_Pass, float, list[float], list[float]] | None = None
    for setting, one in passes.items():
        predictions = [
            model.task_type.prediction(*parts) for parts in zip(examples, encoded, one.scores, strict=True)
        ]
        score, resampled = _score(model, examples, predictions), _resampled(model, examples, predictions)
        layers = model.engine.model_settings.layers
        depths = one.depths or [[layers] * len(example.samples) for example in encoded]
        flops = _flops(model, encoded, depths, one.rule)
        full = full or (one, score, resampled, flops)
        differences = [first - second for first, second in zip(resampled, full[2], strict=True)]
        points.append(
            ExitPoint(
                setting,
                _bootstrap_estimate(score, resampled, len(examples), highest=1.0),
                Estimate(0.0, 0.0, 0.0)
                if one is full[0]
                else _bootstrap_estimate(score - full[1], differences, len(examples)),
                fmean(fmean(example_depths) for example_depths in depths),
                ratio_estimate(flops, full[3]),
                ratio_estimate(one.seconds, full[0].seconds),
                sum(one.seconds),
            )
        )
    return points


def _flops(
    model: FinetunedModel,
    encoded: Sequence[EncodedExample],
    depths: Sequence[Sequence[int]],
    rule: ExitRule | None,
) -> list[float]:
    """Return the FLOPs of encoder and head for each example."""
    settings, head = model.engine.model_settings, model.engine.head_settings
    exit_depth = (rule.depth or settings.layers) if rule is not None and rule.can_exit else None
    return [
        sum(
            prediction_flops(settings, head, len(ids), depth, exit_depth=exit_depth)
            for sample, depth in zip(one.samples, example_depths, strict=True)
            for ids in sample.ids
        )
        for one, example_depths in zip(encoded, depths, strict=True)
    ]


def _score(
    model: FinetunedModel, examples: Sequence[Example], predictions: Sequence[Mapping[str, Any]]
) -> float:
    return model.task.primary_metric(model.task_type.compute_metrics(examples, predictions))


def _resampled(
    model: FinetunedModel, examples: Sequence[Example], predictions: Sequence[Mapping[str, Any]]
) -> list[float]:
    """Return the scores of resamples of the examples, which are the same for every setting."""
    generator, count, scores = named_generator("exit curve"), len(examples), []
    for _ in range(min(_MAX_RESAMPLES, max(_MIN_RESAMPLES, _RESAMPLED_EXAMPLES // count))):
        indices = torch.randint(0, count, (count,), generator=generator).tolist()
        resampled = [examples[index] for index in indices], [predictions[index] for index in indices]
        scores.append(_score(model, *resampled))
    return scores


def _bootstrap_estimate(
    value: float, resampled: Sequence[float], count: int, highest: float = float("inf")
) -> Estimate:
    """Return a value with its 95% interval from the spread over resamples of so many examples.

    Where all resamples give the same, as a perfect score does, the interval is that of no error in so many
    examples, by the rule of three.
    """
    margin = NORMAL_QUANTILE * float(np.std(resampled, ddof=1)) or min(1.0, 3 / count)
    return Estimate(value, value - margin, min(highest, value + margin))
