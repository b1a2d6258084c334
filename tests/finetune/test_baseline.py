"""Tests that a fine-tuned model is compared with a bag of words, computed once, on the same examples."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.task_fixtures import random_words, with_train_settings, write_csv, write_jsonl

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError, Terminated
from albertine.finetune import baseline as baseline_module
from albertine.finetune.finetune import finetune
from albertine.finetune.prepare import prepare_task
from albertine.finetune.results_table import show_finetune_results
from albertine.finetune.settings import FinetuneSettings
from albertine.report.finetuning_page import finetuning_page
from albertine.settings import MODEL_PRESETS
from albertine.settings.toml import settings_to_toml
from albertine.tasks.baseline.baseline import predict_labels


def one_step(settings: FinetuneSettings) -> FinetuneSettings:
    """Settings of a run that learns nothing, so that the bag of words is ahead."""
    return with_train_settings(settings, steps=2, warmup=1, evaluate_every=2, lr=1e-6)


def no_baseline(*_: Any) -> None:
    raise AssertionError("the bag of words was fitted again")


def test_bag_of_words_is_scored_on_the_same_examples(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = one_step(finetune_settings)
    results = finetune(checkpoint, tmp_path / "run", settings)
    data = prepare_task(str(checkpoint), settings)
    dev = [example for example, _ in data.dev]
    labels = predict_labels(data.train_examples, dev)  # type: ignore[arg-type]
    expected = data.task_type.compute_metrics(dev, [{"label": label} for label in labels])
    assert results.baseline is not None
    assert results.baseline.metrics == expected
    assert expected["accuracy"] > 0.9
    report = json.loads((tmp_path / "run/results.json").read_text())
    assert report["baseline"]["metrics"] == expected
    capsys.readouterr()
    show_finetune_results(tmp_path / "run", results, as_json=True)
    assert json.loads(capsys.readouterr().out)["baseline"]["metrics"] == expected
    show_finetune_results(tmp_path / "run", results, as_json=False)
    output = " ".join(capsys.readouterr().out.split())
    assert (
        f"bag of words, on the same examples: accuracy {100 * expected['accuracy']:.1f}, macro F1" in output
    )
    assert results.baseline_advice is not None
    assert results.baseline_advice in output


def test_advice_follows_from_the_run(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    settings = one_step(finetune_settings)
    advice = finetune(checkpoint, tmp_path / "short", settings).baseline_advice
    assert advice is not None
    assert "scores higher (accuracy 100.0) than this model (" in advice
    for remedy in (
        "use a larger one (it has ",
        "take more steps (2; ",
        "label more examples (there are 200)",
    ):
        assert remedy in advice
    assert "pre-train" not in advice  # the checkpoint is from no run, so the amount of text is unknown
    random_advice = finetune(
        checkpoint, tmp_path / "random", replace(settings, random_weights=True)
    ).baseline_advice
    assert random_advice is not None
    assert "start from pre-trained weights (leave out --random-weights)" in random_advice


def test_advice_for_a_long_run(checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path) -> None:
    results = finetune(checkpoint, tmp_path / "run", one_step(finetune_settings))
    data = prepare_task(str(checkpoint), finetune_settings)
    large = replace(data, model_settings=MODEL_PRESETS["albert-base"], train=[*data.train] * 10)
    for best_step, remedy in ((10_000, "take more than 10,000 steps"), (5_000, "try other learning rates")):
        best = replace(results.best, steps=10_000, best_step=best_step, metrics={"accuracy": 0.5})
        advice = baseline_module.baseline_advice({"accuracy": 0.75}, best, large, finetune_settings)
        assert advice is not None
        assert advice.startswith(
            "a bag of words, a linear model on words and bigrams, scores higher (accuracy 75.0) than"
        )
        assert f"this model (50.0); to improve the model, {remedy}" in advice
    stopped = replace(results.best, steps=10_000, best_step=20, stopped_at=60, metrics={"accuracy": 0.5})
    advice = baseline_module.baseline_advice({"accuracy": 0.75}, stopped, large, finetune_settings)
    assert advice is not None
    assert "model, raise or remove --train.patience, which ended the run at step 60 of 10,000" in advice
    several = replace(
        results.best,
        steps=10_000,
        best_step=5_000,
        run_name="seed-0",
        metrics={"pearson": 0.03, "spearman": 0.02},
    )
    similarity = replace(large, task=replace(large.task, primary_metrics=("pearson", "spearman")))
    advice = baseline_module.baseline_advice(
        {"pearson": 0.44, "spearman": 0.51}, several, similarity, finetune_settings
    )
    assert advice is not None
    assert "higher (mean of Pearson correlation and Spearman correlation 47.5) than this model" in advice
    assert "this model (2.5, of seed-0); to improve" in advice


def test_amount_of_pre_training_text_is_read_from_the_run(tmp_path: Path) -> None:
    assert baseline_module._pretraining_tokens(tmp_path) is None
    (tmp_path / "metrics.jsonl").write_text(
        '{"step": 0}\n{"step": 1, "tokens": 512}\n{"step": 2, "tokens": 9'
    )
    assert baseline_module._pretraining_tokens(tmp_path) == 512
    (tmp_path / "settings.toml").write_text('init_from = "albert/albert-base-v2"\n')
    assert baseline_module._pretraining_tokens(tmp_path) is None  # of the published model, too, are unknown
    (tmp_path / "settings.toml").write_text("# init_from = (text in quotes; not set)\n")
    assert baseline_module._pretraining_tokens(tmp_path) == 512
    (tmp_path / "task.json").touch()  # the tokens of a fine-tuning run
    assert baseline_module._pretraining_tokens(tmp_path) is None


def test_model_that_is_not_behind_gets_no_advice(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    settings = with_train_settings(finetune_settings, steps=100, optimizer="muon", lr=2e-2)
    results = finetune(checkpoint, tmp_path / "run", settings)
    assert results.baseline is not None
    assert results.best.metrics["accuracy"] == results.baseline.metrics["accuracy"] == 1.0
    assert results.baseline_advice is None
    page = finetuning_page(tmp_path / "run").html()
    assert "bag of words" in page
    assert "scores higher" not in page


def test_report_says_that_the_bag_of_words_is_ahead(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(checkpoint, tmp_path / "run", one_step(finetune_settings))
    page = finetuning_page(tmp_path / "run").html()
    assert "A bag of words, a linear model on words and bigrams, scores higher (accuracy 100.0)" in page


def test_finished_run_does_not_compute_it_again(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, out = one_step(finetune_settings), tmp_path / "run"
    first = finetune(checkpoint, out, settings)
    with monkeypatch.context() as patched:
        patched.setattr("albertine.tasks.types.classification.predict_labels", no_baseline)
        assert finetune(checkpoint, out, settings) == first
    for damaged in ('{"baseline": {"metrics": {"accuracy": "high"}', '{"baseline": 3}', "[]", ""):
        (out / "results.json").write_text(damaged)
        assert finetune(checkpoint, out, settings) == first
    report = json.loads((out / "results.json").read_text())
    for metrics in ({}, {"accuracy": 0.5}):  # of another version of the task
        report["baseline"]["metrics"] = metrics
        (out / "results.json").write_text(json.dumps(report))
        assert finetune(checkpoint, out, settings) == first


def test_several_runs_share_one_bag_of_words(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def counted(*arguments: Any, **options: Any) -> list[str]:
        calls.append(arguments)
        return predict_labels(*arguments, **options)

    monkeypatch.setattr("albertine.tasks.types.classification.predict_labels", counted)
    results = finetune(checkpoint, tmp_path / "run", replace(one_step(finetune_settings), seeds=2))
    assert len(results.runs) == 2
    assert results.baseline is not None
    assert len(calls) == 1
    # Runs of another first seed would hold out other examples, and their results would replace the former.
    other = with_train_settings(one_step(finetune_settings), seed=1)
    with pytest.raises(InputError, match="holds the run seed-0, which is not one of this call"):
        finetune(checkpoint, tmp_path / "run", replace(other, seeds=2))


def test_interrupted_bag_of_words_is_computed_by_the_next_call(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, out = tmp_path / "settings.toml", tmp_path / "run"
    config.write_text(settings_to_toml(one_step(finetune_settings)), encoding="utf-8")
    arguments = ["finetune", str(checkpoint), "--config", str(config), "--out", str(out)]

    def interrupt(*_: Any, **_options: Any) -> None:
        raise Terminated

    with monkeypatch.context() as patched:
        patched.setattr("albertine.tasks.types.classification.predict_labels", interrupt)
        assert run_command(app, arguments) == 143
    assert not (out / "results.json").exists()
    assert run_command(app, arguments) in (0, 3)
    assert json.loads((out / "results.json").read_text())["baseline"]["metrics"]["accuracy"] > 0.9


@pytest.mark.parametrize("is_pair", [False, True])
def test_numbers_have_a_bag_of_words_too(
    is_pair: bool, checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    rng = random.Random(0)
    rows = []
    for _ in range(120):
        words = random_words(rng, 6)
        mark = 100.0 * words.count("ka") + 1900
        rows.append({"review": " ".join(words[:3]), "other": " ".join(words[3:]), "mark": mark})
    settings = replace(
        one_step(finetune_settings),
        task="regress",
        label="mark",
        text_pair="other" if is_pair else None,
        data=str(write_csv(tmp_path / "numbers.csv", rows[:90])),
        dev=str(write_csv(tmp_path / "dev-numbers.csv", rows[90:])),
    )
    baseline = finetune(checkpoint, tmp_path / "run", settings).baseline
    assert baseline is not None
    assert baseline.metrics.keys() == {"pearson", "spearman", "rmse"}


def test_tagging_has_no_bag_of_words(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": ["ka", "lo", "."], "label": ["O", "B-X", "O"]}] * 30
    data = str(write_jsonl(tmp_path / "tags.jsonl", rows))
    settings = replace(
        one_step(finetune_settings), task="tag", data=data, dev=data, text="text", label="label"
    )
    results = finetune(checkpoint, tmp_path / "run", settings)
    show_finetune_results(tmp_path / "run", results, as_json=False)
    assert results.baseline is None
    assert results.baseline_advice is None
    captured = capsys.readouterr()
    assert "bag of words" not in captured.out + captured.err
    assert "bag of words" not in finetuning_page(tmp_path / "run").html()
