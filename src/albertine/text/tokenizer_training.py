"""Trains a tokenizer: ALBERT's special tokens, then the unigram vocabulary that SentencePiece learns.

The text, or a random sample of bounded size, is read once and reduced to counts of normalized
words, from which `unigram_training` learns the tokens. Every vocabulary has the characters of
`required_characters`; the other characters that it lacks are reported.

See docs/decisions/vocabulary-training.md and docs/decisions/required-characters.md.
"""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import median_low
from typing import Any

import sentencepiece
import tokenizers

from albertine import progress
from albertine.atomic import atomic_folder, partial_folder
from albertine.errors import InputError
from albertine.storage.objects import display_path
from albertine.storage.upload import new_folder
from albertine.storage.urls import storage_url
from albertine.text.backends import albert_backend, set_special_tokens
from albertine.text.characters import (
    language_warning,
    list_characters,
    lost_characters,
    required_characters,
    single_characters,
)
from albertine.text.documents import ReadErrors, read_documents
from albertine.text.language_detection import resolve_tokenizer_language
from albertine.text.languages import AUTO
from albertine.text.protobuf import message_fields
from albertine.text.settings import TokenizerSettings
from albertine.text.sources import Source, find_sources, source_chunks
from albertine.text.tokenizer import SpecialTokenIds, Tokenizer
from albertine.text.unigram_training import SPECIAL_TOKENS, learn_tokens

_MAX_WORDS = 2_000_000  # distinct words that are counted at a time
_MAX_WORD_LENGTH = 256


def build_tokenizer(sources: Sequence[str], out: Path, settings: TokenizerSettings) -> None:
    """Train a tokenizer on text sources (see `find_sources`) and write its folder."""
    with (
        new_folder(out, storage_url(out)) as local,
        atomic_folder(local) as folder,
        partial_folder(local) as scratch,
    ):
        found = find_sources(sources, spool=scratch / "standard-input")
        tokenizer = train_tokenizer(found, settings)
        tokenizer.save(folder)
    progress.print_message(
        f"{display_path(out)}: {len(tokenizer):,} tokens, fingerprint {tokenizer.fingerprint}"
    )


def train_tokenizer(sources: Sequence[Source], settings: TokenizerSettings) -> Tokenizer:
    """Return a tokenizer trained on text; the language decides what settings leave open."""
    settings = resolve_tokenizer_language(settings, sources)
    errors = ReadErrors(skip=settings.on_error == "skip")
    words = count_words(_sample_documents(sources, settings, errors), settings)
    if errors.count:
        progress.print_message(f"{errors.count:,} unreadable records skipped, first: {errors.messages[0]}")
    if not words:
        raise InputError("no text: the sources hold no words; check the paths and --layout or --field")
    learned = learn_tokens(words, required_characters(_normalization(settings)), settings)
    if not settings.byte_fallback:
        _report_lost_characters(words, (token for token, _ in learned))
    return _make_tokenizer(learned, settings)


