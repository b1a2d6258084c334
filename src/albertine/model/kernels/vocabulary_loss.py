"""The loss over a vocabulary in training on a CPU, for some rows at a time, whose logits stay in the cache.

The plain version writes the logits of all rows to memory, and reads and writes them again for the
softmax and for each gradient. Here the softmax and all gradients of some rows are done before the
next rows begin, in the forward pass; the backward pass only scales them.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_CHUNK_ELEMENTS = 1 << 20  # logits at a time: 4 MB


def vocabulary_loss(values: Tensor, decoder: Tensor, bias: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of the cross-entropies of rows, and the number of rows whose label is most probable.

    Args:
        values: what the decoder maps to logits, [rows, width], fp32.
        decoder: weight of the decoder, [vocab, width].
        bias: bias of the decoder, [vocab].
        labels: the correct index of each row, [rows]; rows with -100 do not count.
    """
    is_target = labels != -100
    if not is_target.all():
        values, labels = values[is_target], labels[is_target]
    loss, correct = _VocabularyLoss.apply(values, decoder, bias, labels)  # type: ignore[no-untyped-call]
    return loss, correct


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, decoder: Tensor, bias: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        gradients = torch.empty_like(values), torch.zeros_like(decoder), torch.zeros_like(bias)
        loss, correct = values.new_zeros(()), labels.new_zeros(())
        chunk_rows = max(16, _CHUNK_ELEMENTS // len(decoder))
        for rows, some_labels, gradient in zip(
            values.split(chunk_rows), labels.split(chunk_rows), gradients[0].split(chunk_rows), strict=True
        ):
            logits = torch.addmm(bias, rows, decoder.T)
            targets, largest = logits.gather(1, some_labels[:, None]), logits.amax(1, keepdim=True)
            correct += (targets == largest).sum()
            exponentials = logits.sub_(largest).exp_()
            total = exponentials.sum(1, keepdim=True)
            loss += (total.log() + largest - targets).sum()
            # The gradient of the logits: the probabilities, less one for the label.
            logit_gradients = exponentials.div_(total)
            logit_gradients.scatter_add_(1, some_labels[:, None], torch.full_like(targets, -1.0))
            torch.mm(logit_gradients, decoder, out=gradient)
            gradients[1].addmm_(logit_gradients.T, rows)
            gradients[2].add_(logit_gradients.sum(0))
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(correct)
        return loss, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        return *(gradient * loss_gradient if is_needed else None for gradient, is_needed in gradients), None
