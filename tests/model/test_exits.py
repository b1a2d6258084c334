"""Exits: losses after every step, and sequences that leave the strip, against one example at a time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.model_fixtures import SMALL, random_strip
from torch import Tensor

from albertine.errors import InputError
from albertine.model.encoder import ComputeOptions
from albertine.model.exits import forward_with_exits
from albertine.model.learned_exit import exit_log_probabilities
from albertine.model.model import Model
from albertine.model.prediction_heads import PredictionOutput
from albertine.model.span_head import SpanTargets
from albertine.model.strip import Strip
from albertine.model.strip_states import StripStates
from albertine.settings import HeadSettings, ModelSettings, SettingError
from albertine.settings.exit_rule import ExitRule, make_exit_rule

HEADS = {
    "classify": HeadSettings("classify", labels=3),
    "multi-label": HeadSettings("multi-label", labels=3),
    "regress": HeadSettings("regress", labels=1),
    "matching": HeadSettings("classify", labels=3, matching=True),
    "choice": HeadSettings("choice", labels=1, options=3),
    "token": HeadSettings("token", labels=3),
    "span": HeadSettings("span"),
    "answerable": HeadSettings("span", answerable=True),
}
PLANS = {
    "shared": replace(SMALL, layers=5),
    "groups": replace(SMALL, layers=4, groups=2),
    "inner groups": replace(SMALL, layers=4, inner_groups=2),
    "unshared": replace(SMALL, layers=4, share="none"),
    "signal": replace(SMALL, layers=5, step_signal=True),
}
# Two numbers whose order decides on a label or an exit, and which are closer than this, are nearly tied:
# sums in another order may exchange them.
NEAR_TIE = 2e-5


def make_model(
    model_settings: ModelSettings,
    head: HeadSettings,
    scale: float = 0.15,
    *,
    own: bool = False,
    learned: bool = False,
) -> Model:
    """Return a model in evaluation mode whose predictions differ between sequences and between steps."""
    head = replace(head, exits="own" if own else "shared", learned_exit=learned)
    model = Model(model_settings, head, seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("norm.weight"):
                size = 4 * scale if ".out." in name and name.startswith(("head", "exit")) else scale
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=size)
    if model.exit_unit is not None:
        with torch.no_grad():
            model.exit_unit.out.weight.mul_(0.2)  # so that no step is sure to be the exit
        model.exit_unit.start_at(0.3)
    return model


@dataclass(frozen=True)
class Expected:
    """Outputs and depth of one prediction, and whether a near tie decided on its depth."""

    outputs: dict[str, Tensor]
    depth: int
    is_near_tie: bool


def tensors(output: Any) -> dict[str, Tensor]:
    return {name: value for name, value in vars(output).items() if isinstance(value, Tensor)}


def distributions(kind: str, outputs: dict[str, Tensor]) -> Iterator[Tensor]:
    """Yield the logits of each choice that one prediction makes, each [choices]."""
    if kind == "answerable":
        yield torch.stack([outputs["answerable_logits"][0], torch.zeros(())])
    if kind in ("span", "answerable"):
        yield outputs["start_logits"]
        yield outputs["end_logits"]
    elif kind == "multi-label":
        yield from (torch.stack([logit, torch.zeros(())]) for logit in outputs["logits"][0])
    else:
        yield from outputs["logits"]


def decision_scores(kind: str, outputs: dict[str, Tensor], strip: Strip) -> Iterator[Tensor]:
    """Yield the scores of what one prediction chooses from, each [choices]; of spans, all valid pairs."""
    if kind not in ("span", "answerable"):
        yield from distributions(kind, outputs)
        return
    if kind == "answerable":
        yield torch.stack([outputs["answerable_logits"][0], torch.zeros(())])
    passage = (strip.segments == strip.segments.max()).nonzero().flatten().tolist()
    start, end = outputs["start_logits"], outputs["end_logits"]
    yield torch.stack([start[i] + end[j] for i in passage for j in passage if i <= j])


def exit_probabilities(model: Model, strip: Strip) -> list[float]:
    """Return the probability that the exit of one prediction is at each step, from all states of [CLS]."""
    assert model.exit_unit is not None
    dense, out = model.exit_unit.dense, model.exit_unit.out
    with torch.no_grad():
        states = list(model.encoder.hidden_states(strip))[:: model.settings.inner_groups]
        cls_hidden = [state[strip.cls_indices] for state in states]
        logits = [
            torch.tanh(torch.cat(pair, 1) @ dense.weight.T + dense.bias) @ out.weight.T + out.bias
            for pair in pairwise(cls_hidden)
        ]
        stops = [float(torch.sigmoid(one.mean())) for one in logits[:-1]] + [1.0]
    return [stop * math.prod(1 - before for before in stops[:step]) for step, stop in enumerate(stops)]


def expected_exit(model: Model, kind: str, strip: Strip, rule: ExitRule) -> Expected:
    """Return the output for one prediction, from one forward pass for each depth."""
    depth = rule.depth or model.settings.layers
    history: list[list[float]] = []
    is_near_tie = False
    for step in range(1, depth + 1):
        with torch.no_grad():
            outputs = tensors(model(strip, depth=step))
        if step == depth:
            return Expected(outputs, step, is_near_tie)
        if rule.quantile is not None:
            total = sum(exit_probabilities(model, strip)[:step])
            is_near_tie |= abs(total - rule.quantile) < NEAR_TIE
            is_final = total >= rule.quantile
        elif rule.confidence is not None:
            probabilities = [float(one.softmax(0).max()) for one in distributions(kind, outputs)]
            is_mean = kind == "token"
            confidence = sum(probabilities) / len(probabilities) if is_mean else min(probabilities)
            is_near_tie |= abs(confidence - rule.confidence) < NEAR_TIE
            is_final = confidence >= rule.confidence
        else:
            if kind == "regress":
                history.append([float(outputs["logits"][0])])
                change = abs(history[-1][0] - history[-2][0]) if step > 1 else math.inf
                is_near_tie |= abs(change - (rule.tolerance or 0.0)) < NEAR_TIE
            else:
                choices = list(decision_scores(kind, outputs, strip))
                history.append([int(one.argmax()) for one in choices])
                for one in choices:
                    top = one.topk(2).values if len(one) > 1 else torch.tensor([1.0, 0.0])
                    is_near_tie |= float(top[0] - top[1]) < NEAR_TIE
            pairs = [
                max(abs(a - b) for a, b in zip(before, after, strict=True)) <= (rule.tolerance or 0.0)
                for before, after in pairwise(history)
            ]
            assert rule.patience is not None
            is_final = len(pairs) >= rule.patience and all(pairs[len(pairs) - rule.patience :])
        if is_final:
            return Expected(outputs, step, is_near_tie)
    raise AssertionError


def check_batch(model: Model, kind: str, strip: Strip, rule: ExitRule) -> list[int]:
    """Check a batch against its predictions one by one; return the depths."""
    width = model.head.sequences_per_prediction
    actual = forward_with_exits(model, strip, rule)
    values = tensors(actual.output)
    assert len(actual.depths) == len(strip) // width
    for index, depth in enumerate(actual.depths.tolist()):
        alone = strip.slice(index * width, (index + 1) * width)
        expected = expected_exit(model, kind, alone, rule)
        if expected.is_near_tie:
            continue
        assert depth == expected.depth
        first, end = int(strip.offsets[index * width]), int(strip.offsets[(index + 1) * width])
        for name, tensor in expected.outputs.items():
            rows = slice(first, end) if name in model.head.token_outputs else slice(index, index + 1)
            assert torch.allclose(values[name][rows], tensor, atol=1e-5), (name, index)
    return actual.depths.tolist()


def test_labels_of_their_own_are_judged_with_the_threshold_of_the_model() -> None:
    model = make_model(PLANS["shared"], HEADS["multi-label"])
    output = PredictionOutput(torch.tensor([[-1.0, -3.0], [2.0, -1.0]]), None)  # 0.27, 0.05; 0.88, 0.27
    strip = random_strip([3, 3])
    for threshold, decisions, confidence in (
        (0.5, [[0, 0], [1, 0]], [0.731, 0.731]),
        (0.2, [[1, 0], [1, 1]], [0.269, 0.269]),
        (0.0, [[1, 1], [1, 1]], [0.047, 0.269]),
    ):
        rule = ExitRule(patience=1, label_threshold=threshold)
        assert model.head.decisions(output, strip, rule).tolist() == decisions
        assert model.head.confidence(output, strip, rule).tolist() == pytest.approx(confidence, abs=1e-3)


RULES = ["patience:1", "patience:2", "confidence:0.5", "confidence:0.9", "learned", "learned:0.9"]


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", HEADS)
def test_a_batch_exits_like_single_examples(kind: str, plan: str, own: bool) -> None:
    model = make_model(PLANS[plan], HEADS[kind], own=own, learned=True)
    strip = random_strip([5, 1, 9, 5, 3, 12, 2, 9, 1, 16, 4, 4], seed=3)
    depths: set[int] = set()
    learned_depths: set[int] = set()
    for text in RULES:
        rule = make_exit_rule(text)
        assert rule is not None
        if kind == "regress":
            if rule.confidence is not None:
                continue
            rule = replace(rule, tolerance=4.0 if rule.patience == 1 else 1.0)
        found = learned_depths if rule.quantile is not None else depths
        found |= set(check_batch(model, kind, strip, rule))
    assert min(len(depths), len(learned_depths)) > 1  # some predictions have left earlier than others


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(sorted(HEADS)),
    lengths=st.lists(st.integers(1, 16), min_size=1, max_size=10),
    text=st.sampled_from([*RULES, "confidence:0.7"]),
    depth=st.sampled_from([None, 1, 3, 8]),
    seed=st.integers(0, 1000),
)
def test_any_batch_exits_like_single_examples(
    kind: str, lengths: list[int], text: str, depth: int | None, seed: int
) -> None:
    rule = make_exit_rule(text, depth)
    assert rule is not None
    if kind == "regress" and rule.quantile is None:
        rule = ExitRule(patience=rule.patience or 2, tolerance=0.3, depth=depth)
    if rule.quantile is not None:
        rule = replace(rule, depth=depth and min(depth, PLANS["shared"].layers))
    if kind == "choice":
        lengths = lengths * 3
    model = make_model(PLANS["shared"], HEADS[kind], learned=True)
    check_batch(model, kind, random_strip(lengths, seed), rule)


def test_finished_sequences_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(PLANS["shared"], HEADS["classify"])
    strip = random_strip([5, 1, 9, 5, 3, 12, 2, 9, 1, 16, 4, 4], seed=3)
    lengths_by_step: list[list[int]] = []
    advance = StripStates.advance

    def recording_advance(self: StripStates, indices: Tensor | None) -> Tensor:
        lengths_by_step.append(self.strip.lengths)
        assert len(self._hidden) == len(self.strip.tokens)
        return advance(self, indices)

    monkeypatch.setattr(StripStates, "advance", recording_advance)
    depths = forward_with_exits(model, strip, ExitRule(patience=1)).depths.tolist()
    for step, lengths in enumerate(lengths_by_step, start=1):
        expected = [length for length, depth in zip(strip.lengths, depths, strict=True) if depth >= step]
        assert lengths == expected
    assert len(lengths_by_step) == max(depths)


def test_a_fixed_depth_is_that_of_the_model() -> None:
    model, strip = make_model(PLANS["shared"], HEADS["classify"]), random_strip([5, 1, 9])
    with torch.no_grad():
        for depth in (1, 3, 5, 9):
            exited = forward_with_exits(model, strip, ExitRule(depth=depth))
            assert torch.equal(exited.output.logits, model(strip, depth=depth).logits)
            assert exited.depths.tolist() == [depth] * 3
        with pytest.raises(InputError, match="only a fully shared model can be deeper"):
            forward_with_exits(make_model(PLANS["groups"], HEADS["classify"]), strip, ExitRule(depth=5))


@pytest.mark.parametrize("kind", ["classify", "token"])
def test_exits_in_bf16_with_spare_rows(kind: str) -> None:
    model = make_model(PLANS["shared"], HEADS[kind], own=True)
    model.configure(ComputeOptions(torch.bfloat16))
    strip = random_strip([5, 1, 9, 5, 3, 12, 2], seed=3)
    exited = forward_with_exits(model, strip, ExitRule(patience=1))
    with torch.no_grad():
        for index, depth in enumerate(exited.depths.tolist()):
            rows = slice(*strip.offsets[index : index + 2].tolist())
            rows = slice(index, index + 1) if kind == "classify" else rows
            expected = model(strip, depth=depth).logits[rows]
            assert torch.allclose(exited.output.logits[rows].float(), expected.float(), atol=0.2)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", HEADS)
def test_training_outputs_are_those_of_every_depth(kind: str, plan: str, own: bool) -> None:
    model = make_model(PLANS[plan], HEADS[kind], own=own)
    strip = random_strip([5, 2, 9, 5, 3, 12], seed=3)
    match kind:
        case "token":
            targets: Any = torch.arange(len(strip.tokens)) % 3
        case "span" | "answerable":
            targets = SpanTargets(torch.ones(6).long(), torch.ones(6).long(), torch.arange(6) % 2)
        case "choice":
            targets = torch.tensor([2, 0])
        case "multi-label":
            targets = torch.arange(18).reshape(6, 3) % 2
        case _:
            targets = torch.arange(6) % 3
    outputs = model.exit_outputs(strip, targets)
    assert len(outputs) == model.settings.layers
    loss = sum(output.loss * step for step, output in enumerate(outputs, start=1))
    gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    assert sum(gradient is None for gradient in gradients) == 0
    naive = [model(strip, targets, depth=step).loss for step in range(1, model.settings.layers + 1)]
    naive_loss = sum(one * step for step, one in enumerate(naive, start=1))
    assert torch.allclose(loss, naive_loss, atol=1e-5)
    for gradient, expected in zip(
        gradients, torch.autograd.grad(naive_loss, list(model.parameters())), strict=True
    ):
        assert torch.allclose(gradient, expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", ["classify", "choice", "token", "answerable"])
def test_outputs_for_a_learned_exit(kind: str, plan: str) -> None:
    model = make_model(PLANS[plan], HEADS[kind], learned=True)
    strip, width = random_strip([5, 2, 9, 5, 3, 12], seed=3), model.head.sequences_per_prediction
    with torch.no_grad():
        outputs, stop_logits = model.learned_exit_outputs(strip, None)
        for output, expected in zip(outputs, model.exit_outputs(strip, None), strict=True):
            for name, values in tensors(expected).items():
                assert torch.equal(getattr(output, name), values)
        probabilities = exit_log_probabilities(stop_logits).exp()
    assert probabilities.shape == (model.settings.layers, len(strip) // width)
    for index, actual in enumerate(probabilities.unbind(1)):
        alone = strip.slice(index * width, (index + 1) * width)
        assert torch.allclose(actual, torch.tensor(exit_probabilities(model, alone)), atol=1e-5)


def test_own_heads_start_as_the_last_one() -> None:
    model = Model(PLANS["shared"], replace(HEADS["classify"], exits="own"), seed=1)
    assert len(model.exit_heads) == 4
    for head in model.exit_heads:
        for name, tensor in model.head.state_dict().items():
            assert torch.equal(head.state_dict()[name], tensor)
    assert model.head_at(5) is model.head is model.head_at(9)
    assert model.head_at(4) is model.exit_heads[3]


def test_exits_need_the_fixed_depth_rule() -> None:
    halting = replace(SMALL, depth_rule="halting")
    with pytest.raises(InputError, match="exits: need depth_rule = fixed; with halting"):
        Model(halting, replace(HEADS["classify"], exits="shared"))
    with pytest.raises(InputError, match="exits: need depth_rule = fixed"):
        forward_with_exits(Model(halting, HEADS["classify"]), random_strip([3]), ExitRule(patience=1))
    assert forward_with_exits(
        Model(halting, HEADS["classify"]).eval(), random_strip([3]), ExitRule(depth=2)
    ).depths.tolist() == [2]
    with pytest.raises(SettingError, match='must be "none" if kind = "mlm"'):
        HeadSettings("mlm", exits="shared")
    with pytest.raises(SettingError, match='learned_exit = true: needs exits = "shared" or "own"'):
        HeadSettings("classify", learned_exit=True)
