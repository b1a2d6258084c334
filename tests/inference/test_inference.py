"""Tests of inference with fine-tuned models: predictions for files, evaluation, pipelines, ensembles."""

import csv
import io
import json
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.task_fixtures import (
    reviews,
    save_untrained_model,
    with_train_settings,
    write_csv,
    write_jsonl,
    write_squad,
)

from albertine.errors import InputError
from albertine.export.finetuned_accuracy import FinetunedJudge
from albertine.export.settings import ExportSettings
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings
from albertine.inference import read_split as read_split_module
from albertine.inference import table_writer
from albertine.inference.ensemble import evaluate_ensemble
from albertine.inference.evaluate import EvaluationResult, evaluate, paper_averages
from albertine.inference.exit_curve import measure_exits
from albertine.inference.finetuned_model import load_finetuned
from albertine.inference.pipeline import pipeline
from albertine.inference.predict import predict, prediction_writer
from albertine.inference.settings import EnsembleSettings, EvaluateSettings, PredictSettings
from albertine.inference.table_writer import RowStream
from albertine.inference.training_data import training_data_message
from albertine.settings import HeadSettings
from albertine.settings.engine import EngineOptions
from albertine.settings.toml import read_settings_file
from albertine.tasks import scorer
from albertine.tasks.card import TaskCard, parse_card
from albertine.tasks.checkpoint_card import card_for_task
from albertine.tasks.examples import QuestionExample, TaggedExample
from albertine.tasks.metrics.squad import best_scores
from albertine.tasks.reading import load_examples
from albertine.tasks.registry import find_task
from albertine.tasks.scorer import mean_scores
from albertine.tasks.settings import DataSettings
from albertine.text.read_errors import ReadErrors
from albertine.text.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def reviews_model(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dev.csv and, in `run`, a model fine-tuned to classify reviews."""
    folder = tmp_path_factory.mktemp("reviews")
    columns = {"text": "review", "label": "stars"}
    settings = FinetuneSettings(
        task="classify",
        data=str(write_csv(folder / "train.csv", reviews(1, 200))),
        dev=str(write_csv(folder / "dev.csv", reviews(2, 60))),
        device="cpu",
        **columns,  # type: ignore[arg-type]
    )
    settings = with_train_settings(
        settings,
        steps=100,
        batch_size=16,
        lr=2e-2,
        warmup=10,
        optimizer="muon",
        precision="fp32",
        evaluate_every=50,
    )
    finetune(str(checkpoint), folder / "run", settings)
    return folder


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv"])
def test_predictions_keep_row_order(
    suffix: str, reviews_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorer, "CHUNK_SIZE", 7)  # several chunks
    rows = [{"id": f"r{index}", "review": row["review"]} for index, row in enumerate(reviews(9, 50))]
    data = write_csv(tmp_path / "new.csv", rows)
    out = tmp_path / f"answers{suffix}"
    settings = PredictSettings(data=str(data), device="cpu", precision="fp32")
    assert predict(str(reviews_model / "run"), settings, out) == 50
    text = out.read_text(encoding="utf-8")
    if suffix == ".jsonl":
        predictions = [json.loads(line) for line in text.splitlines()]
    else:
        predictions = list(csv.DictReader(io.StringIO(text), delimiter="," if suffix == ".csv" else "\t"))
    assert [prediction["id"] for prediction in predictions] == [row["id"] for row in rows]
    assert [prediction["label"] for prediction in predictions] == [row["stars"] for row in reviews(9, 50)]
    assert list(tmp_path.glob(".*")) == []  # no temporary file is left


def test_predict_streams_rows(reviews_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read at most one chunk ahead of the predictions that are written."""
    monkeypatch.setattr(scorer, "CHUNK_SIZE", 4)
    rows_ahead: list[int] = []
    rows_read = 0
    read_split = read_split_module.read_split

    def counting_read_split(*args: Any, **kwargs: Any) -> Any:
        nonlocal rows_read
        for example in read_split(*args, **kwargs):
            rows_read += 1
            yield example

    monkeypatch.setattr("albertine.inference.predict.read_split", counting_read_split)

    class RecordingFormat(table_writer._JsonLines):
        def text(self, rows: Any) -> str:
            for _ in rows:
                rows_ahead.append(rows_read - len(rows_ahead) - 1)
            return super().text(rows)

    monkeypatch.setitem(table_writer._FORMATS, ".jsonl", RecordingFormat)
    data = write_csv(tmp_path / "new.csv", [{"review": row["review"]} for row in reviews(9, 40)])
    predict(
        str(reviews_model / "run"),
        PredictSettings(data=str(data), device="cpu"),
        tmp_path / "a.jsonl",
    )
    assert len(rows_ahead) == 40
    assert max(rows_ahead) <= 4


def test_bad_row_stops_or_is_skipped(
    reviews_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_jsonl(tmp_path / "new.jsonl", [{"review": "ka ka"}, {"review": 5}, {"review": "lo lo lo"}])
    settings = PredictSettings(data=str(data), device="cpu")
    with pytest.raises(InputError, match=r"new.jsonl, line 2: column review holds int 5, not text; fix it"):
        predict(str(reviews_model / "run"), settings, tmp_path / "a.jsonl")
    assert not (tmp_path / "a.jsonl").exists()
    assert (
        predict(
            str(reviews_model / "run"),
            replace(settings, on_error="skip"),
            tmp_path / "a.jsonl",
        )
        == 2
    )
    assert "skipped rows: 1, the first at" in capsys.readouterr().err
    assert [json.loads(line)["id"] for line in (tmp_path / "a.jsonl").read_text().splitlines()] == ["0", "2"]


def test_rows_of_the_training_data_are_named(
    reviews_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = reviews_model / "run"
    trained_on = Path(read_settings_file(run / "settings.toml").values["data"])
    for data, is_named in ((trained_on, True), (shutil.copy(trained_on, tmp_path / "copy.csv"), False)):
        evaluate(run, EvaluateSettings(data=str(data), device="cpu"))
        message = f"{data}: {run} was trained on rows of this file, so this score can be too high"
        assert (message in capsys.readouterr().err) == is_named
        judge = FinetunedJudge(load_finetuned(run), ExportSettings(precision="int8", data=str(data)))
        assert judge.score_source().unit.endswith("examples of the data that it was trained on") == is_named
        assert (message in capsys.readouterr().err) == is_named


def test_rows_of_the_training_data_are_named_beside_exits(
    reviews_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = EvaluateSettings(data=str(reviews_model / "train.csv"), device="cpu", exits="all")
    measure_exits([reviews_model / "run"], settings)
    assert "run was trained on rows of this file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("trained_on", "data", "name"),
    [
        ("s3://bucket/a.csv", "s3://bucket/a.csv", "this file"),
        ("s3:/bucket/a.csv", "s3://bucket/a.csv", "this file"),
        ("s3://bucket/a.csv", "s3://bucket/b.csv", None),
        ("s3://bucket/a.csv", "a.csv", None),
        ("a.csv", "s3://bucket/a.csv", None),
        ("hub:owner/name", "hub:owner/name", "this data set"),
        ("hub:owner/name@main", "hub:owner/name::train", "this data set"),
        ("hub:owner/name", "hub:owner/name::test", None),
        ("hub:owner/name:a", "hub:owner/name:b", None),
        ("hub:owner/name", "a.csv", None),
        ("a.csv", "hub:owner/name", None),
        ("a.csv", "a.csv", "a file of this name"),
        ("s3://bucket/a", "s3://bucket/a", None),  # a folder has splits
    ],
)
def test_training_data_elsewhere_is_recognized_by_its_name(
    trained_on: str, data: str, name: str | None, reviews_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "settings.toml").write_text(f'data = "{trained_on}"\n')
    model = replace(load_finetuned(reviews_model / "run"), folder=tmp_path, source="model")
    message = training_data_message(model, data)
    if name is None:
        assert message is None
    else:
        assert message is not None
        assert message.startswith(f"{data}: model was trained on rows of {name}, so this score can be")


def test_the_splits_of_a_published_task_have_other_rows(reviews_model: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text('data = "hub:nyu-mll/glue"\n')
    model = replace(load_finetuned(reviews_model / "run"), folder=tmp_path)
    assert training_data_message(model, "hub:nyu-mll/glue") is not None
    official = replace(model, card=replace(model.card, task="sst-2"))
    assert training_data_message(official, "hub:nyu-mll/glue") is None


def test_unparseable_rows_shift_no_id(reviews_model: Path, tmp_path: Path) -> None:
    (tmp_path / "new.jsonl").write_text('{"review": "ka ka ka"}\n{"review": "ka\n{"review": "lo lo lo"}\n')
    settings = PredictSettings(data=str(tmp_path / "new.jsonl"), device="cpu", on_error="skip")
    assert predict(str(reviews_model / "run"), settings, tmp_path / "a.jsonl") == 2
    predictions = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [(prediction["id"], prediction["label"]) for prediction in predictions] == [
        ("0", "red"),
        ("2", "green"),
    ]


def test_truncation_and_unknown_tokens_are_reported(
    reviews_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["ka ka ka", "ka " * 80, "ka 漢"]
    data = str(write_jsonl(tmp_path / "new.jsonl", [{"review": text, "stars": "red"} for text in texts]))
    model = str(reviews_model / "run")
    predict(model, PredictSettings(data=data, device="cpu"), tmp_path / "a.jsonl")
    num_tokens = len(load_tokenizer(Path(model)).encode(texts[1], add_special_tokens=False))
    lost = num_tokens + 2 - 64
    messages = capsys.readouterr().err
    cut = f"tokens cut off: {lost} on average, {lost} at most"
    assert f"{data}: 1 of 3 examples truncated; {cut}" in messages
    assert re.search(f"{data}: [0-9.]+% of the tokens are unknown", messages)
    predictions = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [prediction.get("truncated_tokens") for prediction in predictions] == [None, lost, None]
    (result,) = evaluate(model, EvaluateSettings(data=data, device="cpu"))
    assert f"{model}, new.jsonl: 1 of 3 examples truncated; {cut}" in capsys.readouterr().err
    measure_exits([model], EvaluateSettings(data=data, device="cpu", exits="all"))
    messages = capsys.readouterr().err
    assert f"{model}, new.jsonl: 1 of 3 examples truncated; {cut}" in messages
    assert re.search(f"{model}, new.jsonl: [0-9.]+% of the tokens are unknown", messages)
    assert (result.num_truncated, result.mean_truncated_tokens) == (1, lost)
    assert 0.01 < result.unknown_share < 0.03


@pytest.mark.parametrize("content", ["review\n", ""])
def test_empty_input_leaves_no_output(content: str, reviews_model: Path, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text(content)
    settings = PredictSettings(data=str(tmp_path / "none.csv"), device="cpu")
    for _ in range(2):  # the first attempt leaves nothing that changes the second
        with pytest.raises(InputError, match=r"none.csv: no examples$"):
            predict(str(reviews_model / "run"), settings, tmp_path / "a.csv")
    assert [file.name for file in tmp_path.iterdir()] == ["none.csv"]


def test_explicit_id_column_must_exist(reviews_model: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "new.csv", [{"review": "ka ka", "key": "a7"}])
    settings = PredictSettings(data=str(data), device="cpu", id="nosuch")
    with pytest.raises(InputError, match=r"new.csv: no column nosuch; .* has review, key"):
        predict(str(reviews_model / "run"), settings, tmp_path / "a.jsonl")
    predict(str(reviews_model / "run"), replace(settings, id="key"), tmp_path / "a.jsonl")
    assert json.loads((tmp_path / "a.jsonl").read_text())["id"] == "a7"


def test_output_is_never_overwritten(reviews_model: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "new.csv", [{"review": "ka ka"}])
    content_before = data.read_bytes()
    settings = PredictSettings(data=str(data), device="cpu")
    with pytest.raises(InputError, match=r"new.csv: exists already; name another file or remove it"):
        predict(str(reviews_model / "run"), settings, data)
    assert data.read_bytes() == content_before


def test_option_count_must_match_model(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options_of_rows: list[list[str]] = [["mi", "lo"], ["mi", "lo", "vu"], ["vu", "lo"]]
    rows = [{"question": "ka?", "options": options, "label": 1} for options in options_of_rows]
    data = str(write_jsonl(tmp_path / "new.jsonl", rows))
    card = TaskCard("choice", "choice", num_options=2, max_length=64)
    model = save_untrained_model(
        tmp_path / "model", checkpoint, HeadSettings("choice", labels=1, options=2), card
    )
    settings = PredictSettings(data=data, device="cpu")
    message = "new.jsonl, line 2: 3 options, where others have 2; fix it, or use --on-error skip"
    with pytest.raises(InputError, match=message):
        predict(str(model), settings, tmp_path / "a.jsonl")
    assert predict(str(model), replace(settings, on_error="skip"), tmp_path / "a.jsonl") == 2
    skip_settings, task = DataSettings(on_error="skip"), find_task("choice")
    assert len(load_examples(task, data, "train", skip_settings, require_labels=True)) == 2
    assert len(load_examples(task, data, "dev", skip_settings, require_labels=True, num_options=3)) == 1
    assert capsys.readouterr().err.count("skipped rows: 2") == 1
    with pytest.raises(InputError, match=message):
        load_examples(task, data, "train", DataSettings(), require_labels=True)


@pytest.mark.parametrize(
    ("out", "columns", "message"),
    [
        ("a.xlsx", {}, "a.xlsx: unknown format; name a file that ends in .jsonl, .csv, .tsv"),
        ("a.csv", {"text": "body"}, "no column body; its first line, taken as column names, has review"),
    ],
)
def test_predict_errors(
    out: str, columns: dict[str, str], message: str, reviews_model: Path, tmp_path: Path
) -> None:
    data = write_csv(tmp_path / "new.csv", [{"review": "ka"}])
    settings = PredictSettings(data=str(data), device="cpu", **columns)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        predict(str(reviews_model / "run"), settings, tmp_path / out)
    assert not (tmp_path / out).exists()


def test_pretrained_model_cannot_be_evaluated(checkpoint: Path, tmp_path: Path) -> None:
    settings = EvaluateSettings(data=str(write_csv(tmp_path / "a.csv", reviews(1, 5))), device="cpu")
    with pytest.raises(InputError, match="its head is pretrain, which is not for a task; fine-tune it first"):
        evaluate([str(checkpoint)], settings)
    with pytest.raises(InputError, match=r'albertine\.fill_mask_pipeline fills masks .* task="embed" embeds'):
        pipeline(checkpoint)


def test_run_without_its_task_json_is_refused(reviews_model: Path, tmp_path: Path) -> None:
    shutil.copytree(reviews_model / "run", tmp_path / "run")
    (tmp_path / "run" / "task.json").unlink()
    with pytest.raises(InputError, match=r"run/task\.json: missing; copy it from a folder in .*checkpoints"):
        load_finetuned(tmp_path / "run", EngineOptions("cpu", "fp32"))


def test_invalid_task_json(reviews_model: Path, tmp_path: Path) -> None:
    cases: tuple[tuple[str | dict[str, object], str], ...] = (
        ("{", "not JSON"),
        ('{"format": 1}', "this one reads format 2; fine-tune the model again"),
        ('{"format": "\\u001b"}', "no valid format number; expected 2; fine-tune the model again"),
        ('{"format": 2, "task": "x"}', "not a task card"),
        ({"task": 0}, "task is 0, expected text"),
        ({"task": "x"}, "unknown task x"),
        ({"task": "squad-2.0"}, "the task type is classify, but that of squad-2.0 is span"),
        ({"type_name": []}, "type_name is a list, expected text"),
        ({"max_length": None}, "max_length is null, expected an integer"),
        ({"max_length": 10**12}, "max_length = 1000000000000: must be between 4 and 64"),
        ({"max_length": 3}, "max_length = 3: must be between 4 and 64"),
        ({"labels": []}, "0 labels, but the head of the model has 3"),
        ({"labels": ["red", "red", "blue"]}, "two labels are the same"),
        ({"labels": ["red", "\ud800", "blue"]}, "an unpaired surrogate"),
        ({"metric_names": ["x"]}, "unknown metric x"),
        ({"no_answer_threshold": float("nan")}, "no_answer_threshold is NaN, expected a number"),
        ({"precision": "fp8"}, "precision is text, expected one of fp32, bf16 or null"),
        ({"columns": {"text": None}}, "columns: text = (not set): must be text in quotes"),
        ({"columns": {"text": 5}}, "a value of columns is 5, expected text or null"),
        ({"columns": {"4ext": "review"}}, "columns has the unknown key '4ext'"),
        ({"sequence": 5}, "sequence = 5: must be an object"),
        ({"other": 5}, "unknown field 'other'"),
    )
    for content, message in cases:
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(reviews_model / "run", tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
        file = tmp_path / "run" / "task.json"
        changed = content if isinstance(content, str) else json.dumps(json.loads(file.read_text()) | content)
        file.write_text(changed)
        with pytest.raises(InputError, match=re.escape(message)) as error:
            pipeline(tmp_path / "run", device="cpu")
        assert str(file) in str(error.value)


# The formats of the official tasks' submission servers and scripts.


@pytest.mark.parametrize(
    ("task_name", "files"),
    [
        ("rte", ["RTE.tsv"]),
        ("mnli", ["MNLI-m.tsv", "MNLI-mm.tsv"]),
        ("sts-b", ["STS-B.tsv"]),
        ("cola", ["CoLA.tsv"]),
    ],
)
def test_glue_submission_format(
    task_name: str, files: list[str], checkpoint: Path, world: Path, tmp_path: Path
) -> None:
    task = find_task(task_name)
    card = TaskCard(task_name, task.type_name, task.labels, task.metric_names, max_length=64)
    head = HeadSettings(task.task_type.head_kind, labels=len(task.labels) or 1)
    model = save_untrained_model(tmp_path / "model", checkpoint, head, card)
    settings = PredictSettings(data=str(world), device="cpu")
    predict(str(model), settings, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == files
    for file in files:
        predicted, gold = (
            [line.split("\t") for line in (folder / file).read_text().splitlines()]
            for folder in (tmp_path / "out", world / "glue" / "gold")
        )
        assert predicted[0] == gold[0] == ["index", "prediction"]
        assert [row[0] for row in predicted] == [row[0] for row in gold]
        if task.labels:
            assert {row[1] for row in predicted[1:]} <= set(task.labels)
    with pytest.raises(InputError, match="exists already"):
        predict(str(model), settings, tmp_path / "out")
    predict(str(model), replace(settings, split="dev"), tmp_path / "dev")
    assert sorted(file.name for file in (tmp_path / "dev").iterdir()) == files
    with pytest.raises(InputError, match="name a folder for them"):
        predict(str(model), settings, tmp_path / "a.tsv")


@pytest.mark.parametrize(
    ("task_name", "out", "missing"),
    [("mnli", "out", "out/MNLI-mm.tsv"), ("squad-2.0", "out.json", "out.json")],
)
def test_an_interrupted_call_completes_several_files(
    task_name: str, out: str, missing: str, checkpoint: Path, world: Path, tmp_path: Path
) -> None:
    task = find_task(task_name)
    head = HeadSettings(task.task_type.head_kind, labels=len(task.labels) or 2, answerable=not task.labels)
    card = TaskCard(
        task_name,
        task.type_name,
        task.labels,
        task.metric_names,
        allows_no_answer=not task.labels,
        max_length=64,
    )
    model = save_untrained_model(tmp_path / "model", checkpoint, head, card)
    settings = PredictSettings(data=str(world), split="dev", device="cpu", precision="fp32")
    predict(model, settings, tmp_path / out)
    files = {file: file.read_bytes() for pattern in ("out/*", "out*.json") for file in tmp_path.glob(pattern)}
    assert len(files) == 2
    (tmp_path / missing).unlink()
    predict(model, settings, tmp_path / out)
    assert {file: file.read_bytes() for file in files} == files
    (tmp_path / missing).unlink()
    (kept,) = files.keys() - {tmp_path / missing}
    kept.write_text("of another model")
    with pytest.raises(InputError, match="exists already with other content"):
        predict(model, settings, tmp_path / out)
    assert kept.read_text() == "of another model"


def test_empty_split_fails_before_predicting(checkpoint: Path, world: Path, tmp_path: Path) -> None:
    task = find_task("mnli")
    card = TaskCard("mnli", task.type_name, task.labels, task.metric_names, max_length=64)
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify", labels=3), card)
    folder = tmp_path / "glue" / "MNLI"
    shutil.copytree(world / "glue" / "MNLI", folder)
    mismatched = folder / "test_mismatched.tsv"
    mismatched.write_text(mismatched.read_text().splitlines()[0] + "\n")
    settings = PredictSettings(data=str(tmp_path / "glue"), device="cpu")
    with pytest.raises(InputError, match="no examples in test_mismatched"):
        predict(str(model), settings, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_metrics_are_printed_before_a_later_failure(
    reviews_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = EvaluateSettings(data=str(reviews_model / "dev.csv"), device="cpu")
    with pytest.raises(InputError, match="nosuch"):
        evaluate([str(reviews_model / "run"), str(tmp_path / "nosuch")], settings)
    assert f"{reviews_model / 'run'}, dev: " in capsys.readouterr().err


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_squad_prediction_files(version: str, checkpoint: Path, world: Path, tmp_path: Path) -> None:
    task = f"squad-{version}"
    allows_no_answer = version == "2.0"
    card = TaskCard(task, "span", allows_no_answer=allows_no_answer, max_length=64)
    model = save_untrained_model(
        tmp_path / "model", checkpoint, HeadSettings("span", answerable=allows_no_answer), card
    )
    settings = PredictSettings(data=str(world), split="dev", device="cpu", precision="fp32")
    count = predict(str(model), settings, tmp_path / "out.json")
    answers = json.loads((tmp_path / "out.json").read_text())
    articles = json.loads((world / f"squad/dev-v{version}.json").read_text())["data"]
    ids = {
        question["id"]
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
    assert set(answers) == ids
    assert count == len(ids)
    assert (tmp_path / "out.no_answer.json").exists() is allows_no_answer
    (evaluation,) = evaluate([str(model)], EvaluateSettings(data=str(world), device="cpu"))
    assert evaluation.num_examples == count
    assert ("best_f1" in evaluation.metrics) is allows_no_answer


@pytest.fixture(scope="module")
def span_folder(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that answers questions, whose folder does not name its task, as from `transformers`."""
    folder = tmp_path_factory.mktemp("span") / "model"
    card = TaskCard("span", "span", max_length=64)
    save_untrained_model(folder, checkpoint, HeadSettings("span"), card)
    (folder / "task.json").unlink()
    return folder


def test_a_model_that_always_answers_says_which_questions_it_cannot_get_right(
    span_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[list[str]] = [["mi"], [], ["lo"]]
    for name, shown in (("all.jsonl", answers), ("answered.jsonl", answers[::2])):
        rows = [{"question": "Ka lo?", "context": "Ka lo mi.", "answers": answer} for answer in shown]
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    message = "1 of 3 questions have no answer, but this model always gives one, so they count as wrong"

    def metrics(name: str, task: str | None = None) -> dict[str, float]:
        settings = EvaluateSettings(data=str(tmp_path / name), device="cpu", task=task)
        return evaluate(span_folder, settings)[0].metrics

    assert "best_f1" not in metrics("all.jsonl")
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert "best_f1" in metrics("all.jsonl", "squad-2.0")
    metrics("answered.jsonl")
    assert "have no answer" not in capsys.readouterr().err


def test_a_file_of_squad_needs_its_task(span_folder: Path, world: Path) -> None:
    settings = EvaluateSettings(data=str(world / "squad/dev-v2.0.json"), device="cpu")
    with pytest.raises(InputError, match=r"a file of SQuAD needs --task squad-1\.1 or squad-2\.0"):
        evaluate(span_folder, settings)
    assert evaluate(span_folder, replace(settings, task="squad-2.0"))[0].num_examples


def test_a_pipeline_takes_the_task_of_a_folder_that_does_not_name_it(span_folder: Path) -> None:
    question = {"question": "Ka lo?", "context": "Ka lo mi."}
    assert "no_answer_score" not in pipeline(span_folder, device="cpu")(**question)
    assert "no_answer_score" in pipeline(span_folder, device="cpu", task="squad-2.0")(**question)
    same = pipeline(span_folder, device="cpu", task="span")
    assert "no_answer_score" not in same(**question)
    with pytest.raises(InputError, match="its task type is span, but --task sst-2 is of type classify"):
        pipeline(span_folder, task="sst-2")


def test_ids_from_another_column_than_in_training_are_not_numbered_silently(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = TaskCard("classify", "classify", ("bad", "good"), max_length=64, columns={"id": "key"})
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify"), card)
    data = tmp_path / "a.csv"
    data.write_text("number,text\n7,ka lo\n8,mi\n")

    def ids(**options: Any) -> list[str]:
        out = tmp_path / "out.jsonl"
        out.unlink(missing_ok=True)
        predict(str(model), PredictSettings(data=str(data), device="cpu", **options), out)
        return [json.loads(line)["id"] for line in out.read_text().splitlines()]

    assert ids() == ["0", "1"]
    message = "a.csv: no column key, which had the ids in training; rows without it are numbered"
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert ids(id="number") == ["7", "8"]
    data.write_text("key,text\n5,ka lo\n")
    assert ids() == ["5"]
    assert "no column" not in capsys.readouterr().err


def test_the_lines_of_a_text_file_are_predicted(
    reviews_model: Path, checkpoint: Path, tmp_path: Path
) -> None:
    lines = tmp_path / "new.txt"
    lines.write_text("ka ka lo\n\nmi ka\n")
    table = write_csv(tmp_path / "new.csv", [{"review": "ka ka lo"}, {"review": "mi ka"}])
    rows = {}
    for data in (lines, table):
        out = tmp_path / f"{data.suffix[1:]}.jsonl"
        predict(str(reviews_model / "run"), PredictSettings(data=str(data), device="cpu"), out)
        rows[data.suffix] = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row.pop("id") for row in rows[".txt"]] == ["0", "2"]  # the numbers of the lines, from 0
    assert [row.pop("id") for row in rows[".csv"]] == ["0", "1"]
    assert rows[".txt"] == rows[".csv"]

    def refusal(model: Path, **options: Any) -> str:
        with pytest.raises(InputError) as error:
            settings = PredictSettings(data=str(lines), device="cpu", **options)
            predict(str(model), settings.with_explicit_keys(set(options)), tmp_path / "x.jsonl")
        return str(error.value)

    assert "--text is not used for lines of text, which have no columns" in refusal(
        reviews_model / "run", text="body"
    )
    assert "--keep needs a table" in refusal(reviews_model / "run", keep="all")
    card = TaskCard("mnli", "classify", ("entailment", "neutral", "contradiction"), max_length=64)
    pairs = save_untrained_model(tmp_path / "m", checkpoint, HeadSettings("classify", labels=3), card)
    assert "new.txt, line 1: 1 text, but the model judges pairs of texts; give a table with two" in refusal(
        pairs
    )
    assert not (tmp_path / "x.jsonl").exists()
    card = replace(card, task="classify", columns={"text": "a", "text_pair": "b"})
    pairs = save_untrained_model(tmp_path / "n", checkpoint, HeadSettings("classify", labels=3), card)
    assert "lines of text, which have no second texts; give a table" in refusal(pairs)
    with pytest.raises(InputError, match=r"lines of text, which have no labels; give a table, such as \.csv"):
        evaluate(reviews_model / "run", EvaluateSettings(data=str(lines), device="cpu"))


def test_a_table_of_answers_has_the_best_one_also_where_the_prediction_is_none(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = TaskCard("span", "span", allows_no_answer=True, no_answer_threshold=-50.0, max_length=64)
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("span"), card)
    rows = [{"question": "Who ran?", "context": f"{name} ran home."} for name in ("Ida", "Tom")]
    data = write_csv(tmp_path / "rows.csv", rows)
    predict(str(model), PredictSettings(data=str(data), device="cpu"), tmp_path / "out.csv")
    header, *lines = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "id,answer,no_answer_score,best_answer"
    for line, row in zip(lines, rows, strict=True):
        _, answer, _, best_answer = line.split(",")
        assert answer == "" != best_answer
        assert best_answer in row["context"]
    assert f"{data}: 2 of 2 questions have no answer" in capsys.readouterr().err


def test_race_metrics_by_level(checkpoint: Path, world: Path, tmp_path: Path) -> None:
    card = TaskCard("race", "choice", max_length=64)
    model = save_untrained_model(
        tmp_path / "model", checkpoint, HeadSettings("choice", labels=1, options=4), card
    )
    settings = EvaluateSettings(data=str(world), device="cpu")
    (evaluation,) = evaluate([str(model)], settings)
    middle, high = evaluation.metrics["accuracy_middle"], evaluation.metrics["accuracy_high"]
    assert evaluation.metrics["accuracy"] == pytest.approx((middle + high) / 2, abs=0.01)
    assert evaluation.num_examples == 40


def test_unlabeled_test_split_cannot_be_evaluated(checkpoint: Path, world: Path, tmp_path: Path) -> None:
    task = find_task("rte")
    card = TaskCard("rte", "classify", task.labels, task.metric_names, max_length=64)
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify", labels=2), card)
    settings = EvaluateSettings(data=str(world), split="test", device="cpu")
    with pytest.raises(InputError, match="has no labels; write predictions for it with albertine predict"):
        evaluate([str(model)], settings)


@pytest.mark.parametrize("position", [0, 1])
def test_unlabeled_examples_stop_an_evaluation_or_are_skipped(
    position: int, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_untrained_model(
        tmp_path / "model",
        checkpoint,
        HeadSettings("span", labels=2),
        TaskCard("squad-1.1", "span", max_length=64),
    )
    data = write_squad(tmp_path / "dev-v1.1.json")
    content = json.loads(data.read_text())
    for paragraph in content["data"][0]["paragraphs"]:
        del paragraph["qas"][1]  # a question without an answer
    del content["data"][0]["paragraphs"][position]["qas"][0]["answers"]
    data.write_text(json.dumps(content))
    settings = EvaluateSettings(data=str(data), device="cpu")
    with pytest.raises(
        InputError, match=rf"paragraph {position}, question 0: has no label, .*; fix it, or use --on-error"
    ):
        evaluate(model, settings)
    (result,) = evaluate(model, replace(settings, on_error="skip"))
    assert result.num_examples == 2
    location = f"{data}, article 0, paragraph {position}, question 0"
    assert f"skipped rows: 1, the first at {location}: has no label" in capsys.readouterr().err


@pytest.mark.parametrize("named_in", ["fine-tuning", "prediction"])
def test_named_question_column_must_exist(named_in: str, checkpoint: Path, tmp_path: Path) -> None:
    columns: dict[str, str | None] = {"question": "premise"} if named_in == "fine-tuning" else {}
    card = TaskCard("choice", "choice", num_options=2, max_length=64, columns=columns)
    model = save_untrained_model(
        tmp_path / "model", checkpoint, HeadSettings("choice", labels=1, options=2), card
    )
    data = str(write_jsonl(tmp_path / "new.jsonl", [{"options": ["ka", "lo"], "context": "mi"}]))
    settings = PredictSettings(data=data, device="cpu")
    if named_in == "prediction":
        assert predict(model, settings, tmp_path / "a.jsonl") == 1
        settings = settings.with_explicit_keys({"question"})  # as in --question question
    name = columns.get("question", "question")
    with pytest.raises(
        InputError, match=rf"new.jsonl, line 1: no column {name}; .*name another with --question"
    ):
        predict(model, settings, tmp_path / "b.jsonl")


def test_columns_of_all_training_questions_must_exist(checkpoint: Path, tmp_path: Path) -> None:
    rows: list[Any] = [{"context": "mi", "question": "na", "options": ["ka", "lo"], "label": 0}] * 2
    sometimes = [rows[0], {**rows[1], "question": ""}]
    task, read = find_task("choice"), DataSettings()
    for name, train, needed in (("all", rows, "question"), ("some", sometimes, None)):
        train_file = str(write_jsonl(tmp_path / f"{name}.jsonl", train))
        examples = load_examples(task, train_file, "train", read, require_labels=True)
        card = task.task_type.complete_card(TaskCard("choice", "choice", max_length=64), examples, train_file)
        head = HeadSettings("choice", labels=1, options=2)
        model = save_untrained_model(tmp_path / name, checkpoint, head, card)
        new = str(write_jsonl(tmp_path / "new.jsonl", [{"context": "mi", "options": ["ka", "lo"]}]))
        settings = PredictSettings(data=new, device="cpu")
        if needed is None:
            assert predict(model, settings, tmp_path / f"{name}-predictions.jsonl") == 1
            continue
        with pytest.raises(
            InputError, match=r"new.jsonl, line 1: no column question; .*name another with --quest"
        ):
            predict(model, settings, tmp_path / f"{name}-predictions.jsonl")


def evaluation(task: str, score: float) -> EvaluationResult:
    """Return a result with the official score, of a model that was selected by another metric."""
    known = find_task(task)
    names = known.primary_metrics or known.task_type.primary_metrics
    return EvaluationResult("x", task, "dev", 1, dict.fromkeys(names, score / 100), 0.1, 1.0)


def test_paper_averages() -> None:
    glue = {
        "mnli": 90.8,
        "qnli": 95.3,
        "qqp": 92.2,
        "rte": 89.2,
        "sst-2": 96.9,
        "mrpc": 90.9,
        "cola": 71.4,
        "sts-b": 93.0,
    }
    results = [evaluation(task, value) for task, value in glue.items()]
    assert paper_averages(results) == {"GLUE": pytest.approx(sum(glue.values()) / 800)}
    # The paper's Table 2, ALBERT xxlarge: 94.1/88.3, 88.1/85.1, 88.0, 95.2, 82.3 average to 88.7.
    table_2 = {
        "squad-1.1": (94.1 + 88.3) / 2,
        "squad-2.0": (88.1 + 85.1) / 2,
        "mnli": 88.0,
        "sst-2": 95.2,
        "race": 82.3,
    }
    results = [evaluation(task, value) for task, value in table_2.items()]
    assert paper_averages(results)["Table 2"] == pytest.approx(0.887, abs=5e-4)


@pytest.mark.parametrize(("task", "separator"), [("tag", " "), ("multi-label", "/")])
def test_lists_in_a_cell(task: str, separator: str, tmp_path: Path) -> None:
    """Labels have the separator of the training data; a card has one for tags too, which are no labels."""
    card = TaskCard(task, task, labels=("B-X", "O"), columns={"label_separator": "/"})
    values = {"tags": ["B-X", "O"], "labels": ["B-X", "O"]}
    write = prediction_writer(card, "new.csv", ("test",), tmp_path / "out.csv")
    assert write("test", RowStream([(TaggedExample("row 1", "0", ("a", "b")), values)])) == 1
    assert f"B-X{separator}O" in (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize(("task", "label"), [("tag", "drug name"), ("multi-label", "loud/sweet")])
def test_a_list_with_the_separator_in_a_text_is_json(task: str, label: str, tmp_path: Path) -> None:
    card = TaskCard(task, task, labels=(label, "O"), columns={"label_separator": "/"})
    write = prediction_writer(card, "new.csv", ("test",), tmp_path / "out.csv")
    values = {"tags": [label, "O"], "labels": [label, "O"]}
    write("test", RowStream([(TaggedExample("row 1", "0", ("a", "b")), values)]))
    with (tmp_path / "out.csv").open(newline="") as file:
        assert json.dumps([label, "O"]) in next(
            row for number, row in enumerate(csv.reader(file)) if number == 1
        )


def test_a_task_of_the_same_type_keeps_the_metric_of_the_model() -> None:
    card = TaskCard("multi-label", "multi-label", labels=("a", "b"), metric="macro_f1")
    assert card_for_task(card, find_task("multi-label"), "x").metric == "macro_f1"
    card = TaskCard("classify", "classify", labels=("0", "1"), metric="macro_f1")
    assert card_for_task(card, find_task("cola"), "x").metric is None


# Pipelines.


def test_pipeline_accepts_one_or_a_list(reviews_model: Path) -> None:
    classifier = pipeline(reviews_model / "run", device="cpu", precision="fp32")
    assert classifier.type_name == "classify"
    assert classifier.labels == ("blue", "green", "red")
    prediction = classifier("ka ka ka vu")
    assert prediction["label"] == "red"
    assert classifier(["ka ka ka vu", "mi mi mi vu"])[0] == prediction
    assert classifier([]) == []


def test_pipeline_for_every_task_type(checkpoint: Path, tmp_path: Path) -> None:
    pair_classifier = pipeline(
        save_untrained_model(
            tmp_path / "pair",
            checkpoint,
            HeadSettings("classify"),
            TaskCard("classify", "classify", ("x", "y"), ("accuracy",), max_length=64),
        ),
        device="cpu",
    )
    assert pair_classifier("ka", "lo")["label"] in ("x", "y")
    assert len(pair_classifier(["ka", "lo"], ["mi", "vu"])) == 2
    reader = pipeline(
        save_untrained_model(
            tmp_path / "span", checkpoint, HeadSettings("span"), TaskCard("span", "span", max_length=64)
        ),
        device="cpu",
    )
    prediction = reader(question="ka?", context="Lo mi vu.")
    assert prediction["answer"] in "Lo mi vu."
    assert len(reader(question=["ka?", "lo?"], context=["Lo mi.", "Vu."])) == 2
    chooser = pipeline(
        save_untrained_model(
            tmp_path / "choice",
            checkpoint,
            HeadSettings("choice", labels=1, options=2),
            TaskCard("choice", "choice", num_options=2, max_length=64),
        ),
        device="cpu",
    )
    assert chooser(context="ka", question="lo?", options=["mi", "vu"])["text"] in ("mi", "vu")
    assert len(chooser(question=["ka", "lo"], options=[["mi", "vu"], ["vu", "mi"]])) == 2
    tagger = pipeline(
        save_untrained_model(
            tmp_path / "tag",
            checkpoint,
            HeadSettings("token", labels=2),
            TaskCard("tag", "tag", ("A", "B"), max_length=64),
        ),
        device="cpu",
    )
    assert tagger("ka lo mi")["words"] == ["ka", "lo", "mi"]
    assert len(tagger([["ka"], ["lo", "mi"]])) == 2
    regressor = pipeline(
        save_untrained_model(
            tmp_path / "number",
            checkpoint,
            HeadSettings("regress", labels=1),
            TaskCard("regress", "regress", (), ("pearson",), max_length=64),
        ),
        device="cpu",
    )
    assert isinstance(regressor("ka")["value"], float)
    invalid_calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: reader("ka"), "text: not for this model; this model takes context and question"),
        (lambda: reader(question="ka?"), "context: missing; this model takes"),
        (lambda: pair_classifier("ka", "lo", question="mi"), "question: not for this model"),
        (lambda: pair_classifier(["ka"], "lo"), "text_pair: must be a list, as text is"),
        (lambda: chooser(question="ka", context=3, options=["mi", "vu"]), "context: must be text, not int"),  # type: ignore[arg-type]
        (
            lambda: tagger(["ka lo", "mi bra"]),
            "text: ka lo is not one word; .* give a list of lists of words",
        ),
        (lambda: tagger([1]), "text: must be text, not int"),
        (
            lambda: pipeline(tmp_path / "tag", precision="fp16"),
            "precision fp16: unknown .*; known: auto, fp32",
        ),
        (lambda: pipeline(tmp_path / "tag", engine="foo"), "engine foo: unknown; known: torch"),  # type: ignore[call-overload]
        (lambda: pair_classifier(["ka"], ["lo", "mi"]), "lists of different lengths"),
        (
            lambda: pair_classifier([("ka", "lo")]),
            r"text: must be text, not tuple; .* two lists: text=\[...\]",
        ),
        (lambda: pair_classifier({"text": "ka"}), "not dict; pass .* by name: text=..., text_pair=..."),  # type: ignore[arg-type]
        (lambda: reader([{"question": "ka?"}]), r"not dict; .*: context=\[...\], question=\[...\]"),
        (lambda: chooser(question="ka"), "options: missing"),
        (lambda: chooser(question="ka", options=[1, 2]), "lists of text|must be text"),  # type: ignore[list-item]
        (lambda: tagger([None]), "lists of text|must be text"),
        (lambda: pair_classifier("x\ud800"), "an unpaired surrogate"),
        (lambda: chooser(question="ka", options=["mi"]), "options: 1; the model chooses between 2"),
    ]
    for invalid_call, message in invalid_calls:
        with pytest.raises(InputError, match=message):
            invalid_call()


def test_questions_have_any_number_of_options_if_the_folder_states_none(
    checkpoint: Path, tmp_path: Path
) -> None:
    """A folder of `transformers` has no task card, and nothing in the weights depends on the number."""
    card = TaskCard("choice", "choice", num_options=2, max_length=64)
    head = HeadSettings("choice", labels=1, options=2)
    folder = save_untrained_model(tmp_path / "model", checkpoint, head, card)
    two = pipeline(folder, device="cpu", precision="fp32")(context="ka lo", options=["mi", "vu"])
    (folder / "task.json").unlink()
    with pytest.raises(InputError, match="options: 3; the model chooses between 2"):  # of config.json
        pipeline(folder, device="cpu")(options=["mi", "vu", "ka"])
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del config["albertine"]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    chooser = pipeline(folder, device="cpu", precision="fp32")
    prediction = chooser(context="ka lo", options=["mi", "vu"])
    assert prediction["option"] == two["option"]
    assert prediction["probabilities"] == pytest.approx(two["probabilities"], abs=1e-5)
    options = [["mi", "vu"], ["vu", "mi", "ka", "lo", "bra"], ["ka", "mi", "vu"]]
    predictions = chooser(context="ka lo", options=options)
    assert [len(prediction["probabilities"]) for prediction in predictions] == [2, 5, 3]
    assert [sum(prediction["probabilities"]) for prediction in predictions] == pytest.approx(
        [1] * 3, abs=1e-4
    )
    first, second = predictions[2]["probabilities"][1:]  # of the same options, so in the same proportion
    assert first / second == pytest.approx(two["probabilities"][0] / two["probabilities"][1], abs=1e-3)

    data = tmp_path / "data.jsonl"
    rows = [{"context": "ka lo", "options": row, "label": 1} for row in options]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (result,) = evaluate([str(folder)], EvaluateSettings(data=str(data), device="cpu", precision="fp32"))
    expected = sum(prediction["option"] == 1 for prediction in predictions) / 3
    assert result.metrics["accuracy"] == pytest.approx(expected)
    with pytest.raises(InputError, match="options: 1; a question has at least two"):
        chooser(options=["mi"])
    exiting = pipeline(folder, device="cpu", exit="confidence:0.9")  # looks at whole questions
    assert len(exiting(options=["mi", "vu", "ka", "lo"])["probabilities"]) == 4


def test_pipeline_is_thread_safe(reviews_model: Path) -> None:
    classifier = pipeline(reviews_model / "run", device="cpu", precision="fp32")
    text_lists = [[row["review"] for row in reviews(seed, 30)] for seed in range(6)]
    expected = [classifier(texts) for texts in text_lists]
    actual: list[Any] = [None] * len(text_lists)

    def work(index: int) -> None:
        for _ in range(3):
            actual[index] = classifier(text_lists[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(text_lists))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for actual_list, expected_list in zip(actual, expected, strict=True):
        assert [prediction["label"] for prediction in actual_list] == [
            prediction["label"] for prediction in expected_list
        ]


# Ensembles.


def test_mean_scores() -> None:
    first = [
        [np.array([0.8, 0.2], np.float32)],
        [np.array([0.1, 0.9], np.float32), np.array([0.5, 0.5], np.float32)],
    ]
    second = [
        [np.array([0.4, 0.6], np.float32)],
        [np.array([0.3, 0.7], np.float32), np.array([0.1, 0.9], np.float32)],
    ]
    means = mean_scores([first, second], [1.0, 1.0])
    assert means[0][0] == pytest.approx([0.6, 0.4])
    assert means[1][1] == pytest.approx([0.3, 0.7])
    assert mean_scores([first], [1.0])[1][1].tolist() == first[1][1].tolist()


def test_greedy_selection(reviews_model: Path, checkpoint: Path, tmp_path: Path) -> None:
    trained_card = json.loads((reviews_model / "run/task.json").read_text())
    card = TaskCard(
        "classify",
        "classify",
        tuple(trained_card["labels"]),
        tuple(trained_card["metric_names"]),
        max_length=64,
    )
    card = replace(card, columns={"text": "review", "label": "stars"})
    untrained = [
        save_untrained_model(
            tmp_path / f"m{seed}", checkpoint, HeadSettings("classify", labels=3), card, seed
        )
        for seed in (1, 2)
    ]
    sources = [str(untrained[0]), str(reviews_model / "run"), str(untrained[1])]
    settings = EnsembleSettings(data=str(reviews_model / "dev.csv"), device="cpu", precision="fp32")
    result = evaluate_ensemble(sources, settings, tmp_path / "out.jsonl")
    assert result.selected == [sources[1]]  # the others are untrained
    assert result.gain == 0.0
    assert result.primary_metric == max(result.candidates.values()) == 1.0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 60
    all_members = evaluate_ensemble(sources, replace(settings, selection="all"))
    assert all_members.selected == sources
    with pytest.raises(InputError, match="an ensemble needs at least two"):
        evaluate_ensemble(sources[:1], settings)
    with pytest.raises(InputError, match="named twice"):
        evaluate_ensemble(sources[:1] * 2, settings)
    other_labels = save_untrained_model(
        tmp_path / "other",
        checkpoint,
        HeadSettings("classify"),
        TaskCard("classify", "classify", ("x", "y"), ("accuracy",), max_length=64),
    )
    with pytest.raises(InputError, match="has another task type or other labels than"):
        evaluate_ensemble([sources[1], str(other_labels)], settings)


def test_an_ensemble_of_a_task_with_an_official_folder_needs_no_output(
    checkpoint: Path, world: Path, tmp_path: Path
) -> None:
    task = find_task("rte")
    card = TaskCard("rte", task.type_name, task.labels, task.metric_names, max_length=64)
    head = HeadSettings("classify", labels=2)
    models = [
        str(save_untrained_model(tmp_path / f"m{seed}", checkpoint, head, card, seed)) for seed in (1, 2)
    ]
    result = evaluate_ensemble(
        models, EnsembleSettings(data=str(world), device="cpu"), save=tmp_path / "both"
    )
    assert (tmp_path / "both" / "ensemble.json").exists()
    assert result.primary_metric >= max(result.candidates.values())


def squad_models(folder: Path, checkpoint: Path) -> list[str]:
    """Write two untrained models for SQuAD 2.0; return their folders."""
    card = TaskCard("squad-2.0", "span", allows_no_answer=True, max_length=64)
    head = HeadSettings("span", answerable=True)
    return [str(save_untrained_model(folder / f"m{seed}", checkpoint, head, card, seed)) for seed in (1, 2)]


def test_questions_with_the_same_id_are_counted(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions: list[dict[str, Any]] = [
        {"question": "Ka?", "id": number, "answers": []} for number in ("1", "2", "1")
    ]
    data = {"data": [{"paragraphs": [{"context": "Ka lo mi.", "qas": questions}]}]}
    (tmp_path / "dev-v1.1.json").write_text(json.dumps(data))
    card = TaskCard("squad-1.1", "span", max_length=64)
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("span"), card)
    settings = PredictSettings(data=str(tmp_path / "dev-v1.1.json"), device="cpu", precision="fp32")
    predict(str(model), settings, tmp_path / "out.json")
    assert list(json.loads((tmp_path / "out.json").read_text())) == ["1", "2"]
    assert "out.json: 1 questions have the id of an earlier one" in capsys.readouterr().err


@pytest.mark.parametrize("data", ["", "dev-v2.0.json"], ids=["folder", "file"])
def test_squad_answers_are_json_for_folder_and_file(data: str, checkpoint: Path, tmp_path: Path) -> None:
    """SQuAD publishes no test split, so its folder has only train and dev."""
    write_squad(tmp_path / "squad" / "dev-v2.0.json")
    models, source = squad_models(tmp_path, checkpoint), str(tmp_path / "squad" / data)
    settings = EnsembleSettings(data=source, device="cpu", precision="fp32")
    evaluate_ensemble(models, settings, tmp_path / "ensemble.json")
    predict(models[0], PredictSettings(data=source, device="cpu", precision="fp32"), tmp_path / "single.json")
    single, ensemble = (
        json.loads((tmp_path / f"{name}.json").read_text()) for name in ("single", "ensemble")
    )
    ids = list("012345")
    assert list(single) == list(ensemble) == ids
    assert list(json.loads((tmp_path / "ensemble.no_answer.json").read_text())) == ids


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("out.xlsx", "out.xlsx: unknown format; name a file that ends in .json, .jsonl, .csv, .tsv"),
        ("m1", "m1: unknown format"),
        ("taken.json", "taken.json: exists already"),
    ],
)
def test_ensemble_refuses_an_output_before_any_work(
    out: str, message: str, checkpoint: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "taken.json").write_text("{}")
    monkeypatch.setattr(
        "albertine.inference.ensemble._score_examples", lambda *_: pytest.fail("scored first")
    )
    monkeypatch.setattr("albertine.inference.ensemble.read_split", lambda *_, **__: pytest.fail("read first"))
    settings = EnsembleSettings(data=str(world), device="cpu")
    with pytest.raises(InputError, match=message):
        evaluate_ensemble(squad_models(tmp_path, checkpoint), settings, tmp_path / out)


def test_ensemble_reads_the_rows_to_predict_before_any_work(
    checkpoint: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(world / "squad", tmp_path / "squad")
    (tmp_path / "squad" / "test-v2.0.json").write_text("{")
    monkeypatch.setattr(
        "albertine.inference.ensemble._score_examples", lambda *_: pytest.fail("scored first")
    )
    settings = EnsembleSettings(data=str(tmp_path / "squad"), device="cpu")
    with pytest.raises(InputError, match=r"test-v2\.0\.json: not JSON"):
        evaluate_ensemble(squad_models(tmp_path, checkpoint), settings, tmp_path / "out.json")


@pytest.mark.slow
def test_ensemble_of_span_models(checkpoint: Path, world: Path, tmp_path: Path) -> None:
    models = squad_models(tmp_path, checkpoint)
    card = parse_card(tmp_path / "m1" / "task.json")
    settings = EnsembleSettings(data=str(world), device="cpu", selection="all")
    result = evaluate_ensemble(models, settings)
    assert result.selected == models
    assert set(result.candidates) == set(models)
    # The no-answer threshold is fitted on dev for the ensemble, not for its members.
    assert result.metrics["f1"] == pytest.approx(result.metrics["best_f1"], abs=0.02)
    # Written predictions use the same threshold as the metrics, whichever model is named first.
    dev = world / "squad" / "dev-v2.0.json"
    for sources in (models, models[::-1]):
        dev_settings = replace(settings, data=str(dev), selection="greedy")
        greedy_result = evaluate_ensemble(sources, dev_settings, tmp_path / "out.jsonl")
        answers = [json.loads(line)["answer"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        with pytest.raises(InputError, match=r"out\.jsonl: exists already"):
            evaluate_ensemble(sources, dev_settings, tmp_path / "out.jsonl")
        (tmp_path / "out.jsonl").unlink()
        examples = find_task("squad-2.0").read_examples(
            str(dev), "dev", dev_settings, ReadErrors(skip=False), require_labels=True
        )
        gold_answers = [
            [answer.text for answer in example.answers or ()]
            for example in examples
            if isinstance(example, QuestionExample)
        ]
        exact = [best_scores(gold, answer)[0] for gold, answer in zip(gold_answers, answers, strict=True)]
        assert sum(exact) / len(exact) == pytest.approx(greedy_result.metrics["exact"])
    shorter = save_untrained_model(
        tmp_path / "short",
        checkpoint,
        HeadSettings("span", answerable=True),
        replace(card, max_length=50, sequence=replace(card.sequence, max_length=50)),
    )
    with pytest.raises(InputError, match="tokenizes text differently from"):
        evaluate_ensemble([models[0], str(shorter)], settings)
