"""Scores minimal pairs from left to right, with a model whose training had causal steps.

    python -m experiments.left_to_right MODEL --blimp blimp/data --pairs 200

A model that predicts masked tokens and next tokens with the same weights has two scores of a sentence. This
prints the accuracy on minimal pairs with each of them, and with sums of both.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from albertine.inference.masked_copies import EncodedText, ScoringMethod
from albertine.inference.minimal_pairs import score_minimal_pairs
from albertine.inference.pseudo_likelihood import PseudoLikelihoodScorer
from albertine.inference.score_cache import LogLikelihoods
from albertine.inference.settings import EvaluateSettings
from albertine.interop.load import load_checkpoint
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from experiments.network import VariantEngine, VariantModel
from experiments.save import published_modules
from experiments.variation import Variation

_BATCH_TEXTS = 64


class LeftToRightScorer(PseudoLikelihoodScorer):
    """Adds the log-probabilities of next tokens, and of masked tokens with a weight."""

    def __init__(self, engine: VariantEngine, tokenizer: Tokenizer, masked_weight: float):
        super().__init__(engine, tokenizer)
        self._model, self._masked_weight = engine.model, masked_weight

    def log_likelihoods(
        self, texts: Sequence[EncodedText], methods: Sequence[ScoringMethod]
    ) -> list[tuple[LogLikelihoods, ...]]:
        """Return the scores of the tokens of each text, equal for all methods but for the masked part."""
        order = sorted(range(len(texts)), key=lambda index: len(texts[index].ids))
        causal: dict[int, LogLikelihoods] = {}
        for start in range(0, len(order), _BATCH_TEXTS):
            indices = order[start : start + _BATCH_TEXTS]
            causal |= zip(indices, self._next_token_scores([texts[i] for i in indices]), strict=True)
        if not self._masked_weight:
            return [(causal[index],) * len(methods) for index in range(len(texts))]
        masked = super().log_likelihoods(texts, methods)
        return [
            tuple(causal[index] + self._masked_weight * values for values in of_methods)
            for index, of_methods in enumerate(masked)
        ]

    @torch.no_grad()
    def _next_token_scores(self, texts: Sequence[EncodedText]) -> list[LogLikelihoods]:
        """Return the log-probability of each token, without [CLS] and [SEP], after those before it."""
        ids = [torch.as_tensor(np.asarray(text.ids), dtype=torch.long) for text in texts]
        lengths = [len(tokens) for tokens in ids]
        offsets = torch.tensor([0, *np.cumsum(lengths)])
        tokens = torch.cat(ids)
        hidden = self._model.encoder(Strip(tokens, torch.zeros_like(tokens), offsets), None, causal=True)
        logits = self._model.token_logits(hidden).float()
        following = torch.cat([tokens[1:], tokens[:1]])
        values = logits.log_softmax(1).gather(1, following[:, None]).squeeze(1)
        return [part[:-2].numpy() for part in values.split(lengths)]


def variant_of(published: Model) -> VariantModel:
    """Return the network of the experiments with the weights of a saved model."""
    settings = published.settings
    variation = Variation(
        hidden_size=settings.hidden_size,
        layers=settings.layers,
        heads=settings.heads,
        embedding_size=settings.embedding_size,
        norm="before" if settings.norm_first else "after",
        rotary=settings.rotary,
    )
    model = VariantModel(variation, settings.vocab_size)
    pairs: list[tuple[nn.Module, nn.Module]] = published_modules(model, published)
    for target, source in pairs:
        target.load_state_dict(source.state_dict())
    bias: Tensor = published.head.masked.bias.data  # type: ignore[union-attr, assignment]
    model.bias.data.copy_(bias)
    return model.eval()


def main() -> None:
    """Read the options and print the accuracies."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--blimp", required=True)
    parser.add_argument("--pairs", type=int)
    options = parser.parse_args()
    published = load_checkpoint(options.model)
    settings = replace(published.settings, max_length=128)
    engine = VariantEngine(variant_of(published), settings, HeadSettings(kind="pretrain"))
    tokenizer = load_tokenizer(options.model)
    request = replace(EvaluateSettings(), task="blimp", data=options.blimp, pairs=options.pairs)
    scorers: dict[str, PseudoLikelihoodScorer] = {"masked": PseudoLikelihoodScorer(engine, tokenizer)}
    for weight in (0.0, 1.0):
        scorers[f"next token, and {weight} times masked"] = LeftToRightScorer(engine, tokenizer, weight)
    for name, scorer in scorers.items():
        (result,) = score_minimal_pairs(scorer, request, str(options.model))
        overall = result.overall
        print(f"{name}: {overall.accuracy:.1%} ({overall.low:.1%} to {overall.high:.1%})")


if __name__ == "__main__":
    main()
