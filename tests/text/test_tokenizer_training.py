"""Tokenizer training: ALBERT's special tokens, the same result in every process, the ids of transformers."""

import io
import random
import signal
import string
import subprocess
import sys
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from albertine.errors import InputError
from albertine.settings import SettingError
from albertine.text.characters import required_characters
from albertine.text.find_sources import find_sources
from albertine.text.settings import MIN_VOCAB_SIZE, ReadingSettings, TokenizerSettings
from albertine.text.show import show_tokenizer, tokenizer_stats
from albertine.text.tokenizer import load_tokenizer
from albertine.text.tokenizer_training import (
    _normalization,
    build_tokenizer,
    count_words,
    train_tokenizer,
)
from albertine.text.unigram_training import SPECIAL_TOKENS, training_lines

LANGUAGES = Path(__file__).parent / "languages"
SYLLABLES = ["ka", "lo", "mi", "ren", "tas", "vu", "é", "dor", "Sin", "wel"]


def random_text(count: int, seed: int = 0) -> str:
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(300)]
    lines = [
        " ".join(rng.choices(vocabulary, k=8)) + f" {rng.randint(1, 999)},000, ``so''." for _ in range(count)
    ]
    return "\n\n".join(lines)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("text") / "a.txt"
    file.write_text(random_text(400), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def folder(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tokenizer") / "made"
    build_tokenizer([str(text)], out, TokenizerSettings(vocab_size=220))
    return out


def test_special_tokens_come_first_and_vocab_size_is_met(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert len(tokenizer) == 220
    assert tokenizer.vocabulary[:5] == SPECIAL_TOKENS
    assert vars(tokenizer.special_ids) == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert not [token for token in tokenizer.vocabulary if token[-1] == "," and token[-2:-1].isdigit()]


@pytest.mark.parametrize(
    "flags", [{}, {"cased": True}, {"keep_accents": True}, {"cased": True, "keep_accents": True}]
)
def test_transformers_opens_the_folder_and_gives_the_same_ids(
    text: Path, tmp_path: Path, flags: dict[str, bool]
) -> None:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    build_tokenizer([str(text)], tmp_path / "made", TokenizerSettings(vocab_size=200, **flags))  # type: ignore[arg-type]
    tokenizer = load_tokenizer(tmp_path / "made")
    for reference_type in (AutoTokenizer, PreTrainedTokenizerFast):
        reference = reference_type.from_pretrained(tmp_path / "made")
        for line in [*random_text(20, seed=1).split("\n\n"), "", "Kalo ÉMI é 🙂 漢字", "a [MASK] b", "``x''"]:
            expected = reference(line, add_special_tokens=False)["input_ids"]
            assert tokenizer.encode(line, add_special_tokens=False) == expected
            expected_pair = reference(line, "kalo", return_token_type_ids=True)
            assert tokenizer.encode_with_special_tokens(line, "kalo") == (
                expected_pair["input_ids"],
                expected_pair["token_type_ids"],
            )
    assert (tokenizer.encode("SIN") != tokenizer.encode("sin")) == flags.get("cased", False)
    assert (tokenizer.encode("é") != tokenizer.encode("e")) == flags.get("keep_accents", False)


def test_training_is_deterministic_across_processes(text: Path, folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "albertine", "tokenizer", "train", str(text), "--vocab-size", "220"]
    subprocess.run([*command, "--out", str(tmp_path / "made")], check=True, capture_output=True)
    for file in sorted(folder.iterdir()):
        assert (tmp_path / "made" / file.name).read_bytes() == file.read_bytes()


@pytest.mark.slow
def test_text_sample_is_bounded_and_seeded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from albertine.text import sources, tokenizer_training

    monkeypatch.setattr(sources, "CHUNK_BYTES", 1 << 16)
    for part in range(3):
        (tmp_path / f"{part}.txt").write_text(random_text(15_000, seed=part))
    text_sources = find_sources([str(tmp_path)])
    word_totals: list[int] = []

    def count_and_record(documents: object, settings: TokenizerSettings) -> Counter[str]:
        counts = count_words(documents, settings)  # type: ignore[arg-type]
        word_totals.append(sum(counts.values()))
        return counts

    monkeypatch.setattr(tokenizer_training, "count_words", count_and_record)

    def train(**options: int) -> str:
        settings = TokenizerSettings(vocab_size=200, **options)  # type: ignore[arg-type]
        return train_tokenizer(text_sources, settings).fingerprint

    assert sum(source.size for source in text_sources) > 2 << 20
    assert train(max_text_mb=1) == train(max_text_mb=1) != train(max_text_mb=1, seed=1)
    assert train(max_text_mb=9) == train(max_text_mb=9, seed=1)  # without sampling the seed has no effect
    assert word_totals[0] == word_totals[1] < 0.55 * word_totals[-1]


def test_words_are_counted_after_normalization() -> None:
    documents = [["Élan élan ELAN", "``x'' \"x\""]]
    assert count_words(documents, TokenizerSettings()) == Counter({"elan": 3, '"x"': 2})
    cased = count_words(documents, TokenizerSettings(cased=True, keep_accents=True))
    assert cased == Counter({"Élan": 1, "élan": 1, "ELAN": 1, '"x"': 2})


@pytest.mark.parametrize(
    ("size", "problem"),
    [
        (
            30_000,
            r"--vocab-size 30000: too little text; use --vocab-size \d+ or less, or give more text",
        ),
        (112, r"--vocab-size 112: special tokens and single characters alone need \d+; increase it"),
    ],
)
def test_unreachable_vocab_size_is_refused(text: Path, tmp_path: Path, size: int, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        build_tokenizer([str(text)], tmp_path / "made", TokenizerSettings(vocab_size=size, cased=True))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    [
        ("a.txt", TokenizerSettings(field="story"), "--field story: is for .jsonl"),
        ("a.jsonl", TokenizerSettings(layout="prose"), "--layout prose: is for .txt files"),
    ],
)
def test_settings_of_other_formats_are_refused(
    name: str, settings: TokenizerSettings, problem: str, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / name).write_text('{"text": "One boat. Two boats."}\n')
    with pytest.raises(InputError, match=problem):
        build_tokenizer([str(tmp_path / name)], tmp_path / "made", settings)
    with pytest.raises(InputError, match=problem):
        tokenizer_stats(load_tokenizer(folder), [str(tmp_path / name)], settings)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_statistics_say_what_was_skipped(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "It is fine."}\nbad\n{}\n')
    reading = ReadingSettings(on_error="skip", language="en")
    stats = tokenizer_stats(load_tokenizer(folder), [str(tmp_path / "a.jsonl")], reading)
    assert stats.words == 3
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"2 unreadable records skipped, first: {tmp_path / 'a.jsonl'}, byte 24: not")


@pytest.mark.parametrize(("language", "unit"), [("de", "word"), ("ja", "character"), ("zh", "character")])
def test_text_without_spaces_is_counted_in_characters(
    language: str, unit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = str(LANGUAGES / f"{language}.txt")
    build_tokenizer([text], tmp_path / "made", TokenizerSettings(vocab_size=2000, allow_smaller=True))
    tokenizer = load_tokenizer(tmp_path / "made")
    stats = tokenizer_stats(tokenizer, [text], ReadingSettings())
    content = Path(text).read_text(encoding="utf-8")
    assert stats.characters == len("".join(content.split()))
    capsys.readouterr()
    show_tokenizer(tmp_path / "made", tokenizer, None, stats, as_json=False)
    counts = {"word": stats.words, "character": stats.characters}
    expected = f"{counts[unit]:,} {unit}s, {stats.tokens:,} tokens: {stats.tokens / counts[unit]:.3f} tokens "
    assert capsys.readouterr().out.startswith(f"{expected}per {unit}, 0.0000% unknown")


@pytest.mark.parametrize("allow_smaller", [True, False])
def test_too_little_text_is_refused(tmp_path: Path, allow_smaller: bool) -> None:
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(InputError, match="too little text for any vocabulary; give more"):
        build_tokenizer(
            [str(tmp_path / "a.txt")], tmp_path / "made", TokenizerSettings(allow_smaller=allow_smaller)
        )


def test_suggested_vocab_size_is_reachable(text: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        build_tokenizer([str(text)], tmp_path / "made", TokenizerSettings(vocab_size=30_000))
    suggested = int(str(raised.value).partition("; use --vocab-size ")[2].split()[0])
    build_tokenizer([str(text)], tmp_path / "made", TokenizerSettings(vocab_size=suggested))
    assert len(load_tokenizer(tmp_path / "made")) == suggested


def test_text_without_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n \n")
    with pytest.raises(InputError, match="hold no words"):
        build_tokenizer([str(tmp_path)], tmp_path / "made", TokenizerSettings())


@pytest.mark.parametrize("flags", [{}, {"cased": True, "keep_accents": True}])
def test_digits_ascii_and_common_signs_are_tokens_whatever_the_text(
    tmp_path: Path, flags: dict[str, bool]
) -> None:
    (tmp_path / "a.txt").write_text("the old cat sat on the mat and the dog sat on the cat\n" * 50)
    settings = TokenizerSettings(vocab_size=220, allow_smaller=True, **flags)  # type: ignore[arg-type]
    build_tokenizer([str(tmp_path / "a.txt")], tmp_path / "made", settings)
    tokenizer = load_tokenizer(tmp_path / "made")
    signs = string.digits + string.ascii_letters + string.punctuation + "–—‘’“”…£€¥¢§°«»¿¡"
    for sign in signs:
        ids = tokenizer.encode(f"x{sign}x", add_special_tokens=False)
        assert tokenizer.special_ids.unk not in ids
        assert set(tokenizer.normalize(sign).strip()) <= set(tokenizer.vocabulary)
    text = "In 1933, 25 & 7890 £6 — @ “Who?” 5 € § 3°"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == (text if flags else text.lower())


def test_smallest_vocab_size_holds_the_required_characters() -> None:
    normalize = _normalization(TokenizerSettings())
    assert len(SPECIAL_TOKENS) + 1 + len(required_characters(normalize)) == MIN_VOCAB_SIZE


def test_lost_characters_are_reported_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("the old cat sat on the mat\n" * 500 + "漢漢字 α \n", encoding="utf-8")
    options: dict[str, Any] = {"vocab_size": 400, "allow_smaller": True, "character_coverage": 0.999}
    train_tokenizer(find_sources([str(tmp_path)]), TokenizerSettings(**options))
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "<unk>" in line]
    assert line.startswith(
        "4 of 10,004 characters (0.0400%) have no token and become <unk>: 漢 2, α 1, 字 1;"
    )
    assert "--character-coverage 1" in line
    assert "--byte-fallback" in line
    for override in ({"character_coverage": 1.0}, {"byte_fallback": True}):
        train_tokenizer(find_sources([str(tmp_path)]), TokenizerSettings(**options | override))
        assert "<unk>" not in capsys.readouterr().err


def test_lowest_character_coverage_is_one_that_sentencepiece_accepts(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"character_coverage = 0.979: must be at least 0.98"):
        TokenizerSettings(character_coverage=0.979)
    (tmp_path / "a.txt").write_text("the old cat sat on the mat\n" * 500)
    settings = TokenizerSettings(vocab_size=400, allow_smaller=True, character_coverage=0.98)
    assert train_tokenizer(find_sources([str(tmp_path)]), settings).encode("the cat")


def test_text_of_another_language_gives_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    german = [["Der Müller hört früh die Vögel.", "Schöne Grüße aus Köln!"]]
    count_words(german, TokenizerSettings())
    (line,) = capsys.readouterr().err.splitlines()
    assert "accented" in line
    assert "--keep-accents" in line
    assert "--language" in line
    count_words(german, TokenizerSettings(keep_accents=True, language="de"))
    count_words([["It is a truth universally acknowledged."]], TokenizerSettings())
    assert not capsys.readouterr().err


def test_text_size_is_counted_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from albertine.text import sources, tokenizer_training

    monkeypatch.setattr(sources, "CHUNK_BYTES", 1 << 16)
    (tmp_path / "a.txt").write_text("\n\n".join(["жёлтый жук жужжит"] * 100_000), encoding="utf-8")
    totals: list[int] = []

    def count_and_stop(documents: Iterable[Sequence[str]], settings: TokenizerSettings) -> Counter[str]:
        totals.append(sum(len(sentence.encode()) for document in documents for sentence in document))
        return Counter()

    monkeypatch.setattr(tokenizer_training, "count_words", count_and_stop)
    with pytest.raises(InputError, match="hold no words"):
        train_tokenizer(find_sources([str(tmp_path)]), TokenizerSettings(max_text_mb=1, layout="lines"))
    assert 1 << 20 <= totals[0] < 1.1 * (1 << 20)


def test_rare_words_are_dropped_seldom_and_wherever_they_occur(monkeypatch: pytest.MonkeyPatch) -> None:
    from albertine.text import word_counts

    monkeypatch.setattr(word_counts, "_MAX_WORDS", 1000)
    without_rare_words, sizes = word_counts._without_rare_words, []

    def count_calls(counts: Counter[str]) -> Counter[str]:
        sizes.append(len(counts))
        return without_rare_words(counts)

    monkeypatch.setattr(word_counts, "_without_rare_words", count_calls)
    # Each word of a document occurs twice, so the words with one occurrence alone are never too many.
    documents = [
        [f"w{n} w{n} first" for n in range(start, start + 10)] + (["last"] * 10 if start >= 15_000 else [])
        for start in range(0, 20_000, 10)
    ]
    counts = count_words(documents, TokenizerSettings())
    assert max(sizes) < 1100
    assert len(sizes) < 50
    lost = 2 * len(sizes)  # at most what was subtracted
    assert 20_000 - lost <= counts["first"] <= 20_000
    assert 5_000 - lost <= counts["last"] <= 5_000


def test_no_character_of_a_long_word_is_ignored() -> None:
    """A language without spaces has words of any length."""
    counts = count_words([["犬" * 300 + "龍" + "犬" * 250 + "鳳"]], TokenizerSettings(language="zh"))
    assert Counter("".join(word * times for word, times in counts.items())) == {"犬": 550, "龍": 1, "鳳": 1}


KOREAN = "한국어 문장은 학교에 간다. 아이들이 공원에서 연을 날린다. 우리는 매일 아침 책을 읽는다."


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("keep_accents", [True, False])
def test_training_text_has_no_unknown_tokens(tmp_path: Path, form: Any, keep_accents: bool) -> None:
    from transformers import AutoTokenizer

    text = unicodedata.normalize(form, KOREAN + " Ça été à l'école ﬁn Ａｂｃ ①.")
    (tmp_path / "a.txt").write_text((text + "\n") * 20, encoding="utf-8")
    # The largest possible vocabulary, as suggested by the error message.
    options: dict[str, Any] = {"character_coverage": 1.0, "keep_accents": keep_accents}
    with pytest.raises(InputError) as raised:
        build_tokenizer([str(tmp_path / "a.txt")], tmp_path / "made", TokenizerSettings(**options))
    size = int(str(raised.value).partition("; use --vocab-size ")[2].split()[0])
    settings = TokenizerSettings(vocab_size=size, **options)
    build_tokenizer([str(tmp_path / "a.txt")], tmp_path / "made", settings)
    tokenizer = load_tokenizer(tmp_path / "made")
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.special_ids.unk not in ids
    reference = AutoTokenizer.from_pretrained(tmp_path / "made")
    assert ids == reference(text, add_special_tokens=False)["input_ids"]


def test_more_characters_than_vocab_size_is_refused(tmp_path: Path) -> None:
    characters = "".join(chr(0x4E00 + n) for n in range(120))
    (tmp_path / "a.txt").write_text(characters + "。", encoding="utf-8")
    with pytest.raises(InputError, match=r"single characters alone need 2\d\d"):
        build_tokenizer(
            [str(tmp_path / "a.txt")],
            tmp_path / "made",
            TokenizerSettings(vocab_size=122, character_coverage=1.0),
        )


def test_common_words_are_single_tokens(tmp_path: Path) -> None:
    # No punctuation, so that both trainers see the same words.
    rng = random.Random(3)
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))).lower() for _ in range(400)]
    weights = [1 / (n + 1) for n in range(len(words))]
    lines = [" ".join(rng.choices(words, weights, k=12)) for _ in range(1500)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    settings = TokenizerSettings(layout="lines", keep_accents=True)
    # 200 tokens for this text; the others are required characters that it does not have.
    unused = set(required_characters(_normalization(settings))) - set("".join(lines))
    settings = replace(settings, vocab_size=200 + len(unused))
    build_tokenizer([str(tmp_path / "a.txt")], tmp_path / "made", settings)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=200, minloglevel=2
    )
    reference = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    tokenizer = load_tokenizer(tmp_path / "made")
    total = sum(map(len, tokenizer.encode_batch(lines)))
    assert total < 1.03 * sum(len(reference.encode(line)) for line in lines)
    common = [word for word, _ in Counter(" ".join(lines).split()).most_common(100)]
    assert sum(len(tokenizer.encode(word, add_special_tokens=False)) == 1 for word in common) >= 90


