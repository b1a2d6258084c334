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
from albertine.errors import InputError, WorkError
from albertine.processes import in_processes
from albertine.protobuf import fields
from albertine.text.documents import Troubles, documents
from albertine.text.pipelines import add_special, albert_pipeline
from albertine.text.sentencepiece import SentencePieceModel, read_sentencepiece
from albertine.text.settings import FEWEST, VocabularySettings
from albertine.text.sources import Source, find_sources, portions_of
from albertine.text.tokenizer import SpecialPieces, Tokenizer
from albertine.whole import new_folder

SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_THREADS = 16
_MOST_WORDS = 2_000_000
_LONGEST_WORD = 256
_AFTER_DIGIT = re.compile(r"(?<=\d),")
_BARRIER = "\x02"  # no piece goes over it
_LINE = 900  # characters; the trainer leaves out lines of over 4,192 bytes
_ABOVE = 230  # Unicode's class of marks above a letter, which accents are


def make_vocabulary(texts: Sequence[str], out: Path, settings: VocabularySettings) -> None:
    """Learn a vocabulary from what a person named, and write it as a folder."""
    with new_folder(out) as folder, tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        sources = find_sources(texts, spool=Path(scratch) / "standard-input")
        tokenizer = train_vocabulary(sources, settings)
        tokenizer.save(folder)
    progress.say(f"{out}: {len(tokenizer):,} pieces, fingerprint {tokenizer.fingerprint}")


def train_vocabulary(sources: Sequence[Source], settings: VocabularySettings) -> Tokenizer:
    """Learn a vocabulary from text."""
    troubles = Troubles(skip=settings.on_error == "skip")
    words = count_words(_sample(sources, settings, troubles), settings)
    if troubles.count:
        progress.say(f"{troubles.count:,} places could not be read, as in {troubles.places[0]}")
    if not words:
        raise InputError("no text: the sources hold no words")
    return _finished(_learned(words, settings), settings)


