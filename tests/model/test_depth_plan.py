"""The depth plan of every sharing scheme."""

import pytest

from albertine.errors import InputError
from albertine.model.depth_plan import BlockIndices, depth_plan
from albertine.settings import ModelSettings


@pytest.mark.parametrize(
    ("model", "expected"),
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
def test_depth_plan(model: ModelSettings, expected: list[tuple[int, int]]) -> None:
    plan = depth_plan(model)
    assert plan == tuple(BlockIndices(attention, ffn) for attention, ffn in expected)
    assert len(plan) == model.applied_layers
    assert {blocks.attention for blocks in plan} == set(range(model.attention_block_count))
    assert {blocks.ffn for blocks in plan} == set(range(model.ffn_block_count))


def test_shared_model_can_be_deeper() -> None:
    assert depth_plan(ModelSettings(layers=2), depth=5) == (BlockIndices(0, 0),) * 5


def test_any_model_can_stop_early() -> None:
    assert depth_plan(ModelSettings(layers=4, share="none"), depth=2) == (
        BlockIndices(0, 0),
        BlockIndices(1, 1),
    )


@pytest.mark.parametrize(
    "model",
    [
        ModelSettings(layers=4, share="none"),
        ModelSettings(layers=4, groups=2),
        ModelSettings(layers=4, share="ffn"),
    ],
)
def test_model_that_is_not_fully_shared_cannot_be_deeper(model: ModelSettings) -> None:
    with pytest.raises(InputError, match="depth 5: more than the 4 layers of this model"):
        depth_plan(model, depth=5)


def test_zero_depth_is_refused() -> None:
    with pytest.raises(InputError, match="depth 0: must be at least 1"):
        depth_plan(ModelSettings(), depth=0)
