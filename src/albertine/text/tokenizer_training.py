"""Trains a tokenizer: ALBERT's special tokens, then the unigram vocabulary that SentencePiece learns.

The text, or a random sample of bounded size, is read once and reduced to counts of normalized
words, from which `unigram_training` learns the tokens. Every vocabulary has the characters of
`required_characters`; the other characters that it lacks are reported.

See docs/decisions/vocabulary-training.md and docs/decisions/required-characters.md.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers

from albertine import progress
from albertine.atomic import atomic_folder, partial_folder
from albertine.errors import InputError
from albertine.executors.executor import Executor
from albertine.storage.objects import display_path
from albertine.storage.upload import output_folder
from albertine.text.backends import albert_backend, set_special_tokens
from albertine.text.characters import (
    language_warning,
    list_characters,
    lost_characters,
    required_characters,
    single_characters,
)
from albertine.text.documents import check_reading_settings
from albertine.text.find_sources import find_sources
from albertine.text.language_detection import resolve_tokenizer_language
from albertine.text.languages import AUTO
from albertine.text.protobuf import message_fields
from albertine.text.read_errors import ReadErrors
from albertine.text.settings import TokenizerSettings
from albertine.text.sources import Source
from albertine.text.tokenizer import Tokenizer
from albertine.text.unigram_training import SPECIAL_TOKENS, learn_tokens
from albertine.text.vocabulary_formats import SpecialTokenIds
from albertine.text.word_counts import WordCounter, count_on_cluster, plan_sample, sample_documents

_MAX_WORD_LENGTH = 256  # of what is a word to the training; longer ones, as without spaces, are cut


def build_tokenizer(
    sources: Sequence[str], out: Path, settings: TokenizerSettings, executor: Executor | None = None
) -> None:
    """Train a tokenizer on text sources (see `find_sources`) and write its folder.

    Args:
        sources: text.
        out: a new folder or URL.
        settings: settings of the training.
        executor: where the words are counted; None for this process.
    """
    with (
        output_folder(out) as local,
        atomic_folder(local) as folder,
        partial_folder(local) as scratch,
    ):
        found = find_sources(sources, spool=scratch / "standard-input")
        check_reading_settings(settings, found)
        tokenizer = train_tokenizer(found, settings, executor)
        tokenizer.save(folder)
    progress.print_message(
        f"{display_path(out)}: {len(tokenizer):,} tokens, fingerprint {tokenizer.fingerprint}"
    )


def train_tokenizer(
    sources: Sequence[Source], settings: TokenizerSettings, executor: Executor | None = None
) -> Tokenizer:
    """Return a tokenizer trained on text; the language decides what settings leave open."""
    settings = resolve_tokenizer_language(settings, sources)
    errors = ReadErrors(skip=settings.on_error == "skip")
    sample = plan_sample(sources, settings)
    if executor is None:
        words = count_words(sample_documents(sample, settings, errors), settings)
    else:
        words = _normalized(count_on_cluster(sample, settings, errors, executor), settings)
    if errors.count:
        progress.print_message(errors.summary)
    if not words:
        raise InputError("no text: the sources hold no words; check the paths and --layout or --field")
    learned = learn_tokens(words, required_characters(_normalization(settings)), settings)
    if not settings.byte_fallback:
        _report_lost_characters(words, (token for token, _ in learned))
    return _make_tokenizer(learned, settings)


def count_words(documents: Iterable[Sequence[str]], settings: TokenizerSettings) -> Counter[str]:
    """Return how often each word occurs in documents, after the normalization of the tokenizer."""
    counter = WordCounter()
    for document in documents:
        counter.add(document)
    return _normalized(counter.counts, settings)


def _normalized(raw_counts: Counter[str], settings: TokenizerSettings) -> Counter[str]:
    """Return the counts of words after the normalization of the tokenizer."""
    _warn_about_language(raw_counts, settings)
    normalize = _normalization(settings)
    counts: Counter[str] = Counter()
    for word, count in raw_counts.items():
        for start in range(0, len(word), _MAX_WORD_LENGTH):
            for part in normalize(word[start : start + _MAX_WORD_LENGTH]).split():
                counts[part] += count
    return counts


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
