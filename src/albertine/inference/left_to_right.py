"""Log-likelihoods of texts from left to right: each token is predicted from those before it.

All tokens of a text are predicted in one pass; a pseudo-log-likelihood needs one for each token. The model
must have learned to predict next tokens (`pretrain --objective.causal-fraction`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from albertine.engines.engine import Engine, check_finite
from albertine.errors import InputError
from albertine.inference.masked_copies import EncodedText
from albertine.inference.score_cache import LogLikelihoods
from albertine.model.strip import Strip, concatenated_ranges
from albertine.tasks.sequences import split_by_tokens


def check_has_next_tokens(engine: Engine) -> None:
    """Raise `InputError` if a model has not learned to predict next tokens."""
    if not engine.head_settings.next_tokens:
        raise InputError(
            "method left-to-right: the model has not learned to predict next tokens; score by masked tokens "
            "(word-l2r), or pre-train a model with --objective.causal-fraction 0.5"
        )


def next_token_log_likelihoods(
    engine: Engine, texts: Sequence[EncodedText], vocab_size: int, max_tokens: int, depth: int | None
) -> list[LogLikelihoods]:
    """Return the log-probability of each token after those before it, one array `[tokens]` for each text.

    Args:
        engine: runs the model.
        texts: the texts.
        vocab_size: number of tokens of the tokenizer; some checkpoints round it up.
        max_tokens: largest number of tokens of a strip; a longer text is a strip by itself.
        depth: number of steps of depth; None for those of the model.
    """
    values = [np.empty(0, np.float32)] * len(texts)
    by_length = sorted(range(len(texts)), key=lambda index: len(texts[index].ids))
    for batch in split_by_tokens(by_length, lambda index: len(texts[index].ids), max_tokens):
        sequences = [texts[index].ids.tolist() for index in batch]
        strip = replace(Strip.from_sequences(sequences), causal=True)
        lengths = [len(ids) - 2 for ids in sequences]  # without [CLS] and [SEP]
        # The output at a token predicts the next one.
        before = concatenated_ranges(strip.offsets[:-1].tolist(), lengths)
        logits = engine.masked_lm_logits(strip, before, depth=depth)[:, :vocab_size].float()
        labels = strip.tokens[before + 1].to(logits.device)
        rows = torch.arange(len(labels), device=logits.device)
        log_likelihoods = (logits[rows, labels] - logits.logsumexp(1)).cpu().numpy()
        parts = np.split(check_finite(log_likelihoods), np.cumsum(lengths)[:-1])
        for index, part in zip(batch, parts, strict=True):
            values[index] = part
    return values
