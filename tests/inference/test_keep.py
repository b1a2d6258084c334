"""Tests of `albertine predict --keep`: the columns of the input in the table of predictions."""

import csv
import datetime
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.task_fixtures import save_untrained_model, write_csv, write_jsonl, write_squad

from albertine.errors import InputError
from albertine.inference.predict import predict
from albertine.inference.settings import PredictSettings
from albertine.settings import HeadSettings
from albertine.tasks import examples as examples_module
from albertine.tasks.card import TaskCard
from albertine.tasks.examples import TextExample, example_chunks

ROWS: list[dict[str, Any]] = [
    {"id": 7, "when": "2024", "review": "ka lo", "note": 'a,b\t"', "tags": ["x", "y"], "more": {"n": [None]}},
    {"id": None, "when": None, "review": "mi", "note": "  two  spaces ", "tags": [], "more": {}},
    {"id": "q", "when": "é", "review": "lo", "note": "", "tags": None, "more": {"deep": {"er": True}}},
]  # fmt: skip
PREDICTION = {"label", "probability", "probabilities"}


@pytest.fixture(scope="module")
def model(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained model that classifies reviews."""
    card = TaskCard(
        "classify", "classify", ("red", "blue"), ("accuracy",), max_length=64, columns={"text": "review"}
    )
    folder = tmp_path_factory.mktemp("keep") / "model"
    return save_untrained_model(folder, checkpoint, HeadSettings("classify", labels=2), card)


def run(model: Path, data: Path, out: Path, keep: str | None, **settings: Any) -> Path:
    predict(model, PredictSettings(data=str(data), keep=keep, device="cpu", **settings), out)
    return out


def error(model: Path, data: Path, out: Path, keep: str, **settings: Any) -> str:
    with pytest.raises(InputError) as raised:
        run(model, data, out, keep, **settings)
    assert not out.exists()
    return str(raised.value)


def json_lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_json_values_keep_their_type(model: Path, tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "a.jsonl", ROWS)
    plain = json_lines(run(model, data, tmp_path / "plain.jsonl", None))
    kept = json_lines(run(model, data, tmp_path / "all.jsonl", "all"))
    for number, (row, line, plain_line) in enumerate(zip(ROWS, kept, plain, strict=True)):
        assert {key: value for key, value in line.items() if key in PREDICTION} == {
            key: value for key, value in plain_line.items() if key in PREDICTION
        }
        values = {key: value for key, value in line.items() if key not in PREDICTION}
        assert values == (row if row["id"] is not None else {**row, "id": str(number)})
        assert list(line) == ["id", *list(row)[1:], "label", "probability", "probabilities"]
    some = json_lines(run(model, data, tmp_path / "some.jsonl", "more,when"))
    assert [list(line)[:3] for line in some] == [["id", "more", "when"]] * 3
    assert [line["more"] for line in some] == [row["more"] for row in ROWS]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_cells_are_unchanged(suffix: str, model: Path, tmp_path: Path) -> None:
    rows = [{"note": row["note"].replace("\t", " "), "review": row["review"]} for row in ROWS]
    data = tmp_path / f"a{suffix}"
    if suffix == ".csv":
        write_csv(data, rows)
    else:
        data.write_text("note\treview\n" + "".join("\t".join(row.values()) + "\n" for row in rows))
    for out_suffix in (".csv", ".tsv"):
        out = run(model, data, tmp_path / f"out{out_suffix}", "note,review")
        lines = out.read_text(encoding="utf-8").splitlines()
        if out_suffix == ".csv":
            header, *cells = list(csv.reader(lines))
        else:
            header, *cells = [line.split("\t") for line in lines]
        assert header == ["id", "note", "review", "label", "probability"]
        assert [row[1:3] for row in cells] == [list(row.values()) for row in rows]
    data = write_jsonl(tmp_path / "b.jsonl", ROWS)
    out = run(model, data, tmp_path / "b.csv", "all")
    cells = list(csv.reader(out.read_text(encoding="utf-8").splitlines()))
    assert cells[0] == ["id", "when", "review", "note", "tags", "more", "label", "probability"]
    assert [row[0] for row in cells[1:]] == ["7", "1", "q"]
    assert cells[1][4:6] == ['["x", "y"]', '{"n": [null]}']
    assert cells[2][1] == cells[3][4] == ""


def test_parquet(model: Path, tmp_path: Path) -> None:
    rows = [
        {
            "review": "ka",
            "n": number,
            "score": math.nan if number else 0.5,
            "price": Decimal("1.50"),
            "at": datetime.datetime(2024, 5, 1, 12, 30),
            "day": datetime.date(2024, 5, 1),
            "picture": b"\x00",
        }
        for number in range(3)
    ]
    data = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), data)
    out = json_lines(run(model, data, tmp_path / "a.jsonl", "at,day,price,n,score,review"))
    assert out[1]["at"] == "2024-05-01T12:30:00"
    assert (out[1]["day"], out[1]["price"], out[1]["n"], out[1]["score"]) == ("2024-05-01", "1.50", 1, None)
    assert out[0]["score"] == 0.5
    message = error(model, data, tmp_path / "b.jsonl", "all")
    assert "row 0: column picture, which is to be kept, holds bytes" in message


def test_numbered_columns_and_names_with_commas(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "a.csv"
    data.write_text('"a,b",review,c\nx,ka,y\n')
    out = json_lines(run(model, data, tmp_path / "a.jsonl", "c,a,b"))
    assert list(out[0])[:3] == ["id", "c", "a,b"]
    data.write_text("x,ka,y\n")
    out = json_lines(run(model, data, tmp_path / "b.jsonl", "3,1", header=False, text="2"))
    assert (out[0]["3"], out[0]["1"]) == ("y", "x")


def test_columns_with_names_of_predictions_and_unknown_ones(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_csv(tmp_path / "a.csv", [{"review": "ka", "label": "1", "probabilities": "2"}])
    out = tmp_path / "a.jsonl"
    message = error(model, data, out, "reviw")
    assert "no column reviw (did you mean review?)" in message
    assert "name another with --keep" in message
    (line,) = json_lines(run(model, data, tmp_path / "all.jsonl", "all"))
    assert (line["data_label"], line["data_probabilities"]) == ("1", "2")
    assert line["label"] != "1"
    assert list(line)[:4] == ["id", "review", "data_label", "data_probabilities"]
    assert "column label is kept as data_label" in capsys.readouterr().err
    both = write_csv(tmp_path / "both.csv", [{"review": "ka", "label": "1", "data_label": "2"}])
    message = error(model, both, out, "all")
    assert (
        "column label has the name of a value of the predictions, and there is a column data_label" in message
    )
    assert json_lines(run(model, both, tmp_path / "one.jsonl", "review,label"))[0]["data_label"] == "1"
    # A CSV file of predictions has no such column.
    table = run(model, data, tmp_path / "b.csv", "probabilities").read_text().splitlines()
    assert table[0] == "id,probabilities,label,probability"
    data = write_csv(tmp_path / "c.csv", [{"id": "5", "key": "k", "review": "ka"}])
    assert json_lines(run(model, data, tmp_path / "id.jsonl", "id", id="key"))[0]["data_id"] == "5"
    assert json_lines(run(model, data, tmp_path / "c.jsonl", "key,id"))[0]["id"] == "5"
    rows = [{"review": "ka"}, {"review": "lo", "label": "x"}]
    data = write_jsonl(tmp_path / "d.jsonl", rows)
    assert json_lines(run(model, data, tmp_path / "e.jsonl", "all"))[1]["data_label"] == "x"
    data = write_jsonl(
        tmp_path / "f.jsonl", [{"review": "ka"}, {"review": "lo", "label": 1, "data_label": 2}]
    )
    assert "line 2: column label would be kept as data_label, and another column" in error(
        model, data, out, "all"
    )
    assert len(json_lines(run(model, data, tmp_path / "g.jsonl", "all", on_error="skip"))) == 1


def test_rows_with_other_keys(model: Path, tmp_path: Path) -> None:
    data = write_jsonl(
        tmp_path / "a.jsonl", [{"review": "ka", "x": 1}, {"review": "lo"}, {"review": "m", "y": 2}]
    )
    out = json_lines(run(model, data, tmp_path / "all.jsonl", "all"))
    assert [line.get("x") for line in out] == [1, None, None]
    assert out[2]["y"] == 2
    assert [line["x"] for line in json_lines(run(model, data, tmp_path / "x.jsonl", "x"))] == [1, None, None]
    message = error(model, data, tmp_path / "a.csv", "all")
    assert "line 3: column y, which the first row lacks; name the columns with --keep, or write" in message


@pytest.mark.parametrize("value", ["\ud800", 1e999, [["\ud800"]]])
def test_values_that_cannot_be_written(value: Any, model: Path, tmp_path: Path) -> None:
    data = tmp_path / "a.jsonl"
    data.write_text(json.dumps({"review": "ka", "x": value}) + "\n")
    message = error(model, data, tmp_path / "out.jsonl", "x")
    assert "line 1: column x, which is to be kept, holds" in message
    data.write_text('{"review": "ka", "x": ' + "[" * 900 + "]" * 900 + "}\n")
    out = tmp_path / "deep.jsonl"
    try:
        run(model, data, out, "x")
    except InputError as problem:
        assert "nested too deeply" in str(problem)  # noqa: PT017


def test_data_and_outputs_without_columns_refuse_it(checkpoint: Path, tmp_path: Path) -> None:
    card = TaskCard("squad-2.0", "span", (), (), allows_no_answer=True, max_length=64)
    head = HeadSettings("span", answerable=True)
    folder = save_untrained_model(tmp_path / "model", checkpoint, head, card)
    data = write_squad(tmp_path / "dev-v2.0.json")
    assert "--keep needs a table" in error(folder, data, tmp_path / "a.jsonl", "context")
    table = write_csv(tmp_path / "a.csv", [{"id": "5", "question": "Who?", "context": "Ida ran.", "n": "1"}])
    message = error(folder, table, tmp_path / "a.json", "n")
    assert "has answers only; with --keep, name a .jsonl" in message
    assert json_lines(run(folder, table, tmp_path / "b.jsonl", "n"))[0]["n"] == "1"
    card = TaskCard("tag", "tag", ("A", "B"), (), max_length=64)
    folder = save_untrained_model(tmp_path / "tagger", checkpoint, HeadSettings("token", labels=2), card)
    (tmp_path / "a.conll").write_text("Ida A\n")
    assert "--keep needs a table" in error(folder, tmp_path / "a.conll", tmp_path / "c.jsonl", "1")


def test_long_kept_values_bound_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples_module, "_KEPT_CHUNK_LENGTH", 100)

    def examples() -> Iterator[TextExample]:
        for index in range(50):
            yield TextExample("", str(index), ("a",), kept={"x": "b" * 30, "y": [1, 2]})

    sizes = [len(chunk) for chunk in example_chunks(examples(), 1024)]
    assert sum(sizes) == 50
    assert max(sizes) == 3
    plain = (TextExample("", str(index), ("a",)) for index in range(50))
    assert [len(chunk) for chunk in example_chunks(plain, 1024)] == [50]
