"""Tests of the readers: examples of every layout, and error messages with a location."""

import gzip
import json
import re
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from albertine import json_input
from albertine.errors import InputError
from albertine.tasks.examples import (
    AnswerText,
    Example,
    MultipleChoiceExample,
    QuestionExample,
    TaggedExample,
    TextExample,
    example_chunks,
)
from albertine.tasks.formats import conll, delimited, glue, race, tables
from albertine.tasks.formats import rows as rows_module
from albertine.tasks.formats.rows import TableRow
from albertine.tasks.reading import load_examples
from albertine.tasks.registry import TASK_NAMES, find_task
from albertine.tasks.settings import DataSettings
from albertine.text.read_errors import ReadErrors
from tests.task_fixtures import write_csv, write_jsonl

COLUMNS = DataSettings()


def read_all(
    task: str, data: Path, split_name: str = "train", *, require_labels: bool = True, **columns: Any
) -> list[Any]:
    examples = find_task(task).read_examples(
        str(data),
        split_name,
        replace(COLUMNS, **columns),
        ReadErrors(skip=False),
        require_labels=require_labels,
    )
    return list(examples)


def error_message(task: str, data: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_all(task, data)
    assert "\n" not in str(caught.value)
    return str(caught.value)


ROWS = [{"text": 'He said "no",\nand left', "label": "1"}, {"text": "Ça va?", "label": "0"}]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".csv.gz", ".jsonl.zst"])
def test_all_table_formats_give_same_rows(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows{suffix}"
    if ".csv" in suffix:
        write_csv(tmp_path / "plain", ROWS)
    elif ".jsonl" in suffix:
        write_jsonl(tmp_path / "plain", ROWS)
    else:
        parquet.write_table(pa.Table.from_pylist(ROWS), tmp_path / "plain")
    content = (tmp_path / "plain").read_bytes()
    if suffix.endswith(".gz"):
        content = gzip.compress(content)
    if suffix.endswith(".zst"):
        with pa.CompressedOutputStream(str(file), "zstd") as compressed:
            compressed.write(content)
    else:
        file.write_bytes(content)
    examples = read_all("classify", file)
    assert [example.texts for example in examples] == [(row["text"],) for row in ROWS]
    assert [example.label for example in examples] == ["1", "0"]
    assert [example.example_id for example in examples] == ["0", "1"]


def test_tsv_ignores_quotes(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('\ufefftext\tlabel\n"unclosed\tx\nplain " inside\ty\n', encoding="utf-8")
    examples = read_all("classify", tmp_path / "a.tsv")
    assert [(example.texts[0], example.label) for example in examples] == [
        ('"unclosed', "x"),
        ('plain " inside', "y"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "task", "message"),
    [
        (
            "a.csv",
            "text,label\nx,1\ny\n",
            "classify",
            "a.csv, line 3: 1 cell, where the header has 2; fix it",
        ),
        (
            "a.csv",
            "te\0xt,label\nx,1\n",
            "classify",
            "line 1: not text in UTF-8 (perhaps UTF-16, or no text); convert it, as in: iconv -f UTF-16 -t",
        ),
        (
            "a.csv",
            "review,label\nx,1\n",
            "classify",
            "taken as column names, has review, label; name another with --text, or use --no-header",
        ),
        (
            "a.tsv",
            "a fine film\t1\ndull\t0\n",
            "classify",
            "its first line looks like data: a fine film, 1; use --no-header if the file does not name its",
        ),
        (
            "a.csv",
            "a fine film,1\n",
            "classify",
            "taken as column names, has a fine film, 1; name another with --text, or use --no-header",
        ),
        ("a.tsv", "a fine film\t1\n", "classify", "has a fine film, 1; name another with --text"),
        (
            "a.tsv",
            "1\t1\tx\n",
            "classify",
            "line 1: column 1 is repeated; rename one of them, or use --no-header",
        ),
        (
            "a.jsonl",
            '{"review": "x"}\n',
            "classify",
            "no column text; it has review; name another with --text",
        ),
        (
            "a.csv",
            "text,stars\nx,1\n",
            "regress",
            "a.csv: no column label; its first line, taken as column names, has text, stars; name another",
        ),
        (
            "a.csv",
            "question,text\nx,1\n",
            "span",
            "has question, text; name another with --context",
        ),
        ("a.csv", "a,b,label\nx,y,0\n", "choice", "has a, b, label; name another with --options"),
        (
            "a.tsv",
            "text;label\nx;1\n",
            "classify",
            "its first line is one cell, text;label: cells are separated by commas or semicolons in .csv",
        ),
        ("a.csv", "text;label\nx;4,5,6\n", "regress", "line 2: "),
        ("a.csv", "text,text\nx,1\n", "classify", "line 1: column text is repeated"),
        (
            "a.csv",
            "tex\x02,label\nx,1\n",
            "classify",
            "no column text; its first line, taken as column names, has tex\\U0",
        ),
        (
            "a.csv",
            'text,label\n"x,1\n',
            "classify",
            "line 2: invalid CSV (unexpected end of data); fix its quotes",
        ),
        ("a.csv", "text,label\nx,\n", "classify", "line 2: has no label"),
        ("a.csv", "text,label\nx, \n", "classify", "line 2: has no label"),
        ("a.jsonl", '{"text": "x", "label": NaN}\n', "classify", "line 1: has no label"),
        ("a.jsonl", '{"text": "x\\ud800", "label": 1}\n', "classify", "line 1: an unpaired surrogate"),
        ("a.jsonl", '{"options": ["x", "y"], "label": true}\n', "choice", "True names none of the 2 options"),
        (
            "a.jsonl",
            '{"options": ["x", "y"], "label": 2}\n',
            "choice",
            "2 options, whose numbers begin with 0",
        ),
        ("a.jsonl", '{"options": ["x", "y"], "label": 0.5}\n', "choice", "0.5 names none of the 2 options"),
        ("a.jsonl", '{"text": "x", "label": 1%s}\n' % ("0" * 400), "regress", "not a number"),
        (
            "a.jsonl",
            '{"question": "q", "context": "c", "answers": 7}\n',
            "span",
            "7, neither text nor a list",
        ),
        ("a.conll.gz", "x", "tag", "a.conll.gz: corrupt, or its suffix does not match"),
        ("a.conllu", "1\tEU\tEU\n", "tag", "line 1: 3 columns, where CoNLL-U has 10"),
        ("a.csv", "text,label\nx,warm\n", "regress", "line 2: column label holds warm, not a number"),
        ("a.csv", "text,label\nx,\n", "regress", "line 2: column label holds nothing, not a number"),
        ("a.csv", "text,label\nx,nan\n", "regress", "line 2: column label holds nan, not a finite number"),
        ("a.jsonl", '{"text": 3, "label": 1}\n', "classify", "line 1: column text holds int 3, not text"),
        ("a.jsonl", '{"text": "x", "label": 1}\n[]\n', "classify", "line 2: list [], not a record"),
        ("a.jsonl", '{"text": "x"\n', "classify", "line 1: not JSON"),
        ("a.xlsx", "x", "classify", "a.xlsx: a spreadsheet; save it as CSV in UTF-8"),
        ("a.parquet", "x", "classify", "a.parquet: damaged, or not Parquet"),
        ("a.parquet.gz", "x", "classify", "a.parquet.gz: compressed Parquet file; decompress it"),
        ("a.csv.gz", "x", "classify", "corrupt, or its suffix does not match"),
        (
            "a.jsonl",
            '{"text": ["a", "b"], "label": ["N"]}\n',
            "tag",
            "line 1: 2 words and 1 tag; each word needs a tag",
        ),
        ("a.conll", "EU N\nrejects\n", "tag", "line 2: a word without a tag"),
        (
            "a.conll",
            "In O\nNew York B-LOC\n",
            "tag",
            "line 2: 3 columns, where lines before it have a word and its tag; if words or tags have spaces",
        ),
        ("a.conll", "EU;B-ORG\n", "tag", "spaces or tabs separate columns, and this line has ;"),
        ("a.tsv", "EU\tB-ORG\nrejects\tO\n", "tag", "a word and its tag, rename the file to .conll"),
        ("a.conll", "\n\n", "tag", "no sentences"),
        (
            "a.jsonl",
            '{"data": {"text": "x"}, "label": 1}\n',
            "classify",
            "line 1: no column text; it has data, label; name another with --text",
        ),
        (
            "a.jsonl",
            '{"question": "q", "context": "c", "answers": []}\n{"question": "q", "context": "c"}\n',
            "span",
            "line 2: no column answers; if it is empty, write null",
        ),
        ("a.csv", "text,label\nx,$1\n", "regress", "numbers are read without currency signs"),
        (
            "a.jsonl",
            '{"options": ["x"], "label": 0}\n',
            "choice",
            "line 1: 1 options; there must be at least two",
        ),
        ("a.jsonl", '{"options": ["x", "y"], "label": "C"}\n', "choice", "C names none of the 2 options"),
        (
            "a.jsonl",
            '{"options": ["1", "0"], "label": "0"}\n',
            "choice",
            "0 is the text of an option, and the number of another",
        ),
        (
            "a.jsonl",
            '{"question": "q", "context": "Ida.", "answers": "Otto"}\n',
            "span",
            "line 1: its answer is not in the passage: Otto",
        ),
    ],
)
def test_errors_name_their_location(name: str, content: str, task: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert message in error_message(task, tmp_path / name)


def test_fields_of_an_object_are_not_read(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"data": {"text": "x"}, "label": 1}])
    with pytest.raises(InputError, match=r"no column data\.text; fields inside an object, such as data, are"):
        read_all("classify", tmp_path / "a.jsonl", text="data.text")


def test_utf_16_without_a_byte_order_mark(tmp_path: Path) -> None:
    for name in ("a.csv", "a.tsv", "a.jsonl"):
        (tmp_path / name).write_bytes('{"text": "x",\t"label": 1}\ny,1\n'.encode("utf-16-le"))
        with pytest.raises(InputError, match=r"line 1: not text in UTF-8 \(perhaps UTF-16"):
            read_all("classify", tmp_path / name, text="1", label="2", header=name == "a.jsonl")


def test_first_line_without_a_column_is_skipped(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"label": 1}, {"text": "x", "label": 1}])
    assert "a.jsonl, line 1: no column text" in error_message("classify", tmp_path / "a.jsonl")
    errors = ReadErrors(skip=True)
    read = partial(find_task("classify").read_examples, str(tmp_path / "a.jsonl"), "train")
    assert len(list(read(COLUMNS, errors, require_labels=True))) == 1
    assert errors.count == 1
    with pytest.raises(InputError, match=r"line 1: no column txt; it has label"):
        list(read(replace(COLUMNS, text="txt"), errors, require_labels=True))


