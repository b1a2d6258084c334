"""The loss over the vocabulary, some rows at a time: equal to the plain version."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from albertine.model.kernels import vocabulary_loss as module
from albertine.model.kernels.vocabulary_loss import vocabulary_loss


def _inputs(rows: int, vocab: int) -> tuple[list[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(rows)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    labels = torch.randint(vocab, (rows,), generator=generator)
    return [normal(rows, 24), normal(vocab, 24), normal(vocab)], labels


def _loss_and_gradients(inputs: list[Tensor], labels: Tensor, *, plain: bool) -> tuple[list[Tensor], int]:
    values, decoder, bias = (tensor.clone().requires_grad_() for tensor in inputs)
    if plain:
        logits = functional.linear(values, decoder.to(values.dtype), bias.to(values.dtype))
        logits = logits.to(decoder.dtype)
        loss = functional.cross_entropy(logits, labels, reduction="sum")
        correct = (logits.argmax(1) == labels).sum()
    else:
        loss, correct = vocabulary_loss(values, decoder, bias, labels)
    (loss / 7).backward()
    gradients = [tensor.grad for tensor in (values, decoder, bias)]
    return [loss.detach(), *(gradient for gradient in gradients if gradient is not None)], int(correct)


@pytest.mark.parametrize("rows", [1, 16, 33, 100])
@pytest.mark.parametrize("ignored", [False, True])
def test_values_and_gradients_are_exact(rows: int, ignored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK_ELEMENTS", 20 * 50)
    inputs, labels = _inputs(rows, 50)
    labels[0] = (inputs[0] @ inputs[1].T + inputs[2]).argmax(1)[0]
    if ignored:
        labels[rows // 2 :: 3] = -100
    expected, expected_correct = _loss_and_gradients(inputs, labels, plain=True)
    actual, correct = _loss_and_gradients(inputs, labels, plain=False)
    assert correct == expected_correct
    for value, expected_value in zip(actual, expected, strict=True):
        torch.testing.assert_close(value, expected_value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_lower_precision_is_as_accurate_as_the_plain_version(dtype: torch.dtype) -> None:
    inputs, labels = _inputs(307, 2000)  # in bf16, there are spare rows
    exact, _ = _loss_and_gradients(inputs, labels, plain=True)
    narrow = [inputs[0].to(dtype), *(tensor.float() for tensor in inputs[1:])]
    plain, plain_correct = _loss_and_gradients(narrow, labels, plain=True)
    actual, correct = _loss_and_gradients(narrow, labels, plain=False)
    assert abs(correct - plain_correct) <= 1  # the plain version has ties of logits in bf16
    for value, plain_value, exact_value in zip(actual, plain, exact, strict=True):
        assert (value - exact_value).norm() <= 2 * (
            plain_value - exact_value
        ).norm() + 1e-7 * exact_value.norm()


def test_large_logits_do_not_overflow() -> None:
    inputs, labels = _inputs(20, 50)
    actual, _ = _loss_and_gradients(
        [1000 * inputs[0].float(), *map(Tensor.float, inputs[1:])], labels, plain=False
    )
    assert all(value.isfinite().all() for value in actual)


def test_frozen_decoder_gets_no_gradient() -> None:
    inputs, labels = _inputs(20, 50)
    values = inputs[0].requires_grad_()
    vocabulary_loss(values, inputs[1], inputs[2], labels)[0].backward()
    assert values.grad is not None
    assert inputs[1].grad is None
