"""Tests of the comparison of two texts: a plain reference, batches, exports' rows, wrong use."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.model_fixtures import SMALL
from tests.model.test_padded import make_model
from torch import Tensor
from torch.nn import functional

from albertine.model.encoder import ComputeOptions
from albertine.model.exits import forward_with_exits
from albertine.model.model import Model
from albertine.model.padded import PaddedModel
from albertine.model.parameter_counts import count_task_parameters
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, SettingError
from albertine.settings.exit_rule import ExitRule

HEAD = HeadSettings("classify", labels=3, matching=True)


def strip_of_pairs(lengths: list[tuple[int, int]], seed: int = 0) -> Strip:
    """Return a strip of random tokens whose sequences have so many in segments 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    tokens = [torch.randint(0, 61, (sum(pair),), generator=generator).tolist() for pair in lengths]
    return Strip.from_sequences(tokens, [[0] * first + [1] * second for first, second in lengths])


def reference_logits(model: Any, strip: Strip) -> Tensor:
    """Return the logits by loops over the sequences, as the documentation of the module has them."""
    head, rows = model.head, []
    for hidden, segments in zip(
        *map(strip_split(strip), (model.encoder(strip), strip.segments)), strict=True
    ):
        width = hidden.shape[1]
        z = (hidden - hidden.mean(1, keepdim=True)) / (
            hidden.var(1, keepdim=True, correction=0) + 1e-5
        ).sqrt()
        query, key = z + z @ head.matching.query.weight.T, z + z @ head.matching.key.weight.T
        compared: list[list[Tensor]] = [[], []]
        for i, segment in enumerate(segments.tolist()):
            others = [j for j in range(len(z)) if segments[j] != segment]
            if others:
                scores = torch.stack([32 / width * query[i] @ key[j] for j in others]).softmax(0)
                other = sum(score * z[j] for score, j in zip(scores, others, strict=True))
                features = torch.cat([z[i], other, z[i] - other, z[i] * other])
                compared[segment].append(functional.gelu(head.matching.dense(features)))
        means = [torch.stack(one).mean(0) if one else torch.zeros(width) for one in compared]
        rows.append(head.out(torch.cat([head.pooler(hidden[0]), *means])))
    return torch.stack(rows)


def strip_split(strip: Strip) -> Any:
    return lambda values: values.split(strip.lengths)


LENGTHS = [(5, 3), (2, 6), (5, 3), (4, 0), (1, 1), (9, 2)]


@torch.no_grad()
def test_logits_are_those_of_the_reference() -> None:
    model, strip = make_model(head=HEAD), strip_of_pairs(LENGTHS)
    expected = reference_logits(model, strip)
    torch.testing.assert_close(model(strip).logits, expected, rtol=1e-4, atol=1e-5)
    assert expected.std() > 0.01


@torch.no_grad()
@settings(max_examples=25)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8)), min_size=1, max_size=8),
    kind=st.sampled_from(["classify", "multi-label", "regress"]),
)
def test_batches_padding_and_packed_rows_do_not_matter(lengths: list[tuple[int, int]], kind: Any) -> None:
    model = make_model(head=HeadSettings(kind, labels=1 if kind == "regress" else 3, matching=True))
    strip = strip_of_pairs(lengths, seed=len(lengths))
    logits = model(strip).logits
    alone = torch.cat([model(strip.slice(i, i + 1)).logits for i in range(len(strip))])
    torch.testing.assert_close(logits, alone, rtol=1e-4, atol=1e-5)
    padded = PaddedModel(model)(*strip.to_padded())["logits"]
    torch.testing.assert_close(logits, padded, rtol=1e-4, atol=1e-5)


def test_gradients_reach_every_weight_and_are_finite() -> None:
    model: Any = Model(SMALL, HEAD, seed=1)
    model(strip_of_pairs(LENGTHS), torch.arange(len(LENGTHS)) % 3).loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_a_process_without_sequences_gives_every_weight_a_gradient() -> None:
    model: Any = Model(SMALL, HEAD, seed=1)
    model(Strip.from_sequences([]), torch.empty(0, dtype=torch.long)).loss.backward()
    without = [name for name, one in model.head.named_parameters() if one.grad is None]
    assert not without


@torch.no_grad()
def test_a_new_head_attends_to_the_same_word() -> None:
    """The texts share no position, so that only the tokens can be matched."""
    model: Any = Model(SMALL, HEAD, seed=1).eval()
    states = torch.randn(8, SMALL.hidden_size, generator=torch.Generator().manual_seed(3))
    hidden = torch.cat([states, states.flip(0)])
    query, key = model.head.matching._queries_and_keys(functional.layer_norm(hidden, hidden.shape[-1:]))
    best = (query[:8] @ key[8:].T).argmax(1)
    assert best.tolist() == list(range(7, -1, -1))


@torch.no_grad()
def test_one_text_and_no_text() -> None:
    model: Any = make_model(head=HEAD)
    strip = strip_of_pairs([(4, 0), (6, 0)])
    assert model.head.matching(model.encoder(strip), strip).abs().max() == 0
    assert model(strip).logits.isfinite().all()
    assert model(Strip.from_sequences([])).logits.shape == (0, 3)


@torch.no_grad()
def test_exits_are_those_of_single_examples() -> None:
    model, strip = make_model(head=HEAD), strip_of_pairs(LENGTHS)
    rule = ExitRule(confidence=0.55)
    together = forward_with_exits(model, strip, rule)
    alone = [forward_with_exits(model, strip.slice(i, i + 1), rule) for i in range(len(strip))]
    assert together.depths.tolist() == [int(one.depths) for one in alone]
    assert len(set(together.depths.tolist())) > 1
    logits = torch.cat([one.output.logits for one in alone])
    torch.testing.assert_close(together.output.logits, logits, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_bf16_is_close() -> None:
    model, strip = make_model(head=HEAD), strip_of_pairs(LENGTHS)
    expected = model(strip).logits
    model.configure(ComputeOptions(dtype=torch.bfloat16))
    logits = model(strip).logits
    assert logits.dtype == torch.float32
    assert (logits - expected).abs().max() < 0.1 * expected.abs().max()


def test_parameters_are_counted() -> None:
    model = Model(SMALL, HEAD)
    named = model.head.named_parameters()
    own = sum(parameter.numel() for name, parameter in named if not name.startswith("pooler"))
    assert count_task_parameters(SMALL, HEAD) == own - HEAD.labels  # without the biases of `out`


@pytest.mark.parametrize("kind", ["choice", "token", "span", "pretrain"])
def test_other_heads_refuse_it(kind: Any) -> None:
    message = 'matching = true: needs kind = "classify", "multi-label" or "regress"'
    with pytest.raises(SettingError, match=message):
        HeadSettings(kind, labels=1, matching=True)
