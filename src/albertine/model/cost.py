"""Costs of running and training a model, from its settings alone: FLOPs, memory and communication.

FLOPs are those of matrix products, two per multiply-add as is usual; norms, activations and
softmax would add about 1%. Attention is counted in full: every token attends to its whole
sequence.

Activation memory is for the tensors that a GPU keeps for the backward pass: the inputs of matrix
products and norms in the precision of the computation, without attention scores, since flash
attention recomputes them. Weights, gradients and the two moments of the optimizer are fp32.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Literal

from albertine.model.parameter_counts import count_parameters
from albertine.model.step_shapes import matrix_shapes
from albertine.settings import HeadSettings, ModelSettings

Precision = Literal["fp32", "bf16"]
BYTES_PER_VALUE = {"fp32": 4, "bf16": 2, "int8": 1}

# Default fraction of the tokens that are masked; the pre-training heads read them and the first token.
MASKED_FRACTION = 0.15


@dataclass(frozen=True)
class FlopsPerToken:
    """FLOPs per token of a full sequence.

    Attributes:
        forward_per_token: forward pass of the encoder with its pooler.
        attention_per_token: the attention scores and the weighted sums of values, which grow with the
            sequence length; a part of `forward_per_token`.
        heads_per_token: forward pass of the pre-training heads.
        training_per_token: forward and backward pass of encoder and heads. After its attention, the last
            layer runs only for the tokens that the heads read.
        training_with_recomputation_per_token: the same, with one more forward pass of the layers.
    """

    forward_per_token: float
    attention_per_token: float
    heads_per_token: float
    training_per_token: float
    training_with_recomputation_per_token: float


def count_flops(model: ModelSettings, length: int, masked_fraction: float = MASKED_FRACTION) -> FlopsPerToken:
    """Return the FLOPs per token of a sequence of `length` tokens."""
    v, e, h, f = model.vocab_size, model.embedding_size, model.hidden_size, model.effective_ffn_size
    attention = model.applied_layers * 4.0 * length * h  # q k^T, and the sum of values
    layers = model.applied_layers * (8.0 * h * h + 4.0 * h * f) + attention
    projection = 2.0 * e * h if model.has_projection else 0.0
    pooler = 2.0 * h * h / length
    forward = layers + projection + pooler
    heads = masked_fraction * (2.0 * h * e + 2.0 * e * v) + 4.0 * h / length
    unread = max(0.0, 1.0 - masked_fraction - 1.0 / length)
    skipped = unread * (2.0 * h * h + 4.0 * h * f)  # output projection and feed-forward of the last layer
    if model.depth_rule == "fixed":
        training = 3.0 * (forward - skipped + heads)  # a backward pass costs as much as two forward passes
    else:
        skipped, training = 0.0, 3.0 * (forward + heads)  # the output is of several steps
    if model.depth_rule == "equilibrium":
        # Of L steps only the last has a backward pass. The adjoint equation takes one more step and L
        # products with the Jacobian, each as much as a step: in all 2 L + 3 steps instead of 3 L.
        training += (3.0 - model.layers) * layers / model.layers
    return FlopsPerToken(
        forward_per_token=forward,
        attention_per_token=attention,
        heads_per_token=heads,
        training_per_token=training,
        training_with_recomputation_per_token=training + layers - skipped,
    )


def pretraining_flops(
    model: ModelSettings,
    length: int,
    depths: tuple[int, ...],
    masked_fraction: float,
    *,
    recompute: bool = False,
) -> float:
    """Return the FLOPs per token of forward and backward pass, with the head after each of some depths."""
    flops = count_flops(replace(model, layers=depths[-1]), length, masked_fraction)
    # The backward pass takes twice the operations of the forward pass.
    more_heads = 3 * (len(depths) - 1) * flops.heads_per_token
    if recompute:
        return flops.training_with_recomputation_per_token + more_heads
    return flops.training_per_token + more_heads


def prediction_flops(
    model: ModelSettings,
    head: HeadSettings,
    length: int,
    steps: int,
    *,
    exit_depth: int | None = None,
    computes_all_tokens: bool = False,
) -> float:
    """Return the FLOPs of encoder and head for one sequence.

    Args:
        model: settings of the encoder.
        head: settings of the head, one of a task.
        length: tokens of the sequence.
        steps: number of steps of depth that it takes.
        exit_depth: largest number of steps of an exit rule, which runs the head after each step; None
            without a rule.
        computes_all_tokens: whether the last step is computed for all tokens, also if the head reads one.
    """
    e, h, f = model.embedding_size, model.hidden_size, model.effective_ffn_size
    after_attention = 2.0 * h * h + 4.0 * h * f
    layer = 6.0 * h * h + 4.0 * length * h + after_attention
    flops = length * (steps * model.inner_groups * layer + (2.0 * e * h if model.has_projection else 0.0))
    reads_all = computes_all_tokens or not _reads_first_token(head)
    if not reads_all and exit_depth in (None, steps) and model.depth_rule == "fixed":
        flops -= (length - 1) * after_attention  # the last layer runs for the tokens that the head reads
    return flops + (1 if exit_depth is None else steps) * _head_flops(model, head, length)


def _reads_first_token(head: HeadSettings) -> bool:
    matches = head.co_matching or head.matching
    return head.kind in ("classify", "multi-label", "regress", "choice") and not matches


def _head_flops(model: ModelSettings, head: HeadSettings, length: int) -> float:
    """Return the FLOPs of a head for one sequence; for co-matching, with three parts of equal length."""
    h = model.hidden_size
    if head.co_matching:
        # For each of three pairs: three products of one part, a third of the tokens, with a matrix, three of
        # two parts with each other, and the gate.
        return 6.0 * h * h * length + 2.0 * h * length * length + 12.0 * h * h
    if head.matching:
        # Queries, keys and the dense layer; the attention within the sequence; the pooler and the output.
        of_tokens = length * (12.0 * h * h + 4.0 * h * length)
        return of_tokens + 2.0 * h * h + 6.0 * h * head.labels
    if _reads_first_token(head):
        return 2.0 * h * h + 2.0 * h * head.labels
    return 2.0 * h * length * (2 if head.kind == "span" else head.labels)


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes on one device during a training step."""

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        """Sum of weights, gradients, optimizer state and activations."""
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
    parameters = count_parameters(model).total
    # In bf16 each weight is cast once per forward pass: a second copy beside the one in fp32.
    weights = parameters * (4 if precision == "fp32" else 6)
    if model.step_rank:  # the sum of shared matrix and difference of each layer is kept, too
        matrices = sum(rows * columns for rows, columns in matrix_shapes(model).values())
        weights += model.layers * matrices * BYTES_PER_VALUE[precision]
    return TrainingMemory(
        weights=weights,
        gradients=4 * parameters,
        optimizer=8 * parameters,
        activations=activation_bytes(model, batch_size * length, precision, recompute=recompute),
    )


