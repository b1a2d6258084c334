"""The same network on padded batches, for export to other engines.

A strip has its sequence lengths as a Python list, and an exported graph cannot depend on one.
Here a batch is [rows, length], a mask hides the padding, and every operation is plain PyTorch with
shapes that depend on the inputs' shapes only. A row is one sequence, or several that its mask
numbers: 1, 1, 1, 2, 2, 0 is a sequence of three tokens, one of two, and padding. So an engine that
only knows rows of equal length computes little padding. All weights, and all code except attention,
are those of the model; in fp32 the outputs are equal to 1e-5.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from albertine.model.attention import multi_head_attention
from albertine.model.match_marks import matches_in_rows
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
        """Return the logits of the head, for rows of one sequence each.

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
        hidden = self.hidden(input_ids, attention_mask, token_type_ids, position_ids)
        head, is_visible = self.model.head, visible_tokens(attention_mask)
        states = head.sequence_states(hidden, is_visible, token_type_ids)
        return head.logits(hidden, first_tokens(states, attention_mask))

    def hidden(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """Return what a head reads, [batch, length, hidden]; see `forward`.

        In `attention_mask`, the tokens of each sequence of a row have a number of their own from 1.
        """
        for hidden in self.states(input_ids, attention_mask, token_type_ids, position_ids):  # noqa: B007
            pass  # only the last is used
        return self.model.encoder.normalized_output(hidden)

    def states(
        self,
        ids: Tensor,
        mask: Tensor,
        segments: Tensor,
        positions: Tensor | None = None,
        *,
        kernels: bool = False,
    ) -> Iterator[Tensor]:
        """Yield the output of the embedding and of each layer, [batch, length, hidden].

        Heads read `Encoder.normalized_output` of them; the arguments are those of `hidden`. With `kernels`,
        operations other than attention use the kernels that the model would use, which cannot be exported.
        """
        encoder = self.model.encoder
        kernels = kernels and encoder.compute_options.kernels
        options = replace(
            encoder.compute_options,
            kernels=kernels,
            compile=False,
            recompute=False,
            factored_differences=True,  # an engine would keep the sums of all layers
        )
        is_visible = visible_tokens(mask)
        if positions is None:
            # The number of tokens before each. OpenVINO 2026.4 is wrong if a number is subtracted from the
            # sum, where there are more rows than tokens in a row.
            positions = is_visible.tril(-1).sum(2)
        attend = partial(
            multi_head_attention,
            heads=encoder.settings.heads,
            dropout=encoder.attention_dropout,
            attention_bias=attention_bias(is_visible, options.dtype),
        )
        is_match = matches_in_rows(ids, segments, is_visible) if encoder.settings.mark_matches else None
        embedded = encoder.embedding(
            ids, segments, positions, is_match, options.dtype, options.selected_kernels
        )
        yield from encoder.apply_layers(embedded, encoder.with_positions(attend, positions), options)


def first_tokens(values: Tensor, mask: Tensor) -> Tensor:
    """Return the values of the first token of each row, wherever padding is: [batch, ...]."""
    return values[torch.arange(values.shape[0], device=values.device), mask.bool().long().argmax(1)]


def visible_tokens(mask: Tensor) -> Tensor:
    """Return whether a token attends to another, which padding is not, [batch, length, length]."""
    return (mask[:, :, None] == mask[:, None]) & mask.bool()[:, None]


def attention_bias(is_visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the bias of the scores that hides padding and other sequences, [batch, 1, length, length].

    The bias is the lowest finite value instead of minus infinity, so that a sequence without tokens
    gives no NaN.
    """
    bias = torch.zeros_like(is_visible, dtype=dtype).masked_fill(~is_visible, torch.finfo(dtype).min)
    return bias[:, None]
