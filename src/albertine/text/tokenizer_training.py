"""Trains a tokenizer: ALBERT's special tokens, then the unigram vocabulary that SentencePiece learns.

The text, or a random sample of bounded size, is read once and reduced to counts of normalized
words. SentencePiece's trainer receives these counts. It runs with a fixed number of threads,
because its floating-point sums depend on that number; so the same text gives the same vocabulary
on every machine. The vocabulary has no tokens that end in a digit and a comma, because ALBERT's
reference code would split them again.

See docs/decisions/vocabulary-training.md.
"""

import io
import json
import random
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import sentencepiece
import tokenizers

from albertine import progress
from albertine.atomic import atomic_folder
from albertine.errors import InputError, WorkError
from albertine.processes import run_in_processes
from albertine.text.backends import albert_backend, set_special_tokens
from albertine.text.documents import ReadErrors, read_documents
from albertine.text.protobuf import message_fields
from albertine.text.sentencepiece_model import SentencePieceModel, read_sentencepiece
from albertine.text.settings import MIN_VOCAB_SIZE, TokenizerSettings
from albertine.text.sources import Source, find_sources, source_chunks
from albertine.text.tokenizer import SpecialTokenIds, Tokenizer

SPECIAL_TOKENS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_THREADS = 16  # of the trainer; another number would give another vocabulary
_MAX_WORDS = 2_000_000  # distinct words that are counted at a time
_MAX_WORD_LENGTH = 256
_COMMA_AFTER_DIGIT = re.compile(r"(?<=\d),")
_DELIMITER = "\x02"  # the trainer makes no token that contains it
_LINE_LENGTH = 900  # characters; the trainer drops lines of over 4,192 bytes
_COMBINING_ABOVE = 230  # combining class of marks above a letter, such as accents


def build_tokenizer(sources: Sequence[str], out: Path, settings: TokenizerSettings) -> None:
    """Train a tokenizer on text sources (see `find_sources`) and write its folder."""
    with atomic_folder(out) as folder, tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        found = find_sources(sources, spool=Path(scratch) / "standard-input")
        tokenizer = train_tokenizer(found, settings)
        tokenizer.save(folder)
    progress.print_message(f"{out}: {len(tokenizer):,} tokens, fingerprint {tokenizer.fingerprint}")


def train_tokenizer(sources: Sequence[Source], settings: TokenizerSettings) -> Tokenizer:
    """Return a tokenizer trained on text."""
    errors = ReadErrors(skip=settings.on_error == "skip")
    words = count_words(_sample_documents(sources, settings, errors), settings)
    if errors.count:
        progress.print_message(f"{errors.count:,} unreadable records skipped, first: {errors.locations[0]}")
    if not words:
        raise InputError("no text: the sources hold no words; check the paths and --layout or --field")
    return _make_tokenizer(_learn_tokens(words, settings), settings)


