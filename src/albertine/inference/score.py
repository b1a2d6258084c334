"""Writes the pseudo-log-likelihood of each text of a file, while they are computed, in bounded memory."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.errors import InputError
from albertine.inference.fill_mask import fill_mask_pipeline
from albertine.inference.pseudo_likelihood import PseudoLikelihoodScorer, TextScore
from albertine.inference.settings import ScoreSettings
from albertine.inference.table_writer import check_table_file, write_table
from albertine.storage.objects import display_path
from albertine.tasks.examples import TextExample, example_chunks
from albertine.tasks.formats.texts import read_texts
from albertine.tasks.reading import report_skipped
from albertine.tasks.settings import DataSettings
from albertine.text.documents import ReadErrors

_COLUMNS = ("pll", "pll_per_token", "pll_per_word", "num_tokens", "num_words")
_CHUNK_SIZE = 4096  # texts
_DIGITS = 6  # after the decimal point


def score(model: str | Path, settings: ScoreSettings, out: str | Path | None = None) -> int:
    """Write the scores of the texts of a file; return their number.

    Args:
        model: a pre-trained run, the folder of a checkpoint (also of `transformers`, Google), or a hub name.
        settings: the data, its columns, and the method.
        out: a path or URL of a file of JSON lines, CSV or TSV. Without it, JSON lines are written to standard
            output.
    """
    if settings.data is None:
        raise InputError("--data is missing: a .txt, .csv, .tsv, .jsonl or .parquet file, or hub:OWNER/NAME")
    file = None if out is None else Path(out)
    if file is not None:
        check_table_file(file)
        if settings.tokens and file.suffix.lower() != ".jsonl":
            raise InputError(
                f"{display_path(file)}: --tokens writes lists, which need JSON lines; name a .jsonl file"
            )
    pipeline = fill_mask_pipeline(model, device=settings.device, precision=settings.precision)
    errors = ReadErrors(skip=settings.on_error == "skip")
    count = write_table(_scored_rows(pipeline.scorer, settings, errors), file, _COLUMNS, "scores")
    report_skipped(errors)
    return count


def _scored_rows(
    scorer: PseudoLikelihoodScorer, settings: ScoreSettings, errors: ReadErrors
) -> Iterator[tuple[TextExample, dict[str, Any]]]:
    """Yield each text with its score as values by name; raise `InputError` if there are none."""
    assert settings.data is not None
    columns = DataSettings(text=settings.text, id=settings.id, header=settings.header)
    columns.record_explicit_keys(settings.explicit_keys)
    texts = read_texts(settings.data, columns, errors)
    count = 0
    for example, text_score in score_examples(
        scorer, progress.track(texts, "Scoring", unit="texts"), settings, errors
    ):
        count += 1
        yield example, _values(text_score, with_tokens=settings.tokens)
    if not count:
        raise InputError(f"{settings.data}: no texts")


def score_examples(
    scorer: PseudoLikelihoodScorer,
    examples: Iterable[TextExample],
    settings: ScoreSettings,
    errors: ReadErrors,
) -> Iterator[tuple[TextExample, TextScore]]:
    """Yield each example with the score of its text, in order; texts that are too long are errors."""
    for chunk in example_chunks(examples, _CHUNK_SIZE):
        encoded = scorer.encode([example.texts[0] for example in chunk])
        scored, texts = [], []
        for example, text in zip(chunk, encoded, strict=True):
            if scorer.is_too_long(text):
                errors.handle(example.location, f"a text of {scorer.length_problem(text)}")
                continue
            scored.append(example)
            texts.append(text)
        results = scorer.log_likelihoods(texts, (settings.method,))
        for example, text, (log_likelihoods,) in zip(scored, texts, results, strict=True):
            yield example, scorer.text_score(text, log_likelihoods)


def _values(text_score: TextScore, *, with_tokens: bool) -> dict[str, Any]:
    values: dict[str, Any] = {
        "pll": round(text_score.pll, _DIGITS),
        "pll_per_token": _rounded(text_score.pll_per_token),
        "pll_per_word": _rounded(text_score.pll_per_word),
        "num_tokens": len(text_score.tokens),
        "num_words": text_score.num_words,
    }
    if with_tokens:
        values["tokens"] = list(text_score.tokens)
        values["log_likelihoods"] = [round(value, _DIGITS) for value in text_score.log_likelihoods]
    return values


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
