"""Tuned models asked: files in and files out, as a function, and several as one."""

import csv
import io
import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from tests.task_fixtures import reviews, save_untrained_model, with_train_settings, write_csv, write_jsonl

from albertine.errors import InputError
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings
from albertine.inference import evaluate as evaluating
from albertine.inference import predict as predicting
from albertine.inference.ensemble import evaluate_ensemble, mean_scores
from albertine.inference.evaluate import EvaluationResult, evaluate, paper_averages
from albertine.inference.pipeline import pipeline
from albertine.inference.predict import predict
from albertine.inference.settings import EnsembleSettings, EvaluateSettings, PredictSettings
from albertine.settings import HeadSettings
from albertine.tasks import scorer
from albertine.tasks.card import TaskCard
from albertine.tasks.examples import QuestionExample
from albertine.tasks.metrics.squad import best_scores
from albertine.tasks.reading import load_examples
from albertine.tasks.registry import find_task
from albertine.tasks.settings import DataSettings
from albertine.text.documents import ReadErrors


@pytest.fixture(scope="module")
def reviews_model(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that knows reviews."""
    folder = tmp_path_factory.mktemp("judge")
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
    monkeypatch.setattr(scorer, "CHUNK_SIZE", 7)  # the order holds over windows too
    rows = [{"id": f"r{at}", "review": row["review"]} for at, row in enumerate(reviews(9, 50))]
    data = write_csv(tmp_path / "new.csv", rows)
    out = tmp_path / f"answers{suffix}"
    settings = PredictSettings(data=str(data), device="cpu", precision="fp32")
    assert predict(str(reviews_model / "run"), settings, out) == 50
    text = out.read_text(encoding="utf-8")
    if suffix == ".jsonl":
        found = [json.loads(line) for line in text.splitlines()]
    else:
        found = list(csv.DictReader(io.StringIO(text), delimiter="," if suffix == ".csv" else "\t"))
    assert [one["id"] for one in found] == [row["id"] for row in rows]
    right = [row["stars"] for row in reviews(9, 50)]
    assert [one["label"] for one in found] == right
    assert list(tmp_path.glob(".*")) == []


def test_predict_streams_rows(reviews_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been answered is not kept, and what comes is not read ahead."""
    monkeypatch.setattr(scorer, "CHUNK_SIZE", 4)
    held: list[int] = []
    read = 0
    take = evaluating.read_split

    def counted(*given: Any, **how: Any) -> Any:
        nonlocal read
        for one in take(*given, **how):
            read += 1
            yield one

    monkeypatch.setattr("albertine.inference.predict.read_split", counted)

    def watch(answered: Any, stream: Any, kind: str) -> int:
        count = 0
        for count, _ in enumerate(answered, start=1):
            held.append(read - count)
        return count

    monkeypatch.setitem(predicting._WRITERS, ".jsonl", watch)
    data = write_csv(tmp_path / "new.csv", [{"review": row["review"]} for row in reviews(9, 40)])
    predict(
        str(reviews_model / "run"),
        PredictSettings(data=str(data), device="cpu"),
        tmp_path / "a.jsonl",
    )
    assert len(held) == 40
    assert max(held) <= 4


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
    assert "1 rows skipped, the first at" in capsys.readouterr().err
    assert [json.loads(one)["id"] for one in (tmp_path / "a.jsonl").read_text().splitlines()] == ["0", "2"]


@pytest.mark.parametrize("content", ["review\n", ""])
def test_empty_input_leaves_no_output(content: str, reviews_model: Path, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text(content)
    settings = PredictSettings(data=str(tmp_path / "none.csv"), device="cpu")
    for _ in range(2):
        with pytest.raises(InputError, match=r"none.csv: no examples in"):
            predict(str(reviews_model / "run"), settings, tmp_path / "a.csv")
    assert [one.name for one in tmp_path.iterdir()] == ["none.csv"]


def test_explicit_id_column_must_exist(reviews_model: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "new.csv", [{"review": "ka ka", "key": "a7"}])
    settings = PredictSettings(data=str(data), device="cpu", id="nosuch")
    with pytest.raises(InputError, match=r"new.csv: no column nosuch; it has review, key"):
        predict(str(reviews_model / "run"), settings, tmp_path / "a.jsonl")
    predict(str(reviews_model / "run"), replace(settings, id="key"), tmp_path / "a.jsonl")
    assert json.loads((tmp_path / "a.jsonl").read_text())["id"] == "a7"


def test_output_is_never_overwritten(reviews_model: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "new.csv", [{"review": "ka ka"}])
    before = data.read_bytes()
    settings = PredictSettings(data=str(data), device="cpu")
    with pytest.raises(InputError, match=r"new.csv: exists already; name another file or remove it"):
        predict(str(reviews_model / "run"), settings, data)
    assert data.read_bytes() == before


def test_option_count_must_match_model(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: list[list[str]] = [["mi", "lo"], ["mi", "lo", "vu"], ["vu", "lo"]]
    rows = [{"question": "ka?", "options": some, "label": 1} for some in options]
    data = str(write_jsonl(tmp_path / "new.jsonl", rows))
    card = TaskCard("choice", "choice", num_options=2, max_length=64)
    model = save_untrained_model(
        tmp_path / "model", checkpoint, HeadSettings("choice", labels=1, options=2), card
    )
    settings = PredictSettings(data=data, device="cpu")
    problem = "new.jsonl, line 2: 3 options, where others have 2; fix it, or use --on-error skip"
    with pytest.raises(InputError, match=problem):
        predict(str(model), settings, tmp_path / "a.jsonl")
    assert predict(str(model), replace(settings, on_error="skip"), tmp_path / "a.jsonl") == 2
    skipping = DataSettings(on_error="skip")
    assert len(load_examples(find_task("choice"), data, "train", skipping, require_labels=True)) == 2
    assert (
        len(load_examples(find_task("choice"), data, "dev", skipping, require_labels=True, num_options=3))
        == 1
    )
    assert capsys.readouterr().err.count("2 rows skipped") == 1
    with pytest.raises(InputError, match=problem):
        load_examples(find_task("choice"), data, "train", DataSettings(), require_labels=True)


@pytest.mark.parametrize(
    ("out", "columns", "message"),
    [
        ("a.xlsx", {}, "a.xlsx: unknown format; name a file that ends in .jsonl, .csv, .tsv"),
        ("a.csv", {"text": "body"}, "no column body; it has review"),
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
    with pytest.raises(InputError, match="its head is pretrain, of no task; fine-tune it first"):
        evaluate([str(checkpoint)], settings)


def test_invalid_task_json(reviews_model: Path, tmp_path: Path) -> None:
    for content, message in (
        ("{", "not a task card"),
        ('{"format": 1}', "this one reads format 2; fine-tune the model again"),
        ('{"format": 2, "task": "x"}', "not a task card"),
    ):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(reviews_model / "run", tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
        (tmp_path / "run/task.json").write_text(content)
        with pytest.raises(InputError, match=message):
            pipeline(tmp_path / "run", device="cpu")


# What the official tasks' servers and scripts take.


@pytest.mark.parametrize(
    ("task", "files"),
    [
        ("rte", ["RTE.tsv"]),
        ("mnli", ["MNLI-m.tsv", "MNLI-mm.tsv"]),
        ("sts-b", ["STS-B.tsv"]),
        ("cola", ["CoLA.tsv"]),
    ],
)
def test_glue_submission_format(
    task: str, files: list[str], checkpoint: Path, world: Path, tmp_path: Path
) -> None:
    known = find_task(task)
    card = TaskCard(task, known.type_name, known.labels, known.metric_names, max_length=64)
    head = HeadSettings(known.task_type.head_kind, labels=len(known.labels) or 1)
    model = save_untrained_model(tmp_path / "model", checkpoint, head, card)
    settings = PredictSettings(data=str(world), device="cpu")
    predict(str(model), settings, tmp_path / "out")
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == files
    for file in files:
        found, gold = (
            [line.split("\t") for line in (folder / file).read_text().splitlines()]
            for folder in (tmp_path / "out", world / "glue" / "gold")
        )
        assert found[0] == gold[0] == ["index", "prediction"]
        assert [row[0] for row in found] == [row[0] for row in gold]
        if known.labels:
            assert {row[1] for row in found[1:]} <= set(known.labels)
    predict(str(model), replace(settings, split="dev"), tmp_path / "dev")
    assert sorted(one.name for one in (tmp_path / "dev").iterdir()) == files
    with pytest.raises(InputError, match="name a folder for them"):
        predict(str(model), settings, tmp_path / "a.tsv")


def test_empty_split_fails_before_predicting(checkpoint: Path, world: Path, tmp_path: Path) -> None:
    known = find_task("mnli")
    card = TaskCard("mnli", known.type_name, known.labels, known.metric_names, max_length=64)
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify", labels=3), card)
    folder = tmp_path / "glue" / "MNLI"
    shutil.copytree(world / "glue" / "MNLI", folder)
    second = folder / "test_mismatched.tsv"
    second.write_text(second.read_text().splitlines()[0] + "\n")
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
    maybe = version == "2.0"
    card = TaskCard(task, "span", allows_no_answer=maybe, max_length=64)
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("span", answerable=maybe), card)
    settings = PredictSettings(data=str(world), split="dev", device="cpu", precision="fp32")
    count = predict(str(model), settings, tmp_path / "out.json")
    answers = json.loads((tmp_path / "out.json").read_text())
    questions = json.loads((world / f"squad/dev-v{version}.json").read_text())["data"]
    ids = {asked["id"] for one in questions for part in one["paragraphs"] for asked in part["qas"]}
    assert set(answers) == ids
    assert count == len(ids)
    assert (tmp_path / "out.no_answer.json").exists() is maybe
    (found,) = evaluate([str(model)], EvaluateSettings(data=str(world), device="cpu"))
    assert found.num_examples == count
    assert ("best_f1" in found.metrics) is maybe


def test_race_metrics_by_level(checkpoint: Path, world: Path, tmp_path: Path) -> None:
    card = TaskCard("race", "choice", max_length=64)
    model = save_untrained_model(
        tmp_path / "model", checkpoint, HeadSettings("choice", labels=1, options=4), card
    )
    settings = EvaluateSettings(data=str(world), device="cpu")
    (found,) = evaluate([str(model)], settings)
    middle, high = found.metrics["accuracy_middle"], found.metrics["accuracy_high"]
    assert found.metrics["accuracy"] == pytest.approx((middle + high) / 2, abs=0.01)
    assert found.num_examples == 40


def test_unlabelled_test_split_cannot_be_evaluated(checkpoint: Path, world: Path, tmp_path: Path) -> None:
    known = find_task("rte")
    card = TaskCard("rte", "classify", known.labels, known.metric_names, max_length=64)
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify", labels=2), card)
    settings = EvaluateSettings(data=str(world), split="test", device="cpu")
    with pytest.raises(InputError, match="has no labels; write predictions for it with albertine predict"):
        evaluate([str(model)], settings)


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
    found = [EvaluationResult("x", task, "dev", 1, {}, value / 100, 1.0) for task, value in glue.items()]
    assert paper_averages(found) == {"GLUE": pytest.approx(sum(glue.values()) / 800)}
    # The paper's Table 2, ALBERT xxlarge: 94.1/88.3, 88.1/85.1, 88.0, 95.2, 82.3 average to 88.7.
    table_2 = {
        "squad-1.1": (94.1 + 88.3) / 2,
        "squad-2.0": (88.1 + 85.1) / 2,
        "mnli": 88.0,
        "sst-2": 95.2,
        "race": 82.3,
    }
    found = [EvaluationResult("x", task, "dev", 1, {}, value / 100, 1.0) for task, value in table_2.items()]
    assert paper_averages(found)["Table 2"] == pytest.approx(0.887, abs=5e-4)


# As a function.


def test_pipeline_accepts_one_or_a_list(reviews_model: Path) -> None:
    asked = pipeline(reviews_model / "run", device="cpu", precision="fp32")
    assert asked.type_name == "classify"
    assert asked.labels == ("blue", "green", "red")
    one = asked("ka ka ka vu")
    assert one["label"] == "red"
    assert asked(["ka ka ka vu", "mi mi mi vu"])[0] == one
    assert asked([]) == []


def test_pipeline_for_every_task_type(checkpoint: Path, tmp_path: Path) -> None:
    pair = pipeline(
        save_untrained_model(
            tmp_path / "pair",
            checkpoint,
            HeadSettings("classify"),
            TaskCard("classify", "classify", ("x", "y"), ("accuracy",), max_length=64),
        ),
        device="cpu",
    )
    assert pair("ka", "lo")["label"] in ("x", "y")
    assert len(pair(["ka", "lo"], ["mi", "vu"])) == 2
    reader = pipeline(
        save_untrained_model(
            tmp_path / "span", checkpoint, HeadSettings("span"), TaskCard("span", "span", max_length=64)
        ),
        device="cpu",
    )
    found = reader(question="ka?", context="Lo mi vu.")
    assert found["answer"] in "Lo mi vu."
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
    number = pipeline(
        save_untrained_model(
            tmp_path / "number",
            checkpoint,
            HeadSettings("regress", labels=1),
            TaskCard("regress", "regress", (), ("pearson",), max_length=64),
        ),
        device="cpu",
    )
    assert isinstance(number("ka")["value"], float)
    wrongs: list[tuple[Callable[[], Any], str]] = [
        (lambda: reader("ka"), "question: must be text"),
        (lambda: pair(["ka"], ["lo", "mi"]), "lists of different lengths"),
        (lambda: chooser(question="ka"), "options: missing"),
        (lambda: chooser(question="ka", options=[1, 2]), "lists of text|must be text"),  # type: ignore[list-item]
        (lambda: tagger([None]), "lists of text|must be text"),
        (lambda: pair("x\ud800"), "half a character"),
        (lambda: chooser(question="ka", options=["mi"]), "options: 1; the model chooses between 2"),
    ]
    for wrong, message in wrongs:
        with pytest.raises(InputError, match=message):
            wrong()


def test_pipeline_is_thread_safe(reviews_model: Path) -> None:
    asked = pipeline(reviews_model / "run", device="cpu", precision="fp32")
    texts = [[row["review"] for row in reviews(seed, 30)] for seed in range(6)]
    expected = [asked(each) for each in texts]
    found: list[Any] = [None] * len(texts)

    def work(at: int) -> None:
        for _ in range(3):
            found[at] = asked(texts[at])

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(found, expected, strict=True):
        assert [answer["label"] for answer in one] == [answer["label"] for answer in other]


# Several as one.


def test_mean_scores() -> None:
    one = [
        [np.array([0.8, 0.2], np.float32)],
        [np.array([0.1, 0.9], np.float32), np.array([0.5, 0.5], np.float32)],
    ]
    two = [
        [np.array([0.4, 0.6], np.float32)],
        [np.array([0.3, 0.7], np.float32), np.array([0.1, 0.9], np.float32)],
    ]
    found = mean_scores([one, two])
    assert found[0][0] == pytest.approx([0.6, 0.4])
    assert found[1][1] == pytest.approx([0.3, 0.7])
    assert mean_scores([one]) is one


def test_greedy_selection(
    reviews_model: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = json.loads((reviews_model / "run/task.json").read_text())
    card = TaskCard(
        "classify", "classify", tuple(known["labels"]), tuple(known["metric_names"]), max_length=64
    )
    card = replace(card, columns={"text": "review", "label": "stars"})
    others = [
        save_untrained_model(
            tmp_path / f"m{seed}", checkpoint, HeadSettings("classify", labels=3), card, seed
        )
        for seed in (1, 2)
    ]
    sources = [str(others[0]), str(reviews_model / "run"), str(others[1])]
    settings = EnsembleSettings(data=str(reviews_model / "dev.csv"), device="cpu", precision="fp32")
    found = evaluate_ensemble(sources, settings, tmp_path / "out.jsonl")
    assert found.selected == [sources[1]]  # the others know nothing
    assert found.gain == 0.0
    assert found.primary_metric == max(found.candidates.values()) == 1.0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 60
    with monkeypatch.context() as patch:  # what is to be answered is read before anything is scored
        patch.setattr("albertine.inference.ensemble._score_examples", lambda *_: pytest.fail("scored first"))
        patch.setattr(
            "albertine.inference.ensemble._examples_to_predict", Mock(side_effect=InputError("no such file"))
        )
        with pytest.raises(InputError, match="no such file"):
            evaluate_ensemble(sources, settings, tmp_path / "more.jsonl")
    every = evaluate_ensemble(sources, replace(settings, selection="all"))
    assert every.selected == sources
    with pytest.raises(InputError, match="an ensemble needs at least two"):
        evaluate_ensemble(sources[:1], settings)
    with pytest.raises(InputError, match="named twice"):
        evaluate_ensemble(sources[:1] * 2, settings)
    stranger = save_untrained_model(
        tmp_path / "s",
        checkpoint,
        HeadSettings("classify"),
        TaskCard("classify", "classify", ("x", "y"), ("accuracy",)),
    )
    with pytest.raises(InputError, match="with other labels, than"):
        evaluate_ensemble([sources[1], str(stranger)], settings)


def test_ensemble_of_span_models(checkpoint: Path, world: Path, tmp_path: Path) -> None:
    card = TaskCard("squad-2.0", "span", allows_no_answer=True, max_length=64)
    models = [
        str(
            save_untrained_model(
                tmp_path / f"m{seed}", checkpoint, HeadSettings("span", answerable=True), card, seed
            )
        )
        for seed in (1, 2)
    ]
    settings = EnsembleSettings(data=str(world), device="cpu", selection="all")
    found = evaluate_ensemble(models, settings)
    assert found.selected == models
    assert set(found.candidates) == set(models)
    # The threshold is found on dev, for all together.
    assert found.metrics["f1"] == pytest.approx(found.metrics["best_f1"], abs=0.02)
    # What is written is answered by the threshold that was told of, whichever model comes first.
    dev = world / "squad" / "dev-v2.0.json"
    for order in (models, models[::-1]):
        asked = replace(settings, data=str(dev), selection="greedy")
        told = evaluate_ensemble(order, asked, tmp_path / "out.jsonl")
        answers = [json.loads(line)["answer"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        with pytest.raises(InputError, match=r"out\.jsonl: exists already"):
            evaluate_ensemble(order, asked, tmp_path / "out.jsonl")
        (tmp_path / "out.jsonl").unlink()
        examples = find_task("squad-2.0").read_examples(
            str(dev), "dev", asked, ReadErrors(skip=False), require_labels=True
        )
        golds = [
            [answer.text for answer in one.answers or ()]
            for one in examples
            if isinstance(one, QuestionExample)
        ]
        exact = [best_scores(gold, one)[0] for gold, one in zip(golds, answers, strict=True)]
        assert sum(exact) / len(exact) == pytest.approx(told.metrics["exact"])
    shorter = save_untrained_model(
        tmp_path / "short",
        checkpoint,
        HeadSettings("span", answerable=True),
        replace(card, max_length=50, sequence=replace(card.sequence, max_length=50)),
    )
    with pytest.raises(InputError, match="tokenizes otherwise than"):
        evaluate_ensemble([models[0], str(shorter)], settings)
