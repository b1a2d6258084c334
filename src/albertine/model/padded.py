"""The same network on padded batches, for export to other engines.

A strip has its sequence lengths as a Python list, and an exported graph cannot depend on one.
Here sequences are padded to [batch, length], a mask hides the padding, and every operation is
plain PyTorch with shapes that depend on the inputs' shapes only. All weights, and all code except
attention, are those of the model; in fp32 the outputs are equal to 1e-5.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from albertine.model.attention import multi_head_attention
from albertine.model.model import Model


class PaddedModel(nn.Module):
    """A model on padded batches, with the same parameters as the given model.

    Example:
        program = torch.export.export(PaddedModel(model).eval(), inputs, dynamic_shapes=shapes)
    """

    def __init__(self, model: Model):
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor,
        position_ids: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the logits of the head.

        Args:
            input_ids: token ids, [batch, length]; any valid id at padding.
            attention_mask: 1 or True at tokens, 0 or False at padding, [batch, length]; padding may be
                anywhere in a sequence.
            token_type_ids: segment of each token, [batch, length].
            position_ids: position of each token, [batch, length]; by default padding is not counted,
                as in a strip.

        Returns:
            Logits by name, see `Head.logits`, those of tokens as [batch, length, ...]. Logits of
            padding, and of sequences without tokens, are finite and have no meaning.
        """
        is_token = attention_mask.bool()
        if position_ids is None:
            position_ids = (is_token.cumsum(1) - 1).clamp(min=0)
        for hidden in self.states(input_ids, is_token, token_type_ids, position_ids):  # noqa: B007
            pass  # only the last is used
        hidden = self.model.encoder.normalized_output(hidden)
        cls_indices = is_token.long().argmax(1)  # the first token, wherever padding is
        cls_hidden = hidden.gather(1, cls_indices[:, None, None].expand(-1, 1, hidden.shape[2])).squeeze(1)
        return self.model.head.logits(hidden, cls_hidden)

    def states(self, ids: Tensor, is_token: Tensor, segments: Tensor, positions: Tensor) -> Iterator[Tensor]:
        """Yield the output of the embedding and of each layer, [batch, length, hidden].

        Heads read `Encoder.normalized_output` of them.

        Args:
            ids: token ids, [batch, length].
            is_token: whether a position is a token, in place of padding, [batch, length].
            segments: segment of each token, [batch, length].
            positions: position of each token, [batch, length].
        """
        encoder = self.model.encoder
        options = replace(encoder.compute_options, kernels=False, compile=False, recompute=False)
        attend = partial(
            multi_head_attention,
            heads=encoder.settings.heads,
            dropout=encoder.attention_dropout,
            attention_bias=_attention_bias(is_token, options.dtype),
        )
        embedded = encoder.embedding(ids, segments, positions, options.dtype, options.selected_kernels)
        yield from encoder.apply_layers(embedded, encoder.with_positions(attend, positions), options)


def _attention_bias(is_token: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bias of the scores that hides padding, [batch, 1, 1, length].

    The bias is the lowest finite value instead of minus infinity, so that a sequence without tokens
    gives no NaN.
    """
    bias = torch.zeros_like(is_token, dtype=dtype).masked_fill(~is_token, torch.finfo(dtype).min)
    return bias[:, None, None]
