"""Tokenizers: converting text to ids and back, for every vocabulary format.

A tokenizer folder has one of these files, searched in the order in which `transformers` does, so
that both give the same ids:

1. `tokenizer.json`: written by Albertine, read by current libraries;
2. `spiece.model`: SentencePiece's format, used by the published ALBERT checkpoints;
3. `vocab.txt`: BERT's format, used by Chinese ALBERT.

A `spiece.model` is translated to a pipeline and saved with it as `tokenizer.json`: with
`spiece.model` alone, `transformers` would give other ids. See
docs/decisions/sentencepiece-files.md.
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
from numpy.typing import NDArray

from albertine.errors import InputError
from albertine.text.backends import albert_backend, bert_backend, set_special_tokens
from albertine.text.byte_tokens import byte_values, split_byte_offsets
from albertine.text.protobuf import CorruptDataError
from albertine.text.sentencepiece_model import CONTROL, SentencePieceModel, read_sentencepiece

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "spiece.model",
    "vocab.txt",
)
_GOOGLE_NAMES = ("30k-clean.model",)  # SentencePiece files in Google's archives of ALBERT
_VOCABULARY_FILES = ("tokenizer.json", "spiece.model", *_GOOGLE_NAMES, "vocab.txt")

# Contains accents, capitals, digits with commas, quotes, several scripts and unknown characters. Two
# tokenizers with the same vocabulary and the same ids of this text count as equal.
_FINGERPRINT_TEXT = (
    "Ça «naïve» ``x'' ''y'' İSTANBUL ß ﬁne ½ 1,000,000 3.14 don't 漢字かな 한국어 हिन्दी 🙂 "
    "e\u0301 \u00a0z <pad> [MASK]"
)


@dataclass(frozen=True)
class SpecialTokenIds:
    """Ids of the special tokens."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


