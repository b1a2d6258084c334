"""Tests of model selection: which evaluation is the best, and whether its model has learned anything."""

import math

import pytest

from albertine.finetune.model_selection import nothing_learned_reason, score_to_minimize
from albertine.tasks.registry import find_task


@pytest.mark.parametrize(
    ("task", "better", "worse"),
    [
        ("rte", (0.7, 2.0, 10), (0.6, 0.1, 20)),  # the metric decides
        ("rte", (0.7, 0.5, 20), (0.7, 0.6, 10)),  # equal metrics: the loss decides
        ("rte", (0.1, 9.0, 10), (0.9, 0.1, 0)),  # before training
        ("cola", (0.0, 0.5, 20), (0.005, 0.6, 10)),  # a metric below 1% is chance
        ("cola", (-0.2, 0.5, 20), (0.0, 0.6, 10)),
        ("cola", (0.02, 0.6, 10), (0.0, 0.5, 20)),
        ("cola", (0.0, 0.5, 10), (0.0, math.nan, 20)),
        ("cola", (0.0, 0.5, 10), (math.nan, 0.4, 20)),
        ("rte", (0.6, 1e9, 10), (0.6, math.inf, 20)),
    ],
)
def test_better_models_have_lower_scores(
    task: str, better: tuple[float, float, int], worse: tuple[float, float, int]
) -> None:
    name = {"rte": "accuracy", "cola": "matthews"}[task]
    scores = [
        score_to_minimize(find_task(task), {name: metric, "loss": loss}, step)
        for metric, loss, step in (better, worse)
    ]
    if math.isnan(worse[0]):  # counts as 0
        assert all(map(math.isfinite, scores))
    else:
        assert scores[0] < scores[1]


@pytest.mark.parametrize(
    ("best", "untrained", "varied", "reason"),
    [
        ((0.0, 0.2), (0.005, 2.0), True, "the best score on dev is Matthews correlation 0.0"),
        ((0.1, 0.2), (0.2, 2.0), True, None),
        ((0.2, 2.0), (0.1, 2.0), True, None),
        ((0.1, 2.0), (0.1, 2.0), True, "no evaluation was better than the one before training"),
        ((0.5, 0.2), (0.1, 2.0), False, "every evaluation gave the same prediction"),
        ((0.5, math.nan), None, True, None),  # a run of an earlier version
    ],
)
def test_reasons_why_nothing_was_learned(
    best: tuple[float, float], untrained: tuple[float, float] | None, varied: bool, reason: str | None
) -> None:
    metrics = [dict(zip(("matthews", "loss"), one or (), strict=False)) for one in (best, untrained)]
    found = nothing_learned_reason(find_task("cola"), *metrics, predictions_varied=varied)
    assert (found or "").startswith(reason or "")
    assert (found is None) == (reason is None)


@pytest.mark.parametrize(
    ("metrics", "shown"), [({"f1": 0.0, "accuracy": 0.9}, "F1 0.0"), ({"accuracy": 0.0}, "accuracy 0.0")]
)
def test_the_score_of_tags_is_named(metrics: dict[str, float], shown: str) -> None:
    found = nothing_learned_reason(find_task("tag"), metrics | {"loss": 1.0}, {}, predictions_varied=True)
    assert found == f"the best score on dev is {shown}"
