"""Pre-norm of blocks, compared with the layers of torch."""

from dataclasses import replace
from typing import Any

import torch
from tests.model.model_fixtures import SMALL, STRIP, random_strip
from tests.model.test_step_differences import random_model
from torch import Tensor, nn

from albertine.model.exits import forward_with_exits
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.settings.exit_rule import ExitRule

SETTINGS = replace(SMALL, norm_first=True, activation="gelu")


def torch_encoder(model: Model) -> nn.TransformerEncoder:
    """Return torch's encoder with the weights of a model in every layer."""
    encoder: Any = model.encoder
    attention, ffn = encoder.attention[0], encoder.ffn[0]
    layer = nn.TransformerEncoderLayer(24, 4, 96, 0.0, "gelu", 1e-12, batch_first=True, norm_first=True)
    pairs: list[tuple[Any, Any]] = [
        (layer.self_attn.out_proj, attention.out),
        (layer.norm1, attention.norm),
        (layer.linear1, ffn.up),
        (layer.linear2, ffn.down),
        (layer.norm2, ffn.norm),
    ]
    for target, source in pairs:
        target.load_state_dict(source.state_dict())
    layer.self_attn.in_proj_weight.data.copy_(attention.qkv.weight)
    layer.self_attn.in_proj_bias.data.copy_(attention.qkv.bias)
    stack = nn.TransformerEncoder(layer, SETTINGS.layers, encoder.last_norm, enable_nested_tensor=False)
    return stack.eval()


def embedded(model: Model, sequence: int) -> Tensor:
    """Return the output of the embedding for one sequence of the strip, [1, length, hidden]."""
    encoder = model.encoder
    strip = STRIP.slice(sequence, sequence + 1)
    return encoder.embed(strip, encoder.layout(strip))[None, : len(strip.tokens)]


def test_outputs_are_those_of_torch() -> None:
    model = random_model(SETTINGS)
    stack = torch_encoder(model)
    with torch.no_grad():
        hidden = model.encoder(STRIP)
        for sequence in range(len(STRIP)):
            start, end = STRIP.offsets[sequence : sequence + 2]
            expected = stack(embedded(model, sequence))[0]
            torch.testing.assert_close(hidden[start:end], expected, atol=1e-5, rtol=1e-5)


def test_exits_read_normalized_states() -> None:
    model = random_model(SETTINGS, HeadSettings(kind="classify", labels=3))
    strip = random_strip([5, 9, 3, 7])
    with torch.no_grad():
        output = forward_with_exits(model, strip, ExitRule(confidence=0.6))
        for prediction, depth in enumerate(output.depths.tolist()):
            expected = model(strip, depth=depth).logits[prediction]
            torch.testing.assert_close(output.output.logits[prediction], expected, atol=1e-5, rtol=1e-5)
    assert len(set(output.depths.tolist())) > 1
