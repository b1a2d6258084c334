"""Tokenizers: converting text to ids and back, for every vocabulary format.

A tokenizer folder has one of these files, searched in the order in which `transformers` does, so
that both give the same ids:

1. `tokenizer.json`: written by Albertine, read by current libraries;
2. `spiece.model`: SentencePiece's format, used by the published ALBERT checkpoints;
3. `vocab.txt`: BERT's format, used by Chinese ALBERT.

`vocabulary_formats` reads the three formats.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
from numpy.typing import NDArray

from albertine.checksums import file_checksum
from albertine.errors import InputError
from albertine.input_files import read_bytes, read_json_object
from albertine.storage.cache import local_folder
from albertine.text.backends import LibraryErrors, hidden_panics
from albertine.text.byte_tokens import byte_values, split_byte_offsets
from albertine.text.vocabulary_formats import SpecialTokenIds, read_vocabulary

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "spiece.model",
    "vocab.txt",
)
_GOOGLE_NAMES = ("30k-clean.model",)  # SentencePiece files in Google's archives of ALBERT
_MAX_FILE_BYTES = {".json": 50_000_000}  # the largest in use has 35 MB
_MAX_OTHER_BYTES = 16_000_000
MAX_TOKENS = 5_000_000  # ids up to the largest one take memory, whether they are used or not
_VOCABULARY_FILES = ("tokenizer.json", "spiece.model", *_GOOGLE_NAMES, "vocab.txt")

# Contains accents, capitals, digits with commas, quotes, several scripts and unknown characters. Two
# tokenizers with the same vocabulary and the same ids of this text count as equal.
_FINGERPRINT_TEXT = (
    "Ça «naïve» ``x'' ''y'' İSTANBUL ß ﬁne ½ 1,000,000 3.14 don't 漢字かな 한국어 हिन्दी 🙂 "
    "e\u0301 \u00a0z <pad> [MASK]"
)


class Tokenizer:
    """Converts text to ids and back, and keeps the files that it was read from.

    Attributes:
        backend: the pipeline of the library `tokenizers`.
        special_ids: ids of the special tokens.
        files: name and content of each file of the tokenizer.
        source: file that it was read from, for error messages.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        special_ids: SpecialTokenIds,
        files: Mapping[str, bytes],
        source: str = "tokenizer.json",
    ):
        self.backend = backend
        self.special_ids = special_ids
        self.files = dict(files)
        self.source = source
        self._library_errors = LibraryErrors(source)

    def __len__(self) -> int:
        return len(self.vocabulary)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """All tokens, by id."""
        return tuple(self.backend.id_to_token(token_id) or "" for token_id in range(self._num_ids))

    @cached_property
    def _num_ids(self) -> int:
        # Up to the largest id: a vocabulary may repeat a token or skip ids.
        num_ids = max(self.backend.get_vocab(with_added_tokens=True).values()) + 1
        if num_ids > MAX_TOKENS:
            raise InputError(
                f"{self.source}: a token with the id {num_ids - 1:,}; ids must be below {MAX_TOKENS:,}; "
                "get the file again"
            )
        return num_ids

    @cached_property
    def byte_values(self) -> NDArray[Any] | None:
        """The byte of each token, -1 for other tokens [vocab_size]; None without byte tokens."""
        values = byte_values(self.vocabulary)
        return values if (values >= 0).any() else None

    def normalize(self, text: str) -> str:
        """Return a text as the vocabulary sees it, for example in lower case."""
        normalizer = self.backend.normalizer
        if normalizer is None:
            return text
        with self._library_errors:
            return str(normalizer.normalize_str(text))

    @property
    def marks_continuations(self) -> bool:
        """Whether tokens that continue a word are marked (BERT), not those that begin one (ALBERT)."""
        return isinstance(self.backend.model, tokenizers.models.WordPiece)

    def unknown_words(self, text: str) -> list[str]:
        """Return the words that become the unknown token, normalized, for a BERT vocabulary.

        Words are what its pipeline splits a text into, such as a mark without the letters around it.
        """
        model, pre_tokenizer = self.backend.model, self.backend.pre_tokenizer
        normalized = self.normalize(text)
        with self._library_errors:
            parts = pre_tokenizer.pre_tokenize_str(normalized) if pre_tokenizer else [(normalized, ())]
            return [
                word
                for word, _ in parts
                if any(token.id == self.special_ids.unk for token in model.tokenize(word))
            ]

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
        with self._library_errors:
            encodings = self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def with_split_special_tokens(self) -> "Tokenizer":
        """Return a copy that encodes "[MASK]" in a text as ordinary text, not as the special token."""
        with self._library_errors:
            backend = tokenizers.Tokenizer.from_str(self.backend.to_str())
        backend.encode_special_tokens = True
        return Tokenizer(backend, self.special_ids, {}, self.source)

    def pipeline(self) -> dict[str, Any]:
        """Return the components of the backend, as in a `tokenizer.json`."""
        with self._library_errors:
            components: dict[str, Any] = json.loads(self.backend.to_str())
        return components

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Return for each text its ids, and the start and end of each token in the text.

        The offsets count characters of the text before normalization. A token's span has no leading spaces.
        """
        encoded = []
        skipped = list(map(self._num_removed_at_start, texts))
        rests = [text[count:] for text, count in zip(texts, skipped, strict=True)]
        with self._library_errors:
            encodings = self.backend.encode_batch(rests, add_special_tokens=False)
        for text, count, encoding in zip(texts, skipped, encodings, strict=True):
            spans: list[tuple[int, int]] = []
            offsets = [(start + count, end + count) for start, end in encoding.offsets]
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

    def _num_removed_at_start(self, text: str) -> int:
        """Return the number of control characters at the start of a text that normalization removes.

        The offsets of the backend do not count them.
        """
        for index, character in enumerate(text):
            if unicodedata.category(character) != "Cc" or self.normalize(character):
                return index
        return len(text)

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
        with self._library_errors:
            decoded: str = self.backend.decode(list(ids), skip_special_tokens=True)
        return decoded

    def save(self, folder: Path) -> None:
        """Write the files of the tokenizer into an existing folder."""
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


def load_tokenizer(folder: Path, vocab_size: int | None = None) -> Tokenizer:
    """Return the tokenizer of a folder.

    Args:
        folder: the folder, with the files of one tokenizer; it may be a URL of object storage.
        vocab_size: vocabulary size of the model that takes the ids; None if there is none.
    """
    folder = local_folder(folder, {*TOKENIZER_FILES, *_VOCABULARY_FILES}.__contains__)
    options = _options(folder)
    vocabulary_file = next((folder / name for name in _VOCABULARY_FILES if (folder / name).exists()), None)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name a folder with a tokenizer")
    if vocabulary_file is None:
        raise InputError(f"{folder}: no tokenizer here; expected tokenizer.json, spiece.model or vocab.txt")
    present = [folder / name for name in TOKENIZER_FILES if (folder / name).exists()]
    files = {file.name: _read_file(file) for file in present}
    content = _read_file(vocabulary_file)
    # Saved as spiece.model, the name that other libraries expect.
    files["spiece.model" if vocabulary_file.name in _GOOGLE_NAMES else vocabulary_file.name] = content
    with LibraryErrors(vocabulary_file), hidden_panics():
        backend, special_ids, written = read_vocabulary(vocabulary_file, content, options)
        tokenizer = Tokenizer(backend, special_ids, {**files, **written}, str(vocabulary_file))
        _ = tokenizer._num_ids  # checks it
        # Encoding and decoding find most defects that reading does not.
        (ids, _) = tokenizer.encode_batch([_FINGERPRINT_TEXT, ""])
        tokenizer.decode(ids)
    if vocab_size is not None and tokenizer._num_ids > vocab_size:
        raise InputError(
            f"{vocabulary_file}: {tokenizer._num_ids:,} tokens, but the model takes {vocab_size:,}; "
            "get the files of tokenizer and model again"
        )
    return tokenizer


def _read_file(file: Path) -> bytes:
    return read_bytes(file, _MAX_FILE_BYTES.get(file.suffix, _MAX_OTHER_BYTES))


def tokenizer_checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a folder that `load_tokenizer` would read, by name."""
    names = (name for name in {*TOKENIZER_FILES, *_VOCABULARY_FILES} if (folder / name).is_file())
    return {name: file_checksum(folder / name) for name in sorted(names)}


def has_tokenizer(folder: Path) -> bool:
    """Return whether a folder has a tokenizer."""
    return any((folder / name).exists() for name in _VOCABULARY_FILES)


def _options(folder: Path) -> Mapping[str, Any]:
    """Return the options in `tokenizer_config.json` and `special_tokens_map.json`."""
    options: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        file = folder / name
        if file.exists():
            options |= read_json_object(file, "get the file again")
    return options
