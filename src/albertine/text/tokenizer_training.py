"""A vocabulary of one's own: SentencePiece's unigram pieces, ALBERT's special ones before them.

The text is read once, a bounded random sample of it, and boils down to how often
each word occurs, cleaned as the tokenizer will clean it. SentencePiece's trainer
takes it from there, with a fixed number of threads: its sums depend on how they
are split up, and so the same text gives the same vocabulary on every machine.
(The trainer in `tokenizers` gives another one in every process.)

Pieces that end in a digit and a comma, which ALBERT's reference code takes apart
again, are kept from coming up.
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
_THREADS = 16
_MAX_WORDS = 2_000_000
_MAX_WORD_LENGTH = 256
_COMMA_AFTER_DIGIT = re.compile(r"(?<=\d),")
_DELIMITER = "\x02"  # no piece goes over it
_LINE_LENGTH = 900  # characters; the trainer leaves out lines of over 4,192 bytes
_COMBINING_ABOVE = 230  # Unicode's class of marks above a letter, which accents are


def build_tokenizer(texts: Sequence[str], out: Path, settings: TokenizerSettings) -> None:
    """Learn a vocabulary from what a person named, and write it as a folder."""
    with atomic_folder(out) as folder, tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        found = find_sources(texts, spool=Path(scratch) / "standard-input")
        tokenizer = train_tokenizer(found, settings)
        tokenizer.save(folder)
    progress.print_message(f"{out}: {len(tokenizer):,} pieces, fingerprint {tokenizer.fingerprint}")


def train_tokenizer(sources: Sequence[Source], settings: TokenizerSettings) -> Tokenizer:
    """Learn a vocabulary from text."""
    errors = ReadErrors(skip=settings.on_error == "skip")
    words = count_words(_sample_documents(sources, settings, errors), settings)
    if errors.count:
        progress.print_message(f"{errors.count:,} places could not be read, as in {errors.locations[0]}")
    if not words:
        raise InputError("no text: the sources hold no words")
    return _make_tokenizer(_learn_pieces(words, settings), settings)


def _sample_documents(
    sources: Sequence[Source], settings: TokenizerSettings, errors: ReadErrors
) -> Iterator[list[str]]:
    """Yield documents: all of the text, or portions drawn at random until there is enough."""
    chunks = [chunk for source in sources for chunk in source_chunks(source)]
    splittable_sizes = [chunk.stop - chunk.start for chunk in chunks if chunk.source.is_splittable]
    limit, has_compressed = settings.max_text_mb << 20, len(splittable_sizes) < len(chunks)
    if sum(splittable_sizes) > limit or has_compressed:
        random.Random(settings.seed).shuffle(chunks)
    # How much text a packed file holds is not known before it is read: each gives its share.
    chunk_limit = max(1 << 20, limit // len(chunks)) if has_compressed else limit
    total = None if has_compressed else min(sum(splittable_sizes), limit)
    remaining = limit
    with progress.progress_counter("Reading text", total=total, unit="characters") as advance:
        for chunk in chunks:
            before = remaining
            for document in read_documents(chunk, settings, errors):
                remaining -= sum(map(len, document))
                yield document
                if remaining <= 0 or before - remaining >= chunk_limit:
                    break
            advance(chunk.stop - chunk.start if chunk.source.is_splittable else before - remaining)
            if remaining <= 0:
                progress.print_message(
                    f"learning from {settings.max_text_mb} MB of the text, drawn at random"
                )
                return


def count_words(documents: Iterable[Sequence[str]], settings: TokenizerSettings) -> Counter[str]:
    """Count the words of documents, cleaned as the tokenizer will clean them."""
    raw: Counter[str] = Counter()
    for document in documents:
        for sentence in document:
            raw.update(sentence.split())
        if len(raw) > _MAX_WORDS:  # a bound on memory: what was seen once is the least loss
            raw = Counter({word: count for word, count in raw.items() if count > 1})
    if not settings.keep_accents:
        _warn_about_vowel_marks(raw)
    normalizer = _backend(((SPECIAL_TOKENS[1], 0.0),), settings, 0).normalizer
    cleaned: Counter[str] = Counter()
    for word, count in raw.items():
        for part in normalizer.normalize_str(word[:_MAX_WORD_LENGTH]).split():
            cleaned[part] += count
    return cleaned


def _learn_pieces(words: Counter[str], settings: TokenizerSettings) -> list[tuple[str, float]]:
    """Return a vocabulary without special pieces, likeliest first."""
    lines = training_lines(words)
    wanted = settings.vocab_size
    progress.print_message(f"learning {wanted:,} pieces from {len(words):,} words")
    try:
        model = _train_in_process(lines, wanted, settings)
    except _VocabularyTooLargeError as error:
        largest = _largest_vocab_size(lines, error, settings)
        if largest < MIN_VOCAB_SIZE:
            raise InputError("too little text for any vocabulary; give more") from None
        if settings.allow_smaller:
            progress.print_message(f"too little text for {wanted:,} pieces; taking {largest:,}")
            return _learn_pieces(words, replace(settings, vocab_size=largest))
        raise InputError(
            f"--vocab-size {wanted}: too little text for it; --vocab-size {largest} or less is possible, "
            "or give more text"
        ) from None
    return list(model.pieces[len(SPECIAL_TOKENS) :])


def _largest_vocab_size(
    lines: list[str], error: "_VocabularyTooLargeError", settings: TokenizerSettings
) -> int:
    """Return a size that the trainer does reach; what it says itself need not be one."""
    while True:
        try:
            return len(_train_in_process(lines, error.possible, settings).pieces)
        except _VocabularyTooLargeError as again:
            error = _VocabularyTooLargeError(min(again.possible, error.possible - 1))


def _warn_about_vowel_marks(words: Counter[str]) -> None:
    """Tell the person when taking accents off would take vowels off: in many scripts marks are letters."""
    marks: Counter[str] = Counter()
    letters = 0
    for word, count in words.items():
        letters += count * len(word)
        if not word.isascii():
            for one in unicodedata.normalize("NFKD", word):
                if unicodedata.category(one)[0] == "M" and unicodedata.combining(one) != _COMBINING_ABOVE:
                    marks[unicodedata.name(one, "?").partition(" ")[0]] += count
    for script, count in marks.most_common(1):
        if script != "COMBINING" and count > letters / 100:
            progress.print_message(
                f"{count / letters:.0%} of the characters are {script.title()} marks, letters that would go "
                "with the accents; --keep-accents keeps them"
            )


def training_lines(words: Counter[str]) -> list[str]:
    """Return counted words as lines with counts, in a form from which the trainer sees whole words.

    It takes its first candidates from what repeats in the lines, followed now by one thing, now by
    another; a word that stands in one line would never be one. So half of a word's count goes to a
    line of its own, where the line ends after it, and the other half to lines where another word
    follows; those have a power of two as their count, and a word is in as many as its half needs.
    """
    # By count, then by name: an order that no run changes.
    word_counts = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    word_counts = [(_COMMA_AFTER_DIGIT.sub(f"{_DELIMITER},", word), count) for word, count in word_counts]
    lines = [f"{word}\t{count - count // 2}" for word, count in word_counts]
    for bit in range(max(words.values()).bit_length()):
        gathered: list[str] = []
        size = 0
        for word in [word for word, count in word_counts if count // 2 >> bit & 1] + [""]:
            if size + len(word) > _LINE_LENGTH or not word:
                lines += [f"{' '.join(gathered)}\t{1 << bit}"] if gathered else []
                gathered, size = [], 0
            gathered.append(word)
            size += len(word) + 1
    return lines


class _VocabularyTooLargeError(Exception):
    """More pieces were asked for than the text gives."""

    def __init__(self, possible: int):
        self.possible = possible


def _train_in_process(lines: list[str], size: int, settings: TokenizerSettings) -> SentencePieceModel:
    """Run the trainer in a process of its own: at work it hears no signal, and can only be ended."""
    jobs = [(lines, size, settings)]
    ((_, model),) = run_in_processes(_train_sentencepiece, jobs, 1, advice="read less text, with --sample-mb")
    return read_sentencepiece(model)


def _train_sentencepiece(job: tuple[list[str], int, TokenizerSettings]) -> bytes:
    """Run SentencePiece's trainer over counted words."""
    lines, size, settings = job
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            input_format="tsv",
            vocab_size=size,
            model_type="unigram",
            character_coverage=settings.character_coverage,
            normalization_rule_name="identity",  # words come as the tokenizer cleans them
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
        possible = re.search(r"value <= (\d+)", str(error))
        if possible:
            raise _VocabularyTooLargeError(int(possible[1])) from None
        needed = re.search(r"required_chars\D+\d+ vs (\d+)", str(error))
        if needed:
            problem = f"the text has {int(needed[1]):,} characters that need a piece each"
            raise InputError(
                f"--vocab-size {settings.vocab_size}: {problem}; give more, or less --coverage"
            ) from None
        raise WorkError(f"the trainer of the vocabulary failed: {error}") from None
    return model.getvalue()


@cache
def character_map() -> bytes:
    """Return SentencePiece's normalisation of characters, NFKC and what the web spoils, for `tokenizers`."""
    rules = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_normalizer_spec()
    precompiled = dict(message_fields(rules)).get(2, b"")
    assert isinstance(precompiled, bytes)
    return precompiled


def _backend(
    pieces: Sequence[tuple[str, float]], settings: TokenizerSettings, unk_id: int
) -> tokenizers.Tokenizer:
    return albert_backend(
        pieces,
        unk_id=unk_id,
        cased=settings.cased,
        keep_accents=settings.keep_accents,
        character_map=character_map(),
    )


def _make_tokenizer(learned: list[tuple[str, float]], settings: TokenizerSettings) -> Tokenizer:
    """Make the tokenizer, in files that `transformers` opens as ALBERT's."""
    pieces = [(piece, 0.0) for piece in SPECIAL_TOKENS] + learned
    backend = _backend(pieces, settings, SPECIAL_TOKENS.index("<unk>"))
    set_special_tokens(backend, SPECIAL_TOKENS, "[CLS]", "[SEP]")
    config = {
        "tokenizer_class": "AlbertTokenizer",
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
