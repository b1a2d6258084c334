"""ALBERT with the switches of a `Variation`; with the defaults it computes what `albertine.model` does."""

import math
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.model.attention import AttentionLayout
from albertine.model.exits import ExitOutput
from albertine.model.kernels.selection import Kernels
from albertine.model.rotary import Rotation, rotate
from albertine.model.strip import Strip
from albertine.settings.exit_rule import ExitRule
from experiments.variation import Variation

_EPSILON = 1e-12


class VariantEncoder(nn.Module):
    """One shared layer, and what the layers have of their own."""

    def __init__(self, variation: Variation, vocab_size: int, max_length: int):
        super().__init__()
        self.variation = v = variation
        hidden, width, ffn = v.hidden_size, v.embedding_size, v.effective_ffn_size
        self.tokens = nn.Embedding(vocab_size, width)
        self.segments = nn.Embedding(2, width)
        self.positions = None if v.rotary else nn.Embedding(max_length, width)
        self.norm = nn.LayerNorm(width, eps=_EPSILON)
        self.projection = nn.Linear(width, hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, ffn * (2 if v.gated else 1)), nn.Linear(ffn, hidden)
        self.norms = nn.ModuleDict({name: nn.LayerNorm(hidden, eps=_EPSILON) for name in self._norm_names()})
        if v.step_gains:
            self.gains = nn.Parameter(torch.ones(v.layers, 2, hidden))
        if v.step_biases:
            self.biases = nn.Parameter(torch.zeros(v.layers, 2, hidden))
        if v.step_rank:
            self.rank_in = nn.Parameter(0.02 * torch.randn(v.layers, 2, v.step_rank, hidden))
            self.rank_qkv = nn.Parameter(torch.zeros(v.layers, 3 * hidden, v.step_rank))
            self.rank_up = nn.Parameter(torch.zeros(v.layers, self.up.out_features, v.step_rank))
        if v.value_embeddings:
            self.value_projection = nn.Linear(width, hidden, bias=False)
            self.value_gains = nn.Parameter(torch.full((v.layers,), 0.5))
        if v.embedding_skip:
            self.mix = nn.Parameter(torch.tensor([[1.0, 0.0]] * v.layers))

    def _norm_names(self) -> list[str]:
        before = ["attention_in", "ffn_in", "last"] if self.variation.norm != "after" else []
        after = ["attention_out", "ffn_out"] if self.variation.norm != "before" else []
        return before + after

    def forward(self, strip: Strip, indices: Tensor | None = None, depth: float | None = None) -> Tensor:
        """Return the hidden states of a strip, or of the tokens with these indices; see `Encoder.forward`."""
        v, depth = self.variation, depth or self.variation.layers
        dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
        layout = Kernels().layout(strip, dtype)
        rows = None if indices is None else Kernels().pad_rows(layout.rows(indices), dtype)
        tokens, segments, positions = map(layout.sort, (strip.tokens, strip.segments, strip.positions))
        embedded = self.tokens(tokens) + self.segments(segments)
        if self.positions is not None:
            embedded = embedded + self.positions(positions)
        embedded = self.norm(embedded)
        hidden = first = self.projection(embedded)
        values = self.value_projection(embedded) if v.value_embeddings else None
        before, layers = hidden, math.ceil(depth)
        for layer in range(layers):
            before = hidden
            if v.embedding_skip:
                hidden = self.mix[layer, 0] * hidden + self.mix[layer, 1] * first
            qkv = self._qkv(self.block_input(hidden, layer, 0), layer, values)
            context = self._attend(qkv, layout, positions)
            if rows is not None and layer == layers - 1:
                before = before.index_select(0, rows)
                hidden, context = hidden.index_select(0, rows), context.index_select(0, rows)
            hidden = self._add(hidden, self.out(context), layer, 0)
            hidden = self._add(hidden, self._ffn(self.block_input(hidden, layer, 1), layer), layer, 1)
        if depth < layers:
            hidden = before.lerp(hidden, depth - layers + 1)
        if v.norm != "after":
            hidden = self.norms["last"](hidden)
        return layout.restore_order(hidden) if indices is None else hidden.narrow(0, 0, len(indices))

    def block_input(self, hidden: Tensor, layer: int, block: int) -> Tensor:
        """Return what attention (block 0) or the feed-forward network (block 1) of a layer reads."""
        if self.variation.norm != "after":
            hidden = self.norms[("attention_in", "ffn_in")[block]](hidden)
        return hidden + self.biases[layer, block] if self.variation.step_biases else hidden

    def _add(self, hidden: Tensor, update: Tensor, layer: int, block: int) -> Tensor:
        v, name = self.variation, ("attention_out", "ffn_out")[block]
        if v.norm == "both":
            update = self.norms[name](update)
        if v.step_gains:
            update = update * self.gains[layer, block]
        hidden = hidden + v.residual_scale * update
        return self.norms[name](hidden) if v.norm == "after" else hidden

    def _qkv(self, block_input: Tensor, layer: int, values: Tensor | None) -> Tensor:
        qkv: Tensor = self.qkv(block_input)
        if self.variation.step_rank:
            qkv = qkv + block_input @ self.rank_in[layer, 0].T @ self.rank_qkv[layer].T
        if values is not None:
            extra = functional.pad(self.value_gains[layer] * values, (2 * values.shape[1], 0))
            qkv = qkv + extra
        return qkv

    def _ffn(self, block_input: Tensor, layer: int) -> Tensor:
        up: Tensor = self.up(block_input)
        if self.variation.step_rank:
            up = up + block_input @ self.rank_in[layer, 1].T @ self.rank_up[layer].T
        gate = up.chunk(2, 1)[0] if self.variation.gated else up
        if self.variation.activation == "gelu":
            gate = functional.gelu(gate, approximate="tanh")
        else:
            gate = functional.relu(gate).square()
        down: Tensor = self.down(gate * up.chunk(2, 1)[1] if self.variation.gated else gate)
        return down

    def _attend(self, qkv: Tensor, layout: AttentionLayout, positions: Tensor) -> Tensor:
        heads = self.variation.heads
        if self.variation.rotary:
            width = self.variation.hidden_size
            rotation = Rotation.of_positions(positions, width // heads, qkv.dtype)
            qkv = rotate(qkv, rotation, width, parts=2)
        return Kernels().attention(qkv, layout, heads, 0.0)


class VariantModel(nn.Module):
    """The encoder with the heads of pre-training, and one that finds replaced tokens."""

    def __init__(self, variation: Variation, vocab_size: int, max_length: int = 512):
        super().__init__()
        hidden, width = variation.hidden_size, variation.embedding_size
        self.encoder = VariantEncoder(variation, vocab_size, max_length)
        self.dense, self.norm = nn.Linear(hidden, width), nn.LayerNorm(width, eps=_EPSILON)
        if variation.causal_head:
            self.next_dense, self.next_norm = nn.Linear(hidden, width), nn.LayerNorm(width, eps=_EPSILON)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.pooler, self.pair = nn.Linear(hidden, hidden), nn.Linear(hidden, 2)
        if variation.replaced_weight:
            self.replaced_dense, self.replaced = nn.Linear(hidden, hidden), nn.Linear(hidden, 1)

    def decoder_input(self, hidden: Tensor) -> Tensor:
        """Return what the decoder maps to logits: [tokens, hidden] to [tokens, width]."""
        values: Tensor = self.norm(functional.gelu(self.dense(hidden), approximate="tanh"))
        return values

    def next_decoder_input(self, hidden: Tensor) -> Tensor:
        """Return what the decoder maps to the logits of next tokens: [tokens, hidden] to [tokens, width]."""
        if not self.encoder.variation.causal_head:
            return self.decoder_input(hidden)
        values: Tensor = self.next_norm(functional.gelu(self.next_dense(hidden), approximate="tanh"))
        return values

    def token_loss(self, values: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of the losses of tokens, from their inputs of the decoder."""
        return Kernels().vocabulary_loss(values, self.encoder.tokens.weight, self.bias, labels)[0]

    def token_logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of the vocabulary: [tokens, hidden] to [tokens, vocab]."""
        return functional.linear(self.decoder_input(hidden), self.encoder.tokens.weight, self.bias)

    def pair_logits(self, cls_hidden: Tensor) -> Tensor:
        """Return the logits of both labels of each pair, [sequences, 2]."""
        logits: Tensor = self.pair(torch.tanh(self.pooler(cls_hidden)))
        return logits

    def replaced_logits(self, hidden: Tensor) -> Tensor:
        """Return the logit of each token as replaced, [tokens]."""
        logits: Tensor = self.replaced(functional.gelu(self.replaced_dense(hidden), approximate="tanh"))
        return logits.squeeze(1)

    def forward(self, strip: Strip, targets: Any, *, depth: float | None = None) -> Any:
        """Return the logits of the masked tokens and of the pairs, in the form of `PretrainingOutput`."""
        indices = torch.cat([targets.masked.indices, strip.cls_indices])
        hidden = self.encoder(strip, indices, depth)
        masked, cls_hidden = hidden.split([len(targets.masked.indices), len(strip)])
        return SimpleNamespace(masked=_Masked(self, masked), pair_logits=self.pair_logits(cls_hidden))


class _Masked:
    """The output for the masked tokens; `logits` are computed when they are needed."""

    def __init__(self, model: VariantModel, hidden: Tensor):
        self.values, self._model = model.decoder_input(hidden), model

    @cached_property
    def logits(self) -> Tensor:
        return functional.linear(self.values, self._model.encoder.tokens.weight, self._model.bias)


class VariantEngine:
    """The members of an `Engine` with which `PseudoLikelihoodScorer` scores minimal pairs."""

    name = "torch"
    micro_batch_tokens = 8192
    precision = "fp32"
    computes_all_tokens = True

    def __init__(self, model: VariantModel, model_settings: Any, head_settings: Any):
        self.model, self.model_settings, self.head_settings = model, model_settings, head_settings

    def masked_lm_logits(self, strip: Strip, indices: Tensor, *, depth: int | None = None) -> Tensor:
        """Return the logits at one token of each sequence, [sequences, vocab]."""
        with torch.no_grad():
            return self.model.token_logits(self.model.encoder(strip, indices, depth))

    def run(self, strip: Strip) -> Any:
        """Not used for scoring."""
        raise NotImplementedError

    def run_with_exits(self, strip: Strip, rule: ExitRule) -> ExitOutput:
        """Not used for scoring."""
        raise NotImplementedError
