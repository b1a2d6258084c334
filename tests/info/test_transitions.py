"""Tests of layer transitions against the hidden states of transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import albertine
from albertine.info.transitions import last_step_angle, layer_transitions
from albertine.model.model import Model
from albertine.settings import ModelSettings

MODEL = ModelSettings(vocab_size=90, embedding_size=16, hidden_size=32, layers=4, heads=2, max_length=40)


def test_transitions_equal_transformers(tmp_path: Path) -> None:
    model = Model(MODEL, seed=3)
    albertine.save(model, tmp_path / "model")
    reference: Any = transformers.AlbertModel.from_pretrained(tmp_path / "model")
    rng = torch.Generator().manual_seed(0)
    texts = [torch.randint(5, 90, (length,), generator=rng) for length in (7, 30, 12)]
    pairs: list[list[tuple[float, float]]] = [[] for _ in range(MODEL.layers)]
    for ids in texts:
        with torch.no_grad():
            states = reference.eval()(input_ids=ids[None], output_hidden_states=True).hidden_states
        # The first state of transformers is the embedding before the projection, ours the one after it.
        first = (
            reference.encoder.embedding_hidden_mapping_in(states[0])
            if states[0].shape != states[1].shape
            else states[0]
        )
        for layer, (before, after) in enumerate(zip([first, *states[1:-1]], states[1:], strict=True)):
            for token_before, token_after in zip(before[0].double(), after[0].double(), strict=True):
                cosine = float(token_before @ token_after / (token_before.norm() * token_after.norm()))
                pairs[layer].append(
                    (
                        float((token_after - token_before).detach().norm()),
                        float(torch.tensor(cosine).acos().rad2deg()),
                    )
                )
    transitions = layer_transitions(
        model.eval(), [albertine.Strip.from_sequences([ids.tolist()]) for ids in texts]
    )
    assert len(transitions) == MODEL.layers
    for layer, transition in enumerate(transitions):
        distances, angles = zip(*pairs[layer], strict=True)
        assert transition.distance == pytest.approx(sum(distances) / len(distances), rel=1e-4)
        assert transition.angle == pytest.approx(sum(angles) / len(angles), rel=1e-3)


def test_identity_layer_has_no_transition() -> None:
    model = Model(MODEL)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "attention" in name and "norm" not in name:
                parameter.zero_()
            if "ffn" in name and "norm" not in name:
                parameter.zero_()
    transitions = layer_transitions(model.eval(), [albertine.Strip.from_sequences([[2, 9, 8, 7, 3]])])
    assert transitions[-1].distance == pytest.approx(0, abs=1e-4)  # already normalized
    assert transitions[-1].angle == pytest.approx(0, abs=0.1)


def test_transitions_of_a_depth_with_inner_groups() -> None:
    model = Model(replace(MODEL, inner_groups=2), seed=3).eval()
    strip = albertine.Strip.from_sequences([[5, 8, 3], [9, 4]])
    assert len(layer_transitions(model, [strip], depth=6)) == 12


@pytest.mark.parametrize("inner_groups", [1, 2])
def test_angle_of_the_last_step(inner_groups: int) -> None:
    model = Model(replace(MODEL, inner_groups=inner_groups), seed=3).eval()
    strip = albertine.Strip.from_sequences([[5, 8, 3], [9, 4]])
    with torch.no_grad():
        before, after = (model.encoder(strip, depth=depth).double() for depth in (6, 7))
    cosine = torch.nn.functional.cosine_similarity(before, after, dim=1)
    assert last_step_angle(model, strip, 7) == pytest.approx(cosine.acos().rad2deg().mean().item(), abs=0.01)
