"""Tests of `--metric`: which evaluation of a run is the best, and what the metrics of two labels are."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.task_fixtures import random_words, with_train_settings, write_jsonl

from albertine.errors import InputError
from albertine.finetune.dev_predictions import read_dev_predictions
from albertine.finetune.finetune import finetune
from albertine.finetune.prepare import prepare_task
from albertine.finetune.results_table import show_finetune_results
from albertine.finetune.settings import FinetuneSettings
from albertine.inference.evaluate import evaluate
from albertine.inference.settings import EvaluateSettings
from albertine.report.compared_runs import compare_runs
from albertine.report.finetuning_page import finetuning_page
from albertine.tasks.checkpoint_card import read_card_file
from albertine.tasks.registry import TASK_TYPES
from albertine.train.metrics_log import held_out_scores, read_metrics


@pytest.fixture
def settings(finetune_settings: FinetuneSettings, tmp_path: Path) -> FinetuneSettings:
    """Return settings for 60 texts, a tenth of which have the label [rare]."""
    rng = random.Random(4)
    labels = ["often"] * 54 + ["[rare]"] * 6
    rows = [{"text": " ".join(random_words(rng, 6)), "label": label} for label in labels]
    data = str(write_jsonl(tmp_path / "rows.jsonl", rows))
    settings = replace(finetune_settings, task="classify", data=data, dev=data, text="text", label="label")
    return with_train_settings(settings, steps=12, warmup=0, evaluate_every=1, lr=5e-3, batch_size=8)


@pytest.mark.parametrize(
    ("given", "weights", "metric"),
    [(None, "none", None), ("f1:[rare]", "none", "f1:[rare]"), (None, "balanced", "macro_f1")],
)
def test_the_best_evaluation_is_that_of_the_metric(
    given: str | None,
    weights: str,
    metric: str | None,
    checkpoint: Path,
    settings: FinetuneSettings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = with_train_settings(replace(settings, metric=given), class_weights=weights)
    out = tmp_path / "run"
    results = finetune(str(checkpoint), out, settings)
    scores_by_step = {
        line["step"]: scores
        for line in read_metrics(out)
        if line["step"] and (scores := held_out_scores(line))
    }
    name = metric or "accuracy"
    assert results.metric == read_card_file(out / "task.json").metric == metric
    best = results.best.metrics[name]
    assert best == pytest.approx(max(scores[name] for scores in scores_by_step.values()))
    show_finetune_results(out, results, as_json=False)
    assert "F1 of \u201c[rare]\u201d" in capsys.readouterr().out
    (evaluation,) = evaluate([out], EvaluateSettings(data=str(settings.data), split="dev"))
    assert evaluation.primary_metric == pytest.approx(best, abs=1e-3)
    assert {"f1:often", "f1:[rare]"} < evaluation.metrics.keys()
    comparison = compare_runs([out, finetune_other(checkpoint, settings, tmp_path)])
    assert comparison.metric == metric


def finetune_other(checkpoint: Path, settings: FinetuneSettings, folder: Path) -> Path:
    """Fine-tune with another learning rate, and return the run."""
    finetune(str(checkpoint), folder / "other", with_train_settings(settings, lr=1e-3))
    return folder / "other"


def test_a_model_that_always_predicts_one_label_is_named(
    checkpoint: Path, settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train_settings(settings, lr=1e-9, steps=1))
    predictions = read_dev_predictions(tmp_path / "run")
    assert predictions
    label = predictions.only_label(TASK_TYPES["classify"])
    assert label in {"often", "[rare]"}
    page = finetuning_page(tmp_path / "run").html()
    assert f"On dev, the model always predicts \u201c{label}\u201d" in page
    assert "--train.class-weights balanced, more steps" in page


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("rmse", "--metric rmse: not for --task classify; one of: accuracy, macro_f1, matthews, f1:[rare]"),
        ("f1:ofen", "did you mean f1:often?"),
    ],
)
def test_other_metrics_are_refused(
    metric: str, message: str, checkpoint: Path, settings: FinetuneSettings
) -> None:
    with pytest.raises(InputError) as refused:
        prepare_task(str(checkpoint), replace(settings, metric=metric))
    assert message in str(refused.value)
