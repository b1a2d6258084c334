"""Learns a unigram vocabulary from word counts with SentencePiece's trainer.

The trainer runs with a fixed number of threads, because its floating-point sums depend on that
number; so the same counts give the same vocabulary on every machine. The vocabulary has no
tokens that end in a digit and a comma, because ALBERT's reference code would split them again.

See docs/decisions/vocabulary-training.md.
"""

import io
import re
from collections import Counter
from dataclasses import replace

import sentencepiece

from albertine import progress
from albertine.errors import InputError, WorkError
from albertine.executors.process_pool import ProcessPool
from albertine.text.sentencepiece_model import SentencePieceModel, read_sentencepiece
from albertine.text.settings import TokenizerSettings

SPECIAL_TOKENS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_THREADS = 16  # of the trainer; another number would give another vocabulary
_COMMA_AFTER_DIGIT = re.compile(r"(?<=\d),")
_DELIMITER = "\x02"  # the trainer makes no token that contains it
_LINE_LENGTH = 900  # characters; the trainer drops lines of over 4,192 bytes


def learn_tokens(words: Counter[str], required: str, settings: TokenizerSettings) -> list[tuple[str, float]]:
    """Return text and log probability of all tokens but the special ones.

    With byte fallback the byte tokens come first. The learned tokens follow, the most probable first.

    Args:
        words: how often each normalized word occurs.
        required: characters that get a token each, even if no word contains them.
        settings: size and kind of the vocabulary.
    """
    lines = training_lines(words)
    vocab_size = settings.vocab_size
    progress.print_message(f"training {vocab_size:,} tokens on {len(words):,} distinct words")
    try:
        model = _train_in_process(lines, required, settings)
    except _VocabularyTooLargeError as error:
        model = _largest_model(lines, required, settings, error.suggested_size)
        largest = len(model.pieces)
        if largest <= _num_fixed_tokens(required, settings):
            raise InputError("too little text for any vocabulary; give more text") from None
        if not settings.allow_smaller:
            raise InputError(
                f"--vocab-size {vocab_size}: too little text; "
                f"use --vocab-size {largest} or less, or give more text"
            ) from None
        progress.print_message(f"too little text for {vocab_size:,} tokens; using {largest:,}")
    return list(model.pieces[len(SPECIAL_TOKENS) :])


def _num_fixed_tokens(required: str, settings: TokenizerSettings) -> int:
    """Return the number of tokens that do not depend on the text: special, byte, required, and "▁"."""
    return len(SPECIAL_TOKENS) + 256 * settings.byte_fallback + len(required) + 1


def _largest_model(
    lines: list[str], required: str, settings: TokenizerSettings, suggested_size: int
) -> SentencePieceModel:
    """Return a model of the suggested size, or of a smaller one if the suggestion is too large as well."""
    while True:
        try:
            return _train_in_process(lines, required, replace(settings, vocab_size=suggested_size))
        except _VocabularyTooLargeError as error:
            suggested_size = min(error.suggested_size, suggested_size - 1)


def training_lines(words: Counter[str]) -> list[str]:
    """Return word counts as lines `text<TAB>count` for SentencePiece's trainer.

    The trainer's first candidates are strings that repeat with different continuations, so a word
    that is in one line only is never a candidate. Therefore half of a word's count goes to a line
    with this word alone, and the other half to shared lines, where other words follow it. The count
    of a shared line is a power of two; a word is in one shared line for each bit set in its half.
    """
    # The word breaks ties, so that the order is the same in every run.
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


def _train_in_process(lines: list[str], required: str, settings: TokenizerSettings) -> SentencePieceModel:
    """Return the model that the trainer learns in a separate process.

    Python handles no signal while the trainer runs, but the other process can be killed.
    """
    jobs = [(lines, required, settings)]
    advice = "use less text with --max-text-mb"
    ((_, model),) = ProcessPool(1).run(_train_sentencepiece, jobs, advice=advice)
    return read_sentencepiece(model)


def _train_sentencepiece(job: tuple[list[str], str, TokenizerSettings]) -> bytes:
    """Return the SentencePiece file that the trainer learns from lines with counts."""
    lines, required, settings = job
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            input_format="tsv",
            vocab_size=settings.vocab_size,
            model_type="unigram",
            character_coverage=settings.character_coverage,
            required_chars=required,
            byte_fallback=settings.byte_fallback,
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
        needed = re.search(r"required_chars\D+\d+ vs (\d+)", str(error))
        if needed:
            raise InputError(
                f"--vocab-size {settings.vocab_size}: special tokens and single characters alone need "
                f"{int(needed[1]):,}; increase it, or lower --character-coverage"
            ) from None
        raise WorkError(f"SentencePiece's trainer failed: {error}") from None
    return model.getvalue()
