"""Tokenizers of every file format, compared with the libraries that define the formats."""

import contextlib
import io
import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st

from albertine.errors import InputError
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from albertine.text.word_encoder import WordBoundaries, WordEncoder

STORY = (
    'In 1899 the old captain paid 1,000 pounds for the boat, and 2,500, then 12, more. "Why?" asked Anna; '
    "nobody knew. The captain's daughter (who was nine) walked to the harbour - slowly, it must be said - "
    "and counted 3,000,000 fishes, 17, 18, 19, or so she told us. The naïve café-owner smiled. "
)
TEXTS = [
    *STORY.split(". "),
    "",
    "   ",
    "1,000,000 and 2,000, 3,5 in 1899, and 12,",
    "``quoted'' text, 'single' \"double\"",
    '(b) x-(y)"z" a£b–c€',
    "Ça «naïve» İSTANBUL STRASSE ß ﬁne ½ e\u0301",
    "漢字かな交じり文 ガギグ",
    "한국어 텍스트",
    "हिन्दी में",
    "🙂🙃 a🙂b",
    "tab\tnew\nline\u00a0nbsp\u3000wide",
]
SPECIAL_TOKENS = ["[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="session")
def spiece() -> bytes:
    """Return a SentencePiece model with ALBERT's flags and with pieces that end in a digit and a comma."""
    model = io.BytesIO()
    lines = [line for line in STORY.lower().split(". ") for _ in range(30)]
    lines += [f"in {1000 + n}, they had {n}, {n},000 and {n},500, of it" for n in range(100)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=200,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=SPECIAL_TOKENS,
        user_defined_symbols=["(", ")", '"', "-", ".", "–", "£", "€"],
        minloglevel=2,
    )
    return model.getvalue()


@pytest.fixture
def folder(tmp_path: Path, spiece: bytes) -> Path:
    (tmp_path / "spiece.model").write_bytes(spiece)
    return tmp_path


def reference_ids(model: bytes, text: str) -> list[int]:
    """Return the ids of ALBERT's reference code: normalization, the library's pieces, splits after digits."""
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    text = " ".join(text.split()).replace("``", '"').replace("''", '"')
    text = "".join(
        one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one)
    ).lower()
    pieces: list[str] = []
    for piece in library.encode(text, out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            again = library.encode(piece[:-1].replace("▁", ""), out_type=str)
            if not piece.startswith("▁") and again[0].startswith("▁"):
                again = again[1:] if again[0] == "▁" else [again[0][1:], *again[1:]]
            pieces += [*again, ","]
        else:
            pieces.append(piece)
    return [library.piece_to_id(piece) for piece in pieces]


@pytest.mark.parametrize("text", [text for text in TEXTS if "हि" not in text])
def test_sentencepiece_ids_match_the_reference(folder: Path, spiece: bytes, text: str) -> None:
    assert load_tokenizer(folder).encode(text, add_special_tokens=False) == reference_ids(spiece, text)


def test_fixture_has_digit_comma_pieces(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert len(tokenizer.replacements) >= 3
    before = tokenizer.backend.encode("1,000 17, 2,500,", add_special_tokens=False).ids
    assert tokenizer.encode("1,000 17, 2,500,", add_special_tokens=False) != before


def test_google_file_name_is_found(tmp_path: Path, spiece: bytes) -> None:
    (tmp_path / "30k-clean.model").write_bytes(spiece)
    assert load_tokenizer(tmp_path).encode("the captain", add_special_tokens=False)


def test_capitals_and_accents_follow_tokenizer_config(folder: Path) -> None:
    plain = load_tokenizer(folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false, "keep_accents": true}')
    kept = load_tokenizer(folder)
    assert kept.encode("The CAPTAIN") != plain.encode("The CAPTAIN") == kept.encode("the captain")
    assert kept.fingerprint != plain.fingerprint


@pytest.mark.parametrize("cased", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_wordpiece_ids_match_transformers(tmp_path: Path, text: str, cased: bool) -> None:
    from transformers import BertTokenizer

    words = sorted({piece for word in STORY.split() for piece in (word, word.lower())})
    alphabet = [chr(one) for one in range(33, 127)]
    vocabulary = [
        "[PAD]",
        "[UNK]",
        *SPECIAL_TOKENS,
        *alphabet,
        *(f"##{one}" for one in alphabet),
        *words,
        "漢",
        "naive",
    ]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": not cased}))
    theirs = BertTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path)
    assert ours.encode(text, add_special_tokens=False) == theirs(text, add_special_tokens=False)["input_ids"]
    ids, types = ours.encode_with_special_tokens(text, "the boat")
    both = theirs(text, "the boat")
    assert (ids, types) == (both["input_ids"], both["token_type_ids"])


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory, spiece: bytes) -> Path:
    """Return a folder with a tokenizer that transformers converted and saved."""
    from transformers import AlbertTokenizer

    pieces = sentencepiece.SentencePieceProcessor(model_proto=spiece)
    vocabulary = [(pieces.id_to_piece(one), pieces.get_score(one)) for one in range(len(pieces))]
    folder = tmp_path_factory.mktemp("converted")
    AlbertTokenizer(vocab=vocabulary).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("text", TEXTS)
def test_tokenizer_json_ids_match_transformers(converted: Path, text: str) -> None:
    from transformers import AlbertTokenizer

    theirs = AlbertTokenizer.from_pretrained(converted)
    ours = load_tokenizer(converted)
    assert ours.encode(text, add_special_tokens=False) == theirs(text, add_special_tokens=False)["input_ids"]
    assert ours.encode_with_special_tokens(text, "x")[0] == theirs(text, "x")["input_ids"]
    ids = ours.encode(text, add_special_tokens=False)
    assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=True)


