"""A tokenizer: text to ids and back, whichever way its vocabulary was written.

It comes from a folder with one of three files: `tokenizer.json` (what we write,
and what every current library reads), `spiece.model` (SentencePiece's, as the
published ALBERTs carry it) or `vocab.txt` (BERT's, and Chinese ALBERT's). In that
order, which is also the order in which `transformers` looks, so both give a text
the same ids.

A SentencePiece vocabulary gets the treatment of ALBERT's reference code: a piece
that ends in a digit and a comma is taken apart (`_digits_and_comma`). `tokenizer.json` has
no place for that, and what `transformers` once converted comes near it by making
such pieces unlikely. Vocabularies that we train have none.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from albertine.errors import InputError
from albertine.text.backends import WORD_START, albert_backend, bert_backend, set_special_tokens
from albertine.text.protobuf import CorruptDataError
from albertine.text.sentencepiece_model import CONTROL, SentencePieceModel, read_sentencepiece

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "spiece.model",
    "vocab.txt",
)
_GOOGLE_NAMES = ("30k-clean.model",)
_VOCABULARY_FILES = ("tokenizer.json", "spiece.model", *_GOOGLE_NAMES, "vocab.txt")

# Accents, capitals, digits with commas, quotes, scripts, what has no piece: two tokenizers that agree on
# the pieces and on this text are one.
_FINGERPRINT_TEXT = (
    "Ça «naïve» ``x'' ''y'' İSTANBUL ß ﬁne ½ 1,000,000 3.14 don't 漢字かな 한국어 हिन्दी 🙂 "
    "e\u0301 \u00a0z <pad> [MASK]"
)


@dataclass(frozen=True)
class SpecialTokenIds:
    """The ids of the pieces that stand for no text."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