def _sample(
    sources: Sequence[Source], settings: VocabularySettings, troubles: Troubles
) -> Iterator[list[str]]:
    """Yield documents: all of the text, or portions drawn at random until there is enough."""
    portions = [portion for source in sources for portion in portions_of(source)]
    plain = [portion.stop - portion.start for portion in portions if portion.source.is_cut]
    most, packed = settings.sample_mb << 20, len(plain) < len(portions)
    if sum(plain) > most or packed:
        random.Random(settings.seed).shuffle(portions)
    # How much text a packed file holds is not known before it is read: each gives its share.
    share = max(1 << 20, most // len(portions)) if packed else most
    total = None if packed else min(sum(plain), most)
    left = most
    with progress.advancing("Reading text", total=total, unit="characters") as told:
        for portion in portions:
            before = left
            for document in documents(portion, settings, troubles):
                left -= sum(map(len, document))
                yield document
                if left <= 0 or before - left >= share:
                    break
            told(portion.stop - portion.start if portion.source.is_cut else before - left)
            if left <= 0:
                progress.say(f"learning from {settings.sample_mb} MB of the text, drawn at random")
                return


def count_words(texts: Iterable[Sequence[str]], settings: VocabularySettings) -> Counter[str]:
    """Count the words of documents, cleaned as the tokenizer will clean them."""
    raw: Counter[str] = Counter()
    for document in texts:
        for sentence in document:
            raw.update(sentence.split())
        if len(raw) > _MOST_WORDS:  # a bound on memory: what was seen once is the least loss
            raw = Counter({word: count for word, count in raw.items() if count > 1})
    if not settings.keep_accents:
        _warn_of_vowels(raw)
    normalizer = _pipeline(((SPECIAL[1], 0.0),), settings, 0).normalizer
    cleaned: Counter[str] = Counter()
    for word, count in raw.items():
        for part in normalizer.normalize_str(word[:_LONGEST_WORD]).split():
            cleaned[part] += count
    return cleaned


def _learned(words: Counter[str], settings: VocabularySettings) -> list[tuple[str, float]]:
    """Return a vocabulary without special pieces, likeliest first."""
    lines = training_lines(words)
    wanted = settings.vocab_size
    progress.say(f"learning {wanted:,} pieces from {len(words):,} words")
    try:
        model = _trained(lines, wanted, settings)
    except _TooManyError as error:
        most = _possible(lines, error, settings)
        if most < FEWEST:
            raise InputError("too little text for any vocabulary; give more") from None
        if settings.or_less:
            progress.say(f"too little text for {wanted:,} pieces; taking {most:,}")
            return _learned(words, replace(settings, vocab_size=most))
        raise InputError(
            f"--vocab-size {wanted}: too little text for it; --vocab-size {most} or less is possible, "
            "or give more text"
        ) from None
    return list(model.pieces[len(SPECIAL) :])


def _possible(lines: list[str], error: "_TooManyError", settings: VocabularySettings) -> int:
    """Return a size that the trainer does reach; what it says itself need not be one."""
    while True:
        try:
            return len(_trained(lines, error.possible, settings).pieces)
        except _TooManyError as again:
            error = _TooManyError(min(again.possible, error.possible - 1))


def _warn_of_vowels(words: Counter[str]) -> None:
    """Tell the person when taking accents off would take vowels off: in many scripts marks are letters."""
    marks: Counter[str] = Counter()
    letters = 0
    for word, count in words.items():
        letters += count * len(word)
        if not word.isascii():
            for one in unicodedata.normalize("NFKD", word):
                if unicodedata.category(one)[0] == "M" and unicodedata.combining(one) != _ABOVE:
                    marks[unicodedata.name(one, "?").partition(" ")[0]] += count
    for script, count in marks.most_common(1):
        if script != "COMBINING" and count > letters / 100:
            progress.say(
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
    counted = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    counted = [(_AFTER_DIGIT.sub(f"{_BARRIER},", word), count) for word, count in counted]
    lines = [f"{word}\t{count - count // 2}" for word, count in counted]
    for bit in range(max(words.values()).bit_length()):
        gathered: list[str] = []
        size = 0
        for word in [word for word, count in counted if count // 2 >> bit & 1] + [""]:
            if size + len(word) > _LINE or not word:
                lines += [f"{' '.join(gathered)}\t{1 << bit}"] if gathered else []
                gathered, size = [], 0
            gathered.append(word)
            size += len(word) + 1
    return lines


class _TooManyError(Exception):
    """More pieces were asked for than the text gives."""

    def __init__(self, possible: int):
        self.possible = possible


def _trained(lines: list[str], size: int, settings: VocabularySettings) -> SentencePieceModel:
    """Run the trainer in a process of its own: at work it hears no signal, and can only be ended."""
    asked = [(lines, size, settings)]
    ((_, model),) = in_processes(_train, asked, 1, advice="read less text, with --sample-mb")
    return read_sentencepiece(model)


def _train(asked: tuple[list[str], int, VocabularySettings]) -> bytes:
    """Run SentencePiece's trainer over counted words."""
    lines, size, settings = asked
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            input_format="tsv",
            vocab_size=size,
            model_type="unigram",
            character_coverage=settings.coverage,
            normalization_rule_name="identity",  # words come as the tokenizer cleans them
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=list(SPECIAL[2:]),
            pretokenization_delimiter=_BARRIER,
            num_threads=_THREADS,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        possible = re.search(r"value <= (\d+)", str(error))
        if possible:
            raise _TooManyError(int(possible[1])) from None
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
    found = dict(fields(rules)).get(2, b"")
    assert isinstance(found, bytes)
    return found


def _pipeline(
    pieces: Sequence[tuple[str, float]], settings: VocabularySettings, unknown: int
) -> tokenizers.Tokenizer:
    return albert_pipeline(
        pieces,
        unknown=unknown,
        cased=settings.cased,
        keep_accents=settings.keep_accents,
        character_map=character_map(),
    )


def _finished(learned: list[tuple[str, float]], settings: VocabularySettings) -> Tokenizer:
    """Make the tokenizer, in files that `transformers` opens as ALBERT's."""
    pieces = [(piece, 0.0) for piece in SPECIAL] + learned
    backend = _pipeline(pieces, settings, SPECIAL.index("<unk>"))
    add_special(backend, SPECIAL, "[CLS]", "[SEP]")
    told = {
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
        "tokenizer_config.json": (json.dumps(told, indent=2) + "\n").encode(),
    }
    return Tokenizer(backend, SpecialPieces(0, 1, 2, 3, 4), files)