def all_tokenizers(spiece: bytes, converted: Path, folder: Path) -> list[Tokenizer]:
    for name in ("a", "b"):
        (folder / name).mkdir()
    (folder / "a" / "spiece.model").write_bytes(spiece)
    pieces = [
        "[PAD]",
        "[UNK]",
        *SPECIAL_TOKENS,
        "the",
        "cap",
        "##tain",
        ",",
        ".",
        "1",
        "##0",
        "##,",
        "[",
        "]",
        "mask",
    ]
    (folder / "b" / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    return [load_tokenizer(folder / "a"), load_tokenizer(folder / "b"), load_tokenizer(converted)]


@pytest.fixture(scope="session")
def tokenizers(spiece: bytes, converted: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Tokenizer]:
    return all_tokenizers(spiece, converted, tmp_path_factory.mktemp("tokenizers"))


@given(texts=st.lists(st.text(max_size=30) | st.sampled_from(TEXTS), max_size=5))
@example(texts=["[CLS]", "a [MASK]b <pad>"])
def test_word_encoder_matches_the_backend(texts: list[str], tokenizers: list[Tokenizer]) -> None:
    for tokenizer in tokenizers:
        encoder, splitting, special = (
            WordEncoder(tokenizer),
            tokenizer.with_split_special_tokens(),
            tokenizer.special_ids,
        )
        special_ids = set(vars(special).values())  # text never gives these, even if it spells one out
        for _ in range(2):  # without and with cached words
            ids, counts = encoder.encode(texts)
            expected = [
                [special.unk if one in special_ids else one for one in row]
                for row in splitting.encode_batch(texts)
            ]
            assert ids.tolist() == [one for row in expected for one in row]
            assert counts.tolist() == list(map(len, expected))


def test_text_never_becomes_a_special_token(spiece: bytes, converted: Path, tmp_path: Path) -> None:
    for tokenizer in all_tokenizers(spiece, converted, tmp_path):
        special = set(vars(tokenizer.special_ids).values()) - {tokenizer.special_ids.unk}
        ids, _ = WordEncoder(tokenizer).encode(["a [MASK] the[SEP]captain [CLS] <pad> [PAD]"])
        assert not special & set(ids.tolist())
        assert special & set(
            tokenizer.encode("a [MASK] b", add_special_tokens=False)
        )  # typed on purpose, it is


def test_word_boundaries(converted: Path, tmp_path: Path) -> None:
    def cut(tokenizer: Tokenizer, text: str) -> list[str]:
        ids, _ = WordEncoder(tokenizer).encode([text])
        words: list[str] = []
        for one, start in zip(ids.tolist(), WordBoundaries(tokenizer).starts(ids), strict=True):
            piece = tokenizer.vocabulary[one].removeprefix("▁").removeprefix("##")
            words += [piece] if start else []
            words[-1] += "" if start else piece
        return words

    text = '"The captain\'s daughter, (nine) walked-slowly."'
    found = [word for word in cut(load_tokenizer(converted), text) if word]
    assert found == [
        '"',
        "the",
        "captain",
        "'s",
        "daughter",
        ",",
        "(",
        "nine",
        ")",
        "walked",
        "-slowly",
        ".",
        '"',
    ]
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncap\n##tain\n.\n")
    assert cut(load_tokenizer(tmp_path), "the captain.") == ["the", "captain", "."]


def test_token_of_a_spaceless_script_is_a_word(tmp_path: Path) -> None:
    from albertine.text.backends import albert_backend, set_special_tokens

    pieces = [(one, -2.0) for one in ("<pad>", "<unk>", *SPECIAL_TOKENS, "▁", "漢字", "文", "abc", "d")]
    backend = albert_backend(pieces, unk_id=1)
    set_special_tokens(backend, ["<pad>", "<unk>", *SPECIAL_TOKENS], "[CLS]", "[SEP]")
    (tmp_path / "tokenizer.json").write_text(backend.to_str())
    tokenizer = load_tokenizer(tmp_path)
    ids, _ = WordEncoder(tokenizer).encode(["漢字文 abcd"])
    starts = dict(
        zip((tokenizer.vocabulary[one] for one in ids), WordBoundaries(tokenizer).starts(ids), strict=True)
    )
    assert starts["漢字"]
    assert starts["文"]
    assert not starts["abc"]
    assert not starts["d"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("spiece.model", b"\x0a\xff\xff\xff\xff", "damaged, or not a vocabulary"),
        ("spiece.model", b"", "one unknown piece"),
        ("tokenizer.json", b"{}", "not a tokenizer"),
        ("tokenizer.json", b"\x00", "not a tokenizer"),
        ("vocab.txt", b"the\ncat\n", "no [UNK]"),
        ("vocab.txt", b"[UNK]\n[CLS]\n", "no pad_token"),
        ("vocab.txt", b"\xff\xfe", "damaged, or not a vocabulary"),
        ("tokenizer_config.json", b"{", "not JSON"),
        ("tokenizer_config.json", b"[]", "expected a JSON object"),
    ],
)
def test_corrupt_file_is_named(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name.replace(".", r"\.")) as raised:
        load_tokenizer(tmp_path)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_truncated_vocabulary_is_refused_or_loads(tmp_path: Path, spiece: bytes) -> None:
    for cut in range(0, len(spiece), 997):
        (tmp_path / "spiece.model").write_bytes(spiece[:cut])
        with contextlib.suppress(InputError):
            load_tokenizer(tmp_path)


