"""Depth follows the plan."""

import pytest

from albertine.errors import InputError
from albertine.model.plan import Step, plan_of
from albertine.settings import ModelSettings


@pytest.mark.parametrize(
    ("model", "steps"),
    [
        (ModelSettings(layers=4), [(0, 0)] * 4),
        (ModelSettings(layers=4, share="none"), [(0, 0), (1, 1), (2, 2), (3, 3)]),
        (ModelSettings(layers=4, share="attention"), [(0, 0), (0, 1), (0, 2), (0, 3)]),
        (ModelSettings(layers=4, share="ffn", groups=2), [(0, 0), (1, 0), (2, 1), (3, 1)]),
        (ModelSettings(layers=4, groups=2), [(0, 0), (0, 0), (1, 1), (1, 1)]),
        (ModelSettings(layers=2, groups=2, inner_groups=2), [(0, 0), (1, 1), (2, 2), (3, 3)]),
        (ModelSettings(layers=2, inner_groups=2), [(0, 0), (1, 1), (0, 0), (1, 1)]),
    ],
)
def test_plans(model: ModelSettings, steps: list[tuple[int, int]]) -> None:
    plan = plan_of(model)
    assert plan == tuple(Step(*step) for step in steps)
    assert len(plan) == model.steps
    assert {step.attention for step in plan} == set(range(model.attention_blocks))
    assert {step.ffn for step in plan} == set(range(model.ffn_blocks))


def test_a_shared_model_has_any_depth() -> None:
    assert plan_of(ModelSettings(layers=2), depth=5) == (Step(0, 0),) * 5


def test_any_model_can_stop_early() -> None:
    assert plan_of(ModelSettings(layers=4, share="none"), depth=2) == (Step(0, 0), Step(1, 1))


@pytest.mark.parametrize(
    "model",
    [
        ModelSettings(layers=4, share="none"),
        ModelSettings(layers=4, groups=2),
        ModelSettings(layers=4, share="ffn"),
    ],
)
def test_where_there_is_nothing_to_go_on_with_more_depth_is_refused(model: ModelSettings) -> None:
    with pytest.raises(InputError, match="depth 5: this model has 4 layers of its own"):
        plan_of(model, depth=5)


def test_no_depth_is_refused() -> None:
    with pytest.raises(InputError, match="depth 0: must be at least 1"):
        plan_of(ModelSettings(), depth=0)
