"""Tests of the co-matching head: a plain reference, batches, empty parts, wrong use."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.model_fixtures import SMALL
from torch import Tensor
from torch.nn import functional

from albertine.errors import InputError
from albertine.model.co_matching_head import CoMatchingHead
from albertine.model.encoder import ComputeOptions
from albertine.model.exits import forward_with_exits
from albertine.model.model import Model
from albertine.model.padded import PaddedModel
from albertine.model.parameter_counts import count_task_parameters
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, SettingError
from albertine.settings.exit_rule import ExitRule

HEAD = HeadSettings("choice", labels=1, options=2, co_matching=True)
Lengths = tuple[int, int, int]  # of passage, question and option
LENGTHS: list[Lengths] = [
    (5, 3, 2),
    (5, 3, 1),
    (7, 0, 2),
    (7, 0, 4),
    (0, 4, 1),
    (0, 4, 2),
    (6, 2, 0),
    (6, 2, 1),
]


def make_model(head: HeadSettings = HEAD, seed: int = 1) -> Model:
    """Return a model in evaluation mode with weights so large that every layer affects the output."""
    model = Model(SMALL, head, seed=seed).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    return model


def strip_of_parts(lengths: Sequence[Lengths], seed: int = 0) -> Strip:
    """Return a strip of random tokens, `[CLS] passage [SEP] question option [SEP]`, with its parts."""
    totals = [3 + sum(one) for one in lengths]
    generator = torch.Generator().manual_seed(seed)
    tokens = [torch.randint(0, 61, (total,), generator=generator).tolist() for total in totals]
    parts = [
        [(1, 1 + p), (2 + p, 2 + p + q), (2 + p + q, 2 + p + q + a)] if totals else [] for p, q, a in lengths
    ]
    return replace(Strip.from_sequences(tokens), parts=torch.tensor(parts).view(-1, 3, 2))


def reference_scores(model: Model, strip: Strip) -> Tensor:
    """Return the score of each sequence, computed token by token."""
    head, hidden = model.head, model.encoder(strip)
    assert isinstance(head, CoMatchingHead)
    assert strip.parts is not None
    scores = []
    for start, bounds in zip(strip.offsets.tolist(), strip.parts.tolist(), strict=False):
        p, q, a = (hidden[start + first : start + end] for first, end in bounds)
        vectors = [reference_match(head, *pair) for pair in ((p, q), (p, a), (q, a))]
        scores.append((head.out.weight[0] @ torch.cat(vectors)) + head.out.bias[0])
    return torch.stack(scores)


def reference_match(head: CoMatchingHead, first: Tensor, second: Tensor) -> Tensor:
    """Return the vector of a pair of parts, `[hidden]`."""
    width = SMALL.hidden_size
    if not len(first) or not len(second):
        return torch.zeros(width)
    weight = head.attention.weight
    directions = []
    for layer, readers, read, matrix in (
        (head.first, first, second, weight),
        (head.second, second, first, weight.T),
    ):
        rows = []
        for token in readers:
            logits = torch.stack([(matrix @ token) @ other / width**0.5 for other in read])
            attended = sum(
                share * other for share, other in zip(functional.softmax(logits, 0), read, strict=True)
            )
            rows.append(torch.relu(layer.weight @ attended + layer.bias))
        directions.append(torch.stack(rows).max(0).values)
    a, b = directions
    gate = torch.sigmoid(head.gate.weight[:, :width] @ a + head.gate.weight[:, width:] @ b + head.gate.bias)
    return gate * a + (1 - gate) * b


@torch.no_grad()
@pytest.mark.parametrize(
    "lengths", [LENGTHS, LENGTHS[:2], LENGTHS[4:6], [(0, 0, 3), (0, 0, 1)], [(0, 0, 0)] * 2]
)
def test_logits_equal_those_of_the_reference(lengths: list[Lengths]) -> None:
    model, strip = make_model(), strip_of_parts(lengths)
    logits = model(strip).logits
    assert logits.shape == (len(lengths) // 2, 2)
    expected = reference_scores(model, strip)
    torch.testing.assert_close(logits.flatten(), expected, atol=1e-5, rtol=1e-5)


def test_gradients_equal_those_of_the_reference() -> None:
    model, strip, targets = make_model(), strip_of_parts(LENGTHS), torch.tensor([0, 1, 1, 0])
    logits = reference_scores(model, strip).view(-1, 2)
    expected = functional.cross_entropy(logits, targets)
    loss = model(strip, targets).loss
    torch.testing.assert_close(loss, expected)
    for actual, wanted in zip(
        *(torch.autograd.grad(one, list(model.parameters())) for one in (loss, expected)), strict=True
    ):
        assert (actual - wanted).norm() <= 1e-4 * wanted.norm() + 1e-6


PART_LENGTHS = st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 3))


@torch.no_grad()
@settings(max_examples=25, deadline=None)
@given(
    questions=st.lists(st.tuples(PART_LENGTHS, PART_LENGTHS), min_size=1, max_size=6), seed=st.integers(0, 99)
)
def test_scores_do_not_depend_on_the_batch(questions: list[tuple[Lengths, Lengths]], seed: int) -> None:
    model, strip = make_model(), strip_of_parts([option for options in questions for option in options], seed)
    alone = [model(strip.slice(index, index + 2)).logits for index in range(0, len(strip), 2)]
    torch.testing.assert_close(model(strip).logits, torch.cat(alone), atol=1e-5, rtol=0)


@torch.no_grad()
def test_values_of_special_tokens_and_of_other_sequences_are_not_read() -> None:
    head, strip = make_model().head, strip_of_parts(LENGTHS)
    hidden = torch.randn(len(strip.tokens), SMALL.hidden_size, generator=torch.Generator().manual_seed(3))
    expected = head(hidden, strip).logits
    in_part = torch.zeros(len(hidden), dtype=torch.bool)
    assert strip.parts is not None
    for start, bounds in zip(strip.offsets.tolist(), strip.parts.tolist(), strict=False):
        for first, end in bounds:
            in_part[start + first : start + end] = True
    changed = torch.where(in_part[:, None], hidden, 1e9)
    assert torch.equal(head(changed, strip).logits, expected)


@torch.no_grad()
def test_every_part_counts() -> None:
    head, strip = make_model().head, strip_of_parts(LENGTHS[:2])
    hidden = torch.randn(len(strip.tokens), SMALL.hidden_size, generator=torch.Generator().manual_seed(3))
    expected = head(hidden, strip).logits[0, 0]
    for index in (1, 7, 10):  # a token of passage, question and option
        changed = hidden.clone()
        changed[index] += 3
        assert not torch.isclose(head(changed, strip).logits[0, 0], expected, atol=1e-3), index


def test_a_strip_without_sequences_has_a_loss_of_zero_with_gradients() -> None:
    model = make_model()
    output = model(Strip.from_sequences([]), torch.empty(0, dtype=torch.long))
    assert output.logits.shape == (0, 2)
    assert output.loss == 0
    output.loss.backward()
    assert all(parameter.grad is not None for parameter in model.head.parameters())


@torch.no_grad()
def test_bf16_is_close_and_its_scores_are_fp32() -> None:
    model, strip = make_model(), strip_of_parts(LENGTHS)
    expected = model(strip).logits
    model.configure(ComputeOptions(torch.bfloat16))
    actual = model(strip).logits
    assert actual.dtype == torch.float32
    assert (actual - expected).norm() < 0.1 * expected.norm()


def test_dropout_is_of_training_only() -> None:
    model, strip = make_model(replace(HEAD, dropout=0.5)), strip_of_parts(LENGTHS)
    assert torch.equal(model(strip).logits, model(strip).logits)
    model.train()
    assert not torch.equal(model(strip).logits, model(strip).logits)


def test_its_parameters_are_counted() -> None:
    parameters = sum(parameter.numel() for parameter in make_model().head.parameters())
    assert parameters == count_task_parameters(SMALL, HEAD) + 1  # the bias of the score
    own_exits = replace(HEAD, exits="own")
    exit_heads = sum(parameter.numel() for parameter in Model(SMALL, own_exits).exit_heads.parameters())
    added = count_task_parameters(SMALL, own_exits) - count_task_parameters(SMALL, HEAD)
    assert exit_heads == added + SMALL.layers - 1  # a bias each


def test_wrong_use_is_refused() -> None:
    model, strip = make_model(), strip_of_parts(LENGTHS)
    with pytest.raises(InputError, match="got 3 sequences, not a multiple of 2"):
        model(strip.slice(0, 3))
    for parts in (None, torch.zeros(8, 2, 2, dtype=torch.long)):
        with pytest.raises(InputError, match=r"needs strip.parts, the start and end .*: \[8, 3, 2\]"):
            model(replace(strip, parts=parts))
    with pytest.raises(InputError, match="which a padded batch cannot mark"):
        PaddedModel(model)(*strip.to_padded())
    with pytest.raises(SettingError, match='co_matching = true: needs kind = "choice"'):
        HeadSettings("classify", co_matching=True)


@pytest.mark.parametrize(
    "parts",
    [
        torch.zeros(1, 3, 2, dtype=torch.long),
        torch.zeros(2, 6, dtype=torch.long),
        torch.zeros(2, 3, 2),
        torch.tensor([[[2, 1]], [[0, 0]]]),
        torch.tensor([[[0, 1]], [[0, 9]]]),
        torch.tensor([[[-1, 1]], [[0, 0]]]),
    ],
)
def test_strips_with_wrong_parts_are_refused(parts: Tensor) -> None:
    with pytest.raises(InputError, match=r"parts must be \[2, parts, 2\], each with its start and end"):
        replace(Strip.from_sequences([[1, 2, 3], [4, 5]]), parts=parts)


def test_parts_follow_the_sequences_of_a_strip() -> None:
    strip = strip_of_parts(LENGTHS)
    assert strip.parts is not None
    pieces = list(strip.split(24))
    assert len(pieces) > 2
    joined = Strip.cat(pieces)
    for other in (joined, strip.to("cpu")):
        assert other.parts is not None
        assert torch.equal(other.parts, strip.parts)
    assert Strip.cat([strip, Strip.from_sequences([[1]])]).parts is None


@pytest.mark.parametrize(
    "rule", [ExitRule(patience=1), ExitRule(confidence=0.55), ExitRule(quantile=0.7)], ids=str
)
def test_questions_leave_the_strip_with_their_parts(rule: ExitRule) -> None:
    model = make_model(replace(HEAD, exits="shared", learned_exit=True))
    strip, options = strip_of_parts(LENGTHS * 2), model.head_settings.options
    together = forward_with_exits(model, strip, rule)
    for question in range(len(strip) // options):
        alone = forward_with_exits(model, strip.slice(question * options, (question + 1) * options), rule)
        assert int(alone.depths[0]) == int(together.depths[question])
        assert torch.allclose(alone.output.logits[0], together.output.logits[question], atol=1e-5)
    assert int(together.depths.min()) < model.settings.layers
