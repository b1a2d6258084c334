"""ALBERT with another use of depth, for `transformers`; Albertine copies this file into checkpoint folders.

    AutoModelForMaskedLM.from_pretrained(FOLDER, trust_remote_code=True)

The network is that of `transformers`, except that the encoder applies its layer by the rule of the config:
`depth_rule` is "fixed", "halting" (Universal Transformer) or "equilibrium" (Deep Equilibrium Models), and
`step_signal` tells the layer which step it computes. With `rotary`, positions turn queries and keys. With
`norm_first`, each block normalizes its input, and a norm follows the last layer. With `step_rank`, each step
adds low-rank differences to the shared matrices; with `step_vectors`, it has biases and norms of its own.
With `mark_matches`, a vector is added to the tokens that also occur in the other text of a pair, which needs
`input_ids`: there are no matches in `inputs_embeds`.
This file needs only torch and `transformers`, and its outputs are those of Albertine. Train such a model
with Albertine: here an equilibrium has the gradient of its last steps, and halting has no cost.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
)
from transformers.modeling_outputs import BaseModelOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.albert.modeling_albert import (
    AlbertAttention,
    AlbertEmbeddings,
    AlbertLayer,
    AlbertTransformer,
    eager_attention_forward,
)

_HALTING_THRESHOLD = 0.99
_ANDERSON_MEMORY, _ANDERSON_RIDGE = 4, 1e-4


class AlbertineConfig(AlbertConfig):
    """The config of ALBERT, with the keys of Albertine's settings that `transformers` lacks."""

    model_type = "albertine"


class _Embeddings(AlbertEmbeddings):
    """Embeddings with a vector for tokens that also occur in the other segment."""

    def __init__(self, config: Any):
        super().__init__(config)
        self.match = nn.Parameter(torch.zeros(config.embedding_size))

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """Return the embeddings, [batch, length, embedding]."""
        if input_ids is not None:
            inputs_embeds = self.word_embeddings(input_ids)
            if token_type_ids is not None:
                is_second = token_type_ids > 0
                is_other = is_second.unsqueeze(2) != is_second.unsqueeze(1)
                is_match = (is_other & (input_ids.unsqueeze(2) == input_ids.unsqueeze(1))).any(2)
                is_match &= input_ids != self.word_embeddings.padding_idx
                inputs_embeds = inputs_embeds + is_match.unsqueeze(-1) * self.match
        others: Any = {"token_type_ids": token_type_ids, "position_ids": position_ids}
        output: Tensor = super().forward(inputs_embeds=inputs_embeds, **others)
        return output


