"""Tests of the readers: examples of every layout, and error messages with a location."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from albertine.errors import InputError
from albertine.tasks.examples import (
    AnswerText,
    Example,
    MultipleChoiceExample,
    QuestionExample,
    TaggedExample,
    TextExample,
)
from albertine.tasks.registry import TASK_NAMES, find_task
from albertine.tasks.settings import DataSettings
from albertine.text.documents import ReadErrors
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
            "a.csv, line 3: 1 cells, where the header has 2; fix it",
        ),
        ("a.csv", "te\0xt,label\nx,1\n", "classify", "line 1: not text in UTF-8; save the table as UTF-8"),
        ("a.csv", "review,label\nx,1\n", "classify", "it has review, label; name another with --text"),
        (
            "a.csv",
            "text,stars\nx,1\n",
            "regress",
            "a.csv: no column label; it has text, stars; name another with --label",
        ),
        (
            "a.csv",
            "question,text\nx,1\n",
            "span",
            "it has question, text; name another with --context",
        ),
        ("a.csv", "a,b,label\nx,y,0\n", "choice", "it has a, b, label; name another with --options"),
        (
            "a.csv",
            "text;label\nx;1\n",
            "classify",
            "its first line is one cell, text;label: cells are separated by commas",
        ),
        ("a.csv", "text,text\nx,1\n", "classify", "line 1: column text occurs twice"),
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
        ("a.csv", "text,label\nx,nan\n", "regress", "line 2: column label holds nan, not a finite number"),
        ("a.jsonl", '{"text": 3, "label": 1}\n', "classify", "line 1: column text holds int 3, not text"),
        ("a.jsonl", '{"text": "x", "label": 1}\n[]\n', "classify", "line 2: list [], not a record"),
        ("a.jsonl", '{"text": "x"\n', "classify", "line 1: not JSON"),
        ("a.xlsx", "x", "classify", "a.xlsx: unsupported format"),
        ("a.parquet", "x", "classify", "a.parquet: not a complete Parquet file"),
        ("a.csv.gz", "x", "classify", "corrupt, or its suffix does not match"),
        ("a.jsonl", '{"text": ["a", "b"], "label": ["N"]}\n', "tag", "line 1: 2 words and 1 tags"),
        ("a.conll", "EU N\nrejects\n", "tag", "line 2: a word without a tag"),
        ("a.conll", "\n\n", "tag", "no sentences"),
        (
            "a.jsonl",
            '{"options": ["x"], "label": 0}\n',
            "choice",
            "line 1: 1 options; there must be at least two",
        ),
        ("a.jsonl", '{"options": ["x", "y"], "label": "C"}\n', "choice", "C names none of the 2 options"),
        (
            "a.jsonl",
            '{"question": "q", "context": "Ida.", "answers": "Otto"}\n',
            "span",
            "line 1: its answer is not in the passage, at -1: Otto",
        ),
    ],
)
def test_errors_name_their_location(name: str, content: str, task: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert message in error_message(task, tmp_path / name)


def test_on_error_skip(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text,label\nx,1\ny\n\xff\xfe,2\nz,3\n")
    errors = ReadErrors(skip=True)
    examples = find_task("classify").read_examples(
        str(tmp_path / "a.csv"), "train", COLUMNS, errors, require_labels=True
    )
    assert [example.texts[0] for example in examples if isinstance(example, TextExample)] == ["x", "z"]
    assert errors.count == 2
    assert errors.locations[1].endswith("a.csv, line 4: not UTF-8")


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
                assert not example.is_labelled
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
            "no column sentence, which SST-2 needs; it has text, label",
        ),
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


def test_mnli_test_includes_diagnostic_set(tmp_path: Path) -> None:
    for folder in ("MNLI", "AX"):
        (tmp_path / folder).mkdir()
    assert find_task("mnli").split_names("test", str(tmp_path)) == ("test_matched", "test_mismatched")
    (tmp_path / "AX/AX.tsv").write_text("index\tsentence1\tsentence2\n0\ta\tb\n")
    assert find_task("mnli").split_names("test", str(tmp_path))[2:] == ("diagnostic",)
    (example,) = read_all("mnli", tmp_path, "diagnostic", require_labels=False)
    assert example.texts == ("a", "b")


def test_unknown_task_error_suggests_a_similar_name() -> None:
    with pytest.raises(InputError, match=r"--task colla: unknown \(did you mean cola\?\)"):
        find_task("colla")
