"""The same network on padded batches, for export to other engines.

A strip needs lists of lengths in Python, which an exported graph cannot have. Here sequences
are padded to [batch, length], a mask hides the padding, and every operation is plain PyTorch
with shapes that depend on the inputs' shapes only. The weights are those of the model, and
all but attention is the code of the model: the outputs are equal to 1e-5 in fp32.
"""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from albertine.model.attention import multi_head_attention
from albertine.model.model import Model


class PaddedModel(nn.Module):
    """A model that reads padded batches; it shares the model's weights.

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
            input_ids: token ids, [batch, length]; at padding any valid id.
            attention_mask: 1 or True at tokens, 0 or False at padding, anywhere in a row, [batch, length].
            token_type_ids: segment of each token, [batch, length].
            position_ids: position of each token, [batch, length]; by default tokens are counted
                without padding, as in a strip.

        Returns:
            Logits by name, see `Head.logits`, with tokens as [batch, length, ...]. Logits of padding,
            and of rows without tokens, are finite and have no meaning.
        """
        is_token = attention_mask.bool()
        if position_ids is None:
            position_ids = (is_token.cumsum(1) - 1).clamp(min=0)
        hidden = self._encode(input_ids, is_token, token_type_ids, position_ids)
        cls_indices = is_token.long().argmax(1)  # the first token, wherever padding is
        cls_hidden = hidden.gather(1, cls_indices[:, None, None].expand(-1, 1, hidden.shape[2])).squeeze(1)
        return self.model.head.logits(hidden, cls_hidden)

    def _encode(self, ids: Tensor, is_token: Tensor, segments: Tensor, positions: Tensor) -> Tensor:
        """Return the hidden states, [batch, length, hidden]."""
        encoder = self.model.encoder
        options = replace(encoder.compute_options, kernels=False, compile=False, recompute=False)
        attend = partial(
            multi_head_attention,
            heads=encoder.settings.heads,
            dropout=encoder.attention_dropout,
            attention_bias=_attention_bias(is_token, options.dtype),
        )
        embedded = encoder.embedding(ids, segments, positions, options.dtype, options.selected_kernels)
        for hidden in encoder.apply_layers(embedded, attend, options):  # noqa: B007  # keeps only the last one
            pass
        return hidden


def _attention_bias(is_token: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what hides padding, added to the scores: [batch, 1, 1, length].

    The lowest finite value instead of minus infinity, so that a row without tokens has no NaN.
    """
    bias = torch.zeros_like(is_token, dtype=dtype).masked_fill(~is_token, torch.finfo(dtype).min)
    return bias[:, None, None]
