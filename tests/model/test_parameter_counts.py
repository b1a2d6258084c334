"""Parameter counts are exact."""

from dataclasses import replace
from typing import Any

import pytest

from albertine.model.parameter_counts import bert_of_same_shape, bert_of_same_size, count_parameters
from albertine.settings import MODEL_PRESETS, ModelSettings


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        # Counted over the tensors of the released checkpoints: encoder and pooler.
        (MODEL_PRESETS["albert-base"], 11_683_584),
        (MODEL_PRESETS["albert-large"], 17_683_968),
        (MODEL_PRESETS["albert-xlarge"], 58_724_864),
        (MODEL_PRESETS["albert-xxlarge"], 222_595_584),
        (replace(MODEL_PRESETS["bert-base"], vocab_size=30_522), 109_482_240),
        (replace(MODEL_PRESETS["bert-large"], vocab_size=30_522), 335_141_888),
    ],
)
def test_released_encoders(model: ModelSettings, parameters: int) -> None:
    assert count_parameters(model).encoder == parameters


def test_factorized_embedding_has_the_counts_of_the_paper() -> None:
    counts = count_parameters(MODEL_PRESETS["albert-large"])
    projection_weights = 128 * 1024
    assert counts.token_embedding + projection_weights == 3_971_072
    assert counts.projection == projection_weights + 1024
    assert count_parameters(MODEL_PRESETS["bert-large"]).token_embedding == 30_720_000


def test_groups_multiply_shared_blocks_only() -> None:
    one_group, four_groups = count_parameters(ModelSettings()), count_parameters(ModelSettings(groups=4))
    assert four_groups.attention == 4 * one_group.attention
    assert four_groups.ffn == 4 * one_group.ffn
    for part in ("token_embedding", "position_embedding", "projection", "pooler"):
        assert getattr(four_groups, part) == getattr(one_group, part)


def test_one_group_per_layer_equals_no_sharing() -> None:
    grouped = count_parameters(ModelSettings(groups=12))
    assert grouped == count_parameters(ModelSettings(share="none"))


def test_sharing_attention_or_ffn_only() -> None:
    shared, unshared, shared_attention, shared_ffn = (
        count_parameters(ModelSettings(share=share)) for share in ("all", "none", "attention", "ffn")
    )
    assert (shared_attention.attention, shared_attention.ffn) == (shared.attention, unshared.ffn)
    assert (shared_ffn.attention, shared_ffn.ffn) == (unshared.attention, shared.ffn)


def test_inner_groups_have_separate_blocks() -> None:
    assert count_parameters(ModelSettings(inner_groups=3)).ffn == 3 * count_parameters(ModelSettings()).ffn


def test_bert_of_the_same_shape_is_bert() -> None:
    assert count_parameters(bert_of_same_shape(MODEL_PRESETS["albert-large"])) == count_parameters(
        MODEL_PRESETS["bert-large"]
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"depth_rule": "halting", "halting_cost": 0.05, "step_signal": True},
        {"embedding_size": 24, "always_project": True},
        {"rotary": True, "norm_first": True, "mark_matches": True, "step_rank": 2, "step_vectors": True},
    ],
)
def test_bert_of_the_same_shape_has_nothing_that_bert_lacks(changes: dict[str, Any]) -> None:
    plain = ModelSettings(hidden_size=24, heads=4, layers=3, dropout=0.1)
    assert bert_of_same_shape(replace(plain, **changes)) == bert_of_same_shape(plain)


@pytest.mark.parametrize("name", ["demo", "albert-tiny", "albertine-base", "albert-xxlarge"])
def test_a_bert_of_the_same_size_is_the_closest(name: str) -> None:
    model = MODEL_PRESETS[name]
    bert = bert_of_same_size(model)
    assert bert.layers == model.layers
    assert bert.share == "none"
    wanted = count_parameters(model).encoder
    distances = [
        abs(count_parameters(replace(bert, hidden_size=width, embedding_size=width)).encoder - wanted)
        for width in (bert.hidden_size - model.heads, bert.hidden_size, bert.hidden_size + model.heads)
        if width
    ]
    assert min(distances) == abs(count_parameters(bert).encoder - wanted)
