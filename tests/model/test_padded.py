"""Tests of `PaddedModel`: it has the outputs of the model on strips, and `torch.export` accepts it."""

from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.model_fixtures import SMALL, random_strip
from torch import Tensor
from torch.export import Dim

from albertine.interop.load_checkpoint import load_folder
from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.model.padded import PaddedModel
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.model import HeadKind

VARIANTS = {
    "shared": SMALL,
    "shared attention": replace(SMALL, share="attention"),
    "shared feed-forward": replace(SMALL, share="ffn"),
    "unshared": replace(SMALL, share="none", activation="gelu"),
    "groups": replace(SMALL, groups=3),
    "inner groups": replace(SMALL, inner_groups=2),
    "without projection": replace(SMALL, embedding_size=24),
    "marked matches": replace(SMALL, mark_matches=True),
}
HEADS = {
    **{kind: HeadSettings(kind=kind) for kind in ("pretrain", "mlm", "span")},
    "answerable span": HeadSettings(kind="span", answerable=True),
    **{kind: HeadSettings(kind=kind, labels=3) for kind in ("classify", "multi-label", "token")},
    "matching": HeadSettings(kind="classify", labels=3, matching=True),
    **{kind: HeadSettings(kind=kind, labels=1, options=2) for kind in ("regress", "choice")},
}