def _sample_documents(
    sources: Sequence[Source], settings: TokenizerSettings, errors: ReadErrors
) -> Iterator[list[str]]:
    """Yield all documents, or if they exceed `max_text_mb`, documents of random chunks up to that size."""
    chunks = [chunk for source in sources for chunk in source_chunks(source)]
    splittable_sizes = [chunk.stop - chunk.start for chunk in chunks if chunk.source.is_splittable]
    limit, has_compressed = settings.max_text_mb << 20, len(splittable_sizes) < len(chunks)
    if sum(splittable_sizes) > limit or has_compressed:
        random.Random(settings.seed).shuffle(chunks)
    # The size of compressed text is unknown before it is read, so no chunk gives more than an equal part.
    chunk_limit = max(1 << 20, limit // len(chunks)) if has_compressed else limit
    total = None if has_compressed else min(sum(splittable_sizes), limit)
    remaining = limit
    with progress.progress_counter("Reading text", total=total, unit="characters") as advance:
        for chunk in chunks:
            remaining_before = remaining
            for document in read_documents(chunk, settings, errors):
                remaining -= sum(map(len, document))
                yield document
                if remaining <= 0 or remaining_before - remaining >= chunk_limit:
                    break
            is_splittable = chunk.source.is_splittable
            advance(chunk.stop - chunk.start if is_splittable else remaining_before - remaining)
            if remaining <= 0:
                progress.print_message(
                    f"training on a random sample of {settings.max_text_mb} MB of the text"
                )
                return


def count_words(documents: Iterable[Sequence[str]], settings: TokenizerSettings) -> Counter[str]:
    """Return how often each word occurs in documents, after the normalization of the tokenizer."""
    raw_counts: Counter[str] = Counter()
    for document in documents:
        for sentence in document:
            raw_counts.update(sentence.split())
        if len(raw_counts) > _MAX_WORDS:  # bounds the memory; words seen once matter least
            raw_counts = Counter({word: count for word, count in raw_counts.items() if count > 1})
    if not settings.keep_accents:
        _warn_about_vowel_marks(raw_counts)
    # The normalization does not depend on the vocabulary, so a pipeline with only <unk> suffices.
    normalizer = _backend(((SPECIAL_TOKENS[1], 0.0),), settings, 0).normalizer
    counts: Counter[str] = Counter()
    for word, count in raw_counts.items():
        for part in normalizer.normalize_str(word[:_MAX_WORD_LENGTH]).split():
            counts[part] += count
    return counts


def _learn_tokens(words: Counter[str], settings: TokenizerSettings) -> list[tuple[str, float]]:
    """Return text and log probability of the learned tokens, most probable first."""
    lines = training_lines(words)
    vocab_size = settings.vocab_size
    progress.print_message(f"training {vocab_size:,} tokens on {len(words):,} distinct words")
    try:
        model = _train_in_process(lines, vocab_size, settings)
    except _VocabularyTooLargeError as error:
        largest = _largest_vocab_size(lines, error.suggested_size, settings)
        if largest < MIN_VOCAB_SIZE:
            raise InputError("too little text for any vocabulary; give more text") from None
        if settings.allow_smaller:
            progress.print_message(f"too little text for {vocab_size:,} tokens; using {largest:,}")
            return _learn_tokens(words, replace(settings, vocab_size=largest))
        raise InputError(
            f"--vocab-size {vocab_size}: too little text; "
            f"use --vocab-size {largest} or less, or give more text"
        ) from None
    return list(model.pieces[len(SPECIAL_TOKENS) :])


def _largest_vocab_size(lines: list[str], suggested_size: int, settings: TokenizerSettings) -> int:
    """Return a size that the trainer reaches, at most the one that it suggested, which can be too large."""
    while True:
        try:
            return len(_train_in_process(lines, suggested_size, settings).pieces)
        except _VocabularyTooLargeError as error:
            suggested_size = min(error.suggested_size, suggested_size - 1)


def _warn_about_vowel_marks(words: Counter[str]) -> None:
    """Print a warning if removing accents would remove letters: in many scripts vowels are marks."""
    marks: Counter[str] = Counter()
    letters = 0
    for word, count in words.items():
        letters += count * len(word)
        if not word.isascii():
            for character in unicodedata.normalize("NFKD", word):
                if unicodedata.combining(character) not in (0, _COMBINING_ABOVE):
                    marks[unicodedata.name(character, "?").partition(" ")[0]] += count
    for script, count in marks.most_common(1):
        if script != "COMBINING" and count > letters / 100:
            progress.print_message(
                f"{count / letters:.0%} of the characters are {script.title()} marks, "
                "which are removed like accents; use --keep-accents to keep them"
            )


def training_lines(words: Counter[str]) -> list[str]:
    """Return word counts as lines `text<TAB>count` for SentencePiece's trainer.

    The trainer's first candidates are strings that repeat with different continuations, so a word
    that is in one line only is never a candidate. Therefore half of a word's count goes to a line
    with this word alone, and the other half to shared lines, where other words follow it. The count
    of a shared line is a power of two; a word is in one shared line for each bit set in its half.
    """
    # By count, then by word, so that the order is the same in every run.
    word_counts = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    word_counts = [(_COMMA_AFTER_DIGIT.sub(f"{_DELIMITER},", word), count) for word, count in word_counts]
    lines = [f"{word}\t{count - count // 2}" for word, count in word_counts]
    for bit in range(max(words.values()).bit_length()):
        line: list[str] = []
        length = 0
        # The empty word at the end completes the last line.
        for word in [word for word, count in word_counts if count // 2 >> bit & 1] + [""]:
            if length + len(word) > _LINE_LENGTH or not word:
                lines += [f"{' '.join(line)}\t{1 << bit}"] if line else []
                line, length = [], 0
            line.append(word)
            length += len(word) + 1
    return lines


class _VocabularyTooLargeError(Exception):
    """The text gives fewer tokens than requested.

    Attributes:
        suggested_size: vocabulary size that the trainer suggests.
    """

    def __init__(self, suggested_size: int):
        self.suggested_size = suggested_size


def _train_in_process(lines: list[str], vocab_size: int, settings: TokenizerSettings) -> SentencePieceModel:
    """Return the model that the trainer learns in a separate process.

    Python handles no signal while the trainer runs, but the other process can be killed.
    """
    jobs = [(lines, vocab_size, settings)]
    ((_, model),) = run_in_processes(_train_sentencepiece, jobs, 1, advice="use less text with --max-text-mb")
    return read_sentencepiece(model)


def _train_sentencepiece(job: tuple[list[str], int, TokenizerSettings]) -> bytes:
    """Return the SentencePiece file that the trainer learns from lines with counts."""
    lines, vocab_size, settings = job
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            input_format="tsv",
            vocab_size=vocab_size,
            model_type="unigram",
            character_coverage=settings.character_coverage,
            normalization_rule_name="identity",  # words are normalized already
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=list(SPECIAL_TOKENS[2:]),
            pretokenization_delimiter=_DELIMITER,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        suggested_size = re.search(r"value <= (\d+)", str(error))
        if suggested_size:
            raise _VocabularyTooLargeError(int(suggested_size[1])) from None
        characters = re.search(r"required_chars\D+\d+ vs (\d+)", str(error))
        if characters:
            problem = f"the text has {int(characters[1]):,} characters that need a token each"
            raise InputError(
                f"--vocab-size {settings.vocab_size}: {problem}; increase it, or lower --character-coverage"
            ) from None
        raise WorkError(f"SentencePiece's trainer failed: {error}") from None
    return model.getvalue()


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
        cased=settings.cased,
        keep_accents=settings.keep_accents,
        character_map=character_map(),
    )


def _make_tokenizer(learned: list[tuple[str, float]], settings: TokenizerSettings) -> Tokenizer:
    """Return the tokenizer, with files that `transformers` opens as an ALBERT tokenizer."""
    vocabulary = [(token, 0.0) for token in SPECIAL_TOKENS] + learned
    backend = _backend(vocabulary, settings, SPECIAL_TOKENS.index("<unk>"))
    set_special_tokens(backend, SPECIAL_TOKENS, "[CLS]", "[SEP]")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # takes the pipeline as it is
        "do_lower_case": not settings.cased,
        "keep_accents": settings.keep_accents,
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "bos_token": "[CLS]",
        "eos_token": "[SEP]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    files = {
        "tokenizer.json": backend.to_str(pretty=True).encode(),
        "tokenizer_config.json": (json.dumps(config, indent=2) + "\n").encode(),
    }
    return Tokenizer(backend, SpecialTokenIds(0, 1, 2, 3, 4), files)
