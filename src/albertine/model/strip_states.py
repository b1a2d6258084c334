"""The hidden states of a strip, one step of depth after another, with sequences removed in between."""

from functools import partial

from torch import Tensor

from albertine.errors import InputError
from albertine.model.depth_plan import depth_plan
from albertine.model.encoder import Encoder
from albertine.model.layers import AttentionFunction
from albertine.model.strip import Strip
from albertine.settings import ModelSettings


class StripStates:
    """The hidden states of a strip, advanced step by step, from which sequences can be removed.

    Attributes:
        strip: the sequences that are left.
    """

    def __init__(self, encoder: Encoder, strip: Strip, depth: int):
        """Compute the embedding.

        Args:
            encoder: the encoder, whose depth rule must be "fixed".
            strip: the sequences.
            depth: number of steps that will be taken.
        """
        check_can_exit(encoder.settings)
        self.strip, self._encoder, self._depth = strip, encoder, depth
        self._layout, self._dropout = encoder.layout(strip), encoder.attention_dropout
        self._attend_now = self._attention()
        self._hidden = encoder.embed(strip, self._layout)
        plan = depth_plan(encoder.settings, depth)
        self._layer = encoder.layer_function(plan, self._attend, encoder.compute_options)
        self._step = 0

    def _attend(self, qkv: Tensor) -> Tensor:
        """Return the attention of the sequences that are left, [rows, hidden]."""
        return self._attend_now(qkv)

    def _attention(self) -> AttentionFunction:
        """Return the attention function for the current strip."""
        encoder = self._encoder
        attend = partial(
            encoder.compute_options.selected_kernels.attention,
            layout=self._layout,
            heads=encoder.settings.heads,
            dropout=self._dropout,
        )
        return encoder.with_positions(attend, self._layout.sort(self.strip.positions))

    def advance(self, indices: Tensor | None) -> Tensor:
        """Take the next step; return the hidden states of all tokens or of some, [tokens, hidden].

        Args:
            indices: indices in the strip of the tokens to return; None for all. Only these have an output
                in the last step.
        """
        options = self._encoder.compute_options
        rows = None
        if indices is not None:
            rows = options.selected_kernels.pad_rows(self._layout.rows(indices), options.dtype)
        layers = self._encoder.settings.inner_groups
        is_last = self._step == self._depth - 1
        for number in range(self._step * layers, (self._step + 1) * layers):
            is_last_layer = is_last and number == (self._step + 1) * layers - 1
            self._hidden = self._layer(self._hidden, number, rows if is_last_layer else None)
        self._step += 1
        if indices is None or rows is None:
            return self._layout.restore_order(self._encoder.normalized_output(self._hidden))
        hidden = self._hidden if is_last else self._hidden.index_select(0, rows)
        return self._encoder.normalized_output(hidden).narrow(0, 0, len(indices))

    def cls_hidden(self) -> Tensor:
        """Return the current hidden state of the first token of each sequence, [sequences, hidden].

        Call it before the last step, after which only the states that `advance` has returned exist.
        """
        hidden = self._hidden.index_select(0, self._layout.rows(self.strip.cls_indices))
        return self._encoder.normalized_output(hidden)

    def keep(self, sequences: Tensor) -> Tensor:
        """Remove all other sequences; return the indices that the tokens had in the strip, [tokens].

        Args:
            sequences: indices of the sequences to keep, in order, on the CPU.
        """
        self.strip, indices = self.strip.select(sequences)
        old_layout, self._layout = self._layout, self._encoder.layout(self.strip)
        self._attend_now = self._attention()
        self._hidden = self._hidden.index_select(0, old_layout.rows(self._layout.sort(indices)))
        return indices


def check_can_exit(settings: ModelSettings) -> None:
    """Raise `InputError` if sequences cannot leave the strip between the steps of a model."""
    if settings.depth_rule != "fixed":
        raise InputError(
            f"exits: need depth_rule = fixed; with {settings.depth_rule}, an output is of several steps"
        )