class AlbertineEncoder(AlbertTransformer):
    """Applies the shared layer by the depth rule of the config."""

    def __init__(self, config: Any):
        super().__init__(config)
        self.step_signal = _StepSignal(config.hidden_size) if config.step_signal else None
        self.halting = _Halting(config.hidden_size) if config.depth_rule == "halting" else None
        # Absent in the configs of older folders.
        self.last_norm = None
        if getattr(config, "norm_first", False) or getattr(config, "rotary", False):
            groups: Any = self.albert_layer_groups
            for group in groups:
                group.albert_layers = nn.ModuleList(_Layer(config) for _ in group.albert_layers)
        if getattr(config, "norm_first", False):
            self.last_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        rank, has_vectors = getattr(config, "step_rank", 0), getattr(config, "step_vectors", False)
        differs = rank or has_vectors
        self.step_differences = _StepDifferences(config, rank, has_vectors) if differs else None

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> BaseModelOutput:
        """Return hidden states, [batch, length, hidden], of embeddings, [batch, length, embedding]."""
        embedded = self.embedding_hidden_mapping_in(hidden_states)
        depth = self.config.num_hidden_layers

        def layer(hidden: Tensor, number: int) -> Tensor:
            if self.step_signal is not None:
                hidden = hidden + self.step_signal(number).to(hidden.dtype)
            group = self.albert_layer_groups[number * self.config.num_hidden_groups // depth]
            own = {} if self.step_differences is None else self.step_differences(group, number)
            output: Tensor = functional_call(group, own, (hidden, attention_mask), kwargs)
            return output

        if self.config.depth_rule == "equilibrium":
            output = _equilibrium(embedded, layer, depth)
        elif self.halting is not None:
            output = self.halting(embedded, layer, depth)
        elif self.config.depth_rule == "fixed":
            output = embedded
            for number in range(depth):
                output = layer(output, number)
        else:
            raise ValueError(f"unknown depth_rule: {self.config.depth_rule}")
        if self.last_norm is not None:
            output = self.last_norm(output)
        return BaseModelOutput(last_hidden_state=output)


class _Attention(AlbertAttention):
    """Attention with the norm of its input or of its output, and with or without rotary positions."""

    def forward(  # type: ignore[override]  # the keywords are those of the attention function
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output of the block, and the attention weights."""
        norm_first = getattr(self.config, "norm_first", False)
        states = self.LayerNorm(hidden_states) if norm_first else hidden_states
        shape = (*states.shape[:-1], -1, self.attention_head_size)
        query, key, value = (
            linear(states).view(shape).transpose(1, 2) for linear in (self.query, self.key, self.value)
        )
        if getattr(self.config, "rotary", False):
            query, key = _rotated(query), _rotated(key)
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(
            self.config._attn_implementation, eager_attention_forward
        )
        rate = self.attention_dropout.p if self.training else 0.0
        context, weights = attend(
            self, query, key, value, attention_mask, dropout=rate, scaling=self.scaling, **kwargs
        )
        summed = hidden_states + self.output_dropout(self.dense(context.reshape(states.shape)))
        return summed if norm_first else self.LayerNorm(summed), weights


def _rotated(values: Tensor) -> Tensor:
    """Turn the elements of heads by their position, [batch, heads, length, size]; only distances count."""
    length, pairs = values.shape[2], values.shape[3] // 2
    steps = torch.arange(pairs, device=values.device, dtype=torch.float32)
    angles = torch.arange(length, device=values.device)[:, None] * 10_000.0 ** (-steps / pairs)
    cos, sin = angles.cos().to(values.dtype), angles.sin().to(values.dtype)
    first, second = values.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class _Layer(AlbertLayer):
    """A layer with such attention."""

    def __init__(self, config: Any):
        super().__init__(config)
        self.attention = _Attention(config)

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor:
        """Return the output of the layer, [batch, length, hidden]."""
        hidden, _ = self.attention(hidden_states, attention_mask, **kwargs)
        if getattr(self.config, "norm_first", False):
            output: Tensor = hidden + self.ff_chunk(self.full_layer_layer_norm(hidden))
            return output
        return self.full_layer_layer_norm(hidden + self.ff_chunk(hidden))


class _NoPositions(nn.Module):
    """In place of position embeddings."""

    def __init__(self, words: nn.Embedding):
        super().__init__()
        self._words = [words]  # in a list: it has the precision to return, and is a module of its owner

    def forward(self, position_ids: Tensor) -> Tensor:
        """Return zeros, [..., width]."""
        weight = self._words[0].weight
        return weight.new_zeros(*position_ids.shape, weight.shape[1])


_LAYER = "albert_layers.0."
_QKV = ("attention.query", "attention.key", "attention.value")


class _LowRankDifferences(nn.Module):
    """A matrix of low rank for each step, outer @ inner."""

    def __init__(self, layers: int, outputs: int, inputs: int, rank: int):
        super().__init__()
        self.inner = nn.Parameter(0.02 * torch.randn(layers, rank, inputs))
        self.outer = nn.Parameter(torch.zeros(layers, outputs, rank))

    def forward(self, number: int) -> Tensor:
        """Return the matrix of step `number`, counted from 0, [outputs, inputs]."""
        return self.outer[number] @ self.inner[number]


class _StepDifferences(nn.Module):
    """What each step has of its own: low-rank differences of the matrices, and of biases and norms."""

    def __init__(self, config: Any, rank: int, has_vectors: bool):
        super().__init__()
        h, f, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
        self.matrices = nn.ModuleDict()
        self.attention_vectors, self.ffn_vectors = nn.ParameterDict(), nn.ParameterDict()
        for name, shape in {"qkv": (3 * h, h), "out": (h, h), "up": (f, h), "down": (h, f)}.items():
            if rank:
                self.matrices[name] = _LowRankDifferences(layers, *shape, rank)
        for vectors, sizes in (
            (self.attention_vectors, {"qkv_bias": 3 * h, "out_bias": h, "norm": h, "norm_bias": h}),
            (self.ffn_vectors, {"up_bias": f, "down_bias": h, "norm": h, "norm_bias": h}),
        ):
            for name, size in sizes.items() if has_vectors else ():
                vectors[name] = nn.Parameter(torch.zeros(layers, size))

    def forward(self, group: nn.Module, number: int) -> dict[str, Tensor]:
        """Return the weights of step `number`, counted from 0, by their names in the group of the layer."""
        differences: dict[str, Tensor] = {}
        for name, module in self.matrices.items():
            differences |= _by_module(name, "weight", module(number))
        for vectors, norm in (
            (self.attention_vectors, "attention.LayerNorm"),
            (self.ffn_vectors, "full_layer_layer_norm"),
        ):
            for name, rows in vectors.items():
                if name.startswith("norm"):
                    part = "bias" if name.endswith("bias") else "weight"
                    differences[f"{_LAYER}{norm}.{part}"] = rows[number]
                else:
                    differences |= _by_module(name.removesuffix("_bias"), "bias", rows[number])
        shared = dict(group.named_parameters())
        return {name: shared[name] + value.to(shared[name].dtype) for name, value in differences.items()}


def _by_module(name: str, part: str, values: Tensor) -> dict[str, Tensor]:
    """Return the values by the names of the parameters: one matrix holds queries, keys and values."""
    names = {"qkv": _QKV, "out": ("attention.dense",), "up": ("ffn",), "down": ("ffn_output",)}[name]
    parts = values.chunk(len(names))
    return {f"{_LAYER}{module}.{part}": value for module, value in zip(names, parts, strict=True)}


class _StepSignal(nn.Module):
    """Sinusoids of the step, with a learned gain per element."""

    def __init__(self, hidden_size: int):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(hidden_size))

    def forward(self, number: int) -> Tensor:
        """Return what is added to the input of step `number`, counted from 0, [hidden]."""
        width, device = len(self.gain), self.gain.device
        steps = torch.arange(width, device=device) // 2 * (2 / width)
        angles = (number + 1) * torch.exp(-math.log(10_000.0) * steps)
        return self.gain * torch.where(
            torch.arange(width, device=device) % 2 == 0, angles.sin(), angles.cos()
        )


class _Halting(nn.Module):
    """The mean over the steps, with weights that each token chooses."""

    def __init__(self, hidden_size: int):
        super().__init__()
        self.unit = nn.Linear(hidden_size, 1)

    def forward(self, hidden: Tensor, layer: Callable[[Tensor, int], Tensor], depth: int) -> Tensor:
        dtype, remaining = hidden.dtype, hidden.new_ones((*hidden.shape[:-1], 1), dtype=torch.float32)
        total = torch.zeros_like(hidden, dtype=torch.float32)
        for number in range(depth):
            hidden = layer(hidden, number)
            logits = nn.functional.linear(hidden.float(), self.unit.weight.float(), self.unit.bias.float())
            probability = torch.sigmoid(logits)
            is_last = (remaining - probability <= 1 - _HALTING_THRESHOLD) | (number == depth - 1)
            weight = torch.where(is_last, remaining, probability)
            total, remaining = total + weight * hidden, torch.where(is_last, 0.0, remaining - weight)
        return total.to(dtype)


def _equilibrium(embedded: Tensor, layer: Callable[[Tensor, int], Tensor], depth: int) -> Tensor:
    """Return a state that the layer nearly reproduces, found by Anderson acceleration."""
    state = torch.zeros_like(embedded)
    states: list[Tensor] = []
    outputs: list[Tensor] = []
    for _ in range(depth - 1):
        states = [*states, state][-_ANDERSON_MEMORY:]
        outputs = [*outputs, layer(state + embedded, 0)][-_ANDERSON_MEMORY:]
        state = outputs[0] if len(states) == 1 else _mixture(states, outputs)
    return layer(state + embedded, 0)


def _mixture(states: list[Tensor], outputs: list[Tensor]) -> Tensor:
    """Return the mixture of outputs, for each token, whose residuals nearly cancel."""
    stacked = torch.stack(outputs, -2).float()
    residuals = stacked - torch.stack(states, -2).float()
    products = residuals @ residuals.transpose(-1, -2)
    size = products.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None] + torch.finfo(torch.float32).tiny
    identity = torch.eye(products.shape[-1], device=products.device)
    ones = products.new_ones((*products.shape[:-1], 1))
    mixture = torch.linalg.solve(products / size + _ANDERSON_RIDGE * identity, ones)
    mixture = mixture / mixture.sum(-2, keepdim=True)
    return (mixture.transpose(-1, -2) @ stacked).squeeze(-2).to(outputs[0].dtype)


class _WithDepthRule:
    """Replaces the encoder of a model of `transformers`."""

    config_class = AlbertineConfig

    def __init__(self, config: Any, **kwargs: Any):
        super().__init__(config, **kwargs)  # type: ignore[call-arg]
        owner: Any = getattr(self, "albert", self)
        owner.encoder = AlbertineEncoder(config)
        if getattr(config, "mark_matches", False):
            marked = _Embeddings(config)
            for name, table in owner.embeddings.named_children():  # initialized, and tied to the decoder
                setattr(marked, name, table)
            owner.embeddings = marked
        if getattr(config, "rotary", False):
            owner.embeddings.position_embeddings = _NoPositions(owner.embeddings.word_embeddings)


class AlbertineModel(_WithDepthRule, AlbertModel):
    """The encoder with its pooler."""


class AlbertineForPreTraining(_WithDepthRule, AlbertForPreTraining):
    """With the heads for masked tokens and segment order."""


class AlbertineForMaskedLM(_WithDepthRule, AlbertForMaskedLM):
    """With the head for masked tokens."""


class AlbertineForSequenceClassification(_WithDepthRule, AlbertForSequenceClassification):
    """With a head for labels or numbers."""


class AlbertineForTokenClassification(_WithDepthRule, AlbertForTokenClassification):
    """With a head for labels of tokens."""


class AlbertineForQuestionAnswering(_WithDepthRule, AlbertForQuestionAnswering):
    """With a head for answers in a passage."""


class AlbertineForMultipleChoice(_WithDepthRule, AlbertForMultipleChoice):
    """With a head for the options of a question."""
