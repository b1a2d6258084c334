"""Rotary positions, compared with those of transformers."""

from dataclasses import replace

import pytest
import torch
from tests.model.model_fixtures import SMALL, STRIP, random_strip
from tests.model.test_step_differences import random_model
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from albertine.model.exits import forward_with_exits
from albertine.model.padded import PaddedModel
from albertine.model.parameter_counts import count_parameters
from albertine.model.rotary import Rotation, rotate
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import HeadSettings, SettingError
from albertine.settings.exit_rule import ExitRule

SETTINGS = replace(SMALL, rotary=True)
WIDTH, HEADS = 24, 4


def random_qkv(rows: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(rows, 3 * WIDTH, generator=torch.Generator().manual_seed(0), dtype=dtype)


def test_queries_and_keys_are_turned_as_in_transformers() -> None:
    positions, qkv = torch.tensor([0, 1, 2, 7, 300]), random_qkv(5)
    actual = rotate(qkv, Rotation.of_positions(positions, WIDTH // HEADS, torch.float32), WIDTH, parts=2)
    embedding = LlamaRotaryEmbedding(LlamaConfig(hidden_size=WIDTH, num_attention_heads=HEADS))
    cos, sin = embedding(qkv, positions[None])
    query, key, value = qkv.view(5, 3, HEADS, -1).permute(1, 2, 0, 3)[:, None]
    expected = torch.stack(
        [*apply_rotary_pos_emb(query, key, cos, sin), value], 0
    )  # [3, 1, heads, rows, size]
    torch.testing.assert_close(actual.view(5, 3, HEADS, -1).permute(1, 2, 0, 3), expected[:, 0])


def test_strip_without_tokens() -> None:
    """A process that gets no samples of a batch computes on such a strip."""
    nothing = random_qkv(0).requires_grad_()
    rotation = Rotation.of_positions(torch.empty(0, dtype=torch.long), WIDTH // HEADS, torch.float32)
    turned = rotate(nothing, rotation, WIDTH, parts=2)
    turned.sum().backward()
    assert turned.shape == (0, 3 * WIDTH)


def test_gradients_are_those_of_the_rotation() -> None:
    rotation = Rotation.of_positions(torch.arange(4), WIDTH // HEADS, torch.float64)
    qkv = random_qkv(4, torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda values: rotate(values, rotation, WIDTH, parts=2), qkv)
    assert torch.autograd.gradgradcheck(lambda values: rotate(values, rotation, WIDTH, parts=2), qkv)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*should not be instantiated:DeprecationWarning"
)  # of the compiler itself
def test_a_compiler_traces_it_as_one_graph() -> None:
    rotation = Rotation.of_positions(torch.arange(4), WIDTH // HEADS, torch.float32)
    qkv = random_qkv(4).requires_grad_()

    def turn(values: torch.Tensor) -> torch.Tensor:
        return rotate(values, rotation, WIDTH, parts=2)

    compiled = torch.compile(turn, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(qkv), turn(qkv))


def test_only_distances_count() -> None:
    model = random_model(SETTINGS)
    ids, mask, segments = STRIP.to_padded()
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    with torch.no_grad():
        at_start, later = (
            PaddedModel(model)(ids, mask, segments, positions + shift)["mlm_logits"][mask.bool()]
            for shift in (0, 5)
        )
        order = STRIP.tokens.flip(0)
        reordered = model(replace(STRIP, tokens=order)).logits
    torch.testing.assert_close(at_start, later, atol=1e-4, rtol=1e-4)
    assert not torch.allclose(at_start, reordered, atol=1e-2)


def test_a_word_order_changes_the_output() -> None:
    model = random_model(SETTINGS)
    strip = STRIP.slice(0, 1)
    swapped = replace(strip, tokens=strip.tokens[[0, 2, 1, 3, 4]])
    with torch.no_grad():
        assert not torch.allclose(model.encoder(strip)[3], model.encoder(swapped)[3], atol=1e-3)


@pytest.mark.parametrize("kind", ["classify", "token"])
def test_exits_keep_positions_when_sequences_leave(kind: str) -> None:
    head = HeadSettings("classify" if kind == "classify" else "token", labels=3)
    model, strip = random_model(SETTINGS, head), random_strip([5, 9, 3, 7])
    with torch.no_grad():
        exited = forward_with_exits(model, strip, ExitRule(confidence=0.6))
        for index, depth in enumerate(exited.depths.tolist()):
            alone = model(strip.slice(index, index + 1), depth=depth).logits
            start, end = (
                (index, index + 1) if kind == "classify" else strip.offsets[index : index + 2].tolist()
            )
            torch.testing.assert_close(exited.output.logits[start:end], alone, atol=1e-5, rtol=1e-5)
    assert len(set(exited.depths.tolist())) > 1


def test_there_is_no_position_table() -> None:
    model = random_model(SETTINGS, HeadSettings())
    assert sum(parameter.numel() for parameter in model.parameters()) == count_parameters(SETTINGS).total
    assert count_parameters(SETTINGS).position_embedding == 0
    assert not PretrainSettings(model=SETTINGS).uses_local_start


def test_heads_of_odd_width_are_refused() -> None:
    with pytest.raises(SettingError, match="even width"):
        replace(SETTINGS, hidden_size=12, heads=4)
