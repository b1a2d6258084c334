"""Parameter counts are exact."""

from dataclasses import replace

import pytest

from albertine.model.parameter_counts import bert_of_same_shape, count_parameters
from albertine.settings import MODEL_PRESETS, ModelSettings


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        # Encoders with pooler, as counted over the tensors of the released checkpoints.
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


def test_factorized_embedding_of_the_papers_example() -> None:
    parts = count_parameters(MODEL_PRESETS["albert-large"])
    weights_of_projection = 128 * 1024
    assert parts.token_embedding + weights_of_projection == 3_971_072
    assert parts.projection == weights_of_projection + 1024
    assert count_parameters(MODEL_PRESETS["bert-large"]).token_embedding == 30_720_000


def test_groups_multiply_shared_blocks_only() -> None:
    one, four = ModelSettings(), ModelSettings(groups=4)
    a, b = count_parameters(one), count_parameters(four)
    assert (b.attention, b.ffn) == (4 * a.attention, 4 * a.ffn)
    assert (b.token_embedding, b.position_embedding, b.projection, b.pooler) == (
        a.token_embedding,
        a.position_embedding,
        a.projection,
        a.pooler,
    )


def test_one_group_per_layer_equals_no_sharing() -> None:
    grouped = count_parameters(ModelSettings(groups=12))
    assert grouped == count_parameters(ModelSettings(share="none"))


def test_sharing_attention_or_ffn_only() -> None:
    shared, apart = count_parameters(ModelSettings()), count_parameters(ModelSettings(share="none"))
    attention, ffn = (count_parameters(ModelSettings(share=share)) for share in ("attention", "ffn"))
    assert (attention.attention, attention.ffn) == (shared.attention, apart.ffn)
    assert (ffn.attention, ffn.ffn) == (apart.attention, shared.ffn)


def test_inner_groups_are_blocks_of_their_own() -> None:
    assert count_parameters(ModelSettings(inner_groups=3)).ffn == 3 * count_parameters(ModelSettings()).ffn


def test_bert_of_the_same_shape_is_bert() -> None:
    assert count_parameters(bert_of_same_shape(MODEL_PRESETS["albert-large"])) == count_parameters(
        MODEL_PRESETS["bert-large"]
    )