def test_folder_without_tokenizer_names_the_expected_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no tokenizer here; expected tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_vocabulary_with_a_repeated_token(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nthe\ncat\n")
    tokenizer = load_tokenizer(tmp_path)
    assert len(tokenizer) == 8
    assert tokenizer.encode("the cat", add_special_tokens=False) == [6, 7]
    assert WordBoundaries(tokenizer).starts(np.array([6, 7])).all()


def test_added_tokens_of_several_words_are_found(converted: Path, tmp_path: Path) -> None:
    from transformers import AlbertTokenizer

    theirs = AlbertTokenizer.from_pretrained(converted)
    theirs.add_tokens(["the captain"])
    theirs.save_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    ids, _ = WordEncoder(tokenizer).encode(["so the captain paid"])
    assert (
        ids.tolist()
        == tokenizer.encode("so the captain paid", add_special_tokens=False)
        == theirs("so the captain paid", add_special_tokens=False)["input_ids"]
    )
    assert len(tokenizer) - 1 in ids


def test_changed_byte_in_a_vocabulary_is_harmless_or_named(tmp_path: Path, spiece: bytes) -> None:
    for offset in range(0, len(spiece), 1499):
        (tmp_path / "spiece.model").write_bytes(
            spiece[:offset] + bytes([spiece[offset] ^ 0x55]) + spiece[offset + 1 :]
        )
        with contextlib.suppress(InputError):
            load_tokenizer(tmp_path)
