"""A small model, strips and a loss that the tests of the model share."""

import torch
from torch import Tensor

from albertine.model.model import Model
from albertine.model.pretraining_heads import MaskedLMTargets, PretrainingTargets
from albertine.model.strip import Strip
from albertine.settings import ModelSettings

SMALL = ModelSettings(vocab_size=61, embedding_size=10, hidden_size=24, layers=3, heads=4, max_length=16)
STRIP = Strip.from_sequences([[3, 5, 8, 2, 9], [7, 1], [4, 4, 4, 4, 4], [6]])


def strip_of_lengths(lengths: list[int]) -> Strip:
    """Return a strip of sequences with these lengths, all of token 0."""
    tokens = torch.zeros(sum(lengths), dtype=torch.long)
    return Strip(tokens, torch.zeros_like(tokens), torch.tensor([0, *lengths]).cumsum(0))


def random_strip(lengths: list[int], seed: int = 0) -> Strip:
    """Return a strip of random tokens and segments for `SMALL`."""
    generator = torch.Generator().manual_seed(seed)
    tokens, segments = (torch.randint(0, count, (sum(lengths),), generator=generator) for count in (61, 2))
    return Strip(tokens, segments, torch.tensor([0, *lengths]).cumsum(0))


def loss_and_gradients(model: Model, strip: Strip = STRIP) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the pre-training loss of a model and the gradients of its parameters."""
    model.zero_grad()
    masked_indices = torch.arange(1, len(strip.tokens), 4)
    masked_targets = MaskedLMTargets(masked_indices, (7 * masked_indices + 5) % 61)
    targets = PretrainingTargets(masked_targets, torch.arange(len(strip)).remainder(2))
    loss: Tensor = model(strip, targets).loss
    loss.backward()
    gradients = {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return loss.detach(), gradients
