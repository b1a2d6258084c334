"""`albertine fill-mask`: prints a model's predictions for the masks of texts or of held-out samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.text import Text

from albertine import progress
from albertine.corpus.corpus import Corpus, check_same_tokenizer, open_corpus
from albertine.corpus.dataset import PretrainDataset, PretrainSample
from albertine.corpus.settings import ObjectiveSettings
from albertine.corpus.show import highlighted_sample
from albertine.errors import InputError
from albertine.inference.fill_mask import FillMaskPipeline, TokenPrediction, fill_mask_pipeline
from albertine.inference.settings import FillMaskSettings
from albertine.text.token_text import split_marker
from albertine.text.tokenizer import Tokenizer

_CORRECT_STYLE = "bold green"
_MAX_SHOWN_TOKENS = 128  # longer samples are hard to read


def show_fill_mask(source: str, texts: Sequence[str], settings: FillMaskSettings, *, as_json: bool) -> None:
    """Fill the masks of texts, or of a corpus's held-out samples, and print the predictions."""
    if bool(texts) == (settings.corpus is not None):
        raise InputError("give texts with [MASK] in them, or --corpus for held-out samples; one of the two")
    if texts:
        _refuse_options_of_samples(settings)
    pipeline = fill_mask_pipeline(source, device=settings.device)
    if texts:
        predictions = [pipeline.fill(text, top_k=settings.top_k, depth=settings.depth) for text in texts]
        _show_texts(texts, predictions, pipeline.tokenizer, as_json=as_json)
        return
    corpus = open_corpus(settings.corpus)
    check_same_tokenizer(source, pipeline.tokenizer.fingerprint, corpus)
    longest = pipeline.engine.model_settings.max_length
    max_length = settings.max_length or min(_MAX_SHOWN_TOKENS, longest)
    if max_length > longest:
        raise InputError(f"--max-length {max_length}: the model takes at most {longest} tokens")
    objective = ObjectiveSettings("sop" if pipeline.has_pair_head else "none", max_length, seed=settings.seed)
    _show_samples(pipeline, corpus, objective, settings, as_json=as_json)


def _refuse_options_of_samples(settings: FillMaskSettings) -> None:
    """Raise `InputError` for settings that choose samples of a corpus."""
    defaults = FillMaskSettings()
    for name in ("samples", "first", "max_length", "seed"):
        if getattr(settings, name) != getattr(defaults, name):
            raise InputError(f"--{name.replace('_', '-')}: is for the samples of --corpus; leave it out")


def _show_texts(
    texts: Sequence[str],
    predictions: Sequence[list[list[TokenPrediction]]],
    tokenizer: Tokenizer,
    *,
    as_json: bool,
) -> None:
    if as_json:
        report = [
            {"text": text, "masks": [_predictions_json(mask_predictions) for mask_predictions in masks]}
            for text, masks in zip(texts, predictions, strict=True)
        ]
        progress.print_json({"texts": report})
        return
    console = progress.result_console()
    for text, masks in zip(texts, predictions, strict=True):
        console.print(Text(text, "bold"))
        for mask_predictions in masks:
            console.print(Text("  ").append(_predictions_line(mask_predictions, tokenizer)))


def _show_samples(
    pipeline: FillMaskPipeline,
    corpus: Corpus,
    objective: ObjectiveSettings,
    settings: FillMaskSettings,
    *,
    as_json: bool,
) -> None:
    dataset = PretrainDataset(corpus, objective, "dev")
    sample_numbers = np.arange(settings.first, min(settings.first + settings.samples, len(dataset)))
    if not len(sample_numbers):
        raise InputError(f"{corpus.folder}: no sample {settings.first:,}; it has {len(dataset):,}")
    samples = dataset.draw(sample_numbers)
    predictions = [
        predict_sample_masks(pipeline, sample, settings.top_k, settings.depth) for sample in samples
    ]
    tokenizer = corpus.tokenizer
    vocabulary = tokenizer.vocabulary
    if as_json:
        report = [
            {
                "sample": int(sample_number),
                "masks": [
                    {"expected": vocabulary[label], "predictions": _predictions_json(mask_predictions)}
                    for label, mask_predictions in zip(sample.labels.tolist(), masks, strict=True)
                ],
            }
            for sample_number, sample, masks in zip(sample_numbers, samples, predictions, strict=True)
        ]
        progress.print_json({"samples": report})
        return
    console = progress.result_console()
    for sample_number, sample, masks in zip(sample_numbers, samples, predictions, strict=True):
        console.print(Text(f"sample {sample_number:,}", "bold"))
        console.print(highlighted_sample(sample, tokenizer))
        for label, mask_predictions in zip(sample.labels.tolist(), masks, strict=True):
            _, expected_text = split_marker(
                vocabulary[label], " ", marks_continuations=tokenizer.marks_continuations
            )
            console.print(
                Text(f"  {expected_text}: ").append(
                    _predictions_line(mask_predictions, tokenizer, vocabulary[label])
                )
            )
        console.print()


def predict_sample_masks(
    pipeline: FillMaskPipeline, sample: PretrainSample, top_k: int, depth: int | None = None
) -> list[list[TokenPrediction]]:
    """Return the predictions for the masks of a sample."""
    positions = sample.masked_positions.tolist()
    return (
        pipeline.predict_tokens(sample.tokens.tolist(), sample.segments.tolist(), positions, top_k, depth)
        if positions
        else []
    )


def _predictions_line(
    predictions: Sequence[TokenPrediction], tokenizer: Tokenizer, expected: str | None = None
) -> Text:
    """Return predictions as one line; a token that continues a word is shown as in "/s"."""
    line = Text()
    for prediction in predictions:
        separator, text = split_marker(
            prediction.token, "x", marks_continuations=tokenizer.marks_continuations
        )
        style = _CORRECT_STYLE if prediction.token == expected else ""
        line.append(", " if line else "").append(f"{separator}{text}".strip(), style)
        line.append(f" {prediction.score:.1%}", "dim")
    return line


def _predictions_json(predictions: Sequence[TokenPrediction]) -> list[dict[str, Any]]:
    return [{"token_str": prediction.token, "score": prediction.score} for prediction in predictions]
