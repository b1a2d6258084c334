"""The whole model, an encoder with a head, and its initial weights."""

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from albertine.device import total_memory
from albertine.errors import InputError
from albertine.model.co_matching_head import CoMatchingHead
from albertine.model.encoder import ComputeOptions, Encoder
from albertine.model.head import Head
from albertine.model.kernels.primitive_cache import limit_primitive_cache
from albertine.model.learned_exit import ExitUnit
from albertine.model.parameter_counts import count_parameters, count_task_parameters
from albertine.model.prediction_heads import (
    ClassificationHead,
    MultiLabelHead,
    MultipleChoiceHead,
    RegressionHead,
    TokenClassificationHead,
)
from albertine.model.pretraining_heads import MaskedLMHead, PretrainingHead
from albertine.model.span_head import SpanHead
from albertine.model.step_shapes import starts_at_zero
from albertine.model.strip import Strip
from albertine.model.strip_states import StripStates, check_can_exit
from albertine.randomness import named_generator
from albertine.settings import HeadSettings, ModelSettings

INITIALIZER_RANGE = 0.02


class Model(nn.Module):
    """An encoder with a head: maps a strip, and targets if given, to the output of the head.

    Attributes:
        settings: settings of the encoder.
        head_settings: settings of the head.
        label_names: names of the labels in the order of their indices; empty if unknown.
        missing_parameters: names of the parameters that are random because the checkpoint lacks them: those
            of its head if it is of an encoder alone, or of a head that was asked for; else empty.
        exit_heads: heads of all steps of depth but the last, if each step has its own; else empty.
        exit_unit: predicts after each step whether to stop; None without a learned exit.
    """

    def __init__(self, settings: ModelSettings, head: HeadSettings | None = None, *, seed: int | None = 0):
        super().__init__()
        self.settings = settings
        self.head_settings = HeadSettings() if head is None else head
        self.label_names: tuple[str, ...] = ()
        self.missing_parameters: tuple[str, ...] = ()
        if seed is not None:
            check_memory(settings, head)
        self.encoder = Encoder(settings)
        self.head = make_head(settings, self.head_settings, self.encoder.embedding.tokens)
        if self.head_settings.exits != "none":
            check_can_exit(settings)
        num_exit_heads = settings.layers - 1 if self.head_settings.exits == "own" else 0
        self.exit_heads = nn.ModuleList(
            make_head(settings, self.head_settings, self.encoder.embedding.tokens)
            for _ in range(num_exit_heads)
        )
        self.exit_unit = ExitUnit(settings.hidden_size) if self.head_settings.learned_exit else None
        if self.exit_unit is not None and settings.layers == 1:
            raise InputError("learned_exit: needs at least 2 layers; after the only one there is no choice")
        if seed is not None:
            init_weights(self, seed)
            self.copy_head_to_exits()

    def configure(self, options: ComputeOptions) -> None:
        """Set precision, memory use and speed; call it before the first forward pass of the process."""
        if options.kernels:
            limit_primitive_cache()
        self.encoder.compute_options = options
        for module in (*self.head.modules(), *self.exit_heads.modules()):
            if isinstance(module, Head):
                module.kernels = options.selected_kernels

    def forward(self, strip: Strip, targets: Any = None, *, depth: int | None = None) -> Any:
        """Return the output of the head for a strip.

        Args:
            strip: the sequences.
            targets: targets of the head's type; without them the output has no loss.
            depth: number of layers to apply, by default all; see `depth_plan`.
        """
        head = self.head if depth is None else self.head_at(depth)
        indices = head.indices_to_read(strip, targets)
        return head(self.encoder(strip, indices, depth=depth), strip, targets)

    def head_at(self, step: int) -> Head:
        """Return the head that predicts after a step of depth, counted from 1."""
        head = self.exit_heads[step - 1] if step <= len(self.exit_heads) else self.head
        assert isinstance(head, Head)
        return head

    def exit_outputs(self, strip: Strip, targets: Any, depths: Sequence[int] | None = None) -> list[Any]:
        """Return the output of the head after several steps of depth, with the losses, from one pass.

        Args:
            strip: the sequences.
            targets: targets of the head's type.
            depths: numbers of steps, in increasing order; by default 1 to that of the model.
        """
        depths = range(1, self.settings.layers + 1) if depths is None else depths
        states = StripStates(self.encoder, strip, depths[-1])
        indices = self.head.indices_to_read(strip, targets)
        outputs = []
        for step in range(1, depths[-1] + 1):
            hidden = states.advance(indices)
            if step in depths:
                outputs.append(self.head_at(step)(hidden, strip, targets))
        return outputs

    def learned_exit_outputs(self, strip: Strip, targets: Any) -> tuple[list[Any], Tensor]:
        """Return the output of the head after each step of depth, with the losses, and the stop logits.

        The logits are those of the exit unit after each step but the last, [steps - 1, predictions].

        Args:
            strip: the sequences.
            targets: targets of the head's type.
        """
        states = StripStates(self.encoder, strip, self.settings.layers)
        indices = self.head.indices_to_read(strip, targets)
        cls_hidden = [states.cls_hidden()]
        outputs = []
        for step in range(1, self.settings.layers + 1):
            outputs.append(self.head_at(step)(states.advance(indices), strip, targets))
            if step < self.settings.layers:
                cls_hidden.append(states.cls_hidden())
        return outputs, torch.stack([self.stop_logits(*pair) for pair in pairwise(cls_hidden)])

    def stop_logits(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the logit of the exit unit for each prediction, a mean over its sequences, [predictions].

        Args:
            before: state of [CLS] before a step of depth, [sequences, hidden].
            after: its state after the step, [sequences, hidden].
        """
        assert self.exit_unit is not None
        logits: Tensor = self.exit_unit(before, after)
        return logits.view(-1, self.head.sequences_per_prediction).mean(1)

    def copy_head_to_exits(self) -> None:
        """Give the heads of all steps the weights of the last one, with which their training starts."""
        for head in self.exit_heads:
            head.load_state_dict(self.head.state_dict())

    def masked_lm_logits(self, strip: Strip, indices: Tensor, *, depth: int | None = None) -> Tensor:
        """Return the logits of the masked-LM head at one token of each sequence, [sequences, vocab].

        This is faster than `forward`, which computes the last layer and the logits of all tokens.

        Args:
            strip: the sequences, none of them empty.
            indices: index in the strip of one token of each sequence, in order, [sequences]; of a causal
                strip, any tokens.
            depth: number of steps of depth, by default all.
        """
        head = self.head if depth is None else self.head_at(depth)
        head = head.masked if isinstance(head, PretrainingHead) else head
        if not isinstance(head, MaskedLMHead):
            raise InputError(
                f"the head is {self.head_settings.kind}; only a pre-trained model has a masked LM"
            )
        return head.token_logits(self.encoder.hidden_at(strip, indices, depth=depth))


def make_head(settings: ModelSettings, head: HeadSettings, token_embedding: nn.Embedding) -> Head:
    """Return a new head of the kind that its settings name."""
    match head.kind:
        case "pretrain":
            return PretrainingHead(settings, token_embedding, head.dropout)
        case "mlm":
            return MaskedLMHead(settings, token_embedding)
        case "classify":
            return ClassificationHead(settings, head)
        case "multi-label":
            return MultiLabelHead(settings, head)
        case "regress":
            return RegressionHead(settings, head)
        case "choice":
            return (CoMatchingHead if head.co_matching else MultipleChoiceHead)(settings, head)
        case "token":
            return TokenClassificationHead(settings, head)
        case "span":
            return SpanHead(settings, head)


def check_memory(
    model: ModelSettings, head: HeadSettings | None = None, *, bytes_per_parameter: float = 4
) -> None:
    """Raise `InputError` if the weights of a new model cannot fit into the memory of this machine.

    Args:
        model: settings of the model.
        head: settings of its head; None for that of pre-training.
        bytes_per_parameter: bytes that each parameter takes; those of its value alone by default.
    """
    parameters = count_parameters(model).total + (count_task_parameters(model, head) if head else 0)
    # Random values are drawn in fp64, with one temporary copy.
    largest = max(model.vocab_size, model.max_length, model.segments) * model.embedding_size
    largest = max(largest, model.effective_ffn_size * model.hidden_size)
    needed, available = bytes_per_parameter * parameters + 16 * largest, total_memory()
    if needed > available:
        raise InputError(
            f"the model has {parameters:,} parameters, which take {needed / 1e9:,.0f} GB here; this machine "
            f"has {available / 1e9:,.0f} GB; choose smaller sizes (vocab_size, embedding_size, hidden_size, "
            "ffn_size, layers) or share parameters"
        )


def init_weights(model: nn.Module, seed: int, names: Collection[str] | None = None) -> None:
    """Initialize parameters as published: matrices truncated normal, norm weights 1, all else 0.

    Differences between the steps of depth start at 0.

    Each matrix has its own random stream, which depends on the seed and the name of the parameter.
    So its values are the same on every machine, under every head and in every order of construction.

    Args:
        model: the model to initialize, in place.
        seed: seed of all streams.
        names: names of the parameters to initialize; all if not given.
    """
    for name, parameter in model.named_parameters():
        if names is not None and name not in names:
            continue
        if parameter.dim() >= 2 and not starts_at_zero(name):
            generator = named_generator(f"{seed}/{name}")
            parameter.data.copy_(truncated_normal(parameter.shape, generator) * INITIALIZER_RANGE)
        elif name.endswith("norm.weight"):
            parameter.data.fill_(1.0)
        else:
            parameter.data.zero_()


def truncated_normal(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Return fp32 values from a standard normal truncated at two standard deviations.

    The inverse distribution function is computed in fp64: machines differ in its last bits, and
    rounding to fp32 removes the difference.
    """
    max_uniform = math.erf(2 / math.sqrt(2))
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64) * (2 * max_uniform) - max_uniform
    return (torch.erfinv(uniform) * math.sqrt(2)).float()
