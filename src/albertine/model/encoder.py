"""The encoder: an embedding, then attention and feed-forward blocks in the order of the depth plan."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from albertine.model.attention import AttentionLayout, one_query_attention
from albertine.model.depth_plan import BlockIndices, depth_plan, unshared_blocks
from albertine.model.depth_rules import Halting, LayerFunction, StepSignal, equilibrium, fixed_depth
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
    encoder_layer_at,
    gelu_approximation,
)
from albertine.model.match_marks import matches_in_strip
from albertine.model.rotary import Rotation, rotate
from albertine.model.step_differences import StepDifferences
from albertine.model.strip import Strip
from albertine.settings import ModelSettings


@dataclass(frozen=True)
class ComputeOptions:
    """Options of precision, memory use and speed; none of them changes the model.

    Attributes:
        dtype: precision of the matrix products; weights stay in fp32.
        recompute: gradient checkpointing: keep only the input of each layer for the backward pass, which
            recomputes the layer; with `step_rank`, also the matrices of each layer.
        compile: compile the part of a layer after its attention; all layers use the same compiled function.
        kernels: use machine-specific kernels; False computes everything in plain PyTorch.
        factored_differences: with `step_rank`, multiply by the factors of a difference, not by the sum of
            shared matrix and difference, so that all layers use the very same matrices.
    """

    dtype: torch.dtype = torch.float32
    recompute: bool = False
    compile: bool = False
    kernels: bool = True
    factored_differences: bool = False

    @property
    def selected_kernels(self) -> Kernels:
        """The implementations that these options select."""
        return Kernels(enabled=self.kernels, compile=self.compile)


class Encoder(nn.Module):
    """Maps a strip to the hidden states of its tokens, [tokens, hidden]."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.settings = settings
        self.embedding = Embedding(settings)
        self.attention = nn.ModuleList(Attention(settings) for _ in range(settings.attention_block_count))
        self.ffn = nn.ModuleList(FeedForward(settings) for _ in range(settings.ffn_block_count))
        self.last_norm = (
            nn.LayerNorm(settings.hidden_size, eps=settings.norm_epsilon) if settings.norm_first else None
        )
        self.step_signal = StepSignal(settings.hidden_size) if settings.step_signal else None
        self.step_differences = StepDifferences(settings) if settings.has_step_differences else None
        self.halting = Halting(settings.hidden_size) if settings.depth_rule == "halting" else None
        self.compute_options = ComputeOptions()  # set by Model.configure

    def forward(self, strip: Strip, indices: Tensor | None = None, *, depth: int | None = None) -> Tensor:
        """Return the hidden states of a strip, [tokens, hidden], or those of some of its tokens.

        Args:
            strip: the sequences.
            indices: indices in the strip of the tokens to return, by default all. In the last layer, only
                these have an output after attention, which saves most of this layer.
            depth: number of layers to apply, by default all; see `depth_plan`.
        """
        layout, options = self.layout(strip), self.compute_options
        rows = None
        if indices is not None:
            rows = options.selected_kernels.pad_rows(layout.rows(indices), options.dtype)
        states = self._sorted_hidden_states(strip, layout, depth, rows)
        for hidden in states:  # noqa: B007  # only the last is used
            pass
        hidden = self.normalized_output(hidden)
        return layout.restore_order(hidden) if indices is None else hidden.narrow(0, 0, len(indices))

    def hidden_states(self, strip: Strip, *, depth: int | None = None) -> Iterator[Tensor]:
        """Yield the output of the embedding and of each layer, [tokens, hidden]."""
        layout = self.layout(strip)
        for hidden in self._sorted_hidden_states(strip, layout, depth):
            yield layout.restore_order(self.normalized_output(hidden))

    def normalized_output(self, hidden: Tensor) -> Tensor:
        """Return what a head reads of the output of a layer, [..., hidden]: with `norm_first`, its norm."""
        if self.last_norm is None:
            return hidden
        weight, bias = self.last_norm.weight.to(hidden.dtype), self.last_norm.bias.to(hidden.dtype)
        return functional.layer_norm(hidden, hidden.shape[-1:], weight, bias, self.last_norm.eps)

    def hidden_at(self, strip: Strip, indices: Tensor, *, depth: int | None = None) -> Tensor:
        """Return the hidden state of one token of each sequence, [sequences, hidden].

        The values are those of `forward`. In the last layer, only the chosen tokens have an output, and the
        others only give keys and values, which saves most of this layer.

        Args:
            strip: the sequences, none of them empty.
            indices: index in the strip of one token of each sequence, in order, [sequences]; of a causal
                strip, any tokens.
            depth: number of layers to apply, by default all; see `depth_plan`.
        """
        # Without a fixed depth, no layer is the last one: outputs are of several.
        if self.settings.depth_rule != "fixed" or strip.causal:
            return self.forward(strip, indices, depth=depth)
        layout, options = self.layout(strip), self.compute_options
        plan = depth_plan(self.settings, depth)
        *_, hidden = islice(self._sorted_hidden_states(strip, layout, depth), len(plan))
        hidden = self._with_signal(hidden, len(plan) - 1)
        rows, order = layout.rows(indices).sort()  # sorted rows have the order of the sorted sequences
        attend = self._one_query_attention(strip, layout, rows)
        layer_weights = self._layer_weights(plan, options)

        def last_layer(hidden: Tensor) -> Tensor:
            weights, layer_options = layer_weights(len(plan) - 1), self._layer_options(options)
            return encoder_layer_at(hidden, rows, *weights, attend=attend, options=layer_options)

        output = self._with_blocks(plan[-1], last_layer, hidden)
        return torch.empty_like(output).index_copy_(0, order, self.normalized_output(output))

    def _one_query_attention(
        self, strip: Strip, layout: AttentionLayout, rows: Tensor
    ) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the attention of one query of each sequence, those of `rows`; see `encoder_layer_at`."""
        attend = partial(one_query_attention, length_groups=layout.length_groups, heads=self.settings.heads)
        if not self.settings.rotary:
            return attend
        rotation, width = self._rotation(layout.sort(strip.positions)), self.settings.hidden_size

        def attend_rotated(query: Tensor, key_value: Tensor) -> Tensor:
            query = rotate(query, rotation.of_rows(rows), width, parts=1)
            return attend(query, rotate(key_value, rotation, width, parts=1))

        return attend_rotated

    def with_positions(self, attend: AttentionFunction, positions: Tensor) -> AttentionFunction:
        """Return the attention of tokens at positions, [...]; they matter if the model has rotary ones."""
        if not self.settings.rotary:
            return attend
        rotation, width = self._rotation(positions), self.settings.hidden_size
        return lambda qkv: attend(rotate(qkv, rotation, width, parts=2))

    def _rotation(self, positions: Tensor) -> Rotation:
        head_size = self.settings.hidden_size // self.settings.heads
        return Rotation.of_positions(positions, head_size, self.compute_options.dtype)

    def layout(self, strip: Strip) -> AttentionLayout:
        """Return the order in which the layers compute the tokens of a strip."""
        options = self.compute_options
        return options.selected_kernels.layout(strip, options.dtype)

    def _sorted_hidden_states(
        self, strip: Strip, layout: AttentionLayout, depth: int | None, last_rows: Tensor | None = None
    ) -> Iterator[Tensor]:
        """Yield the output of the embedding and of each layer, with rows sorted by `layout`, [rows, hidden].

        There can be more rows than tokens: `layout` may add spare rows at the end. The last output has only
        `last_rows`, if given.
        """
        options = self.compute_options
        hidden = self.embed(strip, layout)
        attend = partial(
            options.selected_kernels.attention,
            layout=layout,
            heads=self.settings.heads,
            dropout=self.attention_dropout,
        )
        attend_at = self.with_positions(attend, layout.sort(strip.positions))
        yield from self.apply_layers(hidden, attend_at, options, depth, last_rows)

    def embed(self, strip: Strip, layout: AttentionLayout) -> Tensor:
        """Return the output of the embedding, with rows sorted by `layout`, [rows, hidden]."""
        options = self.compute_options
        self.embedding.check_ids(strip)
        ids = map(layout.sort, (strip.tokens, strip.segments, strip.positions))
        is_match = None
        if self.settings.mark_matches:
            is_match = layout.sort(matches_in_strip(strip, self.settings.vocab_size))
        hidden: Tensor = self.embedding(*ids, is_match, options.dtype, options.selected_kernels)
        return hidden

    def apply_layers(
        self,
        hidden: Tensor,
        attend: AttentionFunction,
        options: ComputeOptions,
        depth: int | None = None,
        last_rows: Tensor | None = None,
    ) -> Iterator[Tensor]:
        """Yield `hidden` itself and then the output of each step of depth, [..., hidden].

        Heads read `normalized_output` of them.

        Args:
            hidden: output of the embedding, [..., hidden].
            attend: attention function for these tokens.
            options: precision, memory use and speed.
            depth: number of layers to apply, by default all; see `depth_plan`.
            last_rows: rows of `hidden` whose output the last layer computes, by default all.
        """
        plan = depth_plan(self.settings, depth)
        layer = self.layer_function(plan, attend, options)
        if self.settings.depth_rule == "fixed":
            yield from fixed_depth(hidden, layer, len(plan), last_rows)
            return
        if self.halting is not None:
            outputs = self.halting.outputs(hidden, layer, len(plan))
        elif self.settings.depth_rule == "equilibrium":
            outputs = equilibrium(hidden, layer, len(plan))
        else:
            raise ValueError(f"unknown depth_rule: {self.settings.depth_rule}")
        for number, output in enumerate(outputs):
            is_last = number == len(plan)
            yield output.index_select(0, last_rows) if is_last and last_rows is not None else output

    def layer_function(
        self, plan: tuple[BlockIndices, ...], attend: AttentionFunction, options: ComputeOptions
    ) -> LayerFunction:
        """Return a function that applies one layer of a plan."""
        layer_weights = self._layer_weights(plan, options)
        # Recomputation in the backward pass must use the dropout rate of the forward pass, also if
        # the model is in evaluation mode by then.
        apply_layer = partial(encoder_layer, attend=attend, options=self._layer_options(options))

        def layer(hidden: Tensor, number: int, rows: Tensor | None = None) -> Tensor:
            def compute(hidden: Tensor) -> Tensor:
                weights = layer_weights(number)
                if options.recompute and torch.is_grad_enabled():
                    output: Tensor = checkpoint(apply_layer, hidden, *weights, rows, use_reentrant=False)
                    return output
                return apply_layer(hidden, *weights, rows)

            return self._with_blocks(plan[number], compute, self._with_signal(hidden, number))

        return layer

    def _with_blocks(
        self, indices: BlockIndices, layer: Callable[[Tensor], Tensor], hidden: Tensor
    ) -> Tensor:
        """Return layer(hidden), where the layer computes with the weights of two blocks."""
        attention, ffn = self.attention[indices.attention], self.ffn[indices.ffn]
        assert isinstance(attention, Attention)
        assert isinstance(ffn, FeedForward)
        return attention.hold_weights(partial(ffn.hold_weights, layer), hidden)

    def apply_block(
        self,
        hidden: Tensor,
        step: Tensor,
        block: BlockIndices,
        attend: AttentionFunction,
        options: ComputeOptions,
    ) -> Tensor:
        """Apply one block as a layer whose number is a tensor: for graphs that are called in a loop.

        Args:
            hidden: input of the layer, [..., hidden].
            step: number of the layer, counted from 0, without dimensions.
            block: the attention and the feed-forward block.
            attend: attention function for these tokens.
            options: precision, memory use and speed.
        """
        weights = (
            self._attention_weights(block.attention, options),
            self._feed_forward_weights(block.ffn, options),
        )
        return encoder_layer(
            self._with_signal(hidden, step), *weights, attend=attend, options=self._layer_options(options)
        )

    def _layer_weights(
        self, plan: tuple[BlockIndices, ...], options: ComputeOptions
    ) -> Callable[[int], tuple[AttentionWeights, FeedForwardWeights]]:
        """Return a function that returns the weights of a layer of a plan, by its number."""
        # A block that several layers use is cast once. The others are cast when their layer is computed,
        # because sharded training gathers them for this time only.
        unshared = unshared_blocks(self.settings)
        shared_attention = {
            index: self._attention_weights(index, options)
            for index in {a for a, _ in plan} - unshared.attention
        }
        shared_ffn = {
            index: self._feed_forward_weights(index, options) for index in {f for _, f in plan} - unshared.ffn
        }

        def weights(number: int) -> tuple[AttentionWeights, FeedForwardWeights]:
            attention, ffn = plan[number]
            blocks = (
                shared_attention.get(attention) or self._attention_weights(attention, options),
                shared_ffn.get(ffn) or self._feed_forward_weights(ffn, options),
            )
            if self.step_differences is None:
                return blocks
            return self.step_differences.applied(number, *blocks, factored=options.factored_differences)

        return weights

    def _with_signal(self, hidden: Tensor, number: int | Tensor) -> Tensor:
        """Return the input of layer `number`, counted from 0."""
        return hidden if self.step_signal is None else hidden + self.step_signal(number).to(hidden.dtype)

    def _layer_options(self, options: ComputeOptions) -> LayerOptions:
        return LayerOptions(
            self.settings.norm_first,
            self.settings.norm_epsilon,
            gelu_approximation(self.settings),
            self.settings.dropout if self.training else 0.0,
            options.selected_kernels,
        )

    @property
    def attention_dropout(self) -> float:
        """Dropout rate of the attention weights; 0 in evaluation."""
        return self.settings.attention_dropout if self.training else 0.0

    def _attention_weights(self, index: int, options: ComputeOptions) -> AttentionWeights:
        block = self.attention[index]
        assert isinstance(block, Attention)
        return block.cast_weights(options.dtype)

    def _feed_forward_weights(self, index: int, options: ComputeOptions) -> FeedForwardWeights:
        block = self.ffn[index]
        assert isinstance(block, FeedForward)
        return block.cast_weights(options.dtype)
