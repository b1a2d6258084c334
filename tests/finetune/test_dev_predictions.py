"""Tests that the predictions on dev are kept beside a model, of bounded size, and recognized."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.task_fixtures import with_train_settings, write_squad

from albertine.finetune import dev_outcomes, finetuning
from albertine.finetune import finetune as finetune_module
from albertine.finetune.dev_outcomes import decision_columns, predict_dev, predict_dev_of_run, sampled
from albertine.finetune.dev_predictions import DEV_PREDICTIONS_FILE, DevPredictions, read_dev_predictions
from albertine.finetune.finetune import finetune
from albertine.finetune.prepare import FinetuneData, prepare_task
from albertine.finetune.settings import FinetuneSettings
from albertine.report.run_predictions import dev_predictions, run_settings
from albertine.tasks.outcomes import Decision, Outcome


@pytest.fixture
def settings(finetune_settings: FinetuneSettings) -> FinetuneSettings:
    return with_train_settings(finetune_settings, steps=10, warmup=2, evaluate_every=5)


def predict_again(folder: Path, data: FinetuneData) -> DevPredictions:
    return predict_dev(folder, data.train_examples, data.dev, "cpu")


def test_finetuning_writes_what_the_model_predicts(
    checkpoint: Path, settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = finetune(checkpoint, tmp_path / "run", settings)
    predictions = read_dev_predictions(tmp_path / "run")
    assert predictions is not None
    assert predictions.num_scored == predictions.num_dev == 60
    scores = predictions.examples.scores
    assert sum(scores) / 60 == pytest.approx(results.best.metrics["accuracy"])
    assert predictions.num_wrong == 60 - sum(scores)
    assert predictions.decisions.classes == ["blue", "green", "red"]
    probabilities = [error.probability or 0.0 for error in predictions.worst]
    assert probabilities == sorted(probabilities, reverse=True)
    assert predictions.constant is not None
    assert predictions.constant.description.startswith("always")
    assert predictions.constant.metrics["matthews"] == 0.0

    def not_again(*_: Any) -> None:
        raise AssertionError("dev was predicted again")

    monkeypatch.setattr(finetune_module, "predict_dev", not_again)
    finetune(checkpoint, tmp_path / "run", settings)
    assert predict_dev_of_run(tmp_path / "run", tmp_path / "run", settings) == predictions


def test_dev_is_not_predicted_again_after_the_best_evaluation(
    checkpoint: Path, settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = with_train_settings(replace(settings, seeds=2), steps=10, evaluate_every=10)
    monkeypatch.setattr(finetune_module, "predict_dev", lambda *_: pytest.fail("dev was predicted again"))
    results = finetune(checkpoint, tmp_path / "run", settings)
    assert [run.best_step for run in results.runs] == [10, 10]
    predictions = read_dev_predictions(tmp_path / "run")
    assert predictions is not None
    again = predict_again(tmp_path / "run", prepare_task(str(checkpoint), settings))
    assert predictions.examples == again.examples
    assert predictions.decisions.predicted == again.decisions.predicted
    assert predictions.decisions.probabilities == pytest.approx(again.decisions.probabilities, abs=2e-4)


@pytest.mark.parametrize("task", ["multi-label", "regress", "squad-2.0"])
def test_kept_predictions_are_those_of_the_model(
    task: str, checkpoint: Path, settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where dev selects a threshold or the training data the scale of the numbers."""
    columns: dict[str, Any] = {"label": "mark"}
    if task == "squad-2.0":
        file = str(write_squad(tmp_path / "squad.json"))
        columns = {"data": file, "dev": file, "text": "text", "label": "label"}
    elif task == "multi-label":
        columns = {"label": "stars"}
    settings = with_train_settings(replace(settings, task=task, **columns), steps=10, evaluate_every=10)
    monkeypatch.setattr(finetuning, "score_to_minimize", lambda _task, _metrics, step: -step)
    with monkeypatch.context() as context:
        context.setattr(finetune_module, "predict_dev", lambda *_: pytest.fail("dev was predicted again"))
        finetune(checkpoint, tmp_path / "run", settings)
    kept = read_dev_predictions(tmp_path / "run")
    again = predict_again(tmp_path / "run", prepare_task(str(checkpoint), settings))
    assert kept is not None
    assert kept.examples.scores == pytest.approx(again.examples.scores, abs=1e-5)
    assert kept.examples.predicted_numbers == pytest.approx(again.examples.predicted_numbers, abs=1e-5)
    assert kept.decisions.predicted == again.decisions.predicted
    assert [error.predicted for error in kept.worst] == [error.predicted for error in again.worst]


