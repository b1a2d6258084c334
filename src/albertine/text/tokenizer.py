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
from albertine.protobuf import TornError
from albertine.text.pipelines import WORD_START, add_special, albert_pipeline, bert_pipeline
from albertine.text.sentencepiece import CONTROL, SentencePieceModel, read_sentencepiece

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "spiece.model",
    "vocab.txt",
)
_GOOGLE_NAMES = ("30k-clean.model",)
_VOCABULARIES = ("tokenizer.json", "spiece.model", *_GOOGLE_NAMES, "vocab.txt")

# Accents, capitals, digits with commas, quotes, scripts, what has no piece: two tokenizers that agree on
# the pieces and on this text are one.
_PROBE = (
    "Ça «naïve» ``x'' ''y'' İSTANBUL ß ﬁne ½ 1,000,000 3.14 don't 漢字かな 한국어 हिन्दी 🙂 "
    "e\u0301 \u00a0z <pad> [MASK]"
)


@dataclass(frozen=True)
class SpecialPieces:
    """The ids of the pieces that stand for no text."""

    pad: int
    unknown: int
    opening: int
    closing: int
    mask: int


class Tokenizer:
    """Turns text into ids and back; what it was read from travels with it.

    Attributes:
        backend: the pipeline of the `tokenizers` library that does the work.
        special: the ids of the special pieces.
        files: name and content of each file that makes up this tokenizer.
        splits: ids that are replaced by others (`_digits_and_comma`).
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        special: SpecialPieces,
        files: Mapping[str, bytes],
        splits: Mapping[int, Sequence[int]] | None = None,
    ):
        self.backend = backend
        self.special = special
        self.files = dict(files)
        self.splits = {index: list(parts) for index, parts in (splits or {}).items()}

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """All pieces, by id."""
        # By the largest id: a vocabulary may name a piece twice, or leave ids out.
        size = max(self.backend.get_vocab(with_added_tokens=True).values()) + 1
        return tuple(self.backend.id_to_token(index) or "" for index in range(size))

    @property
    def marks_rest(self) -> bool:
        """Whether pieces that go on with a word are marked (BERT), and not those that begin one (ALBERT)."""
        return isinstance(self.backend.model, tokenizers.models.WordPiece)

    @cached_property
    def fingerprint(self) -> str:
        """Short name of what this tokenizer does; equal for two that give the same ids."""
        meaning = json.dumps([self.pieces, self.ids(_PROBE)], ensure_ascii=True)
        return hashlib.sha256(meaning.encode()).hexdigest()[:16]

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text, without the special pieces around it."""
        return self.batch([text])[0]

    def batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of several texts, on all cores."""
        encoded = self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        if not self.splits:
            return [one.ids for one in encoded]
        return [self._taken_apart(one.ids) for one in encoded]

    def literal(self) -> "Tokenizer":
        """Return a copy to which "[MASK]" in a text is six characters, and no special piece."""
        backend = tokenizers.Tokenizer.from_str(self.backend.to_str())
        backend.encode_special_tokens = True
        return Tokenizer(backend, self.special, {}, self.splits)

    def placed(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Return the ids of several texts, and which characters of the text each stands for.

        A piece's characters are the text's own, whatever was normalised away, without the space before it.
        """
        found = []
        encodings = self.backend.encode_batch(list(texts), add_special_tokens=False)
        for text, one in zip(texts, encodings, strict=True):
            ids: list[int] = []
            spans: list[tuple[int, int]] = []
            nexts = [*(start for start, _ in one.offsets), len(text)][1:]
            for index, (start, end), upto in zip(one.ids, one.offsets, nexts, strict=True):
                while start < end and text[start].isspace():
                    start += 1
                while end < upto and unicodedata.combining(text[end]):  # an accent by itself, normalised away
                    end += 1
                parts = self.splits.get(index, (index,))
                ids += parts
                spans += _shared_out([self.pieces[part] for part in parts], start, end)
            found.append((ids, spans))
        return found

    def framed(self, text: str, other: str | None = None) -> tuple[list[int], list[int]]:
        """Return ids and types of `[CLS] text [SEP]`, or of `[CLS] text [SEP] other [SEP]`."""
        opening, closing = self.special.opening, self.special.closing
        first, *rest = self.batch([text] if other is None else [text, other])
        ids, types = [opening, *first, closing], [0] * (len(first) + 2)
        for second in rest:
            ids += [*second, closing]
            types += [1] * (len(second) + 1)
        return ids, types

    def text(self, ids: Iterable[int]) -> str:
        """Return the text that ids stand for, without special pieces."""
        decoded: str = self.backend.decode(list(ids), skip_special_tokens=True)
        return decoded

    def save(self, folder: Path) -> None:
        """Write the files into a folder that exists."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)

    def _taken_apart(self, ids: list[int]) -> list[int]:
        if self.splits.keys().isdisjoint(ids):
            return ids
        return [part for index in ids for part in self.splits.get(index, (index,))]


def _shared_out(pieces: Sequence[str], start: int, end: int) -> list[tuple[int, int]]:
    """Give each part of a piece its characters; only digits and commas are taken apart, one for one."""
    spans = []
    for piece in pieces[:-1]:
        cut = min(end, start + len(piece.removeprefix(WORD_START)))
        spans.append((start, cut))
        start = cut
    return [*spans, (start, end)]


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read the tokenizer that lies in a folder."""
    options = _options(folder)
    found = next((folder / name for name in _VOCABULARIES if (folder / name).is_file()), None)
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
    except (TornError, UnicodeDecodeError) as error:
        raise InputError(f"{found}: torn or no vocabulary ({error}); get the file again") from None
    except InputError as error:
        raise InputError(f"{found}: {error}") from None