class Tokenizer:
    """Converts text to ids and back, and keeps the files that it was read from.

    Attributes:
        backend: the pipeline of the library `tokenizers`.
        special_ids: ids of the special tokens.
        files: name and content of each file of the tokenizer.
    """

    def __init__(
        self, backend: tokenizers.Tokenizer, special_ids: SpecialTokenIds, files: Mapping[str, bytes]
    ):
        self.backend = backend
        self.special_ids = special_ids
        self.files = dict(files)

    def __len__(self) -> int:
        return len(self.vocabulary)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens, by id."""
        # Up to the largest id: a vocabulary may repeat a token or skip ids.
        size = max(self.backend.get_vocab(with_added_tokens=True).values()) + 1
        return tuple(self.backend.id_to_token(token_id) or "" for token_id in range(size))

    @cached_property
    def byte_values(self) -> NDArray[Any] | None:
        """The byte of each token, -1 for other tokens [vocab_size]; None without byte tokens."""
        values = byte_values(self.vocabulary)
        return values if (values >= 0).any() else None

    def normalize(self, text: str) -> str:
        """Return a text as the vocabulary sees it, for example in lower case."""
        normalizer = self.backend.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))

    @property
    def marks_continuations(self) -> bool:
        """Whether tokens that continue a word are marked (BERT), not those that begin one (ALBERT)."""
        return isinstance(self.backend.model, tokenizers.models.WordPiece)

    @cached_property
    def fingerprint(self) -> str:
        """Short hash of the vocabulary and of the ids of a test text; identifies the tokenizer."""
        (ids,) = self.encode_batch([_FINGERPRINT_TEXT])
        behavior = json.dumps([self.vocabulary, ids], ensure_ascii=True)
        return hashlib.sha256(behavior.encode()).hexdigest()[:16]

    def encode(
        self, text: str, text_pair: str | None = None, *, add_special_tokens: bool = True
    ) -> list[int]:
        """Return the token ids of a text or of a pair, as the tokenizers of `transformers` do.

        Args:
            text: the text.
            text_pair: a second text.
            add_special_tokens: return `[CLS] text [SEP]` or `[CLS] text [SEP] text_pair [SEP]`.
        """
        if add_special_tokens:
            return self.encode_with_special_tokens(text, text_pair)[0]
        texts = [text] if text_pair is None else [text, text_pair]
        return [token_id for ids in self.encode_batch(texts) for token_id in ids]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of several texts, without special tokens; uses all cores."""
        encodings = self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def with_split_special_tokens(self) -> "Tokenizer":
        """Return a copy that encodes "[MASK]" in a text as ordinary text, not as the special token."""
        backend = tokenizers.Tokenizer.from_str(self.backend.to_str())
        backend.encode_special_tokens = True
        return Tokenizer(backend, self.special_ids, {})

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Return for each text its ids, and the start and end of each token in the text.

        The offsets count characters of the text before normalization. A token's span has no leading spaces.
        """
        encoded = []
        encodings = self.backend.encode_batch(list(texts), add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            spans: list[tuple[int, int]] = []
            offsets = encoding.offsets
            if self.byte_values is not None:
                offsets = split_byte_offsets(text, encoding.ids, offsets, self.byte_values, self.normalize)
            next_starts = [*(start for start, _ in offsets), len(text)][1:]
            for (start, end), next_start in zip(offsets, next_starts, strict=True):
                while start < end and text[start].isspace():
                    start += 1
                # A combining accent that normalization removed belongs to the token before it.
                while end < next_start and unicodedata.combining(text[end]):
                    end += 1
                spans.append((start, end))
            encoded.append((encoding.ids, spans))
        return encoded

    def encode_with_special_tokens(self, text: str, pair: str | None = None) -> tuple[list[int], list[int]]:
        """Return ids and segment ids of `[CLS] text [SEP]`, or of `[CLS] text [SEP] pair [SEP]`."""
        cls, sep = self.special_ids.cls, self.special_ids.sep
        first, *rest = self.encode_batch([text] if pair is None else [text, pair])
        ids, segments = [cls, *first, sep], [0] * (len(first) + 2)
        for second in rest:
            ids += [*second, sep]
            segments += [1] * (len(second) + 1)
        return ids, segments

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids, without special tokens."""
        decoded: str = self.backend.decode(list(ids), skip_special_tokens=True)
        return decoded

    def save(self, folder: Path) -> None:
        """Write the files of the tokenizer into an existing folder."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of a folder."""
    options = _options(folder)
    vocabulary_file = next((folder / name for name in _VOCABULARY_FILES if (folder / name).is_file()), None)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name a folder with a tokenizer")
    if vocabulary_file is None:
        raise InputError(f"{folder}: no tokenizer here; expected tokenizer.json, spiece.model or vocab.txt")
    files = {name: (folder / name).read_bytes() for name in TOKENIZER_FILES if (folder / name).is_file()}
    content = vocabulary_file.read_bytes()
    # Saved as spiece.model, the name that other libraries expect.
    files["spiece.model" if vocabulary_file.name in _GOOGLE_NAMES else vocabulary_file.name] = content
    try:
        if vocabulary_file.suffix == ".json":
            return _from_json(content, options, files)
        if vocabulary_file.suffix == ".model":
            return _from_sentencepiece(read_sentencepiece(content), options, files)
        return _from_wordpiece(content.decode(), options, files)
    except (CorruptDataError, UnicodeDecodeError) as error:
        raise InputError(
            f"{vocabulary_file}: damaged, or not a vocabulary ({error}); get the file again"
        ) from None
    except InputError as error:
        raise InputError(f"{vocabulary_file}: {error}") from None