def test_dev_is_predicted_again_if_an_earlier_evaluation_was_better(
    checkpoint: Path, settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finetuning, "score_to_minimize", lambda _task, _metrics, step: step)
    finetune(checkpoint, tmp_path / "run", settings)
    predictions = read_dev_predictions(tmp_path / "run")
    assert predictions == predict_again(tmp_path / "run", prepare_task(str(checkpoint), settings))


def test_a_report_predicts_the_examples_that_the_run_held_out(
    checkpoint: Path, settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = replace(settings, dev=None, held_out=0.2, seeds=2)
    finetune(checkpoint, tmp_path / "runs", settings)
    held_out = {example.example_id for example, _ in prepare_task(str(checkpoint), settings).dev}
    run = tmp_path / "runs" / "seed-1"  # its own seed would select other examples
    predictions = dev_predictions(run, run, run_settings(run))
    assert predictions is not None
    assert set(predictions.examples.ids) == held_out

    (run / DEV_PREDICTIONS_FILE).unlink()
    data = Path(str(settings.data))
    header, *rows = data.read_text().splitlines(keepends=True)
    data.write_text("".join([header, *reversed(rows)]))
    assert dev_predictions(run, run, run_settings(run)) is None
    assert "not the examples that the run held out" in capsys.readouterr().err


def test_a_part_of_the_choices_is_random() -> None:
    outcome = Outcome("", "", (), 0.0, 0.0, tuple(Decision("a", "a", 1.0, n % 2 == 0) for n in range(40)))
    columns = decision_columns([outcome] * (2 * dev_outcomes.MAX_DECISIONS // 40))
    assert len(columns.is_right) == dev_outcomes.MAX_DECISIONS
    assert sum(columns.is_right) / len(columns.is_right) == pytest.approx(0.5, abs=0.01)


def test_predictions_of_another_model_are_ignored(
    checkpoint: Path, settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(checkpoint, tmp_path / "run", settings)
    file = tmp_path / "run" / DEV_PREDICTIONS_FILE
    values = json.loads(file.read_text())
    changes: list[dict[str, Any]] = [
        {"model_sha256": "0" * 64},
        {"format": 3},
        {"num_dev": "many"},
        {"examples": values["examples"] | {"lengths": []}},
        {"decisions": values["decisions"] | {"expected": [9] * 60}},
        {"decisions": values["decisions"] | {"probabilities": [2.0] * 60}},
        {"worst": [values["worst"][0] | {"texts": [{"name": "", "text": "a", "marks": [[1]]}]}]},
    ]
    for change in changes:
        file.write_text(json.dumps(values | change))
        assert read_dev_predictions(tmp_path / "run") is None, change
    file.write_text("{")
    assert read_dev_predictions(tmp_path / "run") is None
    file.write_text(json.dumps(values))
    assert read_dev_predictions(tmp_path / "run") is not None


def test_a_large_dev_is_sampled(
    checkpoint: Path, settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finetune(checkpoint, tmp_path / "run", settings)
    data = prepare_task(str(checkpoint), settings)
    dev = data.dev
    monkeypatch.setattr(dev_outcomes, "MAX_EXAMPLES", 25)
    assert len(sampled(dev)) == len(set(sampled(dev))) == 25
    assert sampled(dev) == sampled(dev) == sorted(sampled(dev))
    monkeypatch.setattr(dev_outcomes, "MAX_CHARACTERS", 1)
    assert len(sampled(dev)) == 1  # at least one
    monkeypatch.undo()
    monkeypatch.setattr(dev_outcomes, "MAX_EXAMPLES", 25)
    monkeypatch.setattr(dev_outcomes, "MAX_DECISIONS", 7)
    predictions = predict_again(tmp_path / "run", data)
    assert (predictions.num_scored, predictions.num_dev) == (25, 60)
    assert len(predictions.decisions.expected) == 7
