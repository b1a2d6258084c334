"""Output of `albertine tokenizer show`: the tokens of a text, and how well a vocabulary fits files."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from rich.markup import escape

from albertine import progress
from albertine.errors import InputError
from albertine.text.documents import check_reading_settings, read_documents
from albertine.text.find_sources import find_sources
from albertine.text.language_detection import resolve_reading_language
from albertine.text.read_errors import ReadErrors
from albertine.text.settings import ReadingSettings
from albertine.text.sources import source_chunks
from albertine.text.spaceless_scripts import has_spaces_between_words
from albertine.text.tokenizer import Tokenizer
from albertine.text.word_encoder import WordEncoder


@dataclass(frozen=True)
class TokenizerStats:
    """Counts of words, characters other than spaces, tokens and unknown tokens over some files."""

    words: int
    characters: int
    tokens: int
    unknown: int

    @property
    def tokens_per_word(self) -> float:
        """Mean number of tokens per word; near 1 if the vocabulary contains most words."""
        return self.tokens / max(1, self.words)

    @property
    def tokens_per_character(self) -> float:
        """Mean number of tokens per character; for text without spaces between words."""
        return self.tokens / max(1, self.characters)

    @property
    def unknown_rate(self) -> float:
        """Fraction of the tokens that are the unknown token."""
        return self.unknown / max(1, self.tokens)


def tokenizer_stats(tokenizer: Tokenizer, files: Sequence[str], reading: ReadingSettings) -> TokenizerStats:
    """Return the counts of words, tokens and unknown tokens over files."""
    encoder = WordEncoder(tokenizer)
    words = characters = tokens = unknown = 0
    errors = ReadErrors(skip=reading.on_error == "skip")
    if any(name in ("-", "/dev/stdin") for name in files):
        raise InputError("--stats: standard input not supported; save it to a file first")
    sources = find_sources(files)
    check_reading_settings(reading, sources)
    reading = resolve_reading_language(reading, sources)
    chunks = [chunk for source in sources for chunk in source_chunks(source)]
    for document in chain.from_iterable(
        read_documents(chunk, reading, errors) for chunk in progress.track(chunks, "Encoding", unit="chunks")
    ):
        ids, _ = encoder.encode(document)
        for sentence in document:
            parts = sentence.split()
            words += len(parts)
            characters += sum(map(len, parts))
        tokens += len(ids)
        unknown += int((ids == tokenizer.special_ids.unk).sum())
    if errors.count:
        progress.print_message(errors.summary)
    return TokenizerStats(words, characters, tokens, unknown)


def show_tokenizer(
    folder: Path, tokenizer: Tokenizer, text: str | None, stats: TokenizerStats | None, *, as_json: bool
) -> None:
    """Print the tokens of a text and the statistics over files; without either, a summary."""
    vocabulary = tokenizer.vocabulary
    ids = tokenizer.encode(text, add_special_tokens=False) if text is not None else []
    if as_json:
        report: dict[str, object] = {"vocab_size": len(tokenizer), "fingerprint": tokenizer.fingerprint}
        if text is not None:
            report |= {"tokens": [vocabulary[token_id] for token_id in ids], "ids": ids}
        if stats:
            ratios = ("tokens_per_word", "tokens_per_character", "unknown_rate")
            report["stats"] = asdict(stats) | {name: getattr(stats, name) for name in ratios}
        progress.print_json(report)
        return
    out = progress.result_console()
    if text is not None:
        table = progress.result_table("token", "id")
        for token_id in ids:
            token = escape(vocabulary[token_id])
            is_unknown = token_id == tokenizer.special_ids.unk
            table.add_row(f"[red]{token}[/]" if is_unknown else token, str(token_id))
        out.print(table)
    if stats:
        count, unit, ratio = stats.words, "word", stats.tokens_per_word
        if not has_spaces_between_words(stats.characters, stats.words):
            count, unit, ratio = stats.characters, "character", stats.tokens_per_character
        out.print(
            f"{count:,} {unit}s, {stats.tokens:,} tokens: {ratio:.3f} tokens per {unit}, "
            f"{stats.unknown_rate:.4%} unknown",
            highlight=False,
        )
    if text is None and stats is None:
        special = ", ".join(
            f"{vocabulary[token_id]} {token_id}" for token_id in vars(tokenizer.special_ids).values()
        )
        out.print(
            f"{folder}: {len(tokenizer):,} tokens, fingerprint {tokenizer.fingerprint}",
            highlight=False,
            markup=False,
        )
        out.print(f"special: {special}", highlight=False, markup=False)