def tokenizer_checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder that `load_tokenizer` would read, by name."""
    names = (name for name in {*TOKENIZER_FILES, *_VOCABULARY_FILES} if (folder / name).is_file())
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in sorted(names)}


def has_tokenizer(folder: Path) -> bool:
    """Return whether a folder has a tokenizer."""
    return any((folder / name).is_file() for name in _VOCABULARY_FILES)


def _options(folder: Path) -> Mapping[str, Any]:
    """Return the options in `tokenizer_config.json` and `special_tokens_map.json`."""
    options: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        file = folder / name
        if file.is_file():
            try:
                values = json.loads(file.read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                raise InputError(f"{file}: not JSON ({error}); get the file again") from None
            if not isinstance(values, dict):
                raise InputError(f"{file}: expected a JSON object of options; get the file again")
            options |= values
    return options


def _find_special_ids(backend: tokenizers.Tokenizer, options: Mapping[str, Any]) -> SpecialTokenIds:
    """Return the ids of the special tokens, named in the options or by their default names."""
    ids = {}
    for field, option, defaults in (
        ("pad", "pad_token", ("<pad>", "[PAD]")),
        ("unk", "unk_token", ("<unk>", "[UNK]")),
        ("cls", "cls_token", ("[CLS]",)),
        ("sep", "sep_token", ("[SEP]",)),
        ("mask", "mask_token", ("[MASK]",)),
    ):
        value = options.get(option)
        text = value.get("content") if isinstance(value, dict) else value
        candidates = [backend.token_to_id(token) for token in (text, *defaults) if isinstance(token, str)]
        ids[field] = next((candidate for candidate in candidates if candidate is not None), None)
        if ids[field] is None:
            raise InputError(f"no {option} ({' or '.join(defaults)}); add it to the vocabulary")
    return SpecialTokenIds(**ids)  # type: ignore[arg-type]  # all are int here


def _from_json(content: bytes, options: Mapping[str, Any], files: Mapping[str, bytes]) -> Tokenizer:
    try:
        backend = tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises no narrower type
        raise InputError(f"not a tokenizer ({error}); get the file again") from None
    backend.no_truncation()
    backend.no_padding()
    return Tokenizer(backend, _find_special_ids(backend, options), files)


def _from_sentencepiece(
    model: SentencePieceModel, options: Mapping[str, Any], files: Mapping[str, bytes]
) -> Tokenizer:
    pieces = model.segmentation_pieces()
    flags = {
        "do_lower_case": options.get("do_lower_case", not _has_capitals(piece for piece, _ in pieces)),
        "keep_accents": options.get("keep_accents", False),
    }
    try:
        backend = albert_backend(
            pieces,
            unk_id=model.unk_id,
            cased=not flags["do_lower_case"],
            keep_accents=bool(flags["keep_accents"]),
            character_map=model.character_map,
            byte_fallback=model.byte_fallback,
        )
    except Exception as error:  # the library raises no narrower type
        raise CorruptDataError(str(error)) from None
    backend.add_special_tokens(
        [
            piece
            for (piece, _), piece_type in zip(model.pieces, model.piece_types, strict=True)
            if piece_type == CONTROL
        ]
    )
    special_ids = _set_special_tokens(backend, options)
    # The name of a class of `transformers` that takes the pipeline as it is.
    flags["tokenizer_class"] = "PreTrainedTokenizerFast"
    written = {
        "tokenizer.json": backend.to_str(pretty=True).encode(),
        "tokenizer_config.json": _options_file(backend, special_ids, {**options, **flags}),
    }
    return Tokenizer(backend, special_ids, {**files, **written})


def _from_wordpiece(content: str, options: Mapping[str, Any], files: Mapping[str, bytes]) -> Tokenizer:
    vocabulary = content.split("\n")
    vocabulary = [token.rstrip("\r") for token in (vocabulary[:-1] if vocabulary[-1] == "" else vocabulary)]
    unk_token = options.get("unk_token", "[UNK]")
    unk_token = unk_token.get("content") if isinstance(unk_token, dict) else unk_token
    if unk_token not in vocabulary:
        raise InputError(f"no {unk_token}, which a BERT vocabulary needs; get the file again")
    flags = {
        "do_lower_case": options.get("do_lower_case", not _has_capitals(vocabulary)),
        "strip_accents": options.get("strip_accents"),
        "tokenize_chinese_chars": options.get("tokenize_chinese_chars", True),
        "tokenizer_class": "BertTokenizer",
    }
    backend = bert_backend(
        vocabulary,
        unk_token=unk_token,
        cased=not flags["do_lower_case"],
        strip_accents=flags["strip_accents"],
        tokenize_chinese_chars=bool(flags["tokenize_chinese_chars"]),
    )
    special_ids = _set_special_tokens(backend, options)
    written = {"tokenizer_config.json": _options_file(backend, special_ids, {**options, **flags})}
    return Tokenizer(backend, special_ids, {**files, **written})


def _has_capitals(tokens: Iterable[str]) -> bool:
    """Return whether many tokens have capitals; Google's files do not say whether text keeps its capitals."""
    words = [token for token in tokens if not token.startswith(("[", "<"))]
    return sum(token != token.lower() for token in words) > len(words) / 100


def _set_special_tokens(backend: tokenizers.Tokenizer, options: Mapping[str, Any]) -> SpecialTokenIds:
    special_ids = _find_special_ids(backend, options)
    names = [backend.id_to_token(index) or "" for index in vars(special_ids).values()]
    set_special_tokens(backend, names, names[2], names[3])  # in the order of SpecialTokenIds: cls, sep
    return special_ids


def _options_file(
    backend: tokenizers.Tokenizer, special_ids: SpecialTokenIds, options: Mapping[str, Any]
) -> bytes:
    """Return a `tokenizer_config.json` with which `transformers` gives the same ids."""
    names = {f"{field}_token": backend.id_to_token(index) for field, index in vars(special_ids).items()}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return (json.dumps({**options, **names, "model_input_names": inputs}, indent=2) + "\n").encode()
