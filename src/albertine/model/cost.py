"""What a model costs to run and to train: operations, memory and traffic, from its settings alone.

Operations are those of matrix products, two per multiply-add, as is usual;
norms, activations and softmax add about a percent and are left out. Attention
is counted in full: every position attends to its whole sequence.

Memory follows what the network keeps for the backward pass: the inputs of its
matrix products and norms in the precision of the computation, and attention
without its score matrix, as a GPU does (it is computed block by block and again in
the backward pass). Weights, gradients and the two moments of the optimizer are fp32.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

from albertine.model.parameter_counts import count_parameters
from albertine.settings import ModelSettings

Precision = Literal["fp32", "bf16"]
BYTES_PER_VALUE = {"fp32": 4, "bf16": 2, "int8": 1}

# 15% of the pieces are masked and reach the MLM head.
MASKED_FRACTION = 0.15


@dataclass(frozen=True)
class FlopsPerToken:
    """Operations per token of a full sequence of the given length."""

    forward_per_token: float
    attention_per_token: float
    heads_per_token: float
    training_per_token: float
    training_with_recomputation_per_token: float


def count_flops(model: ModelSettings, length: int) -> FlopsPerToken:
    """Count the operations of one token in a sequence of `length`.

    `forward` is the encoder with its pooler; `attention` is the part of it that grows with the
    length; `heads` are the pre-training heads over the masked share. A backward pass costs two
    forward ones; recomputation runs the blocks forward once more.
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
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations


def training_memory(
    model: ModelSettings,
    *,
    batch_size: int,
    length: int,
    precision: Precision = "fp32",
    recompute: bool = False,
) -> TrainingMemory:
    """Estimate the memory of a training step over `batch_size` sequences of `length` pieces."""
    n = count_parameters(model).total
    # In bf16 each weight is cast once per step, so a second copy is alive beside the fp32 one.
    weights = n * (4 if precision == "fp32" else 6)
    return TrainingMemory(
        weights=weights,
        gradients=4 * n,
        optimizer=8 * n,
        activations=activation_bytes(model, batch_size * length, precision, recompute=recompute),
    )


def activation_bytes(model: ModelSettings, tokens: int, precision: Precision, *, recompute: bool) -> int:
    """Estimate what a forward pass over this many tokens keeps for the backward pass.

    This is a GPU's; a CPU also keeps the attention weights of short sequences (`short_attention`).
    """
    value_bytes = BYTES_PER_VALUE[precision]
    v, e, h, f = model.vocab_size, model.embedding_size, model.hidden_size, model.effective_ffn_size
    # One step of depth: its input; q, k, v; the attention's output; the sum and result of the first
    # norm; the FFN before and after the activation; the sum that the second norm reads.
    layer = value_bytes * (1 + 3 + 1 + 1 + 1 + 1) * h + value_bytes * 2 * f + 4 * model.heads
    if model.dropout:
        layer += 2 * h
    # Recomputing, a step keeps its input alone; the inside of one step is alive while it runs again.
    layers = (
        value_bytes * h * (model.applied_layers - 1) + layer if recompute else layer * model.applied_layers
    )
    # The embedding keeps its sum and its norm; the MLM head its activations and, in fp32, the
    # probabilities of every piece, for the masked pieces only.
    embedding = (4 + value_bytes) * e
    scores = 4 * v if precision == "fp32" else (4 + 2) * v + 4 * e  # in bf16, what is cast to fp32 stays too
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
    """Return how many sequences of `length` a training step fits into `memory_bytes` bytes; 0 if not even one."""

    def needed_bytes(batch: int) -> int:
        return training_memory(
            model, batch_size=batch, length=length, precision=precision, recompute=recompute
        ).total

    # A sequence takes a byte at the least, so no larger batch can fit.
    return bisect_right(range(1, memory_bytes + 1), memory_bytes, key=needed_bytes)


def gradient_bytes(model: ModelSettings) -> int:
    """Return the size of all gradients in fp32: what data-parallel training reduces per step."""
    return 4 * count_parameters(model).total


def all_reduce_bytes_per_step(model: ModelSettings, processes: int) -> int:
    """Return the bytes that each of so many processes sends per step, by a ring all-reduce."""
    return 2 * (processes - 1) * gradient_bytes(model) // processes
