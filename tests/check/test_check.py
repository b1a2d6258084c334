"""Tests of `albertine check`: every finding on data that are spoiled on purpose, none on clean data."""

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.task_fixtures import write_csv, write_jsonl

from albertine.check import duplicates, labels
from albertine.check.check import check_data
from albertine.check.encoding import find_mojibake
from albertine.check.settings import CheckSettings
from albertine.check.show import finding_line
from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.build import build_corpus
from albertine.corpus.settings import CorpusSettings
from albertine.errors import ExitStatus, InputError
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer

LANGUAGES = Path(__file__).parent.parent / "text" / "languages"
PLACES = ("harbour", "market", "bridge", "library", "garden", "station", "church", "school", "castle", "mill")
PEOPLE = ("Anna", "Ben", "Clara", "David", "Eva", "Frank", "Greta", "Henry", "Ida", "Jacob", "Karen", "Leo")


def reviews(first: int, count: int) -> list[dict[str, str]]:
    """Return rows, half of them with each label; up to 1,200 have distinct texts."""
    return [
        {
            "text": f"{PEOPLE[n % 12]} walked from the {PLACES[n // 12 % 10]} to the "
            f"{PLACES[n // 120 % 10]} today.",
            "label": "good" if n % 2 else "bad",
        }
        for n in range(first, first + count)
    ]


def write(file: Path, rows: list[dict[str, Any]]) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(file)


