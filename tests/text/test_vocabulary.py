"""A vocabulary of one's own: ALBERT's, the same in every process, and open to transformers."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from albertine.errors import InputError
from albertine.text.settings import VocabularySettings
from albertine.text.sources import find_sources
from albertine.text.tokenizer import load_tokenizer
from albertine.text.vocabulary import SPECIAL, count_words, make_vocabulary, train_vocabulary

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
    make_vocabulary([str(text)], out, VocabularySettings(vocab_size=200))
    return out


def test_special_pieces_come_first_and_the_size_is_what_was_asked(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert len(tokenizer) == 200
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

    make_vocabulary([str(text)], tmp_path / "made", VocabularySettings(vocab_size=150, **flags))  # type: ignore[arg-type]
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
    command = [sys.executable, "-m", "albertine", "tokenizer", "train", str(text), "--vocab-size", "200"]
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
        return train_vocabulary(found, VocabularySettings(vocab_size=150, **asked)).fingerprint  # type: ignore[arg-type]

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
            r"--vocab-size 30000: too little text for it, which gives [\d,]+ pieces at most",
        ),
        (20, r"--vocab-size 20: the text has \d+ characters that need a piece each"),
    ],
)
def test_a_size_that_the_text_does_not_give(text: Path, tmp_path: Path, size: int, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make_vocabulary([str(text)], tmp_path / "made", VocabularySettings(vocab_size=size))
    assert not list(tmp_path.iterdir())


def test_the_size_that_is_said_to_be_possible_is(text: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        make_vocabulary([str(text)], tmp_path / "made", VocabularySettings(vocab_size=30_000))
    possible = int(str(raised.value).partition("give --vocab-size ")[2].split()[0])
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
