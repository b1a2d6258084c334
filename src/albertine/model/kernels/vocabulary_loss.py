"""The loss over a vocabulary in training on a CPU, for some rows at a time, whose logits stay in the cache.

The plain version writes the logits of all rows to memory, and reads and writes them again for the
softmax and for each gradient. Here the softmax and all gradients of some rows are done before the
next rows begin, in the forward pass; the backward pass only scales them.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from albertine.model.kernels.spare_rows import rounded_row_count

# Logits at a time. In bf16, where products take less time, adding up the decoder's gradient takes more of it.
_CHUNK_ELEMENTS, _CHUNK_ELEMENTS_BF16 = 1 << 20, 1 << 21
_IGNORED = -100


def vocabulary_loss(values: Tensor, decoder: Tensor, bias: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of the cross-entropies of rows, and the number of rows whose label is most probable.

    The products have the precision of `values`, all sums that of `decoder`.

    Args:
        values: what the decoder maps to logits, [rows, width].
        decoder: weight of the decoder, [vocab, width].
        bias: bias of the decoder, [vocab].
        labels: the correct index of each row, [rows]; rows with -100 do not count.
    """
    if values.dtype == torch.bfloat16:  # few shapes, as in `spare_rows`
        spare_rows = rounded_row_count(len(values)) - len(values)
        values = functional.pad(values, (0, 0, 0, spare_rows))
        labels = functional.pad(labels, (0, spare_rows), value=_IGNORED)
    loss, correct = _VocabularyLoss.apply(values, decoder, bias, labels)  # type: ignore[no-untyped-call]
    return loss, correct


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, decoder: Tensor, bias: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        gradients = torch.empty_like(values), torch.zeros_like(decoder), torch.zeros_like(bias)
        loss, correct = decoder.new_zeros(()), labels.new_zeros(())
        narrow_decoder = decoder.to(values.dtype)
        chunk_elements = _CHUNK_ELEMENTS_BF16 if values.dtype == torch.bfloat16 else _CHUNK_ELEMENTS
        chunk_rows = max(16, chunk_elements // len(decoder))
        for rows, some_labels, gradient in zip(
            values.split(chunk_rows),
            labels[:, None].split(chunk_rows),
            gradients[0].split(chunk_rows),
            strict=True,
        ):
            is_target, indices = some_labels != _IGNORED, some_labels.clamp(min=0)
            logits = torch.mm(rows, narrow_decoder.T).to(decoder.dtype).add_(bias)
            targets, largest = logits.gather(1, indices), logits.amax(1, keepdim=True)
            correct += ((targets == largest) & is_target).sum()
            exponentials = logits.sub_(largest).exp_()
            total = exponentials.sum(1, keepdim=True)
            loss += ((total.log() + largest - targets) * is_target).sum()
            # The gradient of the logits: the probabilities, less one for the label.
            logit_gradients = exponentials.mul_(is_target / total)
            logit_gradients.scatter_add_(1, indices, -is_target.to(decoder.dtype))
            gradients[2].add_(logit_gradients.sum(0))
            logit_gradients = logit_gradients.to(values.dtype)
            torch.mm(logit_gradients, narrow_decoder, out=gradient)
            _add_product(gradients[1], logit_gradients.T, rows)
        ctx.save_for_backward(*gradients)
        ctx.mark_non_differentiable(correct)
        return loss, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, loss_gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients = zip(ctx.saved_tensors, ctx.needs_input_grad, strict=False)
        return *(gradient * loss_gradient if is_needed else None for gradient, is_needed in gradients), None


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """Add the product of two matrices to a total, which may have a higher precision."""
    if a.dtype == total.dtype:
        total.addmm_(a, b)
    else:
        total.add_(torch.mm(a, b))
