"""The encoder: an embedding, a few blocks, and a plan of the order in which depth uses them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from albertine.model.attention import AttentionLayout
from albertine.model.depth_plan import depth_plan
from albertine.model.kernels.selection import Kernels
from albertine.model.layers import (
    Attention,
    AttentionFunction,
    AttentionWeights,
    Embedding,
    FeedForward,
    FeedForwardWeights,
    LayerOptions,
    encoder_layer,
    gelu_approximation,
)
from albertine.model.strip import Strip
from albertine.settings import ModelSettings


@dataclass(frozen=True)
class ComputeOptions:
    """How to compute: precision, memory and speed. No option changes a weight.

    Attributes:
        dtype: precision of the matrix products; weights stay in fp32.
        recompute: keep only the input of each layer for the backward pass, and run the layer again there.
        compile: compile the part of a layer between two attentions, once for all layers.
        kernels: use machine-specific kernels; False computes everything in plain PyTorch.
    """

    dtype: torch.dtype = torch.float32
    recompute: bool = False
    compile: bool = False
    kernels: bool = True

    @property
    def selected_kernels(self) -> Kernels:
        """The implementations that these options ask for."""
        return Kernels(enabled=self.kernels, compile=self.compile)


class Encoder(nn.Module):
    """Maps a strip to a hidden state of width H for each of its tokens."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.settings = settings
        self.embedding = Embedding(settings)
        self.attention = nn.ModuleList(Attention(settings) for _ in range(settings.attention_block_count))
        self.ffn = nn.ModuleList(FeedForward(settings) for _ in range(settings.ffn_block_count))
        self.compute_options = ComputeOptions()  # set by Model.configure

    def forward(self, strip: Strip, *, depth: int | None = None) -> Tensor:
        """Return the hidden states of a strip, [tokens, hidden].

        Args:
            strip: the sequences.
            depth: number of layers to apply, fewer than the model has, or more if all are shared.
        """
        layout = self._layout(strip)
        for hidden in self._encode_rows(strip, layout, depth):  # noqa: B007  # keeps only the last one
            pass
        return layout.restore_order(hidden)

    def hidden_states(self, strip: Strip, *, depth: int | None = None) -> Iterator[Tensor]:
        """Yield the output of the embedding and of each layer, [tokens, hidden]."""
        layout = self._layout(strip)
        yield from map(layout.restore_order, self._encode_rows(strip, layout, depth))

    def _layout(self, strip: Strip) -> AttentionLayout:
        options = self.compute_options
        return options.selected_kernels.layout(strip, options.dtype)

    def _encode_rows(self, strip: Strip, layout: AttentionLayout, depth: int | None) -> Iterator[Tensor]:
        """Yield the output of the embedding and of each layer in the order of the layout, [rows, hidden]."""
        options, kernels = self.compute_options, self.compute_options.selected_kernels
        self.embedding.check_ids(strip)
        ids = (layout.sort(values) for values in (strip.tokens, strip.segments, strip.positions))
        hidden = self.embedding(*ids, options.dtype, kernels)
        attend = partial(
            kernels.attention, layout=layout, heads=self.settings.heads, dropout=self.attention_dropout
        )
        yield from self.apply_layers(hidden, attend, options, depth)

    def apply_layers(
        self, hidden: Tensor, attend: AttentionFunction, options: ComputeOptions, depth: int | None = None
    ) -> Iterator[Tensor]:
        """Yield embedded tokens, [..., hidden], and then the output of each layer of the depth plan.

        Args:
            hidden: output of the embedding.
            attend: attention over queries, keys and values of these tokens.
            options: how to compute.
            depth: number of layers to apply, see `forward`.
        """
        plan = depth_plan(self.settings, depth)
        attentions = {index: self._attention_weights(index, options) for index, _ in plan}
        feed_forwards = {index: self._ffn_weights(index, options) for _, index in plan}
        # Rates are read here: recomputation in the backward pass must use those of the forward pass.
        layer_options = LayerOptions(
            self.settings.norm_epsilon,
            gelu_approximation(self.settings),
            self.settings.dropout if self.training else 0.0,
            options.selected_kernels,
        )
        apply_layer = partial(encoder_layer, attend=attend, options=layer_options)
        yield hidden
        for step in plan:
            weights = attentions[step.attention], feed_forwards[step.ffn]
            if options.recompute and torch.is_grad_enabled():
                hidden = checkpoint(apply_layer, hidden, *weights, use_reentrant=False)
            else:
                hidden = apply_layer(hidden, *weights)
            yield hidden

    @property
    def attention_dropout(self) -> float:
        """Dropout rate of the attention weights; 0 in evaluation."""
        return self.settings.attention_dropout if self.training else 0.0

    def _attention_weights(self, index: int, options: ComputeOptions) -> AttentionWeights:
        block = self.attention[index]
        assert isinstance(block, Attention)
        return block.cast_weights(options.dtype)

    def _ffn_weights(self, index: int, options: ComputeOptions) -> FeedForwardWeights:
        block = self.ffn[index]
        assert isinstance(block, FeedForward)
        return block.cast_weights(options.dtype)