def activation_bytes(
    model: ModelSettings,
    tokens: int,
    precision: Precision,
    *,
    recompute: bool,
    masked_fraction: float = MASKED_FRACTION,
) -> int:
    """Estimate the bytes that a forward pass over `tokens` tokens keeps for the backward pass, on a GPU.

    On a CPU the attention probabilities of short sequences are kept too (`kernels/short_attention.py`), and
    those of the vocabulary are not (`kernels/vocabulary_loss.py`).
    """
    value_bytes = BYTES_PER_VALUE[precision]
    v, e, h = model.vocab_size, model.embedding_size, model.hidden_size
    up_to_attention, after_attention = layer_activation_bytes(model, precision)
    layer = up_to_attention + after_attention
    # The rest of the last layer runs for the masked tokens only, on a copy of the output of attention.
    last_layer = up_to_attention + masked_fraction * (value_bytes * h + after_attention)
    # With recomputation each layer keeps its input only; one layer at a time is recomputed in full.
    layers = (
        value_bytes * h * (model.applied_layers - 1) + layer
        if recompute
        else layer * (model.applied_layers - 1) + last_layer
    )
    # The embedding keeps the input and output of its norm. The MLM head keeps, for the masked tokens
    # only, its activations and, in fp32, the probabilities of the vocabulary; if the rest is in bf16,
    # also the bf16 logits and the fp32 input of the norm.
    embedding = (4 + value_bytes) * e
    probabilities = 4 * v if precision == "fp32" else (4 + 2) * v + 4 * e
    head = masked_fraction * (value_bytes * (h + 3 * e) + probabilities)
    return int(tokens * (layers + embedding + head))


def layer_activation_bytes(model: ModelSettings, precision: Precision) -> tuple[float, float]:
    """Estimate the bytes per token that a layer keeps for the backward pass: attention, and the rest.

    A layer keeps, of width H: its input; q, k and v; the output of attention; input and output of the first
    norm; input of the second norm. Of the width of the feed-forward network: input and output of the
    activation. And one fp32 number per token and head, the log-sum-exp of flash attention.
    """
    value_bytes, h, f = BYTES_PER_VALUE[precision], model.hidden_size, model.effective_ffn_size
    up_to_attention = value_bytes * (1 + 3 + 1) * h + 4 * model.heads
    after_attention = value_bytes * ((1 + 1 + 1) * h + 2 * f)
    if model.dropout:
        after_attention += 2 * h  # two masks, one byte per value
    return up_to_attention, after_attention


def largest_batch_size(
    model: ModelSettings,
    memory_bytes: int,
    *,
    length: int,
    precision: Precision = "fp32",
    recompute: bool = False,
) -> int:
    """Return the largest batch size whose training step fits into `memory_bytes`; 0 if none does."""

    def needed_bytes(batch_size: int) -> int:
        return training_memory(
            model, batch_size=batch_size, length=length, precision=precision, recompute=recompute
        ).total

    # A sequence takes at least one byte, so no batch is larger than the memory.
    return bisect_right(range(1, memory_bytes + 1), memory_bytes, key=needed_bytes)


def gradient_bytes(model: ModelSettings) -> int:
    """Return the size of all gradients in fp32, which data-parallel training reduces in each step."""
    return 4 * count_parameters(model).total


def all_reduce_bytes_per_step(model: ModelSettings, processes: int) -> int:
    """Return the bytes that each process sends per step in a ring all-reduce of the gradients."""
    return 2 * (processes - 1) * gradient_bytes(model) // processes
