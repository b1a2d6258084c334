"""FLOPs, memory and communication, from the settings alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from albertine.model.cost import (
    Precision,
    all_reduce_bytes_per_step,
    count_flops,
    gradient_bytes,
    largest_batch_size,
    prediction_flops,
    training_memory,
)
from albertine.model.encoder import ComputeOptions
from albertine.model.exits import forward_with_exits
from albertine.model.model import Model
from albertine.model.parameter_counts import count_parameters
from albertine.model.strip import Strip
from albertine.settings import MODEL_PRESETS, HeadSettings, ModelSettings
from albertine.settings.exit_rule import ExitRule


def test_flops_of_a_tiny_model() -> None:
    model = ModelSettings(
        vocab_size=10, embedding_size=2, hidden_size=4, layers=3, heads=2, ffn_size=6, max_length=8
    )
    length = 5
    embedding_projection = 2 * 2 * 4
    attention_projections = 4 * 2 * 4 * 4
    scores_and_values = 2 * 2 * length * 4
    ffn = 2 * 2 * 4 * 6
    pooler = 2 * 4 * 4 / length  # once per sequence
    mlm_projection, mlm_logits = 2 * 4 * 2, 2 * 2 * 10  # for each masked token
    pair_logits = 2 * 4 * 2 / length  # once per sequence
    flops = count_flops(model, length)
    assert flops.attention_per_token == 3 * scores_and_values
    assert flops.forward_per_token == pytest.approx(
        embedding_projection + 3 * (attention_projections + scores_and_values + ffn) + pooler
    )
    assert flops.heads_per_token == pytest.approx(0.15 * (mlm_projection + mlm_logits) + pair_logits)
    unread_share = 1 - 0.15 - 1 / length  # of the tokens, the last layer gives these no output
    skipped = unread_share * (2 * 4 * 4 + ffn)
    training = 3 * (flops.forward_per_token + flops.heads_per_token - skipped)
    assert flops.training_per_token == pytest.approx(training)
    layers = 3 * (attention_projections + scores_and_values + ffn)
    assert flops.training_with_recomputation_per_token == pytest.approx(training + layers - skipped)


def test_more_masked_tokens_cost_their_heads_and_their_part_of_the_last_layer() -> None:
    model = ModelSettings(vocab_size=100, embedding_size=4, hidden_size=8, ffn_size=16, heads=2, layers=2)
    few, many = count_flops(model, 16), count_flops(model, 16, masked_fraction=0.3)
    for_a_masked_token = 2 * 8 * 4 + 2 * 4 * 100 + 2 * 8 * 8 + 4 * 8 * 16
    assert many.training_per_token - few.training_per_token == pytest.approx(3 * 0.15 * for_a_masked_token)


def test_sharing_does_not_change_flops() -> None:
    assert count_flops(ModelSettings(), 128) == count_flops(ModelSettings(share="none"), 128)


def test_albert_base_flops() -> None:
    # Per token: the 85M weights of the 12 layers take two FLOPs each, 0.170 GFLOP; attention scores and
    # values take nearly all the rest.
    assert count_flops(MODEL_PRESETS["albert-base"], 128).forward_per_token == pytest.approx(
        0.175e9, rel=0.01
    )


@given(
    name=st.sampled_from(list(MODEL_PRESETS)),
    memory=st.integers(1, 10**12),
    length=st.integers(1, 128),
    precision=st.sampled_from(["fp32", "bf16"]),
    recompute=st.booleans(),
)
def test_largest_batch_fits_and_one_more_sequence_does_not(
    name: str, memory: int, length: int, precision: Precision, recompute: bool
) -> None:
    model = MODEL_PRESETS[name]
    batch_size = largest_batch_size(model, memory, length=length, precision=precision, recompute=recompute)

    def needed_bytes(batch_size: int) -> int:
        return training_memory(
            model, batch_size=batch_size, length=length, precision=precision, recompute=recompute
        ).total

    assert batch_size == 0 or needed_bytes(batch_size) <= memory
    assert needed_bytes(batch_size + 1) > memory


@pytest.mark.parametrize("name", MODEL_PRESETS)
def test_recomputation_and_bf16_reduce_activation_memory(name: str) -> None:
    model = MODEL_PRESETS[name]
    baseline = training_memory(model, batch_size=8, length=128).activations
    assert training_memory(model, batch_size=8, length=128, recompute=True).activations < baseline
    assert training_memory(model, batch_size=8, length=128, precision="bf16").activations < baseline


def test_memory_of_weights_gradients_and_moments_is_exact() -> None:
    parameters = count_parameters(MODEL_PRESETS["albert-base"]).total
    memory = training_memory(MODEL_PRESETS["albert-base"], batch_size=1, length=1)
    assert memory.weights == memory.gradients == 4 * parameters
    assert memory.optimizer == 8 * parameters


def test_ring_all_reduce_bytes() -> None:
    model = MODEL_PRESETS["albert-base"]
    assert all_reduce_bytes_per_step(model, 1) == 0
    assert all_reduce_bytes_per_step(model, 2) == gradient_bytes(model)
    assert all_reduce_bytes_per_step(model, 8) == 14 * gradient_bytes(model) // 8


HEADS = [HeadSettings("classify", labels=3), HeadSettings("token", labels=5), HeadSettings("span")]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.kind)
@pytest.mark.parametrize(
    ("rule", "steps"),
    [(None, 4), (ExitRule(depth=2), 2), (ExitRule(patience=1), 2), (ExitRule(patience=3), 4)],
)
def test_flops_of_a_prediction_are_those_of_torch(
    head: HeadSettings, rule: ExitRule | None, steps: int
) -> None:
    settings = ModelSettings(
        vocab_size=100, embedding_size=32, hidden_size=64, layers=4, heads=4, max_length=64
    )
    model, strip = Model(settings, head).eval(), Strip.from_sequences([[7] * 40])
    for parameter in model.head.parameters():
        parameter.data.zero_()  # so that no prediction changes
    model.configure(ComputeOptions(kernels=False))
    exit_depth = 4 if rule is not None and rule.can_exit else None
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        if rule is None:
            model(strip)
        else:
            assert forward_with_exits(model, strip, rule).depths.tolist() == [steps]
    attention = steps * 4 * 40 * 40 * 64  # which torch does not count on a CPU
    expected = counter.get_total_flops() + attention
    assert prediction_flops(settings, head, 40, steps, exit_depth=exit_depth) == expected