def make_model(model_settings: ModelSettings = SMALL, head: HeadSettings | None = None) -> Model:
    """Return a model in evaluation mode with weights so large that every layer affects the output."""
    model = Model(model_settings, head, seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return model


def strip_logits(model: Model, strip: Strip) -> dict[str, Tensor]:
    """Return the logits of a strip, those of tokens as [tokens, ...], under the names of `Head.logits`."""
    output = model(strip)
    if model.head_settings.kind == "pretrain":
        return {"mlm_logits": output.masked.logits, "pair_logits": output.pair_logits}
    if model.head_settings.kind == "mlm":
        return {"mlm_logits": output.logits}
    return {name: value for name, value in vars(output).items() if isinstance(value, Tensor)}


def assert_equal_to_strip(actual: dict[str, Tensor], mask: Tensor, model: Model, strip: Strip) -> None:
    """Compare the logits of a padded batch with those of the strip, to 1e-5."""
    expected = strip_logits(model, strip)
    assert list(actual) == list(expected)
    for name, expected_logits in expected.items():
        is_per_token = (
            name in ("mlm_logits", "start_logits", "end_logits") or model.head_settings.kind == "token"
        )
        actual_logits = actual[name][mask.bool()] if is_per_token else actual[name]
        assert actual_logits.shape == expected_logits.shape, name
        assert (actual_logits - expected_logits).abs().max() < 1e-5, name


def pad_left(values: Tensor, mask: Tensor) -> Tensor:
    """Return a padded batch, [batch, length], with the padding of each sequence on the left."""
    return values.gather(1, mask.argsort(dim=1, stable=True))


def test_every_kind_of_head_is_tested() -> None:
    assert {head.kind for head in HEADS.values()} == set(get_args(HeadKind))


@torch.no_grad()
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_outputs_equal_those_of_the_strip(variant: ModelSettings, head: HeadSettings) -> None:
    model, strip = make_model(variant, head), random_strip([7, 12, 3, 12, 1, 16])
    ids, mask, segments = strip.to_padded()
    assert_equal_to_strip(PaddedModel(model)(ids, mask, segments), mask, model, strip)


@torch.no_grad()
@settings(max_examples=25)
@given(lengths=st.lists(st.integers(1, 16), min_size=1, max_size=8), is_left=st.booleans())
def test_outputs_do_not_depend_on_lengths_and_padding_side(lengths: list[int], is_left: bool) -> None:
    model = make_model(head=HEADS["pretrain"])
    strip = random_strip(lengths, seed=sum(lengths))
    ids, mask, segments = strip.to_padded(pad_token_id=7)
    if is_left:
        ids, segments, mask = (pad_left(values, mask) for values in (ids, segments, mask))
    assert_equal_to_strip(PaddedModel(model)(ids, mask, segments), mask, model, strip)


@torch.no_grad()
def test_positions_may_be_given() -> None:
    padded, (ids, mask, segments) = PaddedModel(make_model()), random_strip([5, 9]).to_padded()
    default_logits = padded(ids, mask, segments)["mlm_logits"]
    positions = torch.arange(9).expand(2, 9)
    logits = padded(ids, mask, segments, positions)["mlm_logits"]
    assert torch.equal(logits[mask == 1], default_logits[mask == 1])
    shifted_logits = padded(ids, mask.bool(), segments, positions + 1)["mlm_logits"]
    assert not torch.allclose(shifted_logits, default_logits, atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_sequence_without_tokens_is_finite_and_changes_no_other_sequence(head: HeadSettings) -> None:
    model, strip = make_model(head=head), random_strip([7, 12])
    ids, mask, segments = strip.to_padded()
    inputs = [torch.cat([values, torch.zeros_like(values)]) for values in (ids, mask, segments)]
    actual = PaddedModel(model)(*inputs)
    assert all(logits.isfinite().all() for logits in actual.values())
    first_half = {name: logits[: len(logits) // 2] for name, logits in actual.items()}
    assert_equal_to_strip(first_half, mask, model, strip)


def test_weights_are_shared() -> None:
    model = make_model()
    expected = {f"model.{name}": parameter for name, parameter in model.named_parameters()}
    actual = dict(PaddedModel(model).named_parameters())
    assert actual.keys() == expected.keys()
    assert all(actual[name] is expected[name] for name in expected)


def test_gradients_equal_those_of_the_strip() -> None:
    model, strip = make_model(head=HEADS["token"]), random_strip([7, 12, 3])
    ids, mask, segments = strip.to_padded()
    padded_logits = PaddedModel(model)(ids, mask, segments)["logits"][mask == 1]
    padded_gradients, strip_gradients = (
        torch.autograd.grad(logits.square().sum(), list(model.parameters()))
        for logits in (padded_logits, model(strip).logits)
    )
    for actual, expected in zip(padded_gradients, strip_gradients, strict=True):
        assert (actual - expected).norm() <= 1e-4 * expected.norm() + 1e-5


@torch.no_grad()
def test_bf16_is_close_to_the_strip() -> None:
    model, strip = make_model(head=HEADS["classify"]), random_strip([7, 12, 3])
    model.configure(ComputeOptions(torch.bfloat16))
    actual = PaddedModel(model)(*strip.to_padded())["logits"]
    assert actual.dtype == torch.float32  # of the output layer
    assert torch.allclose(actual, model(strip).logits, atol=0.1)


@pytest.mark.long
@pytest.mark.slow
@torch.no_grad()
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_exported_program_gives_the_same_outputs_for_any_batch_and_length(head: HeadSettings) -> None:
    model = make_model(head=head)
    padded = PaddedModel(model).eval()
    batch: Any = 2 * Dim("questions", max=64) if head.kind == "choice" else Dim("batch", max=64)
    shape = {0: batch, 1: Dim("length", max=SMALL.max_length)}
    example = random_strip([7, 12, 3, 9]).to_padded()
    program = torch.export.export(padded, example, dynamic_shapes=(shape,) * 3)
    operations = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert all(name.startswith(("aten.", "<built-in function ", "_")) for name in operations), operations
    # At least two questions: torch.export specializes a derived dimension, 2 * questions, for one.
    other_lengths = (
        [[16, 1, 1, 1], [3, 5, 2, 2, 1, 4]] if head.kind == "choice" else [[5], [1, 1], [3, 16, 2]]
    )
    for lengths in other_lengths:
        strip = random_strip(lengths, seed=len(lengths))
        ids, mask, segments = strip.to_padded()
        assert_equal_to_strip(program.module()(ids, mask, segments), mask, model, strip)


@torch.no_grad()
def test_outputs_equal_those_of_transformers(tmp_path: Any) -> None:
    config = transformers.AlbertConfig(
        vocab_size=61,
        embedding_size=10,
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=16,
    )
    torch.manual_seed(0)
    reference: Any = transformers.AlbertForPreTraining(config)
    reference.eval()
    for parameter in reference.parameters():
        parameter += 0.1 * torch.randn_like(parameter)
    reference.save_pretrained(tmp_path)
    ids, mask, segments = random_strip([7, 12, 3, 12]).to_padded()
    actual = PaddedModel(load_folder(tmp_path).eval())(ids, mask, segments)
    expected = reference(input_ids=ids, attention_mask=mask, token_type_ids=segments)
    assert (actual["mlm_logits"] - expected.prediction_logits)[mask == 1].abs().max() < 1e-5
    assert (actual["pair_logits"] - expected.sop_logits).abs().max() < 1e-5
