"""Writes the pseudo-log-likelihood of each text of a file, while they are computed, in bounded memory."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.errors import InputError
from albertine.inference.fill_mask import fill_mask_pipeline_in
from albertine.inference.pseudo_likelihood import PseudoLikelihoodScorer, TextScore
from albertine.inference.row_identity import row_identity
from albertine.inference.settings import ScoreSettings
from albertine.inference.table_writer import RowChunk, TableRows, check_table_file, write_table
from albertine.interop.hub import locate_model
from albertine.settings.engine import EngineOptions
from albertine.storage.objects import display_path
from albertine.tasks.examples import TextExample, example_chunks
from albertine.tasks.formats.texts import read_texts
from albertine.tasks.reading import report_skipped
from albertine.tasks.settings import DataSettings
from albertine.text.read_errors import ReadErrors

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
    folder = locate_model(model)
    options = EngineOptions(settings.device, settings.precision)
    scorer = fill_mask_pipeline_in(folder, model, options).scorer_at(settings.depth)
    rows = _ScoredRows(folder, scorer, settings)
    count = write_table(rows, file, _COLUMNS, "scores")
    rows.read_errors.add(rows.too_long)
    report_skipped(rows.read_errors)
    return count


class _ScoredRows(TableRows):
    """The scores of the texts of a file.

    Attributes:
        read_errors: rows that cannot be read.
        too_long: texts that are too long for the model.
    """

    def __init__(self, folder: Path, scorer: PseudoLikelihoodScorer, settings: ScoreSettings):
        self._folder, self._scorer, self._settings = folder, scorer, settings
        skip = settings.on_error == "skip"
        self.read_errors, self.too_long = ReadErrors(skip), ReadErrors(skip)
        self._has_rows = False

    def chunks(self, num_finished: int) -> Iterator[RowChunk]:
        """Yield the scores of the texts after some that are finished; raise `InputError` if there is none."""
        settings = self._settings
        assert settings.data is not None
        columns = DataSettings(text=settings.text, id=settings.id, header=settings.header)
        columns = columns.with_explicit_keys(settings.explicit_keys)
        texts = islice(read_texts(settings.data, columns, self.read_errors), num_finished, None)
        for chunk in example_chunks(progress.track(texts, "Scoring", unit="texts"), _CHUNK_SIZE):
            rows = [
                (example, _values(text_score, with_tokens=settings.tokens))
                for example, text_score in self._score(chunk)
            ]
            self._has_rows = self._has_rows or bool(rows)
            yield RowChunk(rows, len(chunk))
        if not self._has_rows:
            problem = (
                f"no texts, but {self.too_long.count:,} that are too long"
                if self.too_long.count
                else "no texts"
            )
            raise InputError(f"{settings.data}: {problem}")

    def _score(self, examples: Sequence[TextExample]) -> Iterator[tuple[TextExample, TextScore]]:
        """Yield each example with the score of its text, in order; texts that are too long are errors."""
        scorer = self._scorer
        encoded = scorer.encode([example.texts[0] for example in examples])
        scored, texts = [], []
        for example, text in zip(examples, encoded, strict=True):
            if scorer.is_too_long(text):
                self.too_long.handle(example.location, f"a text of {scorer.length_problem(text)}")
                continue
            scored.append(example)
            texts.append(text)
        results = scorer.log_likelihoods(texts, (self._settings.method,))
        for example, text, (log_likelihoods,) in zip(scored, texts, results, strict=True):
            yield example, scorer.text_score(text, log_likelihoods)

    def identity(self, out: Path) -> Mapping[str, Any] | None:
        """Return all that the scores depend on."""
        settings = self._settings
        assert settings.data is not None
        engine = self._scorer.engine
        return row_identity([self._folder], [engine], settings.device, settings, settings.data, out)

    def state(self) -> dict[str, Any]:
        """Return the errors so far, and the cache.

        The texts that are computed depend on the cache, and the last digits of a score on which texts are
        computed together.
        """
        return {
            "has_rows": self._has_rows,
            "too_long": [self.too_long.count, self.too_long.messages],
            "cache": self._scorer.cache.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state; raise `InputError` if a text was skipped that now must not be."""
        self._has_rows = state["has_rows"]
        self.too_long.count, self.too_long.messages = state["too_long"]
        if self.too_long.count and not self.too_long.skip:
            raise InputError(f"{self.too_long.messages[0]}; fix it, or use --on-error skip")
        self._scorer.cache.restore(state["cache"])


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
