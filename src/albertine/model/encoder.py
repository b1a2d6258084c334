"""The encoder: an embedding, a few blocks, and a plan that runs depth through them."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from albertine.model.attention import Cuts, attend
from albertine.model.layers import (
    Attention,
    AttentionWeights,
    Embedding,
    Ffn,
    FfnWeights,
    Shape,
    feed_forward,
    gelu,
    mix,
)
from albertine.model.plan import plan_of
from albertine.model.strip import Strip
from albertine.settings import ModelSettings

# For each shape of a product in bf16 a CPU's library keeps what it prepared, for the last 1,024 shapes, and
# torch the same again. Strips are as long as they are, so gigabytes came together. A step has some dozens of
# shapes, more where sequences are long and many; what it prepares must last till depth comes by again.
SHAPES_KEPT = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128", "LRU_CACHE_CAPACITY": "128"}
for _name, _count in SHAPES_KEPT.items():  # read at the first product
    os.environ.setdefault(_name, _count)


@dataclass
class Computation:
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

    def __init__(self, model: ModelSettings):
        super().__init__()
        self.model = model
        self.embedding = Embedding(model)
        self.attention = nn.ModuleList(Attention(model) for _ in range(model.attention_blocks))
        self.ffn = nn.ModuleList(Ffn(model) for _ in range(model.ffn_blocks))
        self.computation = Computation()

    def forward(self, strip: Strip, *, depth: int | None = None) -> Tensor:
        """Encode a strip: [N, H]. `depth` runs fewer layers, or more of a shared one."""
        cuts = Cuts.of(strip, self.computation.dtype)
        *_, last = self._steps(strip, cuts, depth)
        return cuts.restore(last)

    def states(self, strip: Strip, *, depth: int | None = None) -> Iterator[Tensor]:
        """Yield the hidden states [N, H] that depth goes through: the embedding, then each step's output."""
        cuts = Cuts.of(strip, self.computation.dtype)
        yield from map(cuts.restore, self._steps(strip, cuts, depth))

    def _steps(self, strip: Strip, cuts: Cuts, depth: int | None) -> Iterator[Tensor]:
        """Run through depth on tokens sorted by length."""
        how = self.computation
        plan = plan_of(self.model, depth)
        attention = {block: self._attention_weights(block) for block in {step.attention for step in plan}}
        ffn = {block: self._ffn_weights(block) for block in {step.ffn for step in plan}}
        hidden = self.embedding(strip, cuts.order, how.dtype)
        yield hidden
        # Settled here: recomputation, in the backward pass, must find what the forward pass found.
        training, model = self.training, self.model
        shape = Shape(model.norm_epsilon, gelu(model), model.dropout if training else 0.0)
        dropped = model.attention_dropout if training else 0.0
        one_step = partial(_step, heads=model.heads, shape=shape, dropout=dropped, compiled=how.compile)
        for step in plan:
            arguments = (hidden, cuts, attention[step.attention], ffn[step.ffn])
            if how.recompute and torch.is_grad_enabled():
                hidden = checkpoint(one_step, *arguments, use_reentrant=False)
            else:
                hidden = one_step(*arguments)
            yield hidden

    def _attention_weights(self, index: int) -> AttentionWeights:
        block = self.attention[index]
        assert isinstance(block, Attention)
        return block.weights(self.computation.dtype)

    def _ffn_weights(self, index: int) -> FfnWeights:
        block = self.ffn[index]
        assert isinstance(block, Ffn)
        return block.weights(self.computation.dtype)


def _step(
    hidden: Tensor,
    cuts: Cuts,
    attention: AttentionWeights,
    ffn: FfnWeights,
    *,
    heads: int,
    shape: Shape,
    dropout: float,
    compiled: bool,
) -> Tensor:
    """One step of depth: attention, then feed-forward."""
    qkv = functional.linear(hidden, attention.qkv, attention.qkv_bias)
    context = attend(qkv, cuts, heads, dropout)
    rest = _compiled_rest() if compiled else _rest_of_step
    return rest(hidden, context, attention, ffn, shape)


def _rest_of_step(
    hidden: Tensor, context: Tensor, attention: AttentionWeights, ffn: FfnWeights, shape: Shape
) -> Tensor:
    """Everything of a step that looks at one token at a time."""
    return feed_forward(mix(hidden, context, attention, shape), ffn, shape)


@cache
def _compiled_rest() -> Callable[..., Tensor]:
    """Return the same, compiled; asked for at first use, since the compiler takes long to import."""
    # One function serves every model, precision and mode of a process, each a variant of its own.
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    return torch.compile(_rest_of_step, dynamic=True)
