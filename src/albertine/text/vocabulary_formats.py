"""Reads the formats of vocabularies: `tokenizer.json`, SentencePiece's `spiece.model` and BERT's `vocab.txt`.

Each becomes a pipeline of the library `tokenizers`. A `spiece.model` is translated to a pipeline and saved
with it as `tokenizer.json`: with `spiece.model` alone, `transformers` would give other ids. See
docs/decisions/sentencepiece-files.md.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from albertine.display import display_text, display_value
from albertine.errors import InputError
from albertine.text.backends import albert_backend, bert_backend, set_special_tokens
from albertine.text.protobuf import CorruptDataError
from albertine.text.sentencepiece_model import CONTROL, SentencePieceModel, read_sentencepiece


@dataclass(frozen=True)
class SpecialTokenIds:
    """Ids of the special tokens."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


class Vocabulary(NamedTuple):
    """What a vocabulary file contains.

    Attributes:
        backend: the pipeline from text to ids.
        special_ids: ids of the special tokens.
        written: files that Albertine writes in addition to those that it has read, by name.
    """

    backend: tokenizers.Tokenizer
    special_ids: SpecialTokenIds
    written: dict[str, bytes]


def read_vocabulary(file: Path, content: bytes, options: Mapping[str, Any]) -> Vocabulary:
    """Return the vocabulary in the content of a file.

    Args:
        file: the file, whose suffix tells the format.
        content: its content.
        options: options of the tokenizer, as in `tokenizer_config.json`.
    """
    try:
        if file.suffix == ".json":
            return _from_json(content, options)
        if file.suffix == ".model":
            return _from_sentencepiece(read_sentencepiece(content), options)
        return _from_wordpiece(content.decode(), options)
    except (CorruptDataError, ValueError, TypeError, OverflowError) as error:
        raise InputError(
            f"{file}: damaged, or not a vocabulary ({display_text(str(error))}); get the file again"
        ) from None
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _from_json(content: bytes, options: Mapping[str, Any]) -> Vocabulary:
    try:
        backend = tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # the library raises no narrower type
        raise InputError(f"not a tokenizer ({display_text(str(error))}); get the file again") from None
    backend.no_truncation()
    backend.no_padding()
    return Vocabulary(backend, _find_special_ids(backend, options), {})


def _from_sentencepiece(model: SentencePieceModel, options: Mapping[str, Any]) -> Vocabulary:
    pieces = model.segmentation_pieces()
    flags: dict[str, Any] = {
        "do_lower_case": _flag(options, "do_lower_case", not _has_capitals(piece for piece, _ in pieces)),
        "keep_accents": _flag(options, "keep_accents", False),
    }
    try:
        backend = albert_backend(
            pieces,
            unk_id=model.unk_id,
            cased=not flags["do_lower_case"],
            keep_accents=flags["keep_accents"],
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
    return Vocabulary(backend, special_ids, written)


def _from_wordpiece(content: str, options: Mapping[str, Any]) -> Vocabulary:
    vocabulary = content.split("\n")
    vocabulary = [token.rstrip("\r") for token in (vocabulary[:-1] if vocabulary[-1] == "" else vocabulary)]
    unk_token = options.get("unk_token", "[UNK]")
    unk_token = unk_token.get("content") if isinstance(unk_token, dict) else unk_token
    if not isinstance(unk_token, str) or unk_token not in vocabulary:
        unk_token = unk_token if isinstance(unk_token, str) else "unk_token"
        raise InputError(f"no {display_text(unk_token)}, which a BERT vocabulary needs; get the file again")
    flags: dict[str, Any] = {
        "do_lower_case": _flag(options, "do_lower_case", not _has_capitals(vocabulary)),
        "strip_accents": _flag(options, "strip_accents", None),
        "tokenize_chinese_chars": _flag(options, "tokenize_chinese_chars", True),
        "tokenizer_class": "BertTokenizer",
    }
    backend = bert_backend(
        vocabulary,
        unk_token=unk_token,
        cased=not flags["do_lower_case"],
        strip_accents=flags["strip_accents"],
        tokenize_chinese_chars=flags["tokenize_chinese_chars"],
    )
    special_ids = _set_special_tokens(backend, options)
    written = {"tokenizer_config.json": _options_file(backend, special_ids, {**options, **flags})}
    return Vocabulary(backend, special_ids, written)


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


def _flag(options: Mapping[str, Any], name: str, default: bool | None) -> bool | None:
    """Return an option that is true, false or, like a missing one, null."""
    value = options.get(name)
    if value is not None and not isinstance(value, bool):
        raise InputError(f"{name} = {display_value(value)} in its options: must be true or false")
    return default if value is None else value


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
