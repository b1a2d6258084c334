"""Tests of columns as users name them: joined texts, files without column names, hints about them."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albertine.errors import InputError
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.columns import split_columns
from albertine.tasks.formats.headers import looks_like_data, looks_like_names
from albertine.tasks.formats.texts import read_texts
from albertine.tasks.reading import load_examples
from albertine.tasks.registry import find_task
from albertine.tasks.settings import DataSettings
from albertine.tasks.task import check_split_option
from albertine.text.read_errors import ReadErrors

ROWS = [
    {"title": "Boats", "body": "Two boats.", "a,b": "comma", "label": "x"},
    {"title": "", "body": " One pear. ", "a,b": "comma", "label": "y"},
    {"title": "Pears", "body": "", "a,b": "comma", "label": "x"},
    {"title": "", "body": "  ", "a,b": "comma", "label": "y"},
]
JOINED = ["Boats Two boats.", "One pear.", "Pears", ""]


def write_table(file: Path, rows: Sequence[dict[str, Any]], *, header: bool = True) -> Path:
    match file.suffix:
        case ".jsonl":
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(list(rows)), file)
        case ".tsv":
            lines = ([list(rows[0])] if header else []) + [list(row.values()) for row in rows]
            file.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))
        case _:
            with file.open("w", newline="") as stream:
                writer = csv.writer(stream)
                writer.writerows(([list(rows[0])] if header else []) + [list(row.values()) for row in rows])
    return file


def read(file: Path, task: str = "classify", **columns: Any) -> list[TextExample]:
    settings = DataSettings(**columns)
    examples = load_examples(find_task(task), str(file), "train", settings, require_labels=True)
    return [example for example in examples if isinstance(example, TextExample)]


def error(file: Path, **columns: Any) -> str:
    with pytest.raises(InputError) as raised:
        read(file, **columns)
    return str(raised.value)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_texts_of_several_columns_are_joined(suffix: str, tmp_path: Path) -> None:
    file = write_table(tmp_path / f"a{suffix}", ROWS)
    for names in ("title,body", "title, body"):
        assert [example.texts for example in read(file, text=names)] == [(text,) for text in JOINED]
    pairs = [example.texts for example in read(file, text="title", text_pair="body,title")]
    assert pairs[0] == ("Boats", "Two boats. Boats")
    # The name of a column that has commas wins.
    assert {example.texts for example in read(file, text="a,b")} == {("comma",)}
    assert read(file, text="title,a,b")[0].texts == ("Boats comma",)
    texts = list(read_texts(str(file), DataSettings(text="body,a,b"), ReadErrors(skip=False)))
    assert texts[0].texts == ("Two boats. comma",)


def test_wrong_columns_to_join(tmp_path: Path) -> None:
    file = write_table(tmp_path / "a.csv", ROWS)
    assert "no column bodi (did you mean body?)" in error(file, text="title,bodi")
    assert "name another with --text" in error(file, text="title,bodi")
    assert "name another with --text-pair" in error(file, text="title", text_pair="body,")
    # Only texts are joined.
    assert "no column label,title" in error(file, text="body", label="label,title")
    rows = [{"title": "a", "body": None, "label": "x"}, {"title": None, "body": None, "label": "y"}]
    file = write_table(tmp_path / "a.jsonl", rows)
    assert "line 2: columns title,body hold nothing" in error(file, text="title,body")
    file = write_table(tmp_path / "b.jsonl", [{"title": "a", "body": 5, "label": "x"}])
    assert "column body holds int 5, not text" in error(file, text="title,body")


COLUMN_NAMES = st.text("ab,", min_size=1, max_size=4).filter(lambda name: name.strip(",") == name)


@given(st.lists(COLUMN_NAMES, min_size=1, max_size=5, unique=True), st.data())
def test_split_columns_finds_all_columns(available: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(available), min_size=1, max_size=4))
    parts = split_columns(",".join(chosen), available)
    assert ",".join(parts) == ",".join(chosen)  # nothing is lost, whatever the commas belong to
    if not any("," in name for name in available):
        assert list(parts) == chosen
    assert all(split_columns(name, available) == (name,) for name in available)


def test_many_columns_are_split_in_linear_time() -> None:
    names = [f"column {index}" for index in range(50_000)]
    assert split_columns(",".join(names), set(names)) == tuple(names)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_files_without_column_names(suffix: str, tmp_path: Path) -> None:
    with_names = read(write_table(tmp_path / f"a{suffix}", ROWS), text="body,title", label="label")
    file = write_table(tmp_path / f"b{suffix}", ROWS, header=False)
    examples = read(file, text="2,1", label="4", header=False)
    assert [(example.texts, example.label) for example in examples] == [
        (example.texts, example.label) for example in with_names
    ]
    assert [example.example_id for example in examples] == ["0", "1", "2", "3"]
    texts = list(read_texts(str(file), DataSettings(text="3", header=False), ReadErrors(skip=False)))
    assert [example.texts for example in texts] == [("comma",)] * 4
    message = "no column text; without a line of column names (--no-header), its columns are 1 to 4"
    assert message in error(file, label="4", header=False)
    file.write_text(file.read_text().replace("Pears", "Pears\t6" if suffix == ".tsv" else "Pears,6"))
    message = "line 3: 5 cells, where the first line has 4"
    assert message in error(file, text="2", label="4", header=False)


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_no_header_is_for_csv_and_tsv(name: str, tmp_path: Path) -> None:
    file = write_table(tmp_path / name, ROWS)
    assert "--no-header is for .csv and .tsv files" in error(file, text="title", header=False)
    with pytest.raises(InputError, match=r"--no-header is for \.csv and \.tsv"):
        list(read_texts(str(file), DataSettings(text="title", header=False), ReadErrors(skip=False)))


def test_a_space_around_the_name_of_a_column_is_shown(tmp_path: Path) -> None:
    file = write_table(tmp_path / "a.csv", ROWS)
    assert 'no column "label " (did you mean label?)' in error(file, text="title", label="label ")
    assert 'no column "title "' in error(file, text="title ", label="label")


def test_options_that_are_for_other_data_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert len(list(read_texts(str(tmp_path / "a.txt"), DataSettings(), ReadErrors(skip=False)))) == 2
    with pytest.raises(InputError, match=r"a\.txt: lines of text, which have no columns; leave out --id"):
        list(read_texts(str(tmp_path / "a.txt"), DataSettings(id="key"), ReadErrors(skip=False)))
    file = write_table(tmp_path / "a.csv", ROWS)
    for name in ("question", "context", "answers", "options", "label_separator"):
        option = name.replace("_", "-")
        message = f"--{option} is not used for classification; leave it out"
        assert message in error(file, text="title", **{name: "|"})
    folder = DataSettings(text="sentence")
    with pytest.raises(InputError, match=r"--text is not used for the official layout of cola"):
        load_examples(find_task("cola"), str(tmp_path), "train", folder, require_labels=True)
    split = DataSettings().with_explicit_keys({"split"})
    with pytest.raises(InputError, match=r"a\.csv: --split is for the folder of a task; leave it out"):
        check_split_option(str(file), split, find_task("classify"))
    with pytest.raises(InputError, match=r"hub:a/b: --split .*; name the split in --data, as in hub:OWNER"):
        check_split_option("hub:a/b", split, find_task("classify"))
    check_split_option(str(tmp_path), split, find_task("classify"))
    check_split_option("hub:nyu-mll/glue", split, find_task("cola"))
    with pytest.raises(InputError, match=r"glue:cola:test: cola reads the splits .*; leave the split out"):
        load_examples(
            find_task("cola"), "hub:nyu-mll/glue:cola:test", "dev", DataSettings(), require_labels=True
        )


def test_a_column_of_ids_must_exist_if_it_is_named(tmp_path: Path) -> None:
    file = write_table(tmp_path / "a.csv", [{"text": "one", "label": "x", "number": "7"}])
    assert "a.csv: no column key; " in error(file, id="key")
    task, columns = find_task("classify"), DataSettings(id="number")
    (example,) = load_examples(task, str(file), "train", columns, require_labels=True)
    assert example.example_id == "7"
    repeated = DataSettings().with_explicit_keys({"id"})  # as in the settings of a run
    assert load_examples(task, str(file), "train", repeated, require_labels=True)


def test_a_label_in_the_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("title,body,label\nfine,a fine film,good\nbad,dull,bad\n")
    message = "column label is the label, so a model would read the answer; leave it out of --text"
    assert error(file, text="title,label").endswith(message)
    assert error(file, text="label").endswith(message)
    assert error(file, text="body", text_pair="label").endswith(f"{message}-pair")
    for task, label in (("regress", "label"), ("multi-label", "label,body")):
        columns = DataSettings(text="title,label", label=label)
        with pytest.raises(InputError, match=message):
            load_examples(find_task(task), str(file), "train", columns, require_labels=True)
    assert len(read(file, text="title,body")) == 2


def test_commas_in_a_tsv_file(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("text,label\nfine,good\n")
    assert "its first line is one cell, text,label: " in error(file)
    assert error(file).endswith("or name it .csv if it has commas or semicolons")


def test_points_that_may_separate_thousands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.csv"
    columns = DataSettings(label="price")
    numbers = {"205 1.500 1.739": 1, "1.500 205": 1, "2.125 3.5 12": 0, "1.500 2.250": 0, "0.125 3": 0}
    for text, count in numbers.items():
        file.write_text("text;price\n" + "".join(f"t;{number}\n" for number in text.split()))
        examples = load_examples(find_task("regress"), str(file), "train", columns, require_labels=True)
        assert len(examples) == len(text.split())
        assert capsys.readouterr().err.count("column price: 1.500 is read as a decimal number") == count


def test_first_row_that_looks_like_data_gives_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("1,a fine film\n0,dull\n1,fine\n")
    message = "its first line looks like data: 1, a fine film; use --no-header"
    assert message in error(file, text="text", label="label")
    assert len(read(file, text="a fine film", label="1")) == 2
    assert capsys.readouterr().err.count("looks like data: 1, a fine film; use --no-header") == 1
    file.write_text("text,good\ndull,bad\nfine,good\n")
    read(file, text="text", label="good")
    assert "looks like data" in capsys.readouterr().err
    file.write_text("text,label\n1,1\n2,0\n")
    read(file)
    assert "looks like data" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("header", "rows", "label", "is_data"),
    [
        (["text", "label"], [["a", "1"]], "label", False),
        (["gj04", "1", "", "They ran."], [["gj04", "0", "*", "Ran they."]], None, True),
        (["3.5", "good"], [["4", "bad"], ["2.25", "fine"]], None, True),
        (["3.5", "good"], [["four", "bad"]], None, False),  # not a column of numbers
        (["nan", "good"], [["inf", "bad"], ["nan", "bad"]], None, False),
        (["text", "2019", "2020", "2021"], [["a", "1", "2", "3"]], None, False),  # years
        (["0", "1", "2"], [["5", "6", "7"]], None, False),  # numbers of columns
        (["text", "pos"], [["a", "neg"], ["b", "pos"]], "pos", True),
        (["text", "pos"], [["a", "neg"], ["b", "pos"]], None, False),
        (["1", "2"], [], "2", False),
        (["1", "x"], [["1"]], None, False),  # a row of another length
    ],
)
def test_looks_like_data(header: list[str], rows: list[list[str]], label: str | None, is_data: bool) -> None:
    assert looks_like_data(header, rows, label) is is_data


@pytest.mark.parametrize(
    ("rows", "is_names"),
    [
        ([["text", "Label "], ["a", "b"]], True),
        ([["sentence"]], True),
        ([["opinion", "stars"], ["a", "1"], ["b", "2"]], True),
        ([["opinion", "stars"], ["a", "1"]], False),  # one row shows nothing
        ([["opinion", ""], ["a", "1"], ["b", "2"]], False),
        ([["a fine film", "1"], ["dull", "0"], ["bad", "0"]], False),
        ([["text", "good"], ["a", "bad"]], False),
        ([], False),
    ],
)
def test_looks_like_names(rows: list[list[str]], is_names: bool) -> None:
    assert looks_like_names(rows) is is_names


def test_first_row_that_looks_like_names_gives_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text,label\nfine,good\ndull,bad\n")
    assert len(read(file, text="1", label="2", header=False)) == 3
    assert "(--no-header), looks like column names: text, label; use --header" in capsys.readouterr().err
    file.write_text("fine,good\ndull,bad\n")
    read(file, text="1", label="2", header=False)
    assert not capsys.readouterr().err


@pytest.mark.parametrize(("first", "is_doubted"), [(1, True), (0, False)])
def test_answers_that_seem_to_count_from_1(
    first: int, is_doubted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.csv"
    rows = [f"which,x{number},y{number},z{number},{first + number % 2}\n" for number in range(24)]
    columns = DataSettings(options="a,b,c")
    file.write_text("question,a,b,c,label\n" + "".join(rows))
    load_examples(find_task("choice"), str(file), "train", columns, require_labels=True)
    assert ("none of 24 answers is the first option" in capsys.readouterr().err) is is_doubted