def _sample_documents(
    sources: Sequence[Source], settings: TokenizerSettings, errors: ReadErrors
) -> Iterator[list[str]]:
    """Yield all documents, or if they exceed `max_text_mb`, documents of random chunks up to that size."""
    chunks = [chunk for source in sources for chunk in source_chunks(source)]
    range_sizes = [chunk.stop - chunk.start for chunk in chunks if chunk.source.has_byte_ranges]
    limit, has_compressed = settings.max_text_mb << 20, len(range_sizes) < len(chunks)
    if sum(range_sizes) > limit or has_compressed:
        random.Random(settings.seed).shuffle(chunks)
    # The size of compressed text is unknown before it is read, so no chunk gives more than an equal part.
    chunk_limit = max(1 << 20, limit // len(chunks)) if has_compressed else limit
    total = None if has_compressed else min(sum(range_sizes), limit)
    remaining = limit
    with progress.progress_counter("Reading text", total=total, unit="bytes") as advance:
        for chunk in chunks:
            remaining_before = remaining
            for document in read_documents(chunk, settings, errors):
                remaining -= sum(map(_num_bytes, document))
                yield document
                if remaining <= 0 or remaining_before - remaining >= chunk_limit:
                    break
            has_byte_ranges = chunk.source.has_byte_ranges
            advance(chunk.stop - chunk.start if has_byte_ranges else remaining_before - remaining)
            if remaining <= 0:
                progress.print_message(
                    f"training on a random sample of {settings.max_text_mb} MB of the text"
                )
                return


def _num_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def count_words(documents: Iterable[Sequence[str]], settings: TokenizerSettings) -> Counter[str]:
    """Return how often each word occurs in documents, after the normalization of the tokenizer."""
    raw_counts: Counter[str] = Counter()
    for document in documents:
        for sentence in document:
            raw_counts.update(sentence.split())
        if len(raw_counts) > _MAX_WORDS:
            raw_counts = _without_rare_words(raw_counts)
    _warn_about_language(raw_counts, settings)
    normalize = _normalization(settings)
    counts: Counter[str] = Counter()
    for word, count in raw_counts.items():
        for part in normalize(word[:_MAX_WORD_LENGTH]).split():
            counts[part] += count
    return counts


def _without_rare_words(counts: Counter[str]) -> Counter[str]:
    """Return the counts of at most half of the words, the most frequent, each reduced by the median count.

    This is lossy counting (Misra and Gries). Subtraction treats early and late words alike: a word stays
    only if it occurs more often than the sum of the medians since it was first seen. At least half of the
    words are removed, so memory is bounded and calls are rare.
    """
    limit = median_low(counts.values())
    return Counter({word: count - limit for word, count in counts.items() if count > limit})


def _warn_about_language(words: Counter[str], settings: TokenizerSettings) -> None:
    """Print a warning if the options do not suit the language of the words."""
    characters: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    warning = language_warning(
        characters,
        removes_accents=not settings.keep_accents,
        language="en" if settings.language == AUTO else settings.language,
    )
    if warning:
        progress.print_message(warning)


def _report_lost_characters(words: Counter[str], tokens: Iterable[str]) -> None:
    """Print which characters of the training text have no token, if any."""
    lost = lost_characters(words, single_characters(tokens))
    if lost:
        total = sum(count * len(word) for word, count in words.items())
        progress.print_message(
            f"{lost.total():,} of {total:,} characters ({lost.total() / total:.4%}) have no token and become "
            f"<unk>: {list_characters(lost)}; --character-coverage 1 gives each a token, --byte-fallback "
            "writes them as bytes"
        )


@cache
def character_map() -> bytes:
    """Return SentencePiece's precompiled normalization `nmt_nfkc`: NFKC and cleanup of web text."""
    rules = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_normalizer_spec()
    precompiled = dict(message_fields(rules)).get(2, b"")
    assert isinstance(precompiled, bytes)
    return precompiled


def _backend(
    vocabulary: Sequence[tuple[str, float]], settings: TokenizerSettings, unk_id: int
) -> tokenizers.Tokenizer:
    return albert_backend(
        vocabulary,
        unk_id=unk_id,
        cased=bool(settings.cased),
        keep_accents=bool(settings.keep_accents),
        character_map=character_map(),
        byte_fallback=settings.byte_fallback,
    )


def _normalization(settings: TokenizerSettings) -> Callable[[str], str]:
    """Return the normalization of a tokenizer with these settings."""
    # It does not depend on the vocabulary, so a pipeline with only <unk> suffices.
    backend = _backend(((SPECIAL_TOKENS[1], 0.0),), settings, 0)
    normalize: Callable[[str], str] = backend.normalizer.normalize_str
    return normalize


def _make_tokenizer(learned: list[tuple[str, float]], settings: TokenizerSettings) -> Tokenizer:
    """Return the tokenizer, with files that `transformers` opens and runs in the same way."""
    vocabulary = [(token, 0.0) for token in SPECIAL_TOKENS] + learned
    backend = _backend(vocabulary, settings, SPECIAL_TOKENS.index("<unk>"))
    set_special_tokens(backend, SPECIAL_TOKENS, "[CLS]", "[SEP]")
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # takes the pipeline as it is
        "do_lower_case": not settings.cased,
        "keep_accents": bool(settings.keep_accents),
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "bos_token": "[CLS]",
        "eos_token": "[SEP]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    if settings.language not in (AUTO, "en"):
        config["language"] = settings.language
    files = {
        "tokenizer.json": backend.to_str(pretty=True).encode(),
        "tokenizer_config.json": (json.dumps(config, indent=2) + "\n").encode(),
    }
    return Tokenizer(backend, SpecialTokenIds(0, 1, 2, 3, 4), files)
