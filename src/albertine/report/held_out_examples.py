"""Held-out examples for a report: masked words, segment orders, and changes from layer to layer."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Literal

import numpy as np
import torch

from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset, PretrainSample
from albertine.corpus.settings import ObjectiveSettings
from albertine.errors import InputError
from albertine.inference.fill_mask import FillMaskPipeline
from albertine.info.transitions import LayerTransition, layer_transitions
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.report.examples import FillMaskExample, SegmentOrderExample
from albertine.settings import ModelSettings
from albertine.text.token_text import WholeWordTokens, token_text

_MAX_FILL_MASK_LENGTH = 44  # tokens: short enough to read at a glance
_TOP_K = 5
_MAX_ORDER_LENGTH = 80  # tokens: segments of two or more sentences, because shorter ones hardly show an order
_TRANSITION_SAMPLES = 64


def fill_mask_examples(
    pipeline: FillMaskPipeline, corpus: Corpus, count: int, seed: int
) -> list[FillMaskExample]:
    """Return predictions for one masked word in each of some held-out passages, after each step of depth.

    There are `count` passages, or fewer if the text is short. They are not the segment pairs of training,
    which may lack some words where their segments meet.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    examples: list[FillMaskExample] = []
    whole_words = WholeWordTokens(corpus.tokenizer)
    max_length = min(_MAX_FILL_MASK_LENGTH, pipeline.engine.model_settings.max_length)
    for sample in _samples(corpus, 4 * count, seed, max_length, pair="none"):
        ids = sample.original_tokens()
        quarter = len(ids) // 4
        positions = [
            position
            for position in whole_words.positions(ids).tolist()
            if quarter <= position < len(ids) - quarter
        ]
        if not positions:
            continue
        position = positions[int(rng.integers(len(positions)))]
        word = token_text(corpus.tokenizer.vocabulary[ids[position]], corpus.tokenizer)
        before, after = (
            corpus.tokenizer.decode(ids[:position].tolist()),
            corpus.tokenizer.decode(ids[position + 1 :].tolist()),
        )
        ids[position] = corpus.tokenizer.special_ids.mask
        predictions = [
            _words_with_probability(pipeline, ids.tolist(), sample.segments.tolist(), position, depth)
            for depth in _depths(pipeline)
        ]
        examples.append(FillMaskExample(before, word, after, predictions))
        if len(examples) == count:
            break
    return examples


def _depths(pipeline: FillMaskPipeline) -> Sequence[int | None]:
    """Return the depths after which a model predicts; only None if it predicts after the last step alone."""
    model = pipeline.engine.model_settings
    return range(1, model.layers + 1) if model.depth_rule == "fixed" else [None]


def _words_with_probability(
    pipeline: FillMaskPipeline, ids: list[int], segments: list[int], position: int, depth: int | None
) -> list[tuple[str, float]]:
    (predictions,) = pipeline.predict_tokens(ids, segments, [position], _TOP_K, depth)
    return [
        (token_text(prediction.token, pipeline.tokenizer), prediction.score) for prediction in predictions
    ]


def segment_order_examples(
    pipeline: FillMaskPipeline, corpus: Corpus, count: int, seed: int
) -> list[SegmentOrderExample]:
    """For pairs of held-out segments, return the order predictions for the text order and when swapped."""
    examples = []
    max_length = min(_MAX_ORDER_LENGTH, pipeline.engine.model_settings.max_length)
    for sample in _samples(corpus, count, seed, max_length):
        first, second = _segment_ids(sample)
        if sample.pair_label:  # swapped
            first, second = second, first
        examples.append(
            SegmentOrderExample(
                pipeline.tokenizer.decode(first),
                pipeline.tokenizer.decode(second),
                _order_probability(pipeline, first, second),
                _order_probability(pipeline, second, first),
            )
        )
    return examples


def _segment_ids(sample: PretrainSample) -> tuple[list[int], list[int]]:
    """Return the token ids of both segments before masking, without special tokens."""
    ids = sample.original_tokens()
    return ids[sample.segments == 0].tolist()[1:-1], ids[sample.segments == 1].tolist()[:-1]


def _order_probability(pipeline: FillMaskPipeline, first: list[int], second: list[int]) -> float:
    """Return the probability that two segments are in order.

    It takes ids, not text: a truncated segment can begin within a word, so tokenizing its text again may
    give other ids, and more than the model accepts.
    """
    special = pipeline.tokenizer.special_ids
    ids = [special.cls, *first, special.sep, *second, special.sep]
    segments = [0] * (len(first) + 2) + [1] * (len(second) + 1)
    return pipeline.order_probability_of_ids(ids, segments)


def held_out_transitions(
    model: Model, corpus: Corpus, seed: int, depth: int | None = None
) -> list[LayerTransition]:
    """Return how far each layer moves the hidden states of held-out samples.

    Args:
        model: the model.
        corpus: the corpus.
        seed: seed of the samples.
        depth: number of layers to apply, by default all; more only if they share all weights.
    """
    return layer_transitions(model, _transition_strips(model, corpus, seed), depth)


def held_out_mean_steps(model: Model, corpus: Corpus, seed: int) -> float | None:
    """Return after how many steps the tokens of held-out samples halt; None if the model has no halting."""
    if model.encoder.halting is None:
        return None
    steps = []
    for strip in _transition_strips(model, corpus, seed):
        with torch.inference_mode():
            model.encoder(strip)
        assert model.encoder.halting.weights is not None
        steps.append(model.encoder.halting.weights.mean_steps(len(strip.tokens)))
    return fmean(steps) if steps else None


def _transition_strips(model: Model, corpus: Corpus, seed: int) -> Iterator[Strip]:
    """Yield held-out samples without masks, one per strip."""
    max_length, pair = min(128, model.settings.max_length), _pair_of_samples(model.settings)
    for sample in _samples(corpus, _TRANSITION_SAMPLES, seed, max_length, pair):
        yield Strip.from_sequences([sample.original_tokens().tolist()], [sample.segments.tolist()])


def can_draw_held_out_samples(corpus: Corpus, pipeline: FillMaskPipeline) -> bool:
    """Return whether held-out samples can be drawn from a corpus."""
    model = pipeline.engine.model_settings
    try:
        max_length = min(_MAX_FILL_MASK_LENGTH, model.max_length)
        return next(_samples(corpus, 1, 0, max_length, _pair_of_samples(model)), None) is not None
    except InputError:
        return False


def _pair_of_samples(model: ModelSettings) -> Literal["sop", "none"]:
    """Return whether samples are pairs: a model with one segment cannot take any."""
    return "sop" if model.segments > 1 else "none"


def _samples(
    corpus: Corpus, count: int, seed: int, max_length: int, pair: Literal["sop", "none"] = "sop"
) -> Iterator[PretrainSample]:
    objective = ObjectiveSettings(pair, max_length, short_seq_prob=0.0, seed=seed)
    dataset = PretrainDataset(corpus, objective, "dev")
    yield from dataset.draw(np.arange(min(count, len(dataset))))
