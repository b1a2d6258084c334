"""A vocabulary of one's own: SentencePiece's unigram pieces, ALBERT's special ones before them.

The text is read once, a bounded random sample of it, and boils down to how often
each word occurs, cleaned as the tokenizer will clean it. SentencePiece's trainer
takes it from there, with a fixed number of threads: its sums depend on how they
are split up, and so the same text gives the same vocabulary on every machine.
(The trainer in `tokenizers` gives another one in every process.)

Pieces that end in a digit and a comma, which ALBERT's reference code takes apart
again, are not let in.
"""

import io
import json
import random
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import sentencepiece
import tokenizers

from albertine import progress
from albertine.errors import InputError, WorkError
from albertine.text.documents import Troubles, documents
from albertine.text.pipelines import add_special, albert_pipeline
from albertine.text.sentencepiece import SentencePieceModel, read_sentencepiece
from albertine.text.settings import VocabularySettings
from albertine.text.sources import Source, find_sources, portions_of
from albertine.text.tokenizer import SpecialPieces, Tokenizer
from albertine.whole import new_folder

SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")
_THREADS = 16
_MOST_WORDS = 2_000_000
_LONGEST_WORD = 256
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
    normalizer = _pipeline(((SPECIAL[1], 0.0),), settings, b"", 0).normalizer
    cleaned: Counter[str] = Counter()
    for word, count in raw.items():
        for part in normalizer.normalize_str(word[:_LONGEST_WORD]).split():
            cleaned[part] += count
    return cleaned


def _learned(words: Counter[str], settings: VocabularySettings) -> SentencePieceModel:
    """Return a vocabulary without special pieces, likeliest first."""
    # By count, then by name: an order that no run changes.
    counted = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"{word}\t{count}" for word, count in counted]
    wanted = settings.vocab_size
    try:
        model = _trained(lines, wanted + wanted // 50, settings)  # some may not be let in
    except _TooManyError as error:
        model = _trained(lines, error.possible, settings)
    barred = {index for index, _ in model.splits_after_digits()}
    pieces = [
        piece for index, piece in enumerate(model.pieces) if index >= len(SPECIAL) and index not in barred
    ]
    room = wanted - len(SPECIAL)
    if len(pieces) < room:
        possible = len(pieces) + len(SPECIAL)
        raise InputError(
            f"--vocab-size {wanted}: too little text for it, which gives {possible:,} pieces at most; "
            f"give --vocab-size {possible} or less, or more text"
        )
    # Single characters stay, so that every word can be spelled; of the others the least likely go.
    alone = sum(len(piece) == 1 for piece, _ in pieces)
    kept = {piece for piece, _ in [one for one in pieces if len(one[0]) > 1][: room - alone]}
    left = tuple(one for one in pieces if len(one[0]) == 1 or one[0] in kept)
    return SentencePieceModel(left, (), model.character_map)


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


class _TooManyError(Exception):
    """More pieces were asked for than the text gives."""

    def __init__(self, possible: int):
        self.possible = possible


def _trained(lines: list[str], size: int, settings: VocabularySettings) -> SentencePieceModel:
    """Run SentencePiece's trainer over counted words."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            input_format="tsv",
            vocab_size=size,
            model_type="unigram",
            character_coverage=settings.coverage,
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
            control_symbols=list(SPECIAL[2:]),
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
    return read_sentencepiece(model.getvalue())


def _pipeline(
    pieces: Sequence[tuple[str, float]], settings: VocabularySettings, character_map: bytes, unknown: int
) -> tokenizers.Tokenizer:
    return albert_pipeline(
        pieces,
        unknown=unknown,
        cased=settings.cased,
        keep_accents=settings.keep_accents,
        character_map=character_map,
    )


def _finished(model: SentencePieceModel, settings: VocabularySettings) -> Tokenizer:
    """Make the tokenizer, in files that `transformers` opens as ALBERT's."""
    pieces = [(piece, 0.0) for piece in SPECIAL] + list(model.pieces)
    backend = _pipeline(pieces, settings, model.character_map, SPECIAL.index("<unk>"))
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
