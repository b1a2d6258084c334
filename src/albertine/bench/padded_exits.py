"""Exits in padded batches, as they were published: a batch runs until its last example has left.

The predictions equal those of strips, because each example keeps the prediction of the step at which it
left. Only the time differs: padding and examples that have left are computed until the batch is done. The
last layer is computed for all tokens; in a strip, only for those that the head reads.
"""

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from albertine.engines.torch_engine import TorchEngine
from albertine.model.padded import PaddedModel, visible_tokens
from albertine.model.prediction_heads import ClassificationHead
from albertine.model.strip import Strip
from albertine.settings.exit_rule import ExitRule


def time_padded_exits(
    engine: TorchEngine, strips: Sequence[Strip], rule: ExitRule | None
) -> tuple[float, list[int]]:
    """Return the seconds that padded batches take, and the index of the label of each sequence.

    Args:
        engine: an engine with a classifier.
        strips: the sequences of each batch.
        rule: patience or confidence; None for full depth.
    """
    labels: list[int] = []
    started = time.perf_counter()
    for strip in strips:
        labels += _padded_logits(engine, strip.to(engine.device), rule).argmax(1).tolist()
    return time.perf_counter() - started, labels


@torch.no_grad()
def _padded_logits(engine: TorchEngine, strip: Strip, rule: ExitRule | None) -> Tensor:
    """Return the logits of each sequence at the step at which its prediction is final, on the CPU."""
    ids, mask, segments = strip.to_padded()
    positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    states = PaddedModel(engine.model).states(ids, mask, segments, positions, kernels=True)
    next(states)  # the output of the embedding
    encoder, layers = engine.model.encoder, engine.model_settings.layers
    final = torch.zeros(len(strip), dtype=torch.bool)
    times_unchanged, previous = torch.zeros(len(strip)), torch.full((len(strip),), -1)
    result = torch.empty(0)
    for step, hidden in enumerate(states, start=1):
        if rule is None and step < layers:
            continue
        head = engine.model.head_at(step)
        assert isinstance(head, ClassificationHead)
        if head.matching is None:
            first_tokens = encoder.normalized_output(hidden[:, 0])
        else:
            normalized = encoder.normalized_output(hidden)
            first_tokens = head.sequence_states(normalized, visible_tokens(mask), segments)[:, 0]
        logits = head.sequence_logits(first_tokens).cpu()
        result = logits if not len(result) else torch.where(final[:, None], result, logits)
        if rule is None:
            continue
        labels = logits.argmax(1)
        times_unchanged = torch.where(labels == previous, times_unchanged + 1, 0)
        previous = labels
        if rule.confidence is not None:
            final |= logits.softmax(1).amax(1) >= rule.confidence
        else:
            assert rule.patience is not None
            final |= times_unchanged >= rule.patience
        if final.all():
            break
    return result