def test_columns_without_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label,,\nx,1,,\n")
    assert [example.texts for example in read_all("classify", tmp_path / "a.csv")] == [("x",)]


def test_on_error_skip(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text,label\nx,1\ny\n\xff\xfe,2\nz,3\n")
    errors = ReadErrors(skip=True)
    examples = find_task("classify").read_examples(
        str(tmp_path / "a.csv"), "train", COLUMNS, errors, require_labels=True
    )
    assert [example.texts[0] for example in examples if isinstance(example, TextExample)] == ["x", "z"]
    assert errors.count == 2
    assert errors.messages[1].endswith("a.csv, line 4: not UTF-8")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "x", "label": 1}\n{"text": "y\n{"text": "z", "label": 1}\n'),
        ("a.jsonl", '{"text": "x", "label": 1}\n\n[]\n{"text": "z", "label": 1}\n'),
        ("a.csv", "text,label\nx,1\ny\nz,1\n"),
        ("a.tsv", "text\tlabel\nx\t1\n\udcff\t1\nz\t1\n"),
        ("a.conll", "x\tN\n\ny\n\nz\tN\n"),
    ],
)
def test_skipped_rows_shift_no_id(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8", errors="surrogateescape")
    errors = ReadErrors(skip=True)
    task = "tag" if name.endswith(".conll") else "classify"
    examples = find_task(task).read_examples(
        str(tmp_path / name), "train", COLUMNS, errors, require_labels=True
    )
    assert [example.example_id for example in examples] == ["0", "2"]
    assert errors.count == 1


def test_table_without_rows_has_no_examples(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n")
    assert read_all("classify", tmp_path / "a.csv") == []


def test_unlabeled_rows_are_skipped_in_training(tmp_path: Path) -> None:
    entries = [{"id": "1", "question": "q", "answers": []}, {"id": "2", "question": "q"}]
    squad = {"data": [{"paragraphs": [{"context": "Ida.", "qas": entries}]}]}
    file = tmp_path / "train-v2.0.json"
    file.write_text(json.dumps(squad))
    task = find_task("squad-2.0")
    with pytest.raises(InputError, match="question 1: has no label, which training and evaluation need; fix"):
        load_examples(task, str(file), "train", COLUMNS, require_labels=True)
    skipping = replace(COLUMNS, on_error="skip")
    (example,) = load_examples(task, str(file), "train", skipping, require_labels=True)
    assert example.example_id == "1"
    del entries[0]
    file.write_text(json.dumps(squad))
    for columns in (COLUMNS, skipping):
        with pytest.raises(
            InputError, match=r"train-v2.0.json: train has no labels; training and evaluation"
        ):
            load_examples(task, str(file), "train", columns, require_labels=True)


def test_custom_pairs_ids_and_numbers(tmp_path: Path) -> None:
    file = write_jsonl(
        tmp_path / "a.jsonl", [{"id": "x7", "a": "one", "b": "two", "score": 2.5, "kind": 1.0}]
    )
    (scored,) = read_all("regress", file, text="a", text_pair="b", label="score")
    assert scored == TextExample(f"{file}, line 1", "x7", ("one", "two"), value=2.5)
    (classified,) = read_all("classify", file, text="a", label="kind")
    assert classified.label == "1"


def test_conll(tmp_path: Path) -> None:
    content = "-DOCSTART- -X- O O\n\n# text = EU\nEU NNP B-ORG\nleaves VBZ O\n\n# NN O\n"
    (tmp_path / "a.conll").write_text(content)
    first, second = read_all("tag", tmp_path / "a.conll")
    assert (first.words, first.tags) == (("EU", "leaves"), ("B-ORG", "O"))
    assert (second.words, second.tags) == (("#",), ("O",))
    assert first.location.endswith("line 3")


def test_conll_with_tabs_may_have_spaces_in_words_and_tags(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("New York\tB-LOC\nran \t O\nIda\t\tB-DRUG NAME\n")
    (example,) = read_all("tag", tmp_path / "a.conll")
    assert example.words == ("New York", "ran", "Ida")
    assert example.tags == ("B-LOC", "O", "B-DRUG NAME")


def test_conll_document_line_without_a_tag(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("-DOCSTART-\n\nEU N\n")
    assert [example.words for example in read_all("tag", tmp_path / "a.conll")] == [("EU",)]


def test_conllu(tmp_path: Path) -> None:
    rest = "\t_" * 6
    lines = ["# newdoc", "# text = Ida vámonos", f"1\tIda\tIda\tPROPN{rest}", f"2-3\tvámonos\t_\t_{rest}"]
    lines += [f"2\tvamos\tir\tVERB{rest}", f"3\tnos\tnos\tPRON{rest}", f"3.1\tx\tx\tX{rest}", ""]
    (tmp_path / "a.conllu").write_text("\n".join(lines), encoding="utf-8")
    (example,) = read_all("tag", tmp_path / "a.conllu")
    assert (example.words, example.tags) == (("Ida", "vamos", "nos"), ("PROPN", "VERB", "PRON"))


def test_conll_word_with_no_break_space(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("10\u00a0000\tB-N\n", encoding="utf-8")
    (example,) = read_all("tag", tmp_path / "a.conll")
    assert example.words == ("10\u00a0000",)


def test_several_words_per_line_of_txt_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two three\n")
    with pytest.raises(InputError, match="line 1: several words; give one word per line"):
        read_all("tag", tmp_path / "a.txt", "test", require_labels=False)


def test_quoted_header_after_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes('\ufeff"text","label"\n"x","1"\n'.encode())
    (example,) = read_all("classify", tmp_path / "a.csv")
    assert example.texts == ("x",)


def test_official_task_accepts_a_table(tmp_path: Path) -> None:
    rows = [{"question": "Who?", "context": "Ida.", "answers": ["Ida"]}]
    (example,) = read_all("squad-1.1", write_jsonl(tmp_path / "a.jsonl", rows))
    assert example.answers == (AnswerText("Ida", 0),)


def test_custom_multiple_choice(tmp_path: Path) -> None:
    rows = [
        {"q": "Which?", "a": "x", "b": "y", "right": "B"},
        {"q": "And?", "a": "x", "b": "y", "right": "x"},
    ]
    examples = read_all(
        "choice", write_csv(tmp_path / "a.csv", rows), question="q", options="a, b", label="right"
    )
    assert [(example.question, example.options, example.correct_option) for example in examples] == [
        ("Which?", ("x", "y"), 1),
        ("And?", ("x", "y"), 0),
    ]


@pytest.mark.parametrize("setting", ["question", "context"])
def test_named_columns_of_multiple_choice_must_exist(setting: str, tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", [{"options": ["x", "y"], "label": 0}])
    (example,) = read_all("choice", file)
    assert (example.question, example.context) == ("", "")
    columns: dict[str, Any] = {setting: "premise"}
    message = f"a.jsonl, line 1: no column premise; it has options, label; name another with --{setting}"
    with pytest.raises(InputError, match=message):
        read_all("choice", file, **columns)


@pytest.mark.parametrize("setting", ["question", "context"])
def test_options_alone_give_a_message(
    setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"options": ["x", "y"], "label": 0}, {"options": ["x", "y"], "label": 0, setting: "Which?"}]
    for number, count in ((1, 1), (2, 0)):
        data = write_jsonl(tmp_path / f"{number}.jsonl", rows[:number])
        load_examples(find_task("choice"), str(data), "train", COLUMNS, require_labels=True)
        assert capsys.readouterr().err.count("no example has a passage or a question") == count


def test_custom_span_extraction(tmp_path: Path) -> None:
    passage = "Ida has the key. Otto has no key."
    rows: list[dict[str, Any]] = [
        {"question": "Who?", "context": passage, "answers": ["Ida"]},
        {"question": "What?", "context": passage, "answers": {"text": ["key"], "answer_start": [29]}},
        {"question": "When?", "context": passage, "answers": []},
        {"question": "Where?", "context": passage, "answers": ""},
    ]
    examples = read_all("span", write_jsonl(tmp_path / "a.jsonl", rows))
    assert [example.answers for example in examples] == [
        (AnswerText("Ida", 0),),
        (AnswerText("key", 29),),
        (),
        (),
    ]


@pytest.mark.parametrize(
    "task", [name for name in TASK_NAMES if name != "dream" and find_task(name).is_official]
)
def test_official_layouts(task: str, world: Path) -> None:
    for split in ("train", "dev", "test"):
        if task.startswith("squad") and split == "test":
            continue
        has_labels = split != "test"
        for split_name in find_task(task).split_names(split, str(world)):
            examples = read_all(task, world, split_name, require_labels=has_labels)
            assert len(examples) >= 20
            for example in examples:
                check_official_example(task, example, has_labels=has_labels)


def check_official_example(task: str, example: Example, *, has_labels: bool) -> None:
    labels = find_task(task).labels
    match example:
        case TextExample():
            if has_labels:
                assert example.label in labels if labels else example.value is not None
            else:
                assert not example.is_labeled
            assert all(example.texts)
        case MultipleChoiceExample():
            assert len(example.options) == 4
            assert example.group in ("middle", "high")
            assert example.correct_option is not None
        case QuestionExample():
            for answer in example.answers or ():
                assert example.context[answer.start : answer.start + len(answer.text)] == answer.text
        case TaggedExample():
            raise AssertionError


def test_only_squad_2_has_unanswerable_questions(world: Path) -> None:
    assert all(example.answers for example in read_all("squad-1.1", world, "dev"))
    assert any(example.answers == () for example in read_all("squad-2.0", world, "dev"))


@pytest.mark.parametrize(
    ("task", "file", "content", "message"),
    [
        ("cola", "train.tsv", "a\t2\t\tx\n", "its label is 2; the labels of CoLA are 0, 1"),
        (
            "sst-2",
            "train.tsv",
            "text\tlabel\nx\t1\n",
            "no column sentence; its first line, taken as column names, has text, label; add a line",
        ),
        (
            "sst-2",
            "train.tsv",
            "a fine film\t1\n",  # a header is expected, so this is no row
            "no column sentence; its first line, taken as column names, has a fine film, 1; add a line",
        ),
        ("sst-2", "train.tsv", "sentence\tsentiment\nx\t1\n", "no column label; its first line"),
        ("rte", "other.tsv", "", "must name the folder RTE of GLUE"),
        ("squad-1.1", "train-v1.1.json", "[]", "not a file of SQuAD"),
        ("squad-1.1", "train-v1.1.json", '{"data": [{}]}', "article 0: has no list paragraphs"),
        (
            "squad-2.0",
            "train-v2.0.json",
            json.dumps(
                {
                    "data": [
                        {
                            "paragraphs": [
                                {
                                    "context": "Ida.",
                                    "qas": [
                                        {
                                            "id": "1",
                                            "question": "q",
                                            "answers": [{"text": "Ida", "answer_start": 1}],
                                        }
                                    ],
                                }
                            ]
                        }
                    ]
                }
            ),
            "question 0: its answer is not in the passage, at 1: Ida",
        ),
        ("dream", "train.json", "[[1]]", "dialogue 0: not a dialogue of DREAM"),
        (
            "race",
            "train/middle/1.txt",
            '{"article": "x", "questions": ["a"], "options": []}',
            "as many options",
        ),
        ("race", "x", "", "no files of RACE"),
    ],
)
def test_malformed_official_files(task: str, file: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(content)
    assert message in error_message(task, tmp_path)


def test_dream_layout(tmp_path: Path) -> None:
    dialogue = [
        ["M: Where is it?", "W: In the box."],
        [{"question": "Where?", "choice": ["In a box.", "Gone."], "answer": "In a box."}],
        "5-1",
    ]
    (tmp_path / "dev.json").write_text(json.dumps([dialogue]))
    (example,) = read_all("dream", tmp_path, "dev")
    assert example.context == "M: Where is it? W: In the box."
    assert (example.correct_option, example.example_id) == (0, "5-1-0")


def test_hub_datasets(tmp_path: Path) -> None:
    """Read a folder in place of a data set of the hub, with the columns of GLUE there."""
    write_jsonl(
        tmp_path / "set" / "validation.jsonl",
        [
            {"sentence1": "a", "sentence2": "b", "label": 1, "idx": 7},
            {"sentence1": "c", "sentence2": "d", "label": 0, "idx": 8},
        ],
    )
    examples = read_all("mrpc", Path(f"hub:{tmp_path / 'set'}:default"), "dev")
    assert [(example.example_id, example.texts, example.label) for example in examples] == [
        ("7", ("a", "b"), "1"),
        ("8", ("c", "d"), "0"),
    ]
    custom = read_all("classify", Path(f"hub:{tmp_path / 'set'}::validation"), text="sentence1")
    assert [example.label for example in custom] == ["1", "0"]


@pytest.mark.parametrize(
    ("task", "rows", "class_names", "messages"),
    [
        (
            "mrpc",
            [{"sentence1": None, "label": 1}, {"label": 7}],
            [],
            ["column sentence1 holds nothing, not text", "its label is 7; the labels of MRPC are 0, 1"],
        ),
        ("sts-b", [{"label": "warm"}], [], ["column label holds warm, not a number"]),
        (
            "rte",
            [{"label": 7}, {"label": "x"}],
            ["entailment", "not_entailment"],
            ["its label is int 7; expected 0 to 1", "its label is x; expected 0 to 1"],
        ),
    ],
)
def test_invalid_hub_rows_of_glue_are_skipped(
    task: str,
    rows: list[dict[str, Any]],
    class_names: list[str],
    messages: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = {"sentence1": "a", "sentence2": "b"}
    records = [
        TableRow(f"row {number}", number, texts | cells) for number, cells in enumerate([*rows, {"label": 1}])
    ]
    monkeypatch.setattr(glue, "read_rows", lambda *_: records)
    monkeypatch.setattr(glue, "class_names", lambda *_: class_names)
    errors = ReadErrors(skip=True)
    (example,) = find_task(task).read_examples("hub:x", "dev", COLUMNS, errors, require_labels=True)
    assert example.example_id == str(len(rows))
    assert example.is_labeled
    assert errors.messages == [f"row {number}: {message}" for number, message in enumerate(messages)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (None, "needs article, question and four options, all texts"),
        ("ab", "needs article, question and four options, all texts"),
        (["a", "b", "c", None], "needs article, question and four options, all texts"),
        (["a", "b", "c"], "3 options, where RACE has 4"),
    ],
)
def test_invalid_hub_rows_of_race_are_skipped(
    options: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = {"article": "x", "question": "q", "answer": "B"}
    rows = [
        TableRow("row 0", 0, {**cells, "options": options}),
        TableRow("row 1", 1, {**cells, "options": ["a", "b", "c", "d"]}),
    ]
    monkeypatch.setattr(race, "read_rows", lambda *_: rows)
    errors = ReadErrors(skip=True)
    examples = list(find_task("race").read_examples("hub:x", "dev", COLUMNS, errors, require_labels=True))
    assert [(example.example_id, example.is_labeled) for example in examples] == [
        ("middle1", True),
        ("high1", True),
    ]
    assert errors.messages == [f"row 0: {message}"] * 2


def test_answer_of_dream_that_two_options_have(tmp_path: Path) -> None:
    question = {"question": "q", "choice": ["a", "a", "b"], "answer": "a"}
    (tmp_path / "dev.json").write_text(json.dumps([[["M: Hi."], [question], "5"]]))
    with pytest.raises(InputError, match="its answer a is the text of several options"):
        read_all("dream", tmp_path, "dev")


def test_hidden_files_of_race_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "train/middle").mkdir(parents=True)
    (tmp_path / "train/middle/1.txt").write_text(json.dumps(RACE_ARTICLE))
    (tmp_path / "train/middle/._1.txt").write_bytes(b"\0\x05")
    assert len(read_all("race", tmp_path)) == 1


def test_paragraph_of_squad_without_questions_is_skipped(tmp_path: Path) -> None:
    paragraphs = [{"context": "Ida."}, {"context": "Ida.", "qas": [{"id": "1", "question": "q"}]}]
    (tmp_path / "train-v1.1.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    errors = ReadErrors(skip=True)
    read = find_task("squad-1.1").read_examples
    assert len(list(read(str(tmp_path), "train", COLUMNS, errors, require_labels=False))) == 1
    assert "paragraph 0: has no list qas" in errors.messages[0]


def test_invalid_questions_of_dream_are_skipped_one_by_one(tmp_path: Path) -> None:
    valid = {"question": "q", "choice": ["a", "b"], "answer": "b"}
    invalid = [{"question": "q", "choice": "ab", "answer": "a"}, "q", {**valid, "answer": "c"}]
    (tmp_path / "dev.json").write_text(json.dumps([[["M: Hi."], [*invalid, valid], "5"]]))
    errors = ReadErrors(skip=True)
    (example,) = find_task("dream").read_examples(str(tmp_path), "dev", COLUMNS, errors, require_labels=True)
    assert example.example_id == "5-3"
    assert errors.count == 3
    assert errors.messages[0].endswith("question 0: needs a text `question` and a list of texts `choice`")


def test_mnli_test_includes_diagnostic_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("MNLI", "AX"):
        (tmp_path / folder).mkdir()
    assert find_task("mnli").split_names("test", str(tmp_path)) == ("test_matched", "test_mismatched")
    (tmp_path / "AX/AX.tsv").write_text("index\tsentence1\tsentence2\n0\ta\tb\n")
    assert find_task("mnli").split_names("test", str(tmp_path))[2:] == ("diagnostic",)
    monkeypatch.chdir(tmp_path)  # a data set of the hub has no such part
    assert find_task("mnli").split_names("test", "hub:glue")[2:] == ()
    (example,) = read_all("mnli", tmp_path, "diagnostic", require_labels=False)
    assert example.texts == ("a", "b")


def test_unknown_task_error_suggests_a_similar_name() -> None:
    with pytest.raises(InputError, match=r"--task colla: unknown \(did you mean cola\?\)"):
        find_task("colla")


def write_parquet(file: Path, **columns: Any) -> Path:
    parquet.write_table(pa.table(columns), file)
    return file


INVALID_TEXT = pa.array([b"x", b"\xff"], pa.binary()).view(pa.string())
FAR_DATES = pa.array([0, 3_000_000], pa.int32()).view(pa.date32())
LONG_DURATIONS = pa.array([0, 2**62], pa.int64()).view(pa.duration("s"))
NANOSECONDS = pa.array([0, 1], pa.int64()).view(pa.timestamp("ns", "Nowhere/City"))


@pytest.mark.parametrize("column", [INVALID_TEXT, FAR_DATES, LONG_DURATIONS, NANOSECONDS])
def test_unreadable_values_of_parquet_matter_only_in_columns_that_are_used(
    tmp_path: Path, column: Any
) -> None:
    file = write_parquet(tmp_path / "a.parquet", text=["x", "y"], label=["0", "1"], other=column)
    assert [example.label for example in read_all("classify", file)] == ["0", "1"]
    with pytest.raises(InputError, match=r"a.parquet, row [01]: column other: .*; fix it, or use --on-error"):
        read_all("classify", file, label="other")


def test_unreadable_rows_of_parquet_are_skipped(tmp_path: Path) -> None:
    texts = pa.array([b"x", b"\xff", b"z"], pa.binary()).view(pa.string())
    file = write_parquet(tmp_path / "a.parquet", text=texts, label=["0", "1", "2"])
    errors = ReadErrors(skip=True)
    task = find_task("classify")
    examples = list(task.read_examples(str(file), "train", COLUMNS, errors, require_labels=True))
    assert [example.example_id for example in examples] == ["0", "2"]
    assert errors.messages == [f"{file}, row 1: column text: not UTF-8"]


def test_missing_column_of_parquet(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "a.parquet", review=["x"], label=["0"])
    assert "no column text; it has review, label; name another" in error_message("classify", file)


SURROGATE = "\ud800"


@pytest.mark.parametrize(
    ("task", "record", "message"),
    [
        ("classify", {"id": SURROGATE, "text": "x", "label": 1}, "an unpaired surrogate"),
        ("classify", {"text": "x", "label": SURROGATE}, "an unpaired surrogate"),
        (
            "classify",
            {"text": "x", "label": {"a": 1}},
            "its label is object {'a': 1}, expected text or a number",
        ),
        (
            "classify",
            {"text": {"a": 1}, "label": 1},
            "column text holds object {'a': 1}, not text; give the field",
        ),
        ("regress", {"text": "x", "label": [1]}, "column label holds list [1], not a number"),
        ("tag", {"text": ["x"], "label": [1]}, "column label holds no list of texts"),
        ("tag", {"text": {"x": 1}, "label": ["N"]}, "column text holds no list of texts"),
        ("tag", {"text": [SURROGATE], "label": ["N"]}, "an unpaired surrogate"),
        ("choice", {"context": ["x"], "options": ["x", "y"], "label": 0}, "column context holds list ['x']"),
        (
            "choice",
            {"question": 5, "options": ["x", "y"], "label": 0},
            "column question holds int 5, not text",
        ),
        ("choice", {"question": SURROGATE, "options": ["x", "y"], "label": 0}, "an unpaired surrogate"),
        ("choice", {"options": "[" * 100_000, "label": 0}, "column options holds no list"),
        ("choice", {"options": ["x", "y"], "label": {}}, "object {} names none of the 2 options"),
        ("span", {"question": "q", "context": "c", "answers": True}, "bool True, neither text nor a list"),
        (
            "span",
            {"question": "q", "context": "ab", "answers": [{"text": "b", "answer_start": True}]},
            "its answer is not in the passage, at bool True: b",
        ),
        (
            "span",
            {"question": "q", "context": "ab", "answers": [{"text": "b", "answer_start": 10**4000}]},
            "its answer is not in the passage, at 1000",
        ),
        ("span", {"question": "q", "context": "c", "answers": [{"text": [1]}]}, "has an answer without text"),
    ],
)
def test_values_of_another_type_are_refused(
    task: str, record: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    text = error_message(task, tmp_path / "a.jsonl")
    assert f"line 1: {message}" in text or message in text
    assert len(text) < 500


RACE_ARTICLE = {"article": "t", "questions": ["q"], "options": [["a", "b", "c", "d"]], "answers": ["A"]}


@pytest.mark.parametrize("value", [5, None, True, "text", {}, [], [5], [[5]], [SURROGATE], "[" * 100_000])
@pytest.mark.parametrize("key", RACE_ARTICLE)
def test_race_of_another_type_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    file = tmp_path / "train" / "high" / "1.txt"
    file.parent.mkdir(parents=True)
    text = json.dumps(RACE_ARTICLE | {key: value}).replace(f'"{"[" * 100_000}"', "[" * 100_000)
    file.write_text(text)
    if (key, value) == ("article", "text"):
        assert len(read_all("race", tmp_path)) == 1
    else:
        assert "1.txt" in error_message("race", tmp_path)


@pytest.mark.parametrize("value", [5, None, True, "text", {}, [5], [[5]], SURROGATE])
@pytest.mark.parametrize(
    "key", ["data", "paragraphs", "context", "qas", "question", "id", "answers", "is_impossible"]
)
def test_squad_of_another_type_is_refused_or_harmless(tmp_path: Path, key: str, value: Any) -> None:
    question = {"question": "q", "id": "1", "answers": [{"text": "b", "answer_start": 1}]}
    question |= {"is_impossible": False} | ({key: value} if key in question else {})
    if key == "is_impossible":
        question["is_impossible"] = value
    paragraph = {"context": "abc", "qas": [question]}
    paragraph |= {key: value} if key in paragraph else {}
    article = {"paragraphs": value if key == "paragraphs" else [paragraph]}
    (tmp_path / "a.json").write_text(json.dumps({"data": value if key == "data" else [article]}))
    harmless = {
        ("question", "text"), ("id", "text"), ("id", "5"), ("id", "True"), ("answers", "None"),
        ("is_impossible", "None"), ("is_impossible", "True"),
    }  # fmt: skip
    if (key, str(value)) in harmless:
        (example,) = read_all("squad-2.0", tmp_path / "a.json")
        example.example_id.encode()
    else:
        assert "a.json" in error_message("squad-2.0", tmp_path / "a.json")


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("value", [5, None, "ab", {"a": 1}, [5], SURROGATE])
def test_dream_of_another_type_is_refused(tmp_path: Path, index: int, value: Any) -> None:
    question = {"question": "q", "choice": ["a", "b"], "answer": "a"}
    dialogue: list[Any] = [["W: x"], [question], "1-2"]
    dialogue[index] = value
    (tmp_path / "train.json").write_text(json.dumps([dialogue]))
    if index == 2 and value in (5, "ab"):
        assert len(read_all("dream", tmp_path)) == 1
    else:
        assert "train.json, dialogue 0" in error_message("dream", tmp_path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".conll", ".csv.gz", ".jsonl.zst"])
def test_long_rows_are_refused(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tables, delimited, conll):
        monkeypatch.setattr(module, "MAX_ROW_BYTES", 1000)
    separator = "," if "csv" in suffix else "\t"
    rows = [["text", "label"], ["x", "0"], ["y" * 1000, "1"], ["z", "2"]]
    text = "\n".join(separator.join(row) for row in rows)
    if "jsonl" in suffix:
        text = "\n".join(json.dumps({"text": a, "label": b}) for a, b in rows)
    file = tmp_path / f"a{suffix}"
    if suffix.endswith(".zst"):
        with pa.CompressedOutputStream(str(file), "zstd") as compressed:
            compressed.write(text.encode())
    else:
        file.write_bytes(gzip.compress(text.encode()) if suffix.endswith(".gz") else text.encode())
    task = "tag" if suffix == ".conll" else "classify"
    assert re.search("line 3: a (row|line) of more than", error_message(task, file))
    if ".csv" in suffix:  # where the next row begins depends on the quotes
        return
    errors = ReadErrors(skip=True)
    examples = list(find_task(task).read_examples(str(file), "train", COLUMNS, errors, require_labels=True))
    assert errors.count == 1
    if task == "classify":
        assert [example.example_id for example in examples][-1] == ("3" if "jsonl" in suffix else "2")


def test_unclosed_quote_is_found_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "MAX_ROW_BYTES", 1000)
    (tmp_path / "a.csv").write_text('text,label\nx,"1\n' + "y,2\n" * 1000)
    message = error_message("classify", tmp_path / "a.csv")
    assert "line 2: a row of more than 16 MiB; close its quotes, or shorten it" in message


def test_long_texts_are_refused_or_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_TEXT_BYTES", 1 << 20)
    file = write_jsonl(
        tmp_path / "a.jsonl", [{"text": "é" * (1 << 19) + end, "label": 1} for end in ("", "x")]
    )
    assert "line 2: a text of more than 1 MiB; shorten it" in error_message("classify", file)
    parquet_file = write_parquet(tmp_path / "a.parquet", text=["é" * (1 << 20)], label=["1"])
    assert "row 0: a text of more than 1 MiB" in error_message("classify", parquet_file)


def test_long_sentence_of_conll_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conll, "MAX_TEXT_BYTES", 100)
    (tmp_path / "a.conll").write_text("EU N\n\n" + "x N\n" * 50)
    assert "line 36: a sentence of more than" in error_message("tag", tmp_path / "a.conll")


@pytest.mark.parametrize("task", ["squad-1.1", "dream"])
def test_long_json_file_is_refused(tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"data": "' + b"a" * 1000))
    monkeypatch.setattr(json_input, "MAX_JSON_BYTES", 1000)
    assert "a.json.gz: JSON of more than 0 MiB; divide it" in error_message(task, tmp_path / "a.json.gz")


def test_wide_table_is_read_in_linear_time(tmp_path: Path) -> None:
    names = ["text", "label", *map(str, range(100_000))]
    (tmp_path / "a.csv").write_text("\n".join([",".join(names), ",".join("x" for _ in names)]))
    started = time.process_time()
    assert len(read_all("classify", tmp_path / "a.csv")) == 1
    (tmp_path / "a.csv").write_text(",".join(names[1:]) + "\n" + ",".join("x" for _ in names[1:]))
    assert "no column text" in error_message("classify", tmp_path / "a.csv")
    assert time.process_time() - started < 10


def test_long_texts_are_processed_one_by_one() -> None:
    examples = [
        TextExample("", str(index), ("x" * length,)) for index, length in enumerate([1, 3 << 20, 2, 3, 4])
    ]
    chunks = list(example_chunks(examples, 2))
    assert [[example.length for example in chunk] for chunk in chunks] == [[1], [3 << 20], [2, 3], [4]]


@pytest.mark.parametrize("line", [1, 2])
def test_a_table_in_latin_1_gets_the_command_that_converts_it(tmp_path: Path, line: int) -> None:
    file = tmp_path / "a.csv"
    header, row = ("täxt,label\n", "x,1\n") if line == 1 else ("text,label\n", "ä,1\n")
    file.write_bytes((header + row).encode("latin-1"))
    message = rf"a.csv, line {line}: not UTF-8.*; find .* as in: iconv -f ENCODING -t UTF-8"
    with pytest.raises(InputError, match=message):
        list(tables.read_rows(str(file), ReadErrors(skip=False)))


def test_csv_with_semicolons(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('\ufefftext;label\n"Ja; nein, ""doch""";b\nGut, wirklich;a\n', "utf-8")
    assert [(example.texts[0], example.label) for example in read_all("classify", file)] == [
        ('Ja; nein, "doch"', "b"),
        ("Gut, wirklich", "a"),
    ]
    file.write_text('text;"Score, 1-5";label\nx;5;1\n', "utf-8")
    assert read_all("classify", file)[0].label == "1"
    file.write_text("x;1\ny;0\n", "utf-8")
    with pytest.raises(InputError, match=r"no column 2; each row is one cell\. Semicolons separate"):
        read_all("classify", file, text="1", label="2", header=False)
    # A comma in the column names decides, and without column names, semicolons belong to the text.
    file.write_text("text,a;b\nx; y,1\n", "utf-8")
    assert read_all("classify", file, label="a;b")[0].texts == ("x; y",)
    file.write_text("\n\ntext;label\nx;1\n", "utf-8")
    (example,) = read_all("classify", file)
    assert (example.location, example.texts) == (f"{file}, line 4", ("x",))
    file.write_text("I came; I saw\n", "utf-8")
    (example,) = read_all("classify", file, require_labels=False, text="1", header=False)
    assert example.texts == ("I came; I saw",)


def test_a_first_line_declares_the_separator(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("\ufeffsep=;\r\ntext;label\r\nx, y;1\r\n", "utf-8")
    (example,) = read_all("classify", file)
    assert (example.location, example.texts) == (f"{file}, line 3", ("x, y",))
    file.write_text("SEP=;\nx, y;1\n", "utf-8")
    (example,) = read_all("classify", file, text="1", label="2", header=False)
    assert (example.texts, example.label) == (("x, y",), "1")
    file.write_text("sep=\t\r\ntext\tlabel\r\nx, y\t1\r\n", "utf-8")
    assert read_all("classify", file)[0].texts == ("x, y",)
    file.write_text("sep=,\ntext,a;b\nx; y,1\n", "utf-8")
    assert read_all("classify", file, label="a;b")[0].texts == ("x; y",)


def test_decimal_commas_of_spreadsheets(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text;label\nx;3,5\ny;-0,125\nz;4\n", "utf-8")
    assert [example.value for example in read_all("regress", file)] == [3.5, -0.125, 4]
    file.write_text("text;label\nx;3.5\ny;0.125\n", "utf-8")
    assert [example.value for example in read_all("regress", file)] == [3.5, 0.125]
    for first, second, name in (("3,5", "1.234", "commas"), ("1.234", "3,5", "points")):
        file.write_text(f"text;label\nx;{first}\ny;{second}\n", "utf-8")
        with pytest.raises(InputError, match=f"line 3: column label holds {second}, below .* decimal {name}"):
            read_all("regress", file)
    file.write_text("text;label\nx;1.234,5\n", "utf-8")
    with pytest.raises(InputError, match=r"holds 1\.234,5, not a number"):
        read_all("regress", file)
    file.write_text('text,label\nx,"1,234"\n', "utf-8")  # perhaps thousands
    with pytest.raises(InputError, match="holds 1,234, not a number; write it with a point"):
        read_all("regress", file)