def test_training_lines_preserve_word_counts() -> None:
    words = Counter(
        {"a": 1, "b": 2, "c": 7, "d": 1000, "e": 64, "1,000,": 5, **{f"w{n}": n + 1 for n in range(300)}}
    )
    line_counts: Counter[str] = Counter()
    for line in training_lines(words):
        text, count = line.split("\t")
        for word in text.split(" "):
            line_counts[word.replace("\x02", "")] += int(count)
        assert len(line.encode()) < 4192
    assert line_counts == words


@pytest.mark.slow
@pytest.mark.parametrize(("stop_signal", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_training_at_once(stop_signal: signal.Signals, status: int, tmp_path: Path) -> None:
    rng = random.Random(0)
    words = ["".join(rng.choices(string.ascii_lowercase, k=9)) for _ in range(200_000)]
    lines = [" ".join(words[start : start + 9]) for start in range(0, len(words), 9)]
    (tmp_path / "a.txt").write_text("\n\n".join(lines))
    command = [sys.executable, "-m", "albertine", "tokenizer", "train", str(tmp_path / "a.txt")]
    process = subprocess.Popen(
        [*command, "--vocab-size", "8000", "--allow-smaller", "--out", str(tmp_path / "made")],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    assert any("distinct words" in line for line in process.stderr)
    time.sleep(3.0)
    sent_at = time.monotonic()
    process.send_signal(stop_signal)
    _, output = process.communicate(timeout=60)
    assert (process.returncode, output) == (status, "\nalbertine: interrupted\n")
    assert time.monotonic() - sent_at < 5
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