def expect_refusal(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that a command line is refused in one line with a message."""
    assert run_command(app, ["check", *arguments]) == ExitStatus.BAD_INPUT
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("check")
    (folder / "text.txt").write_text("\n".join(row["text"] for row in reviews(0, 1200)))
    build_tokenizer(
        [str(folder / "text.txt")],
        folder / "tokenizer",
        TokenizerSettings(vocab_size=200, language="en", allow_smaller=True),
    )
    return folder / "tokenizer"


def kinds(data: str, **options: Any) -> dict[str, tuple[str, int]]:
    """Return severity and count of each finding, except the notes about language and labels."""
    report = check_data([data], CheckSettings(**options))
    expected = ("language", "labels")
    return {each.kind: (each.severity, each.count) for each in report.findings if each.kind not in expected}


def test_clean_tables_have_no_problems(tmp_path: Path, tokenizer: Path) -> None:
    train, dev = write(tmp_path / "a.jsonl", reviews(0, 400)), write(tmp_path / "b.jsonl", reviews(400, 100))
    assert not kinds(train, dev=dev, tokenizer=tokenizer)
    report = check_data([train], CheckSettings(dev=dev))
    assert report.texts == 500
    notes = {each.kind: each.message for each in report.findings}
    assert notes["language"].startswith("language: English (")
    assert notes["labels"] == "labels in train: bad 50%, good 50%"


@pytest.mark.parametrize("language", ["de", "el", "tr", "hi", "zh", "ja"])
def test_clean_pages_have_no_problems(language: str) -> None:
    assert not kinds(str(LANGUAGES / f"{language}.txt"))


@pytest.mark.parametrize(
    ("text", "repair"),
    [
        ("Die schöne Tür".encode().decode("cp1252"), ("Ã¶", "ö")),
        ("it’s".encode().decode("cp1252"), ("â€™", "’")),
        ("25 °C".encode().decode("latin-1"), ("Â°", "°")),
        ("it’s – 5 €".encode().decode("latin-1"), ("â\x80\x99", "’")),
        ("Great film 😊".encode().decode("cp1252"), ("\u00f0\u0178\u02dc\u0160", "😊")),
        ("Great film 😊!".encode().decode("latin-1"), ("\u00f0\x9f\x98\x8a", "😊")),
        ("𝑥 is a number".encode().decode("latin-1"), ("\u00f0\x9d\x91\xa5", "𝑥")),
        ("Привет".encode().decode("latin-1"), None),
        ("Το πλοίο".encode().decode("cp1252", "ignore"), None),
    ],
)
def test_mojibake_is_found(text: str, repair: tuple[str, str] | None) -> None:
    found = find_mojibake(text)
    assert found is not None
    assert repair is None or found == repair


@pytest.mark.parametrize(
    "text",
    [
        "Ärger über Öl und Übermut, «CAFÉ», „HÖ“, NÃO, IRMÃ, CORAÇÃO, ÂMBITO, Île-de-France, Îlots",
        "Ünlü İstanbul'da çığlık, şöyle ÖĞÜT; “ÜÇ” — ‘À’, 5 µm, ½, naïve, Ångström, Æsir, Ðe, Ñandú",
        "Pâté à la “crème”, l’Âge d’or, CHÂTEAU…",
        "«\u00a0Quelle beauté\u00a0»… l’été\u00a0: «\u00a0la clé\u00a0»\u00a0; SANTÉ\u00a0!",
        "Hún sagði: „Það er gott veður við Miðborð“… ‚Já, það‘, sögð—»orð«, „borð“™ og ráð\u00a0»…",
        "«Irmã», não… maçã— “manhã”·ª, AMANHÃ», à·º",
    ],
)
def test_ordinary_words_are_no_mojibake(text: str) -> None:
    assert find_mojibake(text) is None


def test_damaged_files_are_found(tmp_path: Path) -> None:
    text = "Die schöne Tür steht offen. Der Müller hört früh die Vögel.\n"
    (tmp_path / "a.txt").write_bytes(text.encode("latin-1"))
    assert kinds(str(tmp_path / "a.txt"))["not-utf-8"] == ("error", 1)
    (tmp_path / "a.txt").write_bytes(
        b"\xef\xbb\xbf" + text.encode() + text.encode().decode("cp1252").encode()
    )
    assert kinds(str(tmp_path / "a.txt")) == {"mojibake": ("error", 1), "byte-order-mark": ("note", 1)}
    (tmp_path / "a.txt").write_bytes((text + "x\x07y\nlost \ufffd here\nin\ufeffside\n").encode())
    assert kinds(str(tmp_path / "a.txt")) == {
        "replacement-character": ("warning", 1),
        "control-character": ("warning", 1),
        "inner-byte-order-mark": ("warning", 1),
    }
    (tmp_path / "a.txt").write_text(2 * text, encoding="utf-16")
    assert kinds(str(tmp_path / "a.txt")) == {"utf-16": ("error", 1)}
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf")
    assert kinds(str(tmp_path / "a.txt")) == {"no-text": ("error", 0), "byte-order-mark": ("note", 1)}
    (tmp_path / "a.txt").write_bytes(b"")
    assert kinds(str(tmp_path / "a.txt")) == {"unreadable": ("error", 1)}
    (tmp_path / "UTF-16").mkdir()
    (tmp_path / "UTF-16" / "a.txt").write_bytes(b"")
    assert kinds(str(tmp_path / "UTF-16"))["unreadable"] == ("error", 1)


def test_files_that_are_not_utf_8_are_counted(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_bytes("Привет!\nКак дела?\n".encode("koi8-r"))
    (finding,) = (each for each in check_data([str(tmp_path)]).findings if each.kind == "not-utf-8")
    assert finding_line(finding).startswith("error: 4 lines that are not UTF-8, in 2 files; ")
    assert "such as WINDOWS-1252, KOI8-R or SHIFT_JIS" in finding.advice


def test_damaged_rows_are_counted(tmp_path: Path) -> None:
    table = tmp_path / "a.jsonl"
    rows = [json.dumps(row).encode() for row in reviews(0, 40)]
    table.write_bytes(b"\n".join([*rows, *[b'{"text": "\xff"}'] * 60, *[b"{"] * 300]))
    assert kinds(str(table)) == {"not-utf-8": ("error", 60), "unreadable": ("error", 300)}


def test_a_file_that_is_damaged_after_its_beginning_is_reported(tmp_path: Path) -> None:
    rng = random.Random(0)
    text = "".join(f"Sentence {rng.random()} of the file.\n" for _ in range(200_000))
    compressed = gzip.compress(text.encode())
    (tmp_path / "a.txt.gz").write_bytes(compressed[: len(compressed) // 2])
    (tmp_path / "b.txt").write_text("The other file is read.\n")
    report = check_data([str(tmp_path)], CheckSettings())
    (unreadable,) = [finding for finding in report.findings if finding.kind == "unreadable"]
    assert unreadable.count == 1
    assert unreadable.location == str(tmp_path / "a.txt.gz")


def test_a_table_that_is_damaged_after_its_beginning_is_reported(tmp_path: Path) -> None:
    rng = random.Random(0)
    rows = "".join(json.dumps({"text": f"Sentence {rng.random()}."}) + "\n" for _ in range(20_000))
    content = gzip.compress(rows.encode())
    (tmp_path / "a.jsonl.gz").write_bytes(content[: len(content) // 2])
    report = check_data([str(tmp_path / "a.jsonl.gz")], CheckSettings())
    (unreadable,) = [finding for finding in report.findings if finding.kind == "unreadable"]
    assert (unreadable.count, unreadable.location) == (1, str(tmp_path / "a.jsonl.gz"))


def test_rows_of_parquet_that_are_not_utf_8_are_counted(tmp_path: Path) -> None:
    texts = pa.array([b"fine", b"not \xff fine"], pa.binary()).view(pa.string())
    parquet.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    assert kinds(str(tmp_path / "a.parquet"))["not-utf-8"] == ("error", 1)


def test_a_letter_and_its_accent_are_one_character() -> None:
    assert find_mojibake("fA\u0303\u00bcr") == ("\u00c3\u00bc", "\u00fc")


def test_duplicates_across_splits_and_conflicting_labels(tmp_path: Path, tokenizer: Path) -> None:
    train, dev = reviews(0, 200), reviews(200, 50)
    train += [train[0], {**train[3], "label": "bad"}, {"text": train[4]["text"].upper(), "label": "bad"}]
    dev += [train[1], train[2]]
    files = write(tmp_path / "a.jsonl", train), write(tmp_path / "b.jsonl", dev)
    found = kinds(files[0], dev=files[1], tokenizer=tokenizer)
    assert found == {
        "conflicting-labels": ("warning", 1),
        "train-in-dev": ("error", 2),
        "duplicates": ("warning", 3),  # the tokenizer lower-cases
    }
    assert kinds(files[0], dev=files[1])["duplicates"] == ("note", 2)
    report = check_data([files[0]], CheckSettings(dev=files[1]))
    shared = next(each for each in report.findings if each.kind == "train-in-dev")
    assert shared.location == f"{files[0]}, line 2 and {files[1]}, line 51"


def test_many_texts_are_compared_in_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "MAX_HASHES", 100)
    train = write(tmp_path / "a.jsonl", reviews(0, 1000))
    report = check_data([train], CheckSettings(dev=train))
    (shared,) = [each for each in report.findings if each.kind == "train-in-dev"]
    assert "100% of dev (in a sample of one text in 16)" in shared.message
    assert 20 <= shared.count <= 120
    twice = write(tmp_path / "b.jsonl", [{"text": f"text {number // 2}"} for number in range(4000)])
    (repeated,) = [each for each in check_data([twice]).findings if each.kind == "duplicates"]
    assert re.search(r"50% of all \(in a sample of one text in \d+\)", repeated.message)


def test_labels_and_empty_texts(tmp_path: Path) -> None:
    train = reviews(0, 400)
    train[5] |= {"label": "god"}
    train[7] |= {"label": ""}
    train[9] |= {"text": " "}
    dev = [{**row, "label": "neutral"} for row in reviews(500, 3)]
    found = kinds(write(tmp_path / "a.jsonl", train), dev=write(tmp_path / "b.jsonl", dev))
    assert found == {
        "missing-label": ("error", 1),
        "labels-only-in-dev": ("error", 1),
        "rare-labels": ("warning", 1),
        "empty-text": ("warning", 1),
    }
    spelled = [{**row, "label": ("yes", "Yes", "no", "NA")[number % 4]} for number, row in enumerate(train)]
    found = kinds(write(tmp_path / "a.jsonl", spelled))
    assert found["labels-alike"] == ("warning", 2)
    with pytest.raises(InputError, match="column label is the label, so a model would read the answer"):
        kinds(write(tmp_path / "a.jsonl", spelled), text="text,label")
    assert found["missing-mark"] == ("warning", 1)
    same = [{**row, "label": "good"} for row in train]
    assert kinds(write(tmp_path / "a.jsonl", same))["one-label"] == ("error", 1)
    same[0] |= {"label": "bad"}
    assert kinds(write(tmp_path / "a.jsonl", same))["unbalanced-labels"] == ("warning", 399)
    numbers = [{**row, "label": number / 7} for number, row in enumerate(train)]
    assert set(kinds(write(tmp_path / "a.jsonl", numbers))) == {"empty-text"}
    few = [{**row, "label": number % 40 / 10} for number, row in enumerate(reviews(0, 60))]
    assert kinds(write(tmp_path / "a.jsonl", few)) == {}  # numbers to predict, not 40 classes
    again = [*few, {**few[3], "label": 0.35}]  # a measurement that was repeated
    assert kinds(write(tmp_path / "a.jsonl", again)) == {"duplicates": ("warning", 1)}
    codes = [{**row, "label": str(100 + number % 60)} for number, row in enumerate(reviews(0, 1200))]
    codes[3] |= {"label": "other"}  # of classes with numbers, not of quantities
    assert "not-numbers" not in kinds(write(tmp_path / "a.jsonl", codes))
    floats = [{"text": f"text {number // 2}", "label": f"{number % 2}.0"} for number in range(80)]
    assert kinds(write(tmp_path / "a.jsonl", floats))["conflicting-labels"] == ("error", 40)
    few[3] |= {"label": "none"}
    assert kinds(write(tmp_path / "a.jsonl", few)) == {"not-numbers": ("error", 1)}
    dev_file = write(tmp_path / "dev.jsonl", [{**row, "label": "high"} for row in reviews(500, 60)])
    assert kinds(write(tmp_path / "a.jsonl", numbers), dev=dev_file)["not-numbers"] == ("error", 1)
    unlabelled = [{"text": row["text"]} for row in train]
    assert kinds(write(tmp_path / "a.jsonl", unlabelled), dev=dev_file)["labels-only-in-dev"] == ("error", 1)


@pytest.mark.parametrize("separator", [";", ","])
def test_decimal_commas(separator: str, tmp_path: Path) -> None:
    rows = [f'"{row["text"]}"{separator}"{number % 40},5"\n' for number, row in enumerate(reviews(0, 60))]
    file = tmp_path / "a.csv"
    file.write_text(f"text{separator}label\n" + "".join(rows), encoding="utf-8")
    assert kinds(str(file)) == ({} if separator == ";" else {"not-numbers": ("error", 40)})
    several = "text;label\n" + "".join(f"text {number};1.2,{number % 2}\n" for number in range(40))
    file.write_text(several, encoding="utf-8")
    assert kinds(str(file), label="label", label_separator=",") == {}


def lines_of(file: Path, labels: list[str], separator: str = ",") -> dict[str, str]:
    """Write a table of different texts with labels; return the line of each finding."""
    rows = [f'"text {number}"{separator}"{label}"\n' for number, label in enumerate(labels)]
    file.write_text(f"text{separator}label\n" + "".join(rows), encoding="utf-8")
    return {finding.kind: finding_line(finding) for finding in check_data([str(file)]).findings}


def test_a_few_numbers_with_decimal_commas_are_not_several_labels(tmp_path: Path) -> None:
    numbers = ["3,5", "4", "4,5", "5", "5,5"] * 12
    found = lines_of(tmp_path / "a.csv", numbers)
    assert found["not-numbers"].startswith("error: 3 labels that cannot be read as a number, ")
    assert "write a decimal point" in found["not-numbers"]
    assert "joined-labels" not in found
    assert lines_of(tmp_path / "a.csv", numbers, ";").keys() == {"language", "labels"}
    found = lines_of(tmp_path / "a.csv", ["a", "b,c", "b", "a,b"] * 15)
    assert found["joined-labels"].startswith("note: 2 labels made up of others; ")
    assert lines_of(tmp_path / "a.csv", ["a", "a,b"] * 15)["joined-labels"].startswith(
        "note: 1 label made up"
    )


def test_rare_labels_that_share_their_parts_may_be_several(tmp_path: Path) -> None:
    pairs = [f"{first};{second}" for first in "abcde" for second in "abcde" if first != second]
    found = lines_of(tmp_path / "a.csv", pairs * 3)
    assert found["joined-labels"].startswith("note: 20 labels that share their parts; ")
    assert '--label-separator ";"' in found["joined-labels"]
    assert "rare-labels" not in found


def test_amounts_of_money_are_texts(tmp_path: Path) -> None:
    amounts = [f"{number % 40 / 2} €".replace(".", ",") for number in range(100)]
    found = lines_of(tmp_path / "a.csv", amounts)
    assert "numbers are read without currency signs" in found["rare-labels"]
    found = lines_of(tmp_path / "a.csv", [f"room {number % 40}" for number in range(100)])
    assert "currency" not in found["rare-labels"]


def test_after_many_numbers_the_rest_is_still_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "_MAX_LABELS", 60)
    found = lines_of(tmp_path / "a.csv", [*(f"{number}.5" for number in range(90)), "none"])
    assert found["labels"].startswith("note: 60 or more distinct numbers as labels")
    assert found["not-numbers"].startswith("error: 1 label that cannot be read as a number, ")
    assert f"{tmp_path / 'a.csv'}, line 92" in found["not-numbers"]


def test_repeated_measurements_are_no_conflicts(tmp_path: Path) -> None:
    texts = [f"text {number // 2}" for number in range(80)]
    for comma in (False, True):
        numbers = [f"{number * 3 % 20 / 5}" for number in range(80)]
        rows = [
            f"{text};{number.replace('.', ',') if comma else number}\n"
            for text, number in zip(texts, numbers, strict=True)
        ]
        assert any(number.endswith(".0") for number in numbers)
        (tmp_path / "a.csv").write_text("text;label\n" + "".join(rows))
        assert "conflicting-labels" not in kinds(str(tmp_path / "a.csv"))


def test_a_row_without_a_list_has_no_labels(tmp_path: Path) -> None:
    rows = [{"text": f"text {n}", "topics": [None, ["a"], ["a", "b"]][n % 3]} for n in range(60)]
    report = check_data([write(tmp_path / "a.jsonl", rows)], CheckSettings(label="topics"))
    assert {finding.kind: finding.message for finding in report.findings if finding.kind != "language"} == {
        "labels": "labels in train: a 67%, b 33%"
    }


def test_messages_about_one_thing_are_in_the_singular(tmp_path: Path) -> None:
    found = lines_of(tmp_path / "a.csv", ["good"] * 20)
    assert found["one-label"].startswith("error: 1 label in all rows; a classifier needs two; ")


def test_small_tables_and_too_many_labels(tmp_path: Path) -> None:
    few = [{"text": f"text {number}", "label": "ab"[number % 2]} for number in range(5)]
    assert kinds(write(tmp_path / "few.jsonl", few))["rare-labels"] == ("warning", 2)
    many = [{"text": f"text {number}", "label": f"name {min(number, 54)}"} for number in range(60)]
    found = kinds(write(tmp_path / "many.jsonl", many))
    assert found["labels-as-texts"] == ("error", 55)
    assert "rare-labels" not in found
    more = write(tmp_path / "dev.jsonl", [{"text": f"other {n}", "label": "name 0"} for n in range(60)])
    assert "labels-as-texts" not in kinds(str(tmp_path / "many.jsonl"), dev=more)  # as in finetune


def test_as_many_words_as_tags(tmp_path: Path) -> None:
    rows = [{"text": ["Ada", "sings"], "label": ["B-P", "O"]}] * 4
    data = write(tmp_path / "tags.jsonl", [*rows, {"text": ["Ada", "sings"], "label": ["B-P"]}])
    (found,) = (each for each in check_data([data], CheckSettings()).findings if each.kind == "unreadable")
    assert found.count == 1
    assert "2 words and 1 tag; each word needs a tag" in found.example


def test_no_header_is_for_files_that_may_have_none(tmp_path: Path) -> None:
    data = write(tmp_path / "a.jsonl", [{"a;b": "ka"}])
    with pytest.raises(InputError, match=r"a.jsonl: --no-header is for .csv and .tsv files; leave it out"):
        check_data([data], CheckSettings(header=False))
    (tmp_path / "a.csv").write_text("ka lo,1\n")
    with pytest.raises(InputError, match=r"a.jsonl, line 1: no column 1"):
        check_data([str(tmp_path / "a.csv")], CheckSettings(text="1", header=False, dev=data))


def test_unknown_characters_and_long_rows(tmp_path: Path, tokenizer: Path) -> None:
    rows = [*reviews(0, 100), {"text": "漢字 " * 50, "label": "good"}]
    found = kinds(write(tmp_path / "a.jsonl", rows), tokenizer=tokenizer, max_length=64)
    assert found["unknown-characters"][0] == "error"
    assert found["truncated"] == ("note", 1)
    report = check_data([str(tmp_path / "a.jsonl")], CheckSettings(tokenizer=tokenizer))
    unknown = next(each for each in report.findings if each.kind == "unknown-characters")
    assert unknown.example == "字 50, 漢 50"
    assert unknown.location.endswith("line 101")
    german = check_data([str(LANGUAGES / "de.txt")], CheckSettings(tokenizer=tokenizer))
    (finding,) = [each for each in german.findings if each.kind == "tokenizer-language"]
    assert finding.message == "the tokenizer removes accents and capitals, which German text needs"


def test_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word and word " * 400)
    assert kinds(str(tmp_path / "a.txt"), vocab_size=8000) == {
        "no-sentence-ends": ("warning", 1),
        "too-little-text": ("warning", 1200),
    }
    report = check_data([str(tmp_path / "a.txt")], CheckSettings(vocab_size=8_000))
    advice = next(finding.advice for finding in report.findings if finding.kind == "too-little-text")
    assert advice.endswith("or less: at least 50 words, and two distinct ones, per token are recommended")
    rows = [{"text": row["text"]} for row in reviews(0, 20)]
    rows.append({"text": " ".join(row["text"] for row in reviews(0, 30_000))})
    assert kinds(write(tmp_path / "b.jsonl", rows)) == {"giant-document": ("warning", 1)}


def test_text_without_spaces_is_counted_in_characters(tmp_path: Path) -> None:
    lines = [
        "".join(chr(0x4E00 + (number * 7 + place * place) % 3_000) for place in range(30)) + "。"
        for number in range(2_000)
    ]
    (tmp_path / "zh.txt").write_text("\n\n".join(lines), "utf-8")
    assert "too-little-text" not in kinds(str(tmp_path / "zh.txt"), vocab_size=1_000)
    assert kinds(str(tmp_path / "zh.txt"), vocab_size=8_000)["too-little-text"][0] == "warning"


def test_a_corpus(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(row["text"] for row in reviews(0, 1200)) + "\n漢字\n", "utf-8")
    build_corpus([str(tmp_path / "a.txt")], tokenizer, tmp_path / "corpus", CorpusSettings(workers=1))
    assert kinds(str(tmp_path / "corpus")) == {
        "unknown-characters": ("note", 1),
        "few-dev-tokens": ("note", 0),
    }
    report = check_data([str(tmp_path / "corpus")])
    assert (report.corpora, report.texts) == (1, 0)
    with pytest.raises(InputError, match="corpus: a corpus, for which --tokenizer is not used; leave it out"):
        check_data([str(tmp_path / "corpus")], CheckSettings(tokenizer=tokenizer))
    shard = next((tmp_path / "corpus").glob("train-*.arrow"))
    shard.write_bytes(shard.read_bytes()[:-8])
    with pytest.raises(InputError, match="checksum differs"):
        check_data([str(tmp_path / "corpus")])


def test_the_command_prints_lines_or_json_and_its_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = write(tmp_path / "a.jsonl", reviews(0, 100))
    assert run_command(app, ["check", clean]) == ExitStatus.DONE
    assert capsys.readouterr().out.splitlines()[-1] == (
        "rows and documents checked: 100; 0 errors, 0 warnings, 2 notes"
    )
    spoiled = write(tmp_path / "b.jsonl", [*reviews(0, 100), {"text": "The dog slept.", "label": None}])
    assert run_command(app, ["check", spoiled]) == 4
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == (
        f"error: 1 row without a label; in {spoiled}, line 101; label or remove them; --on-error skip of "
        "finetune leaves them out"
    )
    assert captured.err.endswith("albertine: 1 error, 0 warnings, 2 notes; fix the errors first\n")
    assert run_command(app, ["check", spoiled, "--json"]) == ExitStatus.PROBLEMS_FOUND
    report = json.loads(capsys.readouterr().out)
    assert (report["texts"], report["errors"], report["warnings"], report["notes"]) == (101, 1, 0, 2)
    assert report["findings"][0]["kind"] == "missing-label"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.csv"], "nothing.csv: no such file or folder"),
        (["a.jsonl", "--text", "txt"], "no column txt (did you mean text?)"),
        (["a.jsonl", "--label", "stars"], "no column stars"),
        (["a.jsonl", "--dev", "a.txt"], "--dev a.txt: not a table"),
        (["a.jsonl", "--tokenizer", "none"], "none: no such folder"),
        ([], "no text: name a file"),
        (["a.jsonl", "--text", "text "], 'no column "text " (did you mean text?)'),
        (["a.jsonl", "--max-length", "16"], "--max-length 16: needs a tokenizer"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.jsonl", reviews(0, 10))
    expect_refusal(arguments, message, capsys)


def test_labels_are_those_of_fine_tuning(tmp_path: Path) -> None:
    texts = [row["text"] for row in reviews(0, 40)]
    rows: list[dict[str, Any]]
    rows = [{"text": text, "label": (" good", "good", "bad")[n % 3]} for n, text in enumerate(texts)]
    findings = check_data([write(tmp_path / "a.jsonl", rows)], CheckSettings()).findings
    assert [finding.message for finding in findings if finding.kind == "labels"] == [
        "labels in train: good 68%, bad 32%"
    ]
    rows = [{"text": text, "label": ["a", "b"][: n % 2 + 1]} for n, text in enumerate(texts)]
    lists = write(tmp_path / "b.jsonl", rows)
    table = tmp_path / "c.csv"
    table.write_text("text,a,b\n" + "".join(f"{text},1,{n % 2}\n" for n, text in enumerate(texts)))
    single = tmp_path / "d.csv"
    single.write_text("text,a,b\n" + "".join(f"{text},1,0\n" for text in texts))
    assert kinds(str(single), label="a,b") == {}  # one label each, and no error that there is only one
    for data, label in ((lists, "label"), (str(table), "a,b")):
        findings = check_data([data], CheckSettings(label=label)).findings
        assert [finding.message for finding in findings if finding.kind != "language"] == [
            "labels in train: a 100%, b 50%"
        ]


def test_combinations_of_labels_need_not_be_in_train(tmp_path: Path) -> None:
    texts = [row["text"] for row in reviews(0, 60)]
    train = [{"text": text, "label": [["a"], ["b"], []][n % 3]} for n, text in enumerate(texts[:45])]
    dev = [{"text": text, "label": ["a", "b"]} for text in texts[45:]]
    assert kinds(write(tmp_path / "a.jsonl", train), dev=write(tmp_path / "b.jsonl", dev)) == {}
    dev[0]["label"] = ["c"]
    found = kinds(str(tmp_path / "a.jsonl"), dev=write(tmp_path / "b.jsonl", dev))
    assert found == {"labels-only-in-dev": ("error", 1)}


def test_numbers_in_dev_where_train_has_names_are_explained(tmp_path: Path) -> None:
    train = [{**row, "label": ("bad", "good")[n % 2]} for n, row in enumerate(reviews(0, 60))]
    data = write(tmp_path / "a.jsonl", train)
    for second, advice in (("1", "write the names of train in place of numbers"), ("2", "fix the spelling")):
        dev = [{**row, "label": ("0", second)[n % 2]} for n, row in enumerate(reviews(500, 60))]
        dev_file = write(tmp_path / "dev.jsonl", dev)
        findings = check_data([data], CheckSettings(dev=dev_file)).findings
        (finding,) = (finding for finding in findings if finding.kind == "labels-only-in-dev")
        assert advice in finding.advice


def test_words_in_capitals_are_no_damage() -> None:
    assert find_mojibake("\u00abAMANH\u00c3\u00bb disse ela.") is None
    assert find_mojibake("f\u00c3\u00bcr") == ("\u00c3\u00bc", "\u00fc")


def test_tables_without_column_names_and_with_several_text_columns(tmp_path: Path) -> None:
    rows = reviews(0, 40)
    table = tmp_path / "rows.tsv"
    table.write_text("".join(f"{row['label']}\tday {n}\t{row['text']}\n" for n, row in enumerate(rows)))
    assert kinds(str(table), text="3", label="1", header=False) == {}
    table.write_text(table.read_text() + f"bad\tday 1\t{rows[1]['text']}\nbad\tday 2\t{rows[1]['text']}\n")
    found = kinds(str(table), text="2,3", label="1", header=False)
    assert found == {"conflicting-labels": ("error", 1), "duplicates": ("warning", 1)}
    assert kinds(str(table), text="3", label="1", header=False)["duplicates"] == ("warning", 2)


@pytest.mark.parametrize(
    "options", [{"label": "stars"}, {"text": "review"}, {"text_pair": "title"}, {"header": False}]
)
def test_columns_need_a_table(options: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("review,stars\ngood,5\n")
    option = next(iter(options)).replace("_", "-").replace("header", "no-header")
    with pytest.raises(
        InputError, match=rf"rows.txt: a text, which has no columns; remove --{option}, or give"
    ):
        check_data([str(tmp_path / "rows.txt")], CheckSettings(**options))


def test_a_text_is_compared_with_dev(tmp_path: Path) -> None:
    text = reviews(0, 1)[0]["text"]
    (tmp_path / "train.txt").write_text(text)
    dev = write(tmp_path / "dev.jsonl", [{"body": text}])
    assert kinds(str(tmp_path / "train.txt"), dev=dev, text="body")["train-in-dev"] == ("error", 1)


def test_an_empty_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\n")
    assert kinds(str(tmp_path / "rows.csv")) == {"no-text": ("error", 0)}


def test_several_labels_in_a_cell(tmp_path: Path) -> None:
    rows = [{"text": f"song {index}", "label": ["a;b", "b", "a", ""][index % 4]} for index in range(80)]
    data = str(write_csv(tmp_path / "a.csv", rows))
    found = kinds(data)
    assert found["missing-label"] == ("error", 20)
    assert found["joined-labels"] == ("note", 1)
    assert kinds(data, label_separator=";") == {}
    same = [{"text": "song", "label": "a;b"}, {"text": "song", "label": "b; a"}]
    data = str(write_csv(tmp_path / "b.csv", same * 10))
    assert "conflicting-labels" in kinds(data)
    assert "conflicting-labels" not in kinds(data, label_separator=";")


def test_lists_of_words_and_tags(tmp_path: Path) -> None:
    rows = [{"text": ["Ida", "ran"], "label": ["B-PER", "O"]} for _ in range(20)]
    report = check_data([str(write_jsonl(tmp_path / "a.jsonl", rows))])
    (labels,) = [finding for finding in report.findings if finding.kind == "labels"]
    assert labels.message == "labels in train: B-PER 100%, O 100%"
    assert "unreadable" not in {finding.kind for finding in report.findings}
    lists = [{"text": row["text"], "label": "a"} for row in rows]  # which fine-tuning refuses
    assert kinds(str(write_jsonl(tmp_path / "b.jsonl", lists)))["unreadable"] == ("error", 20)
    (tmp_path / "a.conll").write_text("Ida B-PER\nran O\n")
    with pytest.raises(InputError, match=r"a\.conll: words with tags, .* reads with --task tag"):
        check_data([str(tmp_path / "a.conll")])
