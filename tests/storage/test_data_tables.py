"""Tables and task folders on object storage give the results of local ones."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from albertine.cli import app
from albertine.command import run_command
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings
from albertine.inference.evaluate import evaluate
from albertine.inference.settings import EvaluateSettings
from albertine.storage import objects
from albertine.tasks.examples import Example
from albertine.tasks.formats.column_request import ColumnRequest
from albertine.tasks.formats.conll import read_sentences
from albertine.tasks.formats.locations import is_folder
from albertine.tasks.formats.minimal_pairs import read_minimal_pairs
from albertine.tasks.formats.tables import read_rows
from albertine.tasks.formats.texts import read_texts
from albertine.tasks.registry import find_task
from albertine.tasks.settings import DataSettings
from albertine.text.read_errors import ReadErrors
from tests.pretrain.conftest import weight_bytes
from tests.task_fixtures import (
    checkpoint,
    finetune_settings,
    reviews,
    with_train_settings,
    write_csv,
    write_jsonl,
    write_squad,
)

from .conftest import SECRET_KEY
from .test_folders import write_object
from .test_texts_and_corpora import upload_plainly

__all__ = ["checkpoint", "finetune_settings"]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """The same rows in every format of tables."""
    folder, rows = tmp_path / "tables", reviews(9, 12)
    folder.mkdir()
    write_csv(folder / "new.csv", rows)
    write_jsonl(folder / "new.jsonl", rows)
    lines = ["\t".join(rows[0]), *("\t".join(map(str, row.values())) for row in rows)]
    (folder / "new.tsv").write_text("\n".join(lines) + "\n")
    parquet.write_table(pa.Table.from_pylist(rows), folder / "new.parquet")
    (folder / "new.csv.gz").write_bytes(gzip.compress((folder / "new.csv").read_bytes()))
    with pa.output_stream(str(folder / "new.jsonl.zst"), compression="zstd") as stream:
        stream.write((folder / "new.jsonl").read_bytes())
    return folder


def test_rows_of_every_format_are_those_of_the_local_file(bucket: str, tables: Path) -> None:
    upload_plainly(tables, bucket)
    names = sorted(file.name for file in tables.iterdir())
    assert len(names) == 6
    for name in names:
        local, remote = (
            list(read_rows(f"{folder}/{name}", ReadErrors(skip=False), ColumnRequest(["review", "stars"])))
            for folder in (tables, bucket)
        )
        assert [row.cells for row in remote] == [row.cells for row in local]
        assert len(local) == 12
        assert all(row.location.startswith(f"{bucket}/{name}, ") for row in remote)


def test_lists_in_parquet_are_read(bucket: str, tmp_path: Path) -> None:
    file = tmp_path / "lists.parquet"
    parquet.write_table(pa.table({"text": ["a", "b"], "labels": [["x"], ["x", "y"]]}), file)
    write_object(f"{bucket}/lists.parquet", file.read_bytes())
    rows = read_rows(f"{bucket}/lists.parquet", ReadErrors(skip=False), ColumnRequest(["text", "labels"]))
    assert [row.cells["labels"] for row in rows] == [["x"], ["x", "y"]]


def test_finetuning_evaluation_and_predictions_are_those_of_local_tables(
    bucket: str,
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tables: Path,
    tmp_path: Path,
) -> None:
    assert finetune_settings.data is not None
    write_object(f"{bucket}/train.csv", Path(finetune_settings.data).read_bytes())
    upload_plainly(tables, bucket)
    local = replace(
        with_train_settings(finetune_settings, steps=6, evaluate_every=3), dev=str(tables / "new.csv")
    )
    remote = replace(local, data=f"{bucket}/train.csv", dev=f"{bucket}/new.csv")
    for name, settings in (("local", local), ("remote", remote)):
        finetune(str(checkpoint), tmp_path / name, settings)
    assert weight_bytes(tmp_path / "remote") == weight_bytes(tmp_path / "local")
    run, outputs, metrics = str(tmp_path / "local"), [], []
    for number, data in enumerate((str(tables / "new.csv"), f"{bucket}/new.csv", f"{bucket}/new.csv.gz")):
        out = tmp_path / f"{number}.csv"
        assert run_command(app, ["predict", run, "--data", data, "--out", str(out)]) == 0
        outputs.append(out.read_bytes())
        (result,) = evaluate(run, EvaluateSettings(data=data, device="cpu"))
        metrics.append(result.metrics)
    assert outputs[0] == outputs[1] == outputs[2]
    assert metrics[0] == metrics[1] == metrics[2]


def test_a_folder_of_glue_is_that_of_local_files(
    bucket: str, checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    folder = tmp_path / "glue" / "CoLA"
    folder.mkdir(parents=True)
    for split, seed in (("train", 1), ("dev", 2)):
        lines = [f"x\t{len(row['review']) % 2}\t\t{row['review']}" for row in reviews(seed, 20)]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    upload_plainly(tmp_path / "glue", f"{bucket}/glue")
    settings = with_train_settings(
        replace(finetune_settings, task="cola", dev=None, text="text", label="label"),
        steps=6,
        evaluate_every=3,
    )
    for name, data in (("local", str(tmp_path / "glue")), ("remote", f"{bucket}/glue")):
        finetune(str(checkpoint), tmp_path / name, replace(settings, data=data))
    assert weight_bytes(tmp_path / "remote") == weight_bytes(tmp_path / "local")
    scores = [
        evaluate(tmp_path / "local", EvaluateSettings(data=data, device="cpu"))[0].metrics
        for data in (str(tmp_path / "glue"), f"{bucket}/glue")
    ]
    assert scores[0] == scores[1]


def test_the_first_rows_of_a_large_table_need_few_bytes(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a text " * 14
    write_object(f"{bucket}/large.csv", ("text\n" + f"{text}\n" * 200_000).encode())
    read = []
    original = objects._ObjectReader.readinto

    def record(self: objects._ObjectReader, buffer: memoryview) -> int:
        read.append(original(self, buffer))
        return read[-1]

    monkeypatch.setattr(objects._ObjectReader, "readinto", record)
    rows = read_rows(f"{bucket}/large.csv", ReadErrors(skip=False), ColumnRequest(["text"]))
    assert [next(rows).cells["text"] for _ in range(100)] == [text] * 100
    assert 0 < sum(read) < 6 << 20  # of 20 MB
    assert sum(1 for _ in rows) == 200_000 - 100


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{bucket}/none.csv", "{bucket}/none.csv: no such file"),
        ("{bucket}/none", "{bucket}/none: is a folder; --task classify needs a file"),
        ("{bucket}/none --task cola", "{bucket}/none: no such folder"),
        ("{bucket}/cut.jsonl", "{bucket}/cut.jsonl, line 2: "),
        ("{bucket}/cut.csv.gz", "{bucket}/cut.csv.gz: corrupt"),
        ("{bucket}/cut.parquet", "{bucket}/cut.parquet: damaged"),
        ("{bucket}/other.csv", "{bucket}/other.csv: no column review"),
        ("s3://no-such-bucket-here/x.csv", "s3://no-such-bucket-here/x.csv: no such file"),
        ("s3://k:hunter2@b/x.csv", "may be secret"),
        ("https://host/x.csv", "not supported"),
    ],
)
def test_wrong_data_gives_one_line_and_status_2(
    bucket: str,
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    data: str,
    message: str,
) -> None:
    write_object(f"{bucket}/cut.jsonl", json.dumps({"review": "a", "stars": "b"}).encode() + b'\n{"review')
    write_object(f"{bucket}/cut.csv.gz", gzip.compress(b"review,stars\na,b\n")[:-9])
    write_object(f"{bucket}/cut.parquet", b"PAR1")
    write_object(f"{bucket}/other.csv", b"text,label\na,b\n")
    options = ["--text", "review", "--label", "stars", "--out", str(tmp_path / "out")]
    words = data.format(bucket=bucket).split()
    task = [] if "--task" in words else ["--task", "classify"]
    status = run_command(app, ["finetune", str(checkpoint), *task, *options, "--data", *words])
    error = capsys.readouterr().err
    assert status == 2, error
    assert message.format(bucket=bucket) in error
    assert len(error.splitlines()) == 1
    assert "hunter2" not in error
    assert SECRET_KEY not in error


def test_the_name_of_a_url_says_whether_it_is_a_folder() -> None:
    for name in ("a.csv", "a.tsv.gz", "a.parquet", "a.conll", "a.json", "a.txt", "a.JSONL.zst"):
        assert not is_folder(f"s3://bucket/{name}")
    for name in ("glue", "glue/RTE", "v1.1"):
        assert is_folder(f"gs://bucket/{name}")


def test_texts_tagged_sentences_and_questions_are_those_of_local_files(bucket: str, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.txt").write_text("first text\n\nsecond text\n")
    (folder / "a.conll").write_text("Ida\tB\nran\tO\n\nTom\tB\n")
    write_squad(folder / "a.json")
    write_squad(folder / "squad" / "dev-v2.0.json")
    upload_plainly(folder, f"{bucket}/files")

    def read(place: str) -> list[list[str]]:
        errors = ReadErrors(skip=False)
        groups: list[list[Example]] = [
            list(read_texts(f"{place}/a.txt", DataSettings(), errors)),
            list(read_sentences(Path(f"{place}/a.conll"), errors, require_tags=True)),
        ]
        task = find_task("squad-2.0")
        assert task.split_to_predict(place) == "dev"
        for data in (f"{place}/a.json", place):
            examples = task.read_examples(data, "dev", DataSettings(), errors, require_labels=True)
            groups.append(list(examples))
        return [[str(replace(example, location="")) for example in group] for group in groups]

    local = read(str(folder))
    assert [len(group) for group in local] == [2, 2, 6, 6]
    assert read(f"{bucket}/files") == local


def test_minimal_pairs_in_a_folder_are_those_of_local_files(bucket: str, tmp_path: Path) -> None:
    for name in ("agreement", "order"):
        rows = [{"sentence_good": f"good {number}", "sentence_bad": "bad"} for number in range(3)]
        write_jsonl(tmp_path / "pairs" / f"{name}.jsonl", rows)
    upload_plainly(tmp_path / "pairs", f"{bucket}/pairs")
    local, remote = (
        [(pair.paradigm, pair.good, pair.bad) for pair in read_minimal_pairs(data, ReadErrors(skip=False))]
        for data in (str(tmp_path / "pairs"), f"{bucket}/pairs")
    )
    assert len(local) == 6
    assert remote == local
