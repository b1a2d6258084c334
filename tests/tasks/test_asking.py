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

from albertine.errors import InputError
from albertine.settings import HeadSettings
from albertine.tasks import evaluate as evaluating
from albertine.tasks import predict as predicting
from albertine.tasks import scoring
from albertine.tasks.answers import scored
from albertine.tasks.card import Card
from albertine.tasks.ensemble import averaged, ensemble
from albertine.tasks.evaluate import Evaluated, averages, evaluate
from albertine.tasks.examples import Question
from albertine.tasks.finetune import finetune
from albertine.tasks.pipeline import pipeline
from albertine.tasks.predict import predict
from albertine.tasks.prepare import read_examples
from albertine.tasks.settings import (
    DataSettings,
    EnsembleSettings,
    EvaluateSettings,
    FinetuneSettings,
    PredictSettings,
)
from albertine.tasks.task import find
from albertine.text.documents import Troubles
from tests.tasks.conftest import made, reviews, with_train, write_csv, write_jsonl

NOTHING: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def judge(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    settings = with_train(
        settings,
        steps=100,
        batch=16,
        lr=2e-2,
        warmup=10,
        optimizer="muon",
        precision="fp32",
        evaluate_every=50,
    )
    finetune(str(checkpoint), folder / "run", settings)
    return folder


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv"])
def test_a_file_is_answered_row_by_row_in_its_order(
    suffix: str, judge: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "WINDOW", 7)  # the order holds over windows too
    rows = [{"id": f"r{at}", "review": row["review"]} for at, row in enumerate(reviews(9, 50))]
    data = write_csv(tmp_path / "new.csv", rows)
    out = tmp_path / f"answers{suffix}"
    settings = PredictSettings(data=str(data), device="cpu", precision="fp32")
    assert predict(str(judge / "run"), out, settings, NOTHING) == 50
    text = out.read_text(encoding="utf-8")
    if suffix == ".jsonl":
        found = [json.loads(line) for line in text.splitlines()]
    else:
        found = list(csv.DictReader(io.StringIO(text), delimiter="," if suffix == ".csv" else "\t"))
    assert [one["id"] for one in found] == [row["id"] for row in rows]
    right = [row["stars"] for row in reviews(9, 50)]
    assert [one["label"] for one in found] == right
    assert list(tmp_path.glob(".*")) == []


def test_rows_are_read_as_they_are_needed(
    judge: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has been answered is not kept, and what comes is not read ahead."""
    monkeypatch.setattr(scoring, "WINDOW", 4)
    held: list[int] = []
    read = 0
    take = evaluating.part_of

    def counted(*given: Any, **how: Any) -> Any:
        nonlocal read
        for one in take(*given, **how):
            read += 1
            yield one

    monkeypatch.setattr("albertine.tasks.predict.part_of", counted)

    def watch(answered: Any, stream: Any, kind: str) -> int:
        count = 0
        for count, _ in enumerate(answered, start=1):
            held.append(read - count)
        return count

    monkeypatch.setitem(predicting._FORMS, ".jsonl", watch)
    data = write_csv(tmp_path / "new.csv", [{"review": row["review"]} for row in reviews(9, 40)])
    predict(str(judge / "run"), tmp_path / "a.jsonl", PredictSettings(data=str(data), device="cpu"), NOTHING)
    assert len(held) == 40
    assert max(held) <= 4


def test_a_bad_row_stops_or_is_left_out(
    judge: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_jsonl(tmp_path / "new.jsonl", [{"review": "ka ka"}, {"review": 5}, {"review": "lo lo lo"}])
    settings = PredictSettings(data=str(data), device="cpu")
    with pytest.raises(InputError, match=r"new.jsonl, line 2: column review holds int 5, not text; mend it"):
        predict(str(judge / "run"), tmp_path / "a.jsonl", settings, NOTHING)
    assert not (tmp_path / "a.jsonl").exists()
    assert predict(str(judge / "run"), tmp_path / "a.jsonl", replace(settings, on_error="skip"), NOTHING) == 2
    assert "1 rows left out, as" in capsys.readouterr().err
    assert [json.loads(one)["id"] for one in (tmp_path / "a.jsonl").read_text().splitlines()] == ["0", "2"]


@pytest.mark.parametrize("content", ["review\n", ""])
def test_of_no_rows_no_file_is_left(content: str, judge: Path, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text(content)
    settings = PredictSettings(data=str(tmp_path / "none.csv"), device="cpu")
    for _ in range(2):
        with pytest.raises(InputError, match=r"none.csv: no examples in"):
            predict(str(judge / "run"), tmp_path / "a.csv", settings, NOTHING)
    assert [one.name for one in tmp_path.iterdir()] == ["none.csv"]


def test_a_column_of_names_that_was_asked_for_must_be_there(judge: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "new.csv", [{"review": "ka ka", "key": "a7"}])
    settings = PredictSettings(data=str(data), device="cpu", name="nosuch")
    with pytest.raises(InputError, match=r"new.csv: no column nosuch; it has review, key"):
        predict(str(judge / "run"), tmp_path / "a.jsonl", settings, frozenset({"name"}))
    predict(str(judge / "run"), tmp_path / "a.jsonl", replace(settings, name="key"), frozenset({"name"}))
    assert json.loads((tmp_path / "a.jsonl").read_text())["id"] == "a7"


def test_nothing_is_written_over(judge: Path, tmp_path: Path) -> None:
    data = write_csv(tmp_path / "new.csv", [{"review": "ka ka"}])
    before = data.read_bytes()
    settings = PredictSettings(data=str(data), device="cpu")
    with pytest.raises(InputError, match=r"new.csv: exists already; name another file or remove it"):
        predict(str(judge / "run"), data, settings, NOTHING)
    assert data.read_bytes() == before


def test_questions_have_as_many_options_as_the_network_was_tuned_on(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options: list[list[str]] = [["mi", "lo"], ["mi", "lo", "vu"], ["vu", "lo"]]
    rows = [{"question": "ka?", "options": some, "label": 1} for some in options]
    data = str(write_jsonl(tmp_path / "new.jsonl", rows))
    card = Card("choice", "choice", options=2, max_length=64)
    model = made(tmp_path / "model", checkpoint, HeadSettings("choice", labels=1, options=2), card)
    settings = PredictSettings(data=data, device="cpu")
    problem = "new.jsonl, line 2: 3 options, where others have 2; mend it, or give --on-error skip"
    with pytest.raises(InputError, match=problem):
        predict(str(model), tmp_path / "a.jsonl", settings, NOTHING)
    assert predict(str(model), tmp_path / "a.jsonl", replace(settings, on_error="skip"), NOTHING) == 2
    skipping = DataSettings(on_error="skip")
    assert len(read_examples(find("choice"), data, "train", skipping, solved=True)) == 2
    assert len(read_examples(find("choice"), data, "dev", skipping, solved=True, options=3)) == 1
    assert capsys.readouterr().err.count("2 rows left out") == 1
    with pytest.raises(InputError, match=problem):
        read_examples(find("choice"), data, "train", DataSettings(), solved=True)


@pytest.mark.parametrize(
    ("out", "columns", "message"),
    [
        ("a.xlsx", {}, "a.xlsx: written are .jsonl, .csv, .tsv"),
        ("a.csv", {"text": "body"}, "no column body; it has review"),
    ],
)
def test_what_cannot_be_answered(
    out: str, columns: dict[str, str], message: str, judge: Path, tmp_path: Path
) -> None:
    data = write_csv(tmp_path / "new.csv", [{"review": "ka"}])
    settings = PredictSettings(data=str(data), device="cpu", **columns)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        predict(str(judge / "run"), tmp_path / out, settings, frozenset(columns))
    assert not (tmp_path / out).exists()


def test_a_model_with_no_task_is_no_judge(checkpoint: Path, tmp_path: Path) -> None:
    settings = EvaluateSettings(data=str(write_csv(tmp_path / "a.csv", reviews(1, 5))), device="cpu")
    with pytest.raises(InputError, match="its head is pretrain, of no task; tune it first"):
        evaluate([str(checkpoint)], settings, NOTHING)


def test_a_torn_card_is_refused(judge: Path, tmp_path: Path) -> None:
    for content, message in (
        ("{", "not a card of a task"),
        ('{"format": 2}', "of another version"),
        ('{"format": 1, "task": "x"}', "not a card of a task"),
    ):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        shutil.copytree(judge / "run", tmp_path / "run", ignore=shutil.ignore_patterns("trainer"))
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
def test_submissions_have_the_form_of_the_gold(
    task: str, files: list[str], checkpoint: Path, world: Path, tmp_path: Path
) -> None:
    known = find(task)
    card = Card(task, known.kind, known.labels, known.scores, max_length=64)
    head = HeadSettings(known.kind if known.kind == "regress" else "classify", labels=len(known.labels) or 1)
    model = made(tmp_path / "model", checkpoint, head, card)
    settings = PredictSettings(data=str(world), device="cpu")
    predict(str(model), tmp_path / "out", settings, NOTHING)
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
    predict(str(model), tmp_path / "dev", replace(settings, split="dev"), NOTHING)
    assert sorted(one.name for one in (tmp_path / "dev").iterdir()) == files
    with pytest.raises(InputError, match="name a folder for them"):
        predict(str(model), tmp_path / "a.tsv", settings, NOTHING)


def test_a_part_without_examples_is_told_before_any_is_answered(
    checkpoint: Path, world: Path, tmp_path: Path
) -> None:
    known = find("mnli")
    card = Card("mnli", known.kind, known.labels, known.scores, max_length=64)
    model = made(tmp_path / "model", checkpoint, HeadSettings("classify", labels=3), card)
    folder = tmp_path / "glue" / "MNLI"
    shutil.copytree(world / "glue" / "MNLI", folder)
    second = folder / "test_mismatched.tsv"
    second.write_text(second.read_text().splitlines()[0] + "\n")
    settings = PredictSettings(data=str(tmp_path / "glue"), device="cpu")
    with pytest.raises(InputError, match="no examples in test_mismatched"):
        predict(str(model), tmp_path / "out", settings, NOTHING)
    assert not (tmp_path / "out").exists()


def test_what_was_scored_is_said_before_a_later_model_fails(
    judge: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = EvaluateSettings(data=str(judge / "dev.csv"), device="cpu")
    with pytest.raises(InputError, match="nosuch"):
        evaluate([str(judge / "run"), str(tmp_path / "nosuch")], settings, NOTHING)
    assert f"{judge / 'run'}, dev: " in capsys.readouterr().err


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_squads_answers_by_question(version: str, checkpoint: Path, world: Path, tmp_path: Path) -> None:
    task = f"squad-{version}"
    maybe = version == "2.0"
    card = Card(task, "span", maybe_none=maybe, max_length=64)
    model = made(tmp_path / "model", checkpoint, HeadSettings("span", answerable=maybe), card)
    settings = PredictSettings(data=str(world), split="dev", device="cpu", precision="fp32")
    count = predict(str(model), tmp_path / "out.json", settings, NOTHING)
    answers = json.loads((tmp_path / "out.json").read_text())
    questions = json.loads((world / f"squad/dev-v{version}.json").read_text())["data"]
    ids = {asked["id"] for one in questions for part in one["paragraphs"] for asked in part["qas"]}
    assert set(answers) == ids
    assert count == len(ids)
    assert (tmp_path / "out.no_answer.json").exists() is maybe
    (found,) = evaluate([str(model)], EvaluateSettings(data=str(world), device="cpu"), NOTHING)
    assert found.examples == count
    assert ("best_f1" in found.scores) is maybe


def test_race_is_scored_by_level(checkpoint: Path, world: Path, tmp_path: Path) -> None:
    card = Card("race", "choice", max_length=64)
    model = made(tmp_path / "model", checkpoint, HeadSettings("choice", labels=1, options=4), card)
    settings = EvaluateSettings(data=str(world), device="cpu")
    (found,) = evaluate([str(model)], settings, NOTHING)
    middle, high = found.scores["accuracy_middle"], found.scores["accuracy_high"]
    assert found.scores["accuracy"] == pytest.approx((middle + high) / 2, abs=0.01)
    assert found.examples == 40


def test_test_files_without_labels_cannot_be_scored(checkpoint: Path, world: Path, tmp_path: Path) -> None:
    known = find("rte")
    card = Card("rte", "classify", known.labels, known.scores, max_length=64)
    model = made(tmp_path / "model", checkpoint, HeadSettings("classify", labels=2), card)
    settings = EvaluateSettings(data=str(world), split="test", device="cpu")
    with pytest.raises(InputError, match="does not say what is right; answer it with albertine predict"):
        evaluate([str(model)], settings, NOTHING)


def test_averages_are_the_papers() -> None:
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
    found = [Evaluated("x", task, "dev", 1, {}, value / 100, 1.0) for task, value in glue.items()]
    assert averages(found) == {"GLUE": pytest.approx(sum(glue.values()) / 800)}
    # The paper's Table 2, ALBERT xxlarge: 94.1/88.3, 88.1/85.1, 88.0, 95.2, 82.3 average to 88.7.
    table_2 = {
        "squad-1.1": (94.1 + 88.3) / 2,
        "squad-2.0": (88.1 + 85.1) / 2,
        "mnli": 88.0,
        "sst-2": 95.2,
        "race": 82.3,
    }
    found = [Evaluated("x", task, "dev", 1, {}, value / 100, 1.0) for task, value in table_2.items()]
    assert averages(found)["Table 2"] == pytest.approx(0.887, abs=5e-4)


# As a function.


def test_one_gives_one_and_a_list_gives_a_list(judge: Path) -> None:
    asked = pipeline(judge / "run", device="cpu", precision="fp32")
    assert asked.kind == "classify"
    assert asked.labels == ("blue", "green", "red")
    one = asked("ka ka ka vu")
    assert one["label"] == "red"
    assert asked(["ka ka ka vu", "mi mi mi vu"])[0] == one
    assert asked([]) == []


def test_every_kind_is_a_function(checkpoint: Path, tmp_path: Path) -> None:
    pair = pipeline(
        made(
            tmp_path / "pair",
            checkpoint,
            HeadSettings("classify"),
            Card("classify", "classify", ("x", "y"), ("accuracy",), max_length=64),
        ),
        device="cpu",
    )
    assert pair("ka", "lo")["label"] in ("x", "y")
    assert len(pair(["ka", "lo"], ["mi", "vu"])) == 2
    reader = pipeline(
        made(tmp_path / "span", checkpoint, HeadSettings("span"), Card("span", "span", max_length=64)),
        device="cpu",
    )
    found = reader(question="ka?", context="Lo mi vu.")
    assert found["answer"] in "Lo mi vu."
    assert len(reader(question=["ka?", "lo?"], context=["Lo mi.", "Vu."])) == 2
    chooser = pipeline(
        made(
            tmp_path / "choice",
            checkpoint,
            HeadSettings("choice", labels=1, options=2),
            Card("choice", "choice", options=2, max_length=64),
        ),
        device="cpu",
    )
    assert chooser(context="ka", question="lo?", options=["mi", "vu"])["text"] in ("mi", "vu")
    assert len(chooser(question=["ka", "lo"], options=[["mi", "vu"], ["vu", "mi"]])) == 2
    tagger = pipeline(
        made(
            tmp_path / "tag",
            checkpoint,
            HeadSettings("token", labels=2),
            Card("tag", "tag", ("A", "B"), max_length=64),
        ),
        device="cpu",
    )
    assert tagger("ka lo mi")["words"] == ["ka", "lo", "mi"]
    assert len(tagger([["ka"], ["lo", "mi"]])) == 2
    number = pipeline(
        made(
            tmp_path / "number",
            checkpoint,
            HeadSettings("regress", labels=1),
            Card("regress", "regress", (), ("pearson",), max_length=64),
        ),
        device="cpu",
    )
    assert isinstance(number("ka")["value"], float)
    wrongs: list[tuple[Callable[[], Any], str]] = [
        (lambda: reader("ka"), "question: must be text"),
        (lambda: pair(["ka"], ["lo", "mi"]), "lists of different lengths"),
        (lambda: chooser(question="ka"), "options: none"),
        (lambda: chooser(question="ka", options=[1, 2]), "lists of text|must be text"),  # type: ignore[list-item]
        (lambda: tagger([None]), "lists of text|must be text"),
        (lambda: pair("x\ud800"), "half a character"),
        (lambda: chooser(question="ka", options=["mi"]), "options: 1; the model chooses between 2"),
    ]
    for wrong, message in wrongs:
        with pytest.raises(InputError, match=message):
            wrong()


def test_threads_share_one(judge: Path) -> None:
    asked = pipeline(judge / "run", device="cpu", precision="fp32")
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


def test_scores_are_averaged() -> None:
    one = [
        [np.array([0.8, 0.2], np.float32)],
        [np.array([0.1, 0.9], np.float32), np.array([0.5, 0.5], np.float32)],
    ]
    two = [
        [np.array([0.4, 0.6], np.float32)],
        [np.array([0.3, 0.7], np.float32), np.array([0.1, 0.9], np.float32)],
    ]
    found = averaged([one, two])
    assert found[0][0] == pytest.approx([0.6, 0.4])
    assert found[1][1] == pytest.approx([0.3, 0.7])
    assert averaged([one]) is one


def test_models_are_taken_as_long_as_one_helps(
    judge: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = json.loads((judge / "run/task.json").read_text())
    card = Card("classify", "classify", tuple(known["labels"]), tuple(known["scores"]), max_length=64)
    card = replace(card, columns={"text": "review", "label": "stars"})
    others = [
        made(tmp_path / f"m{seed}", checkpoint, HeadSettings("classify", labels=3), card, seed)
        for seed in (1, 2)
    ]
    sources = [str(others[0]), str(judge / "run"), str(others[1])]
    settings = EnsembleSettings(data=str(judge / "dev.csv"), device="cpu", precision="fp32")
    found = ensemble(sources, tmp_path / "out.jsonl", settings, NOTHING)
    assert found.chosen == [sources[1]]  # the others know nothing
    assert found.gain == 0.0
    assert found.headline == max(found.singles.values()) == 1.0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 60
    with monkeypatch.context() as patch:  # what is to be answered is read before anything is scored
        patch.setattr("albertine.tasks.ensemble._rows", lambda *_: pytest.fail("scored first"))
        patch.setattr("albertine.tasks.ensemble._to_answer", Mock(side_effect=InputError("no such file")))
        with pytest.raises(InputError, match="no such file"):
            ensemble(sources, tmp_path / "more.jsonl", settings, NOTHING)
    every = ensemble(sources, None, replace(settings, choose="all"), NOTHING)
    assert every.chosen == sources
    with pytest.raises(InputError, match="an ensemble has two at least"):
        ensemble(sources[:1], None, settings, NOTHING)
    with pytest.raises(InputError, match="named twice"):
        ensemble(sources[:1] * 2, None, settings, NOTHING)
    stranger = made(
        tmp_path / "s",
        checkpoint,
        HeadSettings("classify"),
        Card("classify", "classify", ("x", "y"), ("accuracy",)),
    )
    with pytest.raises(InputError, match="with other labels, than"):
        ensemble([sources[1], str(stranger)], None, settings, NOTHING)


def test_spans_of_two_models_are_averaged_by_token(checkpoint: Path, world: Path, tmp_path: Path) -> None:
    card = Card("squad-2.0", "span", maybe_none=True, max_length=64)
    models = [
        str(made(tmp_path / f"m{seed}", checkpoint, HeadSettings("span", answerable=True), card, seed))
        for seed in (1, 2)
    ]
    settings = EnsembleSettings(data=str(world), device="cpu", choose="all")
    found = ensemble(models, None, settings, NOTHING)
    assert found.chosen == models
    assert set(found.singles) == set(models)
    # The threshold is found on dev, for all together.
    assert found.scores["f1"] == pytest.approx(found.scores["best_f1"], abs=0.02)
    # What is written is answered by the threshold that was told of, whichever model comes first.
    dev = world / "squad" / "dev-v2.0.json"
    for order in (models, models[::-1]):
        asked = replace(settings, data=str(dev), choose="greedy")
        told = ensemble(order, tmp_path / "out.jsonl", asked, NOTHING)
        answers = [json.loads(line)["answer"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        with pytest.raises(InputError, match=r"out\.jsonl: exists already"):
            ensemble(order, tmp_path / "out.jsonl", asked, NOTHING)
        (tmp_path / "out.jsonl").unlink()
        examples = find("squad-2.0").examples(str(dev), "dev", asked, Troubles(skip=False), solved=True)
        golds = [
            [answer.text for answer in one.answers or ()] for one in examples if isinstance(one, Question)
        ]
        exact = [scored(gold, one)[0] for gold, one in zip(golds, answers, strict=True)]
        assert sum(exact) / len(exact) == pytest.approx(told.scores["exact"])
    shorter = made(
        tmp_path / "short",
        checkpoint,
        HeadSettings("span", answerable=True),
        replace(card, max_length=50, reading=replace(card.reading, max_length=50)),
    )
    with pytest.raises(InputError, match="cuts text otherwise than"):
        ensemble([models[0], str(shorter)], None, settings, NOTHING)
