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
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import Example
from albertine.tasks.metrics.intervals import NORMAL_QUANTILE, Estimate, ratio_estimate
from albertine.tasks.scorer import Scorer
from albertine.tasks.sequences import EncodedExample

# Resamples of the bootstrap: fewer for many examples, of which some metrics take seconds.
_MIN_RESAMPLES, _MAX_RESAMPLES, _RESAMPLED_EXAMPLES = 30, 200, 400_000
_MIN_GROUPS, _MAX_GROUPS, _GROUP_EXAMPLES = 5, 20, 256
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
class _SettingPass:
    """All examples with one setting.

    Attributes:
        model: the model.
        rule: the rule of the setting; None for full depth.
        seconds: time of each group.
        predictions: the prediction of each example.
        depths: depths of the samples of each example.
    """

    model: FinetunedModel
    rule: ExitRule | None
    seconds: list[float] = field(default_factory=list)
    predictions: list[Mapping[str, Any]] = field(default_factory=list)
    depths: list[list[int]] = field(default_factory=list)

    def warm_up(self, group: Sequence[EncodedExample]) -> None:
        """Score a group without measuring it: the first time is slower."""
        self._scorer().score(group)

    def run(self, examples: Sequence[Example], group: Sequence[EncodedExample]) -> None:
        """Score a group of examples and measure the time."""
        scorer = self._scorer()
        started = time.perf_counter()
        scores, depths = scorer.scores_and_depths(group)
        self.seconds.append(time.perf_counter() - started)
        layers = self.model.engine.model_settings.layers
        self.depths += depths or [[layers] * len(encoded.samples) for encoded in group]
        self.predictions += [
            self.model.task_type.prediction(example, encoded, score)
            for example, encoded, score in zip(examples, group, scores, strict=True)
        ]

    def _scorer(self) -> Scorer:
        return Scorer(self.model.engine, self.model.task_type, self.rule)


def measure_points(
    model: FinetunedModel,
    examples: Sequence[Example],
    rules: Mapping[str, ExitRule],
    batch_size: int | None = None,
    counts: EncodingCounts | None = None,
) -> list[ExitPoint]:
    """Return the point of full depth and of each rule on labeled examples.

    Args:
        model: the model.
        examples: the examples.
        rules: exit rules by the names of their settings.
        batch_size: number of examples that are scored at a time, in their order; by default a twentieth of
            them, or more.
        counts: the counts of truncated and unknown tokens, which are updated; None to count none.
    """
    if len(examples) < 2:
        raise InputError(f"{model.source}: exits are compared on two examples at least; give more data")
    encoded = model.create_scorer().encode(examples)
    if counts is not None:
        counts.add(encoded)
    size = batch_size or _group_size(len(encoded))
    size = min(size, -(-len(encoded) // 2))  # one group alone has no interval
    groups = [slice(first, first + size) for first in range(0, len(encoded), size)]
    full = _SettingPass(model, None)
    passes = {FULL_DEPTH: full, **{name: _SettingPass(model, rule) for name, rule in rules.items()}}
    for group in groups:
        full.warm_up(encoded[group])  # each new shape can take longer once, and full depth would bear it
    for setting_pass in passes.values():
        setting_pass.warm_up(encoded[groups[0]])
    order = list(passes.values())
    for group in progress.track(groups, f"Measuring {len(passes)} settings", unit="groups"):
        for setting_pass in order:
            setting_pass.run(examples[group], encoded[group])
        order.reverse()
    return _points(model, examples, encoded, passes)


def _group_size(count: int) -> int:
    """Return how many of some examples make a group."""
    groups = min(_MAX_GROUPS, max(_MIN_GROUPS, count // _GROUP_EXAMPLES))
    return -(-count // groups)


def _points(
    model: FinetunedModel,
    examples: Sequence[Example],
    encoded: Sequence[EncodedExample],
    passes: Mapping[str, _SettingPass],
) -> list[ExitPoint]:
    """Return the point of each setting, compared with full depth."""
    full = passes[FULL_DEPTH]
    full_score, full_resampled = _scores(model, examples, full.predictions)
    full_flops = _flops(model, encoded, full)
    points = []
    for setting, setting_pass in passes.items():
        score, resampled = _scores(model, examples, setting_pass.predictions)
        differences = [own - of_full for own, of_full in zip(resampled, full_resampled, strict=True)]
        points.append(
            ExitPoint(
                setting,
                _bootstrap_estimate(score, resampled, len(examples), highest=1.0),
                Estimate(0.0, 0.0, 0.0)
                if setting_pass is full
                else _bootstrap_estimate(score - full_score, differences, len(examples)),
                fmean(fmean(example_depths) for example_depths in setting_pass.depths),
                ratio_estimate(_flops(model, encoded, setting_pass), full_flops),
                ratio_estimate(setting_pass.seconds, full.seconds),
                sum(setting_pass.seconds),
            )
        )
    return points


def _flops(
    model: FinetunedModel, encoded: Sequence[EncodedExample], setting_pass: _SettingPass
) -> list[float]:
    """Return the FLOPs of encoder and head for each example."""
    settings, head, rule = model.engine.model_settings, model.engine.head_settings, setting_pass.rule
    exit_depth = (rule.depth or settings.layers) if rule is not None and rule.can_exit else None
    computes_all = model.engine.computes_all_tokens
    return [
        sum(
            prediction_flops(
                settings, head, len(ids), depth, exit_depth=exit_depth, computes_all_tokens=computes_all
            )
            for sample, depth in zip(example.samples, depths, strict=True)
            for ids in sample.ids
        )
        for example, depths in zip(encoded, setting_pass.depths, strict=True)
    ]


def _scores(
    model: FinetunedModel, examples: Sequence[Example], predictions: Sequence[Mapping[str, Any]]
) -> tuple[float, list[float]]:
    """Return the score, and those of resamples of the examples, which are the same for every setting."""

    def score(indices: Sequence[int]) -> float:
        chosen = [examples[index] for index in indices], [predictions[index] for index in indices]
        return model.task.primary_metric(model.task_type.compute_metrics(*chosen))

    generator, count = named_generator("exit curve"), len(examples)
    resamples = min(_MAX_RESAMPLES, max(_MIN_RESAMPLES, _RESAMPLED_EXAMPLES // count))
    drawn = (torch.randint(0, count, (count,), generator=generator).tolist() for _ in range(resamples))
    return score(range(count)), [score(indices) for indices in drawn]


def _bootstrap_estimate(
    value: float, resampled: Sequence[float], count: int, highest: float = float("inf")
) -> Estimate:
    """Return a value with its 95% interval from the spread over resamples of so many examples.

    The spread is too small where hardly any example differs. So the interval is at least that of no error in
    so many examples, by the rule of three.
    """
    margin = max(NORMAL_QUANTILE * float(np.std(resampled, ddof=1)), min(1.0, 3 / count))
    return Estimate(value, value - margin, min(highest, value + margin))
