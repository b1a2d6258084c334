"""A vocabulary of one's own: ALBERT's, the same in every process, and open to transformers."""

import io
import random
import signal
import string
import subprocess
import sys
import time
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from albertine.errors import InputError
from albertine.text.settings import VocabularySettings
from albertine.text.sources import find_sources
from albertine.text.tokenizer import load_tokenizer
from albertine.text.vocabulary import (
    SPECIAL,
    count_words,
    make_vocabulary,
    train_vocabulary,
    training_lines,
)

SYLLABLES = ["ka", "lo", "mi", "ren", "tas", "vu", "é", "dor", "Sin", "wel"]


def words(count: int, seed: int = 0) -> str:
    draw = random.Random(seed)
    known = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(300)]
    lines = [
        " ".join(draw.choices(known, k=8)) + f" {draw.randint(1, 999)},000, ``so''." for _ in range(count)
    ]
    return "\n\n".join(lines)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "a.txt"
    file.write_text(words(400), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def folder(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("vocabulary") / "made"
    make_vocabulary([str(text)], out, VocabularySettings(vocab_size=120))
    return out


def test_special_pieces_come_first_and_the_size_is_what_was_asked(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert len(tokenizer) == 120
    assert tokenizer.pieces[:5] == SPECIAL
    assert vars(tokenizer.special) == {"pad": 0, "unknown": 1, "opening": 2, "closing": 3, "mask": 4}
    assert not [one for one in tokenizer.pieces if one[-1] == "," and one[-2:-1].isdigit()]


@pytest.mark.parametrize(
    "flags", [{}, {"cased": True}, {"keep_accents": True}, {"cased": True, "keep_accents": True}]
)
def test_transformers_opens_it_as_alberts_and_gives_the_same_ids(
    text: Path, tmp_path: Path, flags: dict[str, bool]
) -> None:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    make_vocabulary([str(text)], tmp_path / "made", VocabularySettings(vocab_size=100, **flags))  # type: ignore[arg-type]
    ours = load_tokenizer(tmp_path / "made")
    for kind in (AutoTokenizer, PreTrainedTokenizerFast):
        theirs = kind.from_pretrained(tmp_path / "made")
        for line in [*words(20, seed=1).split("\n\n"), "", "Kalo ÉMI é 🙂 漢字", "a [MASK] b", "``x''"]:
            assert ours.ids(line) == theirs(line, add_special_tokens=False)["input_ids"]
            both = theirs(line, "kalo", return_token_type_ids=True)
            assert ours.framed(line, "kalo") == (both["input_ids"], both["token_type_ids"])
    assert type(AutoTokenizer.from_pretrained(tmp_path / "made")).__name__.startswith("Albert")
    assert (ours.ids("SIN") != ours.ids("sin")) == flags.get("cased", False)
    assert (ours.ids("é") != ours.ids("e")) == flags.get("keep_accents", False)


def test_another_process_makes_the_same_files(text: Path, folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "albertine", "tokenizer", "train", str(text), "--vocab-size", "120"]
    subprocess.run([*command, "--out", str(tmp_path / "made")], check=True, capture_output=True)
    for file in sorted(folder.iterdir()):
        assert (tmp_path / "made" / file.name).read_bytes() == file.read_bytes()


def test_a_sample_is_bounded_and_drawn_from_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from albertine.text import sources, vocabulary

    monkeypatch.setattr(sources, "PORTION_BYTES", 1 << 16)
    for part in range(3):
        (tmp_path / f"{part}.txt").write_text(words(15_000, seed=part))
    found = find_sources([str(tmp_path)])
    seen: list[int] = []

    def count(texts: object, settings: VocabularySettings) -> Counter[str]:
        counted = count_words(texts, settings)  # type: ignore[arg-type]
        seen.append(sum(counted.values()))
        return counted

    monkeypatch.setattr(vocabulary, "count_words", count)

    def made(**asked: int) -> str:
        return train_vocabulary(found, VocabularySettings(vocab_size=100, **asked)).fingerprint  # type: ignore[arg-type]

    assert sum(one.size for one in found) > 2 << 20
    assert made(sample_mb=1) == made(sample_mb=1) != made(sample_mb=1, seed=1)
    assert made(sample_mb=9) == made(sample_mb=9, seed=1)  # all of the text is the same for any seed
    assert seen[0] == seen[1] < 0.55 * seen[-1]


def test_words_are_counted_as_the_tokenizer_cleans_them() -> None:
    texts = [["Élan élan ELAN", "``x'' \"x\""]]
    assert count_words(texts, VocabularySettings()) == Counter({"elan": 3, '"x"': 2})
    kept = count_words(texts, VocabularySettings(cased=True, keep_accents=True))
    assert kept == Counter({"Élan": 1, "élan": 1, "ELAN": 1, '"x"': 2})


@pytest.mark.parametrize(
    ("size", "problem"),
    [
        (
            30_000,
            r"--vocab-size 30000: too little text for it; --vocab-size \d+ or less is possible",
        ),
        (20, r"--vocab-size 20: the text has \d+ characters that need a piece each"),
    ],
)
def test_a_size_that_the_text_does_not_give(text: Path, tmp_path: Path, size: int, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make_vocabulary([str(text)], tmp_path / "made", VocabularySettings(vocab_size=size))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("or_less", [True, False])
def test_hardly_any_text_gives_no_vocabulary(tmp_path: Path, or_less: bool) -> None:
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(InputError, match="too little text for any vocabulary; give more"):
        make_vocabulary([str(tmp_path / "a.txt")], tmp_path / "made", VocabularySettings(or_less=or_less))


def test_the_size_that_is_said_to_be_possible_is(text: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        make_vocabulary([str(text)], tmp_path / "made", VocabularySettings(vocab_size=30_000))
    possible = int(str(raised.value).partition("; --vocab-size ")[2].split()[0])
    make_vocabulary([str(text)], tmp_path / "made", VocabularySettings(vocab_size=possible))
    assert len(load_tokenizer(tmp_path / "made")) == possible


def test_text_without_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n \n")
    with pytest.raises(InputError, match="hold no words"):
        make_vocabulary([str(tmp_path)], tmp_path / "made", VocabularySettings())


def test_vowels_that_would_go_with_the_accents_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    hindi = [["हिन्दी में यह एक वाक्य है", "दूसरा वाक्य भी यहाँ है"]]
    count_words(hindi, VocabularySettings())
    assert "Devanagari marks" in capsys.readouterr().err
    count_words(hindi, VocabularySettings(keep_accents=True))
    count_words([["Ça «naïve» été où, façade, voilà; größer, Äpfel"]], VocabularySettings())
    count_words([["ガギグ 漢字"]], VocabularySettings())
    assert not capsys.readouterr().err


KOREAN = "한국어 문장은 학교에 간다. 아이들이 공원에서 연을 날린다. 우리는 매일 아침 책을 읽는다."


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("keep", [True, False])
def test_a_vocabulary_knows_the_text_it_was_learned_from(tmp_path: Path, form: Any, keep: bool) -> None:
    from transformers import AutoTokenizer

    text = unicodedata.normalize(form, KOREAN + " Ça été à l'école ﬁn Ａｂｃ ①.")
    (tmp_path / "a.txt").write_text((text + "\n") * 20, encoding="utf-8")
    # As many pieces as the text gives, which is how the refusal of more says.
    asked: dict[str, Any] = {"coverage": 1.0, "keep_accents": keep}
    with pytest.raises(InputError) as raised:
        make_vocabulary([str(tmp_path / "a.txt")], tmp_path / "made", VocabularySettings(**asked))
    size = int(str(raised.value).partition("; --vocab-size ")[2].split()[0])
    make_vocabulary(
        [str(tmp_path / "a.txt")], tmp_path / "made", VocabularySettings(vocab_size=size, **asked)
    )
    ours = load_tokenizer(tmp_path / "made")
    assert ours.special.unknown not in ours.ids(text)
    assert (
        ours.ids(text)
        == AutoTokenizer.from_pretrained(tmp_path / "made")(text, add_special_tokens=False)["input_ids"]
    )


def test_more_characters_than_pieces_are_refused(tmp_path: Path) -> None:
    characters = "".join(chr(0x4E00 + n) for n in range(120))
    (tmp_path / "a.txt").write_text(characters + "。", encoding="utf-8")
    with pytest.raises(InputError, match="characters that need a piece each"):
        make_vocabulary(
            [str(tmp_path / "a.txt")], tmp_path / "made", VocabularySettings(vocab_size=122, coverage=1.0)
        )


def test_common_words_are_pieces_as_in_the_librarys_own_training(tmp_path: Path) -> None:
    # Words between spaces alone, so that none is half hidden behind a comma.
    draw = random.Random(3)
    known = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 3))).lower() for _ in range(400)]
    chances = [1 / (n + 1) for n in range(len(known))]
    lines = [" ".join(draw.choices(known, chances, k=12)) for _ in range(1500)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    settings = VocabularySettings(vocab_size=200, layout="lines", keep_accents=True)
    make_vocabulary([str(tmp_path / "a.txt")], tmp_path / "made", settings)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=200, minloglevel=2
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ours = load_tokenizer(tmp_path / "made")
    pieces = sum(map(len, ours.batch(lines)))
    assert pieces < 1.03 * sum(len(theirs.encode(line)) for line in lines)
    common = [word for word, _ in Counter(" ".join(lines).split()).most_common(100)]
    assert sum(len(ours.ids(word)) == 1 for word in common) >= 90


def test_the_lines_for_the_trainer_count_each_word_as_often_as_it_is() -> None:
    words = Counter(
        {"a": 1, "b": 2, "c": 7, "d": 1000, "e": 64, "1,000,": 5, **{f"w{n}": n + 1 for n in range(300)}}
    )
    counted: Counter[str] = Counter()
    for line in training_lines(words):
        text, count = line.split("\t")
        for word in text.split(" "):
            counted[word.replace("\x02", "")] += int(count)
        assert len(line.encode()) < 4192
    assert counted == words


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_end_while_it_learns_it_ends_at_once(
    how: signal.Signals, status: int, tmp_path: Path
) -> None:
    draw = random.Random(0)
    many = ["".join(draw.choices(string.ascii_lowercase, k=9)) for _ in range(200_000)]
    (tmp_path / "a.txt").write_text("\n\n".join(" ".join(many[at : at + 9]) for at in range(0, len(many), 9)))
    command = [sys.executable, "-m", "albertine", "tokenizer", "train", str(tmp_path / "a.txt")]
    process = subprocess.Popen(
        [*command, "--vocab-size", "8000", "--or-less", "--out", str(tmp_path / "made")],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    assert any("pieces from" in line for line in process.stderr)
    time.sleep(3.0)
    asked = time.monotonic()
    process.send_signal(how)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (status, "\nalbertine: interrupted\n")
    assert time.monotonic() - asked < 5
    assert [one.name for one in tmp_path.iterdir()] == ["a.txt"]