class Tokenizer:
    """Turns text into ids and back; what it was read from travels with it.

    Attributes:
        backend: the pipeline of the `tokenizers` library that does the work.
        special_ids: the ids of the special pieces.
        files: name and content of each file that makes up this tokenizer.
        replacements: ids that are replaced by others (`_digits_and_comma`).
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        special_ids: SpecialTokenIds,
        files: Mapping[str, bytes],
        replacements: Mapping[int, Sequence[int]] | None = None,
    ):
        self.backend = backend
        self.special_ids = special_ids
        self.files = dict(files)
        self.replacements = {index: list(parts) for index, parts in (replacements or {}).items()}

    def __len__(self) -> int:
        return len(self.vocabulary)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All pieces, by id."""
        # By the largest id: a vocabulary may name a piece twice, or leave ids out.
        size = max(self.backend.get_vocab(with_added_tokens=True).values()) + 1
        return tuple(self.backend.id_to_token(index) or "" for index in range(size))

    @property
    def marks_continuations(self) -> bool:
        """Whether pieces that go on with a word are marked (BERT), and not those that begin one (ALBERT)."""
        return isinstance(self.backend.model, tokenizers.models.WordPiece)

    @cached_property
    def fingerprint(self) -> str:
        """Short name of what this tokenizer does; equal for two that give the same ids."""
        behavior = json.dumps([self.vocabulary, self.encode(_FINGERPRINT_TEXT)], ensure_ascii=True)
        return hashlib.sha256(behavior.encode()).hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without the special pieces around it."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of several texts, on all cores."""
        encoded = self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        if not self.replacements:
            return [one.ids for one in encoded]
        return [self._replaced(one.ids) for one in encoded]

    def with_split_special_tokens(self) -> "Tokenizer":
        """Return a copy to which "[MASK]" in a text is six characters, and no special piece."""
        backend = tokenizers.Tokenizer.from_str(self.backend.to_str())
        backend.encode_special_tokens = True
        return Tokenizer(backend, self.special_ids, {}, self.replacements)

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Return the ids of several texts, and which characters of the text each stands for.

        A piece's characters are the text's own, whatever was normalised away, without the space before it.
        """
        encoded = []
        encodings = self.backend.encode_batch(list(texts), add_special_tokens=False)
        for text, one in zip(texts, encodings, strict=True):
            ids: list[int] = []
            spans: list[tuple[int, int]] = []
            next_starts = [*(start for start, _ in one.offsets), len(text)][1:]
            for index, (start, end), next_start in zip(one.ids, one.offsets, next_starts, strict=True):
                while start < end and text[start].isspace():
                    start += 1
                while end < next_start and unicodedata.combining(
                    text[end]
                ):  # an accent by itself, normalised away
                    end += 1
                parts = self.replacements.get(index, (index,))
                ids += parts
                spans += _split_span([self.vocabulary[part] for part in parts], start, end)
            encoded.append((ids, spans))
        return encoded

    def encode_with_special_tokens(self, text: str, pair: str | None = None) -> tuple[list[int], list[int]]:
        """Return ids and types of `[CLS] text [SEP]`, or of `[CLS] text [SEP] other [SEP]`."""
        cls, sep = self.special_ids.cls, self.special_ids.sep
        first, *rest = self.encode_batch([text] if pair is None else [text, pair])
        ids, segments = [cls, *first, sep], [0] * (len(first) + 2)
        for second in rest:
            ids += [*second, sep]
            segments += [1] * (len(second) + 1)
        return ids, segments

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text that ids stand for, without special pieces."""
        decoded: str = self.backend.decode(list(ids), skip_special_tokens=True)
        return decoded

    def save(self, folder: Path) -> None:
        """Write the files into a folder that exists."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)

    def _replaced(self, ids: list[int]) -> list[int]:
        if self.replacements.keys().isdisjoint(ids):
            return ids
        return [part for index in ids for part in self.replacements.get(index, (index,))]


def _split_span(tokens: Sequence[str], start: int, end: int) -> list[tuple[int, int]]:
    """Give each part of a piece its characters; only digits and commas are taken apart, one for one."""
    spans = []
    for token in tokens[:-1]:
        cut = min(end, start + len(token.removeprefix(WORD_START)))
        spans.append((start, cut))
        start = cut
    return [*spans, (start, end)]


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read the tokenizer that lies in a folder."""
    options = _options(folder)
    found = next((folder / name for name in _VOCABULARY_FILES if (folder / name).is_file()), None)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; a tokenizer's is asked for")
    if found is None:
        raise InputError(
            f"{folder}: no tokenizer here; it would be tokenizer.json, spiece.model or vocab.txt"
        )
    files = {name: (folder / name).read_bytes() for name in TOKENIZER_FILES if (folder / name).is_file()}
    content = found.read_bytes()
    # Google's name for it is one that others would not find.
    files["spiece.model" if found.name in _GOOGLE_NAMES else found.name] = content
    try:
        if found.suffix == ".json":
            return _from_json(content, options, files)
        if found.suffix == ".model":
            return _from_sentencepiece(read_sentencepiece(content), options, files)
        return _from_wordpiece(content.decode(), options, files)
    except (CorruptDataError, UnicodeDecodeError) as error:
        raise InputError(f"{found}: torn or no vocabulary ({error}); get the file again") from None
    except InputError as error:
        raise InputError(f"{found}: {error}") from None


def has_tokenizer(folder: Path) -> bool:
    """Tell whether a tokenizer lies in a folder."""
    return any((folder / name).is_file() for name in _VOCABULARY_FILES)


