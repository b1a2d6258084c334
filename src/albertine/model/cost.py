"""What a model costs to run and to train, from its settings alone: FLOPs, memory and traffic.

FLOPs are those of matrix products, two per multiply-add as is usual; norms, activations and
softmax would add about 1%. Attention is counted in full: every token attends to its whole
sequence.

Activation memory is what the network keeps for the backward pass on a GPU: the inputs of its
matrix products and norms in the precision of the computation, and no attention scores, which
flash attention recomputes. Weights, gradients and the two moments of the optimizer are fp32.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

from albertine.model.parameter_counts import count_parameters
from albertine.settings import ModelSettings

Precision = Literal["fp32", "bf16"]
BYTES_PER_VALUE = {"fp32": 4, "bf16": 2, "int8": 1}

# Fraction of the tokens that are masked and reach the MLM head.
MASKED_FRACTION = 0.15


@dataclass(frozen=True)
class FlopsPerToken:
    """FLOPs per token of a full sequence of the given length."""

    forward_per_token: float
    attention_per_token: float
    heads_per_token: float
    training_per_token: float
    training_with_recomputation_per_token: float


def count_flops(model: ModelSettings, length: int) -> FlopsPerToken:
    """Count the FLOPs of one token in a sequence of `length`.

    `forward` is the encoder with its pooler; `attention` is the part of it that grows with the
    length; `heads` are the pre-training heads over the masked tokens. A backward pass costs as
    much as two forward passes; recomputation adds one forward pass of the layers.
    """
    v, e, h, f = model.vocab_size, model.embedding_size, model.hidden_size, model.effective_ffn_size
    scores_and_values = model.applied_layers * 4.0 * length * h
    layers = model.applied_layers * (8.0 * h * h + 4.0 * h * f) + scores_and_values
    forward = layers + (2.0 * e * h if model.has_projection else 0.0) + 2.0 * h * h / length
    heads = MASKED_FRACTION * (2.0 * h * e + 2.0 * e * v) + 4.0 * h / length
    return FlopsPerToken(
        forward_per_token=forward,
        attention_per_token=scores_and_values,
        heads_per_token=heads,
        training_per_token=3.0 * (forward + heads),
        training_with_recomputation_per_token=3.0 * (forward + heads) + layers,
    )


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes on one device during a training step."""

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        """Sum of the four."""
        return self.weights + self.gradients + self.optimizer + self.activations


def training_memory(
    model: ModelSettings,
    *,
    batch_size: int,
    length: int,
    precision: Precision = "fp32",
    recompute: bool = False,
) -> TrainingMemory:
    """Estimate the memory of a training step over `batch_size` sequences of `length` tokens."""
    n = count_parameters(model).total
    # In bf16 each weight is cast once per forward pass: a second copy beside the one in fp32.
    weights = n * (4 if precision == "fp32" else 6)
    return TrainingMemory(
        weights=weights,
        gradients=4 * n,
        optimizer=8 * n,
        activations=activation_bytes(model, batch_size * length, precision, recompute=recompute),
    )


def activation_bytes(model: ModelSettings, tokens: int, precision: Precision, *, recompute: bool) -> int:
    """Estimate the bytes that a forward pass over this many tokens keeps for the backward pass, on a GPU.

    A CPU also keeps the attention probabilities of short sequences (`kernels/short_attention.py`).
    """
    value_bytes = BYTES_PER_VALUE[precision]
    v, e, h, f = model.vocab_size, model.embedding_size, model.hidden_size, model.effective_ffn_size
    # One layer: its input; q, k, v; the attention's output; input and output of the first norm; the
    # FFN before and after the activation; input of the second norm; a number per row and head.
    layer = value_bytes * (1 + 3 + 1 + 1 + 1 + 1) * h + value_bytes * 2 * f + 4 * model.heads
    if model.dropout:
        layer += 2 * h
    # With recomputation a layer keeps its input only; one layer at a time is recomputed in full.
    layers = (
        value_bytes * h * (model.applied_layers - 1) + layer if recompute else layer * model.applied_layers
    )
    # The embedding keeps the input and output of its norm. The MLM head keeps, for the masked tokens
    # only, its activations and, in fp32, the probabilities of the vocabulary.
    embedding = (4 + value_bytes) * e
    scores = 4 * v if precision == "fp32" else (4 + 2) * v + 4 * e  # in bf16 also the logits before the cast
    head = MASKED_FRACTION * (value_bytes * (h + 3 * e) + scores)
    return int(tokens * (layers + embedding + head))


def largest_batch_size(
    model: ModelSettings,
    memory_bytes: int,
    *,
    length: int,
    precision: Precision = "fp32",
    recompute: bool = False,
) -> int:
    """Return how many sequences of `length` tokens fit into `memory_bytes` in a training step; 0 if none."""

    def needed_bytes(batch: int) -> int:
        return training_memory(
            model, batch_size=batch, length=length, precision=precision, recompute=recompute
        ).total

    # A sequence takes at least one byte, so no batch is larger than the memory.
    return bisect_right(range(1, memory_bytes + 1), memory_bytes, key=needed_bytes)


def gradient_bytes(model: ModelSettings) -> int:
    """Return the size of all gradients in fp32: what data-parallel training reduces per step."""
    return 4 * count_parameters(model).total


def all_reduce_bytes_per_step(model: ModelSettings, processes: int) -> int:
    """Return the bytes that each process sends per step in a ring all-reduce of the gradients."""
    return 2 * (processes - 1) * gradient_bytes(model) // processes
