"""Tokenizers of every file format, compared with the libraries that define the formats."""

import contextlib
import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given
from hypothesis import strategies as st
from tests.conftest import made_up_sentences
from tests.sentencepiece_fixture import (
    KOREAN,
    SPECIAL_TOKENS,
    STORY,
    reference_ids,
    sentencepiece_model,
    weighted_sentencepiece_model,
)
from tokenizers import decoders
from transformers import AutoTokenizer

from albertine.errors import InputError
from albertine.text import word_encoder
from albertine.text.backends import albert_backend
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from albertine.text.word_encoder import WordBoundaries, WordEncoder

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


@pytest.fixture(scope="session")
def spiece() -> bytes:
    return sentencepiece_model()


@pytest.fixture
def folder(tmp_path: Path, spiece: bytes) -> Path:
    (tmp_path / "spiece.model").write_bytes(spiece)
    return tmp_path


NUMBERS = "1,000,000 and 2,000, 3,5 in 1899, and 12,"


@pytest.mark.parametrize("text", [*(text for text in TEXTS if text != NUMBERS), "ภาษาไทย", "한국어"])
def test_sentencepiece_ids_match_the_reference(folder: Path, spiece: bytes, text: str) -> None:
    assert load_tokenizer(folder).encode(text, add_special_tokens=False) == reference_ids(spiece, text)


def test_korean_hindi_and_thai_words_keep_their_letters(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    text = f"{KOREAN} हिन्दी में ภาษาไทย"
    for form in ("NFC", "NFD"):
        ids = tokenizer.encode(unicodedata.normalize(form, text), add_special_tokens=False)
        assert tokenizer.special_ids.unk not in ids
        assert tokenizer.decode(ids).startswith(KOREAN)
    (vowel_sign,) = tokenizer.encode_with_offsets(["में"])[0][1][-1:]
    assert vowel_sign[1] == len("में")


@pytest.mark.parametrize("prefix", ["\x01", "\x02\x1f\x0b", "\x7f", "\x9f", "\ufeff", "\t\x02", " \x02"])
def test_offsets_count_removed_characters_at_the_start(folder: Path, prefix: str) -> None:
    tokenizer = load_tokenizer(folder)
    ((ids, spans), (plain_ids, plain_spans)) = tokenizer.encode_with_offsets(
        [f"{prefix}the garden", "the garden"]
    )
    assert ids == plain_ids
    assert spans == [(start + len(prefix), end + len(prefix)) for start, end in plain_spans]


def test_pieces_that_end_in_a_digit_and_a_comma_are_never_used(folder: Path, spiece: bytes) -> None:
    tokenizer = load_tokenizer(folder)
    library = sentencepiece.SentencePieceProcessor(model_proto=spiece)
    split_by_reference = {
        index for index in range(len(library)) if re.search(r"\d,$", library.id_to_piece(index))
    }
    assert len(split_by_reference) >= 3
    assert any(library.encode(NUMBERS)[i] in split_by_reference for i in range(8))
    ids = tokenizer.encode(NUMBERS, add_special_tokens=False)
    assert not split_by_reference & set(ids)
    assert tokenizer.decode(ids) == NUMBERS


WEIGHTED_TOKENS = dict.fromkeys("ab<>", -4.0) | {"▁": -1.0, "b£": -5.0, "%a": -5.0, "a<b>": -5.0}
SYMBOLS = {"£": 0.0, "££": 0.0, "%": -20.0, "<b>": 0.0}  # the scores in the file play no part


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        ("£", "b£"),
        ("£", "ab£a"),
        ("££", "a££££a"),
        ("%", "%a"),
        ("%", "b%a%b"),
        ("<b>", "a<b>"),
        ("<b>", "<b>a<b>b"),
    ],
)
def test_user_defined_symbols_win_as_in_sentencepiece(tmp_path: Path, symbol: str, text: str) -> None:
    """A longer token is as probable as the parts of the text without the symbol, so its score decides."""
    spiece = weighted_sentencepiece_model(WEIGHTED_TOKENS, SYMBOLS)
    library = sentencepiece.SentencePieceProcessor(model_proto=spiece)
    assert symbol in library.encode(text, out_type=str)
    (tmp_path / "spiece.model").write_bytes(spiece)
    tokenizer = load_tokenizer(tmp_path)
    tokenizer.save(tmp_path)
    for one in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        assert one.encode(text, add_special_tokens=False) == library.encode(text)


