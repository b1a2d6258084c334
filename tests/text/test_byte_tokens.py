"""Tests of byte fallback: the ids of transformers and SentencePiece, decoding, offsets, whole words."""

import io
import unicodedata
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from albertine.text.settings import TokenizerSettings
from albertine.text.token_text import token_text
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from albertine.text.tokenizer_training import build_tokenizer
from albertine.text.word_encoder import WordBoundaries, WordEncoder

TEXT = "the cat sat on the mat, and the old dog slept near the warm stove; nobody came to the door"
HARD_TEXTS = [
    "the cat 漢字 sat",
    "漢字かな交じり文",
    "a🙂b 🙂🙃 good🙂",
    "<0x41> the <0xE6> <pad> [MASK]",
    "Ωmega ΑΒΓ naïve ¼ ﷺ",
    "한국어 텍스트",
    "ЁЖИК \u0301x \u200d \ufffd",
    "",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bytes")
    words = TEXT.split()
    lines = [" ".join(words[start:] + words[:start]) for start in range(len(words))] * 5
    (folder / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    settings = TokenizerSettings(vocab_size=440, layout="lines", byte_fallback=True, allow_smaller=True)
    build_tokenizer([str(folder / "a.txt")], folder / "made", settings)
    return folder / "made"


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return load_tokenizer(folder)


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_ids_match_transformers(folder: Path, tokenizer: Tokenizer, text: str) -> None:
    from transformers import AutoTokenizer

    reference = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode(text)
    assert ids == reference(text)["input_ids"]
    assert reference.decode(ids, skip_special_tokens=True) == tokenizer.decode(ids)
    assert reference(text, "the")["token_type_ids"] == tokenizer.encode_with_special_tokens(text, "the")[1]


def test_every_character_survives(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocabulary[5:261] == tuple(f"<0x{byte:02X}>" for byte in range(256))
    text = "漢字 a🙂b привет ॐ"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.special_ids.unk not in ids
    assert tokenizer.decode(ids) == text


def test_text_never_matches_a_byte_token(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<0x41> x<0xE6>", add_special_tokens=False)
    assert tokenizer.byte_values is not None
    assert (tokenizer.byte_values[ids] < 0).all()
    assert tokenizer.decode(ids) == "<0x41> x<0xe6>"


def test_offsets_of_byte_tokens_are_those_of_their_character(tokenizer: Tokenizer) -> None:
    # An accent that is removed, a ligature, and syllables that become several characters.
    text = "the ﬁne 漢字🙂, naïve 漢e\u0301字 한국"
    ((ids, spans),) = tokenizer.encode_with_offsets([text])
    assert tokenizer.byte_values is not None
    found: dict[tuple[int, int], bytes] = {}
    for token_id, span in zip(ids, spans, strict=True):
        if tokenizer.byte_values[token_id] >= 0:
            found[span] = found.get(span, b"") + bytes([tokenizer.byte_values[token_id]])
    decoded = {span: unicodedata.normalize("NFC", content.decode()) for span, content in found.items()}
    assert decoded == {(start, end): text[start:end] for start, end in decoded}
    assert list(decoded.values()) == list("漢字🙂漢字한국")


def words_of(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the words of a text, as whole-word masking sees them."""
    ids, _ = WordEncoder(tokenizer).encode([text])
    starts = np.flatnonzero(WordBoundaries(tokenizer).starts(ids)).tolist()
    words = [tokenizer.decode(ids[start:stop].tolist()) for start, stop in pairwise([*starts, len(ids)])]
    return [word for word in words if word]


def test_words_with_byte_tokens(tokenizer: Tokenizer) -> None:
    assert words_of(tokenizer, "the жук sat") == ["the", "жук", "sat"]
    assert words_of(tokenizer, "catж mat") == ["catж", "mat"]
    assert words_of(tokenizer, "漢字 cat漢") == ["漢", "字", "cat", "漢"]
    # Like a mark with a token, a mark in bytes is a word by itself.
    assert words_of(tokenizer, "♪cat mat♪.") == ["♪", "cat", "mat", "♪", "."]


def test_byte_tokens_are_shown_within_their_word(tokenizer: Tokenizer) -> None:
    assert token_text("<0xE6>", tokenizer) == "-<0xE6>"


@pytest.mark.parametrize("text", [one for one in HARD_TEXTS if "<" not in one and "한" not in one])
def test_sentencepiece_file_with_bytes(tmp_path: Path, text: str) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([TEXT] * 30),
        model_writer=model,
        vocab_size=310,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (tmp_path / "spiece.model").write_bytes(model.getvalue())
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "keep_accents": true}')
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    tokenizer = load_tokenizer(tmp_path)
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert ids == processor.encode(text)
    assert tokenizer.decode(ids) == processor.decode(ids)
