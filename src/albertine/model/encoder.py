"""The encoder: an embedding, a few blocks, and a plan that runs depth through them."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from albertine.model.attention import AttentionLayout, attend
from albertine.model.depth_plan import depth_plan
from albertine.model.layers import (
    Attention,
    AttentionWeights,
    Embedding,
    FeedForward,
    FeedForwardWeights,
    LayerOptions,
    attention_output,
    feed_forward,
    gelu_approximation,
)
from albertine.model.strip import Strip
from albertine.settings import ModelSettings

# For each shape of a product in bf16 a CPU's library keeps what it prepared, for the last 1,024 shapes, and
# torch the same again. Strips are as long as they are, so gigabytes came together. A step has some dozens of
# shapes, more where sequences are long and many; what it prepares must last till depth comes by again.
KERNEL_CACHE_SIZES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128", "LRU_CACHE_CAPACITY": "128"}
for _name, _count in KERNEL_CACHE_SIZES.items():  # read at the first product
    os.environ.setdefault(_name, _count)


@dataclass
class ComputeOptions:
    """How to compute, which changes no weight: precision, and memory or compile time against speed.

    Attributes:
        dtype: precision of the matrix products; weights stay fp32.
        recompute: keep only each step's input for the backward pass, and run the step again there.
        compile: compile what one step does between two attentions; once, whatever the depth.
    """

    dtype: torch.dtype = torch.float32
    recompute: bool = False
    compile: bool = False


class Encoder(nn.Module):
    """A strip in, a hidden state of width H for each of its tokens out."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.settings = settings
        self.embedding = Embedding(settings)
        self.attention = nn.ModuleList(Attention(settings) for _ in range(settings.attention_block_count))
        self.ffn = nn.ModuleList(FeedForward(settings) for _ in range(settings.ffn_block_count))
        self.compute_options = ComputeOptions()

    def forward(self, strip: Strip, *, depth: int | None = None) -> Tensor:
        """Encode a strip: [N, H]. `depth` runs fewer layers, or more of a shared one."""
        layout = AttentionLayout.for_strip(strip, self.compute_options.dtype)
        *_, last = self._run_layers(strip, layout, depth)
        return layout.restore_order(last)

    def hidden_states(self, strip: Strip, *, depth: int | None = None) -> Iterator[Tensor]:
        """Yield the hidden states [N, H] that depth goes through: the embedding, then each step's output."""
        layout = AttentionLayout.for_strip(strip, self.compute_options.dtype)
        yield from map(layout.restore_order, self._run_layers(strip, layout, depth))

    def _run_layers(self, strip: Strip, layout: AttentionLayout, depth: int | None) -> Iterator[Tensor]:
        """Run through depth on tokens sorted by length."""
        options = self.compute_options
        plan = depth_plan(self.settings, depth)
        attentions = {block: self._attention_weights(block) for block in {layer.attention for layer in plan}}
        feed_forwards = {block: self._ffn_weights(block) for block in {layer.ffn for layer in plan}}
        hidden = self.embedding(strip, layout.token_order, options.dtype)
        yield hidden
        # Settled here: recomputation, in the backward pass, must find what the forward pass found.
        training, settings = self.training, self.settings
        layer_options = LayerOptions(
            settings.norm_epsilon, gelu_approximation(settings), settings.dropout if training else 0.0
        )
        attention_dropout = settings.attention_dropout if training else 0.0
        run_layer = partial(
            _encoder_layer,
            heads=settings.heads,
            options=layer_options,
            dropout=attention_dropout,
            use_compile=options.compile,
        )
        for layer in plan:
            arguments = (hidden, layout, attentions[layer.attention], feed_forwards[layer.ffn])
            if options.recompute and torch.is_grad_enabled():
                hidden = checkpoint(run_layer, *arguments, use_reentrant=False)
            else:
                hidden = run_layer(*arguments)
            yield hidden

    def _attention_weights(self, index: int) -> AttentionWeights:
        block = self.attention[index]
        assert isinstance(block, Attention)
        return block.cast_weights(self.compute_options.dtype)

    def _ffn_weights(self, index: int) -> FeedForwardWeights:
        block = self.ffn[index]
        assert isinstance(block, FeedForward)
        return block.cast_weights(self.compute_options.dtype)


def _encoder_layer(
    hidden: Tensor,
    layout: AttentionLayout,
    attention_weights: AttentionWeights,
    feed_forward_weights: FeedForwardWeights,
    *,
    heads: int,
    options: LayerOptions,
    dropout: float,
    use_compile: bool,
) -> Tensor:
    """One step of depth: attention, then feed-forward."""
    qkv = functional.linear(hidden, attention_weights.qkv, attention_weights.qkv_bias)
    context = attend(qkv, layout, heads, dropout)
    after_attention = _compiled_after_attention() if use_compile else _after_attention
    return after_attention(hidden, context, attention_weights, feed_forward_weights, options)


def _after_attention(
    hidden: Tensor,
    context: Tensor,
    attention_weights: AttentionWeights,
    feed_forward_weights: FeedForwardWeights,
    options: LayerOptions,
) -> Tensor:
    """Everything of a step that looks at one token at a time."""
    return feed_forward(
        attention_output(hidden, context, attention_weights, options), feed_forward_weights, options
    )


@cache
def _compiled_after_attention() -> Callable[..., Tensor]:
    """Return the same, compiled; asked for at first use, since the compiler takes long to import."""
    # One function serves every model, precision and mode of a process, each a variant of its own.
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    return torch.compile(_after_attention, dynamic=True)