@pytest.mark.parametrize(("vocabulary", "cased"), [("The\nthe\nCat\n", True), ("the\ncat\n", False)])
def test_capitals_in_the_vocabulary_decide_without_a_config(
    tmp_path: Path, vocabulary: str, cased: bool
) -> None:
    (tmp_path / "vocab.txt").write_text(f"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n{vocabulary}")
    tokenizer = load_tokenizer(tmp_path)
    assert (tokenizer.encode("The") != tokenizer.encode("the")) == cased
    tokenizer.save(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["do_lower_case"] is not cased


def test_google_file_name_is_found(tmp_path: Path, spiece: bytes) -> None:
    (tmp_path / "30k-clean.model").write_bytes(spiece)
    assert load_tokenizer(tmp_path).encode("the captain", add_special_tokens=False)


def test_capitals_and_accents_follow_tokenizer_config(folder: Path) -> None:
    default = load_tokenizer(folder)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false, "keep_accents": true}')
    cased = load_tokenizer(folder)
    assert cased.encode("The CAPTAIN") != default.encode("The CAPTAIN") == cased.encode("the captain")
    assert cased.fingerprint != default.fingerprint


@pytest.mark.parametrize("cased", [True, False])
@pytest.mark.parametrize("text", TEXTS)
def test_wordpiece_ids_match_transformers(tmp_path: Path, text: str, cased: bool) -> None:
    from transformers import BertTokenizer

    words = sorted({form for word in STORY.split() for form in (word, word.lower())})
    alphabet = [chr(code) for code in range(33, 127)]
    vocabulary = [
        "[PAD]",
        "[UNK]",
        *SPECIAL_TOKENS,
        *alphabet,
        *(f"##{character}" for character in alphabet),
        *words,
        "漢",
        "naive",
    ]
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": not cased}))
    reference = BertTokenizer.from_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    expected = reference(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.encode(text, add_special_tokens=False) == expected
    ids, segments = tokenizer.encode_with_special_tokens(text, "the boat")
    expected_pair = reference(text, "the boat")
    assert (ids, segments) == (expected_pair["input_ids"], expected_pair["token_type_ids"])


@pytest.fixture(scope="session")
def converted(tmp_path_factory: pytest.TempPathFactory, spiece: bytes) -> Path:
    """Return a folder with the `tokenizer.json` that transformers makes from the vocabulary of `spiece`."""
    from transformers import AlbertTokenizer

    processor = sentencepiece.SentencePieceProcessor(model_proto=spiece)
    vocabulary = [
        (processor.id_to_piece(token_id), processor.get_score(token_id)) for token_id in range(len(processor))
    ]
    folder = tmp_path_factory.mktemp("converted")
    AlbertTokenizer(vocab=vocabulary).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("text", TEXTS)
def test_tokenizer_json_ids_match_transformers(converted: Path, text: str) -> None:
    from transformers import AlbertTokenizer

    reference = AlbertTokenizer.from_pretrained(converted)
    tokenizer = load_tokenizer(converted)
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert ids == reference(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.encode_with_special_tokens(text, "x")[0] == reference(text, "x")["input_ids"]
    assert tokenizer.decode(ids) == reference.decode(ids, skip_special_tokens=True)


def all_tokenizers(spiece: bytes, converted: Path, folder: Path) -> list[Tokenizer]:
    """Return a tokenizer from each kind of vocabulary file."""
    for name in ("sentencepiece", "wordpiece"):
        (folder / name).mkdir()
    (folder / "sentencepiece" / "spiece.model").write_bytes(spiece)
    vocabulary = [
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
    (folder / "wordpiece" / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    folders = [folder / "sentencepiece", folder / "wordpiece", converted]
    return [load_tokenizer(path) for path in folders]


@pytest.fixture(scope="session")
def tokenizers(spiece: bytes, converted: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Tokenizer]:
    return all_tokenizers(spiece, converted, tmp_path_factory.mktemp("tokenizers"))


@given(texts=st.lists(st.text(max_size=30) | st.sampled_from(TEXTS), max_size=5))
@example(texts=["[CLS]", "a [MASK]b <pad>"])
def test_word_encoder_matches_the_backend(texts: list[str], tokenizers: list[Tokenizer]) -> None:
    for tokenizer in tokenizers:
        encoder, splitting = WordEncoder(tokenizer), tokenizer.with_split_special_tokens()
        unk, special_ids = tokenizer.special_ids.unk, set(vars(tokenizer.special_ids).values())
        # Text never gives the other special tokens, even if it contains their names.
        expected = [
            [unk if token_id in special_ids else token_id for token_id in ids]
            for ids in splitting.encode_batch(texts)
        ]
        for _ in range(2):  # without and with cached words
            ids, counts = encoder.encode(texts)
            assert ids.tolist() == [token_id for text_ids in expected for token_id in text_ids]
            assert counts.tolist() == list(map(len, expected))


def test_word_encoder_never_gives_a_special_token(spiece: bytes, converted: Path, tmp_path: Path) -> None:
    for tokenizer in all_tokenizers(spiece, converted, tmp_path):
        special_ids = set(vars(tokenizer.special_ids).values()) - {tokenizer.special_ids.unk}
        ids, _ = WordEncoder(tokenizer).encode(["a [MASK] the[SEP]captain [CLS] <pad> [PAD]"])
        assert not special_ids & set(ids.tolist())
        # `Tokenizer.encode`, in contrast, recognizes special tokens in text.
        assert special_ids & set(tokenizer.encode("a [MASK] b", add_special_tokens=False))


def test_word_boundaries(converted: Path, tmp_path: Path) -> None:
    def split_words(tokenizer: Tokenizer, text: str) -> list[str]:
        ids, _ = WordEncoder(tokenizer).encode([text])
        words: list[str] = []
        for token_id, is_start in zip(ids.tolist(), WordBoundaries(tokenizer).starts(ids), strict=True):
            token = tokenizer.vocabulary[token_id].removeprefix("▁").removeprefix("##")
            if is_start:
                words.append(token)
            else:
                words[-1] += token
        return words

    text = '"The captain\'s daughter, (nine) walked-slowly."'
    words = [word for word in split_words(load_tokenizer(converted), text) if word]
    assert words == [
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
    assert split_words(load_tokenizer(tmp_path), "the captain.") == ["the", "captain", "."]


def test_token_of_a_spaceless_script_is_a_word(tmp_path: Path) -> None:
    from albertine.text.backends import set_special_tokens

    tokens = ("<pad>", "<unk>", *SPECIAL_TOKENS, "▁", "漢字", "文", "abc", "d")
    backend = albert_backend([(token, -2.0) for token in tokens], unk_id=1)
    set_special_tokens(backend, ["<pad>", "<unk>", *SPECIAL_TOKENS], "[CLS]", "[SEP]")
    (tmp_path / "tokenizer.json").write_text(backend.to_str())
    tokenizer = load_tokenizer(tmp_path)
    ids, _ = WordEncoder(tokenizer).encode(["漢字文 abcd"])
    starts = WordBoundaries(tokenizer).starts(ids)
    is_start = {tokenizer.vocabulary[token_id]: start for token_id, start in zip(ids, starts, strict=True)}
    assert is_start["漢字"]
    assert is_start["文"]
    assert not is_start["abc"]
    assert not is_start["d"]


LARGE_ID_MODEL = {
    "type": "WordPiece",
    "unk_token": "<unk>",
    "continuing_subword_prefix": "##",
    "max_input_chars_per_word": 100,
    "vocab": {"<pad>": 0, "<unk>": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 2**31},
}


def write_tokenizer_json(folder: Path, **changes: object) -> None:
    """Write a small `tokenizer.json`, in which some components are replaced."""
    tokens = ["<pad>", "<unk>", *SPECIAL_TOKENS, *"▁abcdefghijklmnopqrstuvwxyz"]
    backend = albert_backend([(token, -2.0) for token in tokens], unk_id=1)
    (folder / "tokenizer.json").write_text(json.dumps(json.loads(backend.to_str()) | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAA"}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAAAAAAAAAAAAAAAA"}},
        {"decoder": {"type": "Strip", "content": "a", "start": 2**40, "stop": 2**40}},
        {"model": LARGE_ID_MODEL},
    ],
)
def test_error_of_the_library_is_one_line(
    changes: dict[str, object], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_tokenizer_json(tmp_path, **changes)
    with pytest.raises(InputError, match=r"tokenizer\.json: ") as raised:
        load_tokenizer(tmp_path)
    assert str(raised.value).isprintable()
    assert capfd.readouterr().err == ""  # the library prints a panic there


def test_panic_while_decoding_is_an_input_error(tmp_path: Path) -> None:
    write_tokenizer_json(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    tokenizer.backend.decoder = decoders.Strip("a", 1 << 40, 1 << 40)
    token_id = tokenizer.vocabulary.index("a")
    with pytest.raises(InputError, match=r"tokenizer\.json: the library tokenizers cannot use it"):
        tokenizer.decode([token_id])


def test_tokenizer_with_more_tokens_than_the_model_is_refused(tmp_path: Path) -> None:
    write_tokenizer_json(tmp_path)
    size = len(load_tokenizer(tmp_path))
    load_tokenizer(tmp_path, size)
    with pytest.raises(InputError, match=rf"tokenizer\.json: {size} tokens, but the model takes {size - 1};"):
        load_tokenizer(tmp_path, size - 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ('{"strip_accents": 0}', "strip_accents = 0 in its options: must be true or false"),
        ('{"do_lower_case": "no"}', 'do_lower_case = "no" in its options'),
        ('{"unk_token": 5}', "no unk_token"),
        ('{"pad_token": "\\udc00"}', "tokenizer_config.json: an unpaired surrogate"),
    ],
)
def test_invalid_option_is_refused(options: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n")
    (tmp_path / "tokenizer_config.json").write_text(options)
    with pytest.raises(InputError, match=re.escape(message)):
        load_tokenizer(tmp_path)


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
        ("tokenizer_config.json", b"[]", "not a JSON object"),
    ],
)
def test_error_names_the_corrupt_file(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name.replace(".", r"\.")) as raised:
        load_tokenizer(tmp_path)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_truncated_vocabulary_is_refused_or_loads(tmp_path: Path, spiece: bytes) -> None:
    for size in range(0, len(spiece), 997):
        (tmp_path / "spiece.model").write_bytes(spiece[:size])
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

    reference = AlbertTokenizer.from_pretrained(converted)
    reference.add_tokens(["the captain"])
    reference.save_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    ids, _ = WordEncoder(tokenizer).encode(["so the captain paid"])
    assert (
        ids.tolist()
        == tokenizer.encode("so the captain paid", add_special_tokens=False)
        == reference("so the captain paid", add_special_tokens=False)["input_ids"]
    )
    assert len(tokenizer) - 1 in ids


def test_vocabulary_with_a_changed_byte_is_refused_or_loads(tmp_path: Path, spiece: bytes) -> None:
    for offset in range(0, len(spiece), 1499):
        (tmp_path / "spiece.model").write_bytes(
            spiece[:offset] + bytes([spiece[offset] ^ 0x55]) + spiece[offset + 1 :]
        )
        with contextlib.suppress(InputError):
            load_tokenizer(tmp_path)


def test_batches_do_not_change_the_ids(tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*made_up_sentences(3, 40), "", "word" * 20, "\x1cfirst\x85second"]
    whole, counts = WordEncoder(load_tokenizer(tokenizer)).encode(texts)
    monkeypatch.setattr(word_encoder, "_BATCH_LENGTH", 10)
    for batch in (texts, texts[:-1]):  # the last text is encoded as a whole, not by words
        ids, _ = WordEncoder(load_tokenizer(tokenizer)).encode(batch)
        assert ids.tolist() == whole[: int(counts[: len(batch)].sum())].tolist()