def has_tokenizer(folder: Path) -> bool:
    """Tell whether a tokenizer lies in a folder."""
    return any((folder / name).is_file() for name in _VOCABULARIES)


def _options(folder: Path) -> Mapping[str, Any]:
    """Return what `tokenizer_config.json` and `special_tokens_map.json` say."""
    said: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        file = folder / name
        if file.is_file():
            try:
                values = json.loads(file.read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise InputError(f"{file}: not JSON ({error}); get the file again") from None
            if not isinstance(values, dict):
                raise InputError(f"{file}: no table of options; get the file again")
            said |= values
    return said


def _special(backend: tokenizers.Tokenizer, options: Mapping[str, Any]) -> SpecialPieces:
    """Find the special pieces by the names that the options give, or by the usual ones."""
    ids = {}
    for field, option, usual in (
        ("pad", "pad_token", ("<pad>", "[PAD]")),
        ("unknown", "unk_token", ("<unk>", "[UNK]")),
        ("opening", "cls_token", ("[CLS]",)),
        ("closing", "sep_token", ("[SEP]",)),
        ("mask", "mask_token", ("[MASK]",)),
    ):
        named = options.get(option)
        text = named.get("content") if isinstance(named, dict) else named
        known = [backend.token_to_id(piece) for piece in (text, *usual) if isinstance(piece, str)]
        ids[field] = next((one for one in known if one is not None), None)
        if ids[field] is None:
            raise InputError(f"has no {option} ({' or '.join(usual)}); an encoder's tokenizer has one")
    return SpecialPieces(**ids)  # type: ignore[arg-type]  # none is missing any more


def _finished(
    backend: tokenizers.Tokenizer,
    options: Mapping[str, Any],
    files: Mapping[str, bytes],
    splits: Mapping[int, Sequence[int]] | None = None,
) -> Tokenizer:
    special = _special(backend, options)
    names = [backend.id_to_token(index) or "" for index in vars(special).values()]
    add_special(backend, names, names[2], names[3])  # in the order of SpecialPieces
    return Tokenizer(backend, special, files, splits)


def _from_json(content: bytes, options: Mapping[str, Any], files: Mapping[str, bytes]) -> Tokenizer:
    try:
        backend = tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"not a tokenizer ({error}); get the file again") from None
    backend.no_truncation()
    backend.no_padding()
    return Tokenizer(backend, _special(backend, options), files)


def _from_sentencepiece(
    model: SentencePieceModel, options: Mapping[str, Any], files: Mapping[str, bytes]
) -> Tokenizer:
    try:
        backend = albert_pipeline(
            model.pieces,
            unknown=model.unknown,
            cased=not options.get("do_lower_case", True),
            keep_accents=bool(options.get("keep_accents", False)),
            character_map=model.character_map,
        )
    except Exception as error:  # the library raises nothing narrower
        raise TornError(str(error)) from None
    splits = {index: _digits_and_comma(backend, model, rest) for index, rest in model.splits_after_digits()}
    backend.add_special_tokens(
        [piece for (piece, _), kind in zip(model.pieces, model.kinds, strict=True) if kind == CONTROL]
    )
    return _finished(backend, options, files, splits)


def _digits_and_comma(backend: tokenizers.Tokenizer, model: SentencePieceModel, rest: str) -> list[int]:
    """Segment what stands before a comma as a text of its own, as ALBERT's reference code does."""
    parts: list[str] = backend.encode(rest.replace(WORD_START, " "), add_special_tokens=False).tokens
    if not rest.startswith(WORD_START) and parts and parts[0].startswith(WORD_START):
        parts = [parts[0][1:], *parts[1:]] if len(parts[0]) > 1 else parts[1:]
    ids = (backend.token_to_id(piece) for piece in (*parts, ","))
    return [model.unknown if index is None else index for index in ids]


def _from_wordpiece(content: str, options: Mapping[str, Any], files: Mapping[str, bytes]) -> Tokenizer:
    pieces = content.split("\n")
    pieces = [piece.rstrip("\r") for piece in (pieces[:-1] if pieces[-1] == "" else pieces)]
    unknown = options.get("unk_token", "[UNK]")
    unknown = unknown.get("content") if isinstance(unknown, dict) else unknown
    if unknown not in pieces:
        raise InputError(f"has no {unknown}; a vocabulary of BERT's does")
    backend = bert_pipeline(
        pieces,
        unknown=unknown,
        cased=not options.get("do_lower_case", True),
        strip_accents=options.get("strip_accents"),
        split_chinese=bool(options.get("tokenize_chinese_chars", True)),
    )
    return _finished(backend, options, files)