def _options(folder: Path) -> Mapping[str, Any]:
    """Return what `tokenizer_config.json` and `special_tokens_map.json` say."""
    options: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        file = folder / name
        if file.is_file():
            try:
                values = json.loads(file.read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise InputError(f"{file}: not JSON ({error}); get the file again") from None
            if not isinstance(values, dict):
                raise InputError(f"{file}: no table of options; get the file again")
            options |= values
    return options


def _find_special_ids(backend: tokenizers.Tokenizer, options: Mapping[str, Any]) -> SpecialTokenIds:
    """Find the special pieces by the names that the options give, or by the usual ones."""
    ids = {}
    for field, option, defaults in (
        ("pad", "pad_token", ("<pad>", "[PAD]")),
        ("unknown", "unk_token", ("<unk>", "[UNK]")),
        ("opening", "cls_token", ("[CLS]",)),
        ("closing", "sep_token", ("[SEP]",)),
        ("mask", "mask_token", ("[MASK]",)),
    ):
        value = options.get(option)
        text = value.get("content") if isinstance(value, dict) else value
        candidates = [backend.token_to_id(token) for token in (text, *defaults) if isinstance(token, str)]
        ids[field] = next((one for one in candidates if one is not None), None)
        if ids[field] is None:
            raise InputError(f"has no {option} ({' or '.join(defaults)}); an encoder's tokenizer has one")
    return SpecialTokenIds(**ids)  # type: ignore[arg-type]  # none is missing any more


def _with_special_tokens(
    backend: tokenizers.Tokenizer,
    options: Mapping[str, Any],
    files: Mapping[str, bytes],
    replacements: Mapping[int, Sequence[int]] | None = None,
) -> Tokenizer:
    special_ids = _find_special_ids(backend, options)
    names = [backend.id_to_token(index) or "" for index in vars(special_ids).values()]
    set_special_tokens(backend, names, names[2], names[3])  # in the order of SpecialPieces
    return Tokenizer(backend, special_ids, files, replacements)


def _from_json(content: bytes, options: Mapping[str, Any], files: Mapping[str, bytes]) -> Tokenizer:
    try:
        backend = tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"not a tokenizer ({error}); get the file again") from None
    backend.no_truncation()
    backend.no_padding()
    return Tokenizer(backend, _find_special_ids(backend, options), files)


def _from_sentencepiece(
    model: SentencePieceModel, options: Mapping[str, Any], files: Mapping[str, bytes]
) -> Tokenizer:
    try:
        backend = albert_backend(
            model.pieces,
            unk_id=model.unk_id,
            cased=not options.get("do_lower_case", True),
            keep_accents=bool(options.get("keep_accents", False)),
            character_map=model.character_map,
        )
    except Exception as error:  # the library raises nothing narrower
        raise CorruptDataError(str(error)) from None
    replacements = {
        index: _digit_comma_ids(backend, model, rest) for index, rest in model.digit_comma_pieces()
    }
    backend.add_special_tokens(
        [
            piece
            for (piece, _), piece_type in zip(model.pieces, model.piece_types, strict=True)
            if piece_type == CONTROL
        ]
    )
    return _with_special_tokens(backend, options, files, replacements)


def _digit_comma_ids(backend: tokenizers.Tokenizer, model: SentencePieceModel, rest: str) -> list[int]:
    """Segment what stands before a comma as a text of its own, as ALBERT's reference code does."""
    parts: list[str] = backend.encode(rest.replace(WORD_START, " "), add_special_tokens=False).tokens
    if not rest.startswith(WORD_START) and parts and parts[0].startswith(WORD_START):
        parts = [parts[0][1:], *parts[1:]] if len(parts[0]) > 1 else parts[1:]
    ids = (backend.token_to_id(piece) for piece in (*parts, ","))
    return [model.unk_id if index is None else index for index in ids]


def _from_wordpiece(content: str, options: Mapping[str, Any], files: Mapping[str, bytes]) -> Tokenizer:
    vocabulary = content.split("\n")
    vocabulary = [token.rstrip("\r") for token in (vocabulary[:-1] if vocabulary[-1] == "" else vocabulary)]
    unk_token = options.get("unk_token", "[UNK]")
    unk_token = unk_token.get("content") if isinstance(unk_token, dict) else unk_token
    if unk_token not in vocabulary:
        raise InputError(f"has no {unk_token}; a vocabulary of BERT's does")
    backend = bert_backend(
        vocabulary,
        unk_token=unk_token,
        cased=not options.get("do_lower_case", True),
        strip_accents=options.get("strip_accents"),
        tokenize_chinese_chars=bool(options.get("tokenize_chinese_chars", True)),
    )
    return _with_special_tokens(backend, options, files)
