"""Tests of fine-tuning runs: learning, the best checkpoint, exact resume, restarts, seeds and sweeps."""

import json
import math
import os
import random
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.task_fixtures import LABELS, random_words, reviews, with_train_settings, write_csv, write_jsonl

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError, RunStopped
from albertine.finetune import run as run_module
from albertine.finetune.finetune import _check_runs_of_call, finetune
from albertine.finetune.finetuning import Finetuning
from albertine.finetune.prepare import prepare_task
from albertine.finetune.results_table import show_finetune_results
from albertine.finetune.settings import FinetuneSettings, SweepGrid, SweepSettings
from albertine.inference.evaluate import evaluate
from albertine.inference.finetuned_model import load_finetuned
from albertine.inference.pipeline import pipeline as albertine_pipeline
from albertine.inference.settings import EvaluateSettings
from albertine.interop.load import load
from albertine.interop.save_checkpoint import save_folder
from albertine.settings.engine import EngineOptions
from albertine.settings.toml import settings_to_toml
from albertine.tasks.settings import SequenceSettings
from albertine.tasks.types.classification import Classification
from albertine.tasks.types.regression import Regression
from albertine.text.tokenizer import load_tokenizer
from albertine.train.metrics_log import metric_curve, read_metrics
from albertine.train.run_folder import unfinished_run_message


def read_median_metrics(out: Path) -> dict[str, float]:
    metrics: dict[str, float] = json.loads((out / "results.json").read_text())["median"]
    return metrics


def test_run_folder_is_the_best_checkpoint(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune_settings = with_train_settings(finetune_settings, steps=100, optimizer="muon", lr=2e-2)
    results = finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    (result,) = results.runs
    assert results.task == "classify"
    assert result.metrics["accuracy"] == 1.0
    assert read_median_metrics(tmp_path / "run") == result.metrics
    stored = json.loads((tmp_path / "run" / "results.json").read_text())
    assert stored["dev_sha256"] == results.dev_sha256
    assert results.dev_sha256 is not None
    (evaluation,) = evaluate(
        [str(tmp_path / "run")],
        EvaluateSettings(data=finetune_settings.dev, device="cpu", precision="fp32"),
    )
    assert evaluation.metrics == result.metrics
    assert load(tmp_path / "run").label_names == tuple(sorted(LABELS))


@pytest.mark.parametrize(
    "type_name",
    ["span", *(pytest.param(name, marks=pytest.mark.slow) for name in ("regress", "tag", "choice"))],
)
def test_every_task_type_learns(
    type_name: str, checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    def example_rows(seed: int, count: int) -> list[dict[str, Any]]:
        """Return rows whose label depends on a period or on the word "lo"."""
        rng = random.Random(seed)
        rows: list[dict[str, Any]] = []
        for _ in range(count):
            words = random_words(rng, 5)
            position = rng.randrange(5)
            match type_name:
                case "tag":
                    tags = ["B-X" if index == position else "O" for index in range(5)]
                    words[position] = "."
                    rows.append({"text": words, "label": tags})
                case "span":
                    words[position] = "."
                    start = len(" ".join([*words[:position], ""]))
                    answers = {"text": ["."], "answer_start": [start]}
                    rows.append({"question": "ka", "context": " ".join(words), "answers": answers})
                case "choice":
                    options = ["mi", "lo", "vu"]
                    rng.shuffle(options)
                    rows.append({"context": "ka", "options": options, "label": options.index("lo")})
        return rows

    if type_name == "regress":
        settings = replace(finetune_settings, task=type_name, label="mark")
    else:
        settings = replace(
            finetune_settings,
            task=type_name,
            text="text",
            label="label",
            data=str(write_jsonl(tmp_path / "train.jsonl", example_rows(1, 300))),
            dev=str(write_jsonl(tmp_path / "dev.jsonl", example_rows(2, 50))),
        )
    settings = with_train_settings(settings, steps=350, evaluate_every=50, optimizer="muon", lr=1e-2)
    (result,) = finetune(str(checkpoint), tmp_path / "run", settings).runs
    metric = {"regress": "pearson", "tag": "f1", "span": "exact", "choice": "accuracy"}[type_name]
    assert result.metrics[metric] > 0.85
    (evaluation,) = evaluate(
        [str(tmp_path / "run")],
        EvaluateSettings(data=settings.dev, device="cpu", precision="fp32"),
    )
    # Batches differ, so predictions differ by rounding, which can exchange two of the 50 ranks.
    tolerances = {name: 1e-4 if name == "spearman" else 1e-6 for name in result.metrics}
    assert evaluation.metrics.keys() == tolerances.keys()
    for name, tolerance in tolerances.items():
        assert evaluation.metrics[name] == pytest.approx(result.metrics[name], abs=tolerance), name


def test_resume_is_exact(
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    finetune_settings = with_train_settings(finetune_settings, save_every=7, optimizer="muon")
    finetune_settings = replace(finetune_settings, dropout=0.1)
    finetune(str(checkpoint), tmp_path / "uninterrupted", finetune_settings)

    class Interrupted(Exception):  # noqa: N818
        pass

    next_batch = Finetuning.next_batch
    for failing_step in (11, 40):

        def interrupted_next_batch(self: Finetuning, step: int, failing_step: int = failing_step) -> Any:
            if step == failing_step:
                raise Interrupted
            return next_batch(self, step)

        with monkeypatch.context() as patch, pytest.raises(Interrupted):
            patch.setattr(Finetuning, "next_batch", interrupted_next_batch)
            finetune(str(checkpoint), tmp_path / "interrupted", finetune_settings)
    assert "newly initialized" in capsys.readouterr().err
    finetune(str(checkpoint), tmp_path / "interrupted", finetune_settings)
    assert "newly initialized" not in capsys.readouterr().err
    assert read_median_metrics(tmp_path / "interrupted") == read_median_metrics(tmp_path / "uninterrupted")
    for name in ("model.safetensors", "task.json", "config.json"):
        assert (tmp_path / "interrupted" / name).read_bytes() == (
            tmp_path / "uninterrupted" / name
        ).read_bytes()
    losses = [
        [line["label_loss"] for line in read_metrics(tmp_path / run) if "label_loss" in line]
        for run in ("interrupted", "uninterrupted")
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 60


def test_finished_run_is_not_rewritten(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    results = finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    times_before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("step-*/*")}
    assert finetune(str(checkpoint), tmp_path / "run", finetune_settings) == results
    assert times_before == {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("step-*/*")}


def test_finished_run_without_metrics_is_refused(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    settings = with_train_settings(finetune_settings, steps=2, warmup=1)
    finetune(str(checkpoint), tmp_path / "run", settings)
    (tmp_path / "run" / "metrics.jsonl").unlink()
    with pytest.raises(InputError, match=r"metrics\.jsonl: no evaluation of step \d, the best one; restore"):
        finetune(str(checkpoint), tmp_path / "run", settings)


def test_resume_with_changed_settings_or_data(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=4, warmup=1))
    with pytest.raises(InputError, match=r"a run with train.steps = 4, not 5"):
        finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=5, warmup=1))
    (tmp_path / "run" / "settings.toml").unlink()  # the checkpoints have the settings, too
    with pytest.raises(InputError, match=r"a run with train.steps = 4, not 5"):
        finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=5, warmup=1))
    finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=4, warmup=1))
    stored = (tmp_path / "run" / "settings.toml").read_text()
    data = Path(finetune_settings.data or "")
    other = tmp_path / "other.csv"
    other.write_text(data.read_text().replace("ka ka ka", "ka ka lo"))
    changed = replace(finetune_settings, data=str(other))
    with pytest.raises(InputError, match=r"run: the examples differ from those that the run started with"):
        finetune(str(checkpoint), tmp_path / "run", with_train_settings(changed, steps=4, warmup=1))
    assert (tmp_path / "run" / "settings.toml").read_text() == stored


def test_patience_stops_a_run_early(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finetune_settings = with_train_settings(finetune_settings, steps=600, evaluate_every=10, patience=3)
    (result,) = finetune(str(checkpoint), tmp_path / "run", finetune_settings).runs
    accuracies = dict(metric_curve(read_metrics(tmp_path / "run"), "held_out_accuracy"))
    last_step = max(accuracies)
    first_best_step = max(accuracies, key=accuracies.__getitem__)
    # Between equal accuracies the loss on dev decides which model is best, but a lower loss alone does not
    # restart the patience.
    assert result.best_step >= first_best_step == last_step - 30
    assert (
        f"no better evaluation since step {last_step - 30:,}; the run stops early" in capsys.readouterr().err
    )
    assert (result.steps, result.stopped_at) == (600, last_step)
    assert result.progress == f"{result.best_step} of {last_step}, stopped early"
    resumed = finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    assert resumed.runs == (result,)  # it does not train again


def test_patience_that_ends_in_an_interrupted_evaluation(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resumed run repeats the evaluation, and its log is that of an uninterrupted run."""
    settings = with_train_settings(
        finetune_settings, steps=30, lr=0.0, warmup=1, evaluate_every=4, patience=2
    )
    (result,) = finetune(checkpoint, tmp_path / "uninterrupted", settings).runs
    assert (result.best_step, result.stopped_at) == (4, 12)
    assert result.problem is not None
    assert result.problem.endswith("raise or remove --train.patience, which ended the run at step 12 of 30")
    evaluate = Finetuning.evaluate

    def interrupted_evaluate(self: Finetuning, model: Any, step: int) -> dict[str, float]:
        if step == 12:
            os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, model, step)

    with monkeypatch.context() as patch, pytest.raises(RunStopped):
        patch.setattr(Finetuning, "evaluate", interrupted_evaluate)
        finetune(checkpoint, tmp_path / "interrupted", settings)
    assert finetune(checkpoint, tmp_path / "interrupted", settings).runs == (result,)
    timed = {"seconds", "evaluation_seconds", "tokens_per_second", "utilization", "peak_memory"}
    logs = [
        [{key: value for key, value in line.items() if key not in timed} for line in read_metrics(run)]
        for run in (tmp_path / "interrupted", tmp_path / "uninterrupted")
    ]
    assert logs[0] == logs[1]
    assert logs[0][-1]["event_type"] == "stopped early"
    assert unfinished_run_message(tmp_path / "interrupted", "run") is None


def test_seeds_report_the_median(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finetune_settings = with_train_settings(
        replace(finetune_settings, seeds=3), steps=10, evaluate_every=10, lr=1e-3
    )
    results = finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    assert [run.run_name for run in results.runs] == ["seed-0", "seed-1", "seed-2"]
    weights = {(tmp_path / "run" / run.run_name / "model.safetensors").read_bytes() for run in results.runs}
    assert len(weights) == 3
    accuracies = sorted(run.metrics["accuracy"] for run in results.runs)
    assert read_median_metrics(tmp_path / "run")["accuracy"] == accuracies[1]
    show_finetune_results(tmp_path / "run", results, as_json=False)
    output = " ".join(capsys.readouterr().out.split())
    assert f"median accuracy {100 * accuracies[1]:.1f}, macro F1" in output
    assert "\u2026" not in output  # no cell is truncated
    best = min(results.runs, key=lambda run: (-run.metrics["accuracy"], run.loss)).run_name
    assert (tmp_path / "run/model.safetensors").read_bytes() == (
        tmp_path / "run" / best / "model.safetensors"
    ).read_bytes()


@pytest.mark.slow
def test_sweep_covers_the_grid(checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path) -> None:
    grid = SweepGrid(lr="1e-6, 1x", batch_size="8, 1x", dropout="0")
    settings = SweepSettings(**{**vars(with_train_settings(finetune_settings, steps=40)), "grid": grid})
    results = finetune(str(checkpoint), tmp_path / "run", settings, sweep=True)
    assert {(run.lr, run.batch_size, run.steps) for run in results.runs} == {
        (1e-6, 8, 80),
        (1e-6, 16, 40),
        (3e-3, 8, 80),
        (3e-3, 16, 40),
    }
    report = json.loads((tmp_path / "run/results.json").read_text())
    assert report["best_run"].startswith("lr-0.003")
    assert len(report["runs"]) == 4
    assert results.num_settings == 4
    assert report["median"] == results.median_metrics == results.best.metrics


def test_values_of_a_grid_are_checked(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="must be numbers"):
        SweepGrid(lr="fast")
    for key, text in (("lr", "1x, 20"), ("batch_size", "2000000"), ("dropout", "0.995")):
        with pytest.raises(InputError, match=f'{key} = "{text}": each must be at most'):
            SweepGrid(**{key: text})
    settings = SweepSettings(**{**vars(finetune_settings), "grid": SweepGrid(lr="1x, 5000x")})
    with pytest.raises(InputError, match=r"--grid\.lr 5000x: 15, since 1x is 0\.003; must be at most 10\.0"):
        finetune(str(checkpoint), tmp_path / "run", settings, sweep=True)
    for key, text in (
        ("lr", "nan"),
        ("lr", "-1e-5"),
        ("batch_size", "0"),
        ("batch_size", "0x"),
        ("dropout", "5"),
    ):
        with pytest.raises(InputError, match=f'{key} = "{text}": each must be'):
            SweepGrid(**{key: text})


def test_collapsed_run_restarts_with_lower_rate(
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    collapsing_settings = with_train_settings(finetune_settings, lr=3.0, max_gradient_norm=0.0, warmup=1)
    (result,) = finetune(str(checkpoint), tmp_path / "run", collapsing_settings).runs
    messages = capsys.readouterr().err
    assert "collapsed, every prediction is" in messages
    assert "restarting at 0.5 of the learning rate, with 2 times the warm-up" in messages
    assert "up to step 20; restarting" in messages  # the first evaluation: the loss has diverged
    rate_warning = "the learning rate 3 is 6,000 times the usual 0.0005; lower --train.lr"
    assert rate_warning in messages
    assert result.problem
    assert result.problem.startswith("nothing was learned: ")
    assert result.problem.endswith(rate_warning)
    assert result.restarts == 2
    assert result.lr == 0.75
    # The number of restarts is read from the run folder.
    assert finetune(str(checkpoint), tmp_path / "run", collapsing_settings).runs == (result,)


@pytest.mark.slow
def test_model_that_only_knows_the_most_frequent_label_has_learned_nothing(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    """Its accuracy is high, but its loss is that of a model that does not read the texts."""

    def rows(seed: int) -> list[dict[str, Any]]:
        labels = [LABELS[0] if index % 20 else LABELS[1] for index in range(100)]
        return [{**row, "stars": label} for row, label in zip(reviews(seed, 100), labels, strict=True)]

    data, dev = (str(write_csv(tmp_path / f"{seed}.csv", rows(seed))) for seed in (1, 2))
    settings = with_train_settings(replace(finetune_settings, data=data, dev=dev), lr=3.0, warmup=1)
    (result,) = finetune(str(checkpoint), tmp_path / "run", settings).runs
    assert result.metrics["accuracy"] == 0.95
    assert result.restarts == 2
    assert result.problem
    assert result.problem.startswith("nothing was learned: every evaluation gave the same prediction")


@pytest.mark.slow
def test_run_of_100_steps_is_checked_in_the_middle(
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Classification, "collapse_reason", lambda *_: "every prediction is red")
    settings = with_train_settings(finetune_settings, steps=100, lr=1e-4, evaluate_every=10, batch_size=2)
    (result,) = finetune(str(checkpoint), tmp_path / "run", settings).runs
    assert capsys.readouterr().err.count("every prediction is red up to step 50; restarting") == 2
    assert result.problem
    assert result.problem.endswith(
        "for all examples of dev; take more than 100 steps (--train.steps), with another --out"
    )


def numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return reviews whose marks are years, from 1850 to 1950."""
    return [{**row, "mark": 1883 + 33 * row["mark"]} for row in rows]


def year_settings(settings: FinetuneSettings, folder: Path) -> FinetuneSettings:
    return with_train_settings(
        replace(
            settings,
            task="regress",
            label="mark",
            data=str(write_csv(folder / "years.csv", numbered(reviews(1, 200)))),
            dev=str(write_csv(folder / "years-dev.csv", numbered(reviews(2, 60)))),
        ),
        optimizer="muon",
        lr=1e-2,
    )


@pytest.mark.slow
def test_regression_of_years(checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path) -> None:
    """Targets are standardized in training; metrics, predictions and saved weights are in years."""
    settings = with_train_settings(year_settings(finetune_settings, tmp_path), steps=100)
    (result,) = finetune(str(checkpoint), tmp_path / "run", settings).runs
    assert result.restarts == 0
    assert result.metrics["rmse"] < 15  # the standard deviation of the years is 40
    losses = [line["number_loss"] for line in read_metrics(tmp_path / "run") if "number_loss" in line]
    assert max(losses) < 10
    (evaluation,) = evaluate([str(tmp_path / "run")], EvaluateSettings(data=settings.dev, device="cpu"))
    assert evaluation.metrics == pytest.approx(result.metrics, rel=1e-4)
    texts = [row["review"] for row in reviews(2, 60)]
    reference: Any = transformers.pipeline(
        "text-classification", model=str(tmp_path / "run"), device="cpu", function_to_apply="none"
    )
    predictions = albertine_pipeline(tmp_path / "run", device="cpu")(texts)
    assert [one["value"] for one in predictions] == pytest.approx(
        [one["score"] for one in reference(texts)], abs=0.01
    )
    assert not (tmp_path / "run" / "trained_weights.safetensors").exists()


def test_regression_resumes_exactly(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = with_train_settings(
        year_settings(finetune_settings, tmp_path), steps=8, warmup=1, save_every=3, evaluate_every=4
    )
    finetune(str(checkpoint), tmp_path / "uninterrupted", settings)
    next_batch = Finetuning.next_batch

    def interrupted_next_batch(self: Finetuning, step: int) -> Any:
        if step == 5:
            raise KeyboardInterrupt
        return next_batch(self, step)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Finetuning, "next_batch", interrupted_next_batch)
        finetune(str(checkpoint), tmp_path / "interrupted", settings)
    finetune(str(checkpoint), tmp_path / "interrupted", settings)
    weights = [
        (tmp_path / run / "model.safetensors").read_bytes() for run in ("uninterrupted", "interrupted")
    ]
    assert weights[0] == weights[1]


def test_regression_run_of_an_older_version_is_refused(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = with_train_settings(year_settings(finetune_settings, tmp_path), steps=1, warmup=0)
    with monkeypatch.context() as patch:
        patch.setattr(Regression, "target_transform", {})
        finetune(str(checkpoint), tmp_path / "run", settings)
    with pytest.raises(InputError, match="older version of Albertine, which did not standardize"):
        finetune(str(checkpoint), tmp_path / "run", settings)


def test_a_finished_run_from_other_weights_is_refused(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    settings = with_train_settings(finetune_settings, steps=1, warmup=0)
    start = tmp_path / "start"
    shutil.copytree(checkpoint, start)
    first = finetune(str(start), tmp_path / "run", settings)
    assert finetune(str(start), tmp_path / "run", settings) == first
    model = load(start)
    with torch.no_grad():
        next(model.encoder.parameters())[0, 0] += 1
    tokenizer = load_tokenizer(start)
    shutil.rmtree(start)
    save_folder(model, start, tokenizer=tokenizer)
    with pytest.raises(InputError, match=r"the run started from other weights than .* name another --out"):
        finetune(str(start), tmp_path / "run", settings)


def test_trained_model_is_preferred_to_an_untrained_one(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A learning rate of 0 gives the same scores before and after training; the command reports it."""
    config = tmp_path / "settings.toml"
    unchanged = with_train_settings(finetune_settings, steps=4, lr=0.0, warmup=1, evaluate_every=2)
    config.write_text(settings_to_toml(unchanged), encoding="utf-8")
    arguments = ["finetune", str(checkpoint), "--config", str(config), "--out", str(tmp_path / "run")]
    assert run_command(app, arguments) == 3
    captured = capsys.readouterr()
    assert "2 of 4" in " ".join(captured.out.split())
    (line,) = [line for line in captured.err.splitlines() if line.startswith("albertine: ")]
    assert "run: nothing was learned: " in line
    assert line.endswith("take more than 4 steps (--train.steps), with another --out")
    report = json.loads((tmp_path / "run/results.json").read_text())
    assert report["runs"][0]["best_step"] == 2


def test_predictions_that_vary_at_the_last_evaluation_count(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    settings = with_train_settings(finetune_settings, steps=60, evaluate_every=60, optimizer="muon", lr=2e-2)
    (result,) = finetune(str(checkpoint), tmp_path / "run", settings).runs
    assert result.metrics["accuracy"] > 0.6
    assert result.problem is None


def test_precision_is_that_of_the_fine_tuning(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=1, warmup=0))
    monkeypatch.setattr("albertine.device.has_fast_bf16", lambda _: True)

    def loaded_dtype(precision: str) -> torch.dtype:
        engine: Any = load_finetuned(tmp_path / "run", EngineOptions("cpu", precision)).engine
        dtype: torch.dtype = engine.model.encoder.compute_options.dtype
        return dtype

    assert loaded_dtype("auto") == torch.float32
    assert loaded_dtype("bf16") == torch.bfloat16
    card = json.loads((tmp_path / "run/task.json").read_text())
    assert card.pop("precision") == "fp32"
    (tmp_path / "run/task.json").write_text(json.dumps(card))  # as written by earlier versions
    assert loaded_dtype("auto") == torch.bfloat16


def test_layer_decay_and_frozen_embeddings(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    before = dict(load(checkpoint, "classify").named_parameters())
    finetune(
        str(checkpoint),
        tmp_path / "frozen",
        with_train_settings(finetune_settings, steps=5, warmup=1, freeze_embeddings=True),
    )
    after = dict(load(tmp_path / "frozen/checkpoints/step-00000005").named_parameters())
    changed = {name for name in after if name in before and not torch.equal(before[name], after[name])}
    assert not any(name.startswith("encoder.embedding.") for name in changed)
    assert any(name.startswith("encoder.ffn.") for name in changed)
    max_changes = []
    for decay in (1.0, 0.1):
        settings = with_train_settings(
            finetune_settings, steps=1, warmup=0, layer_decay=decay, weight_decay=0.0, evaluate_every=1
        )
        finetune(str(checkpoint), tmp_path / f"{decay}", settings)
        after = dict(load(tmp_path / f"{decay}/checkpoints/step-00000001").named_parameters())
        max_changes.append(
            [float((after[name] - before[name]).detach().abs().max()) for name in (
                "encoder.embedding.tokens.weight", "encoder.ffn.0.up.weight"
            )]
        )  # fmt: skip
    # Above the embeddings are two layers and the head.
    assert max_changes[1][0] == pytest.approx(max_changes[0][0] * 0.1**3, rel=0.01)
    assert max_changes[1][1] == pytest.approx(max_changes[0][1] * 0.1, rel=0.01)


def test_init_from(checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path) -> None:
    finetune(str(checkpoint), tmp_path / "first", finetune_settings)
    second = with_train_settings(
        replace(finetune_settings, task="regress", label="mark", init_from=str(tmp_path / "first")),
        steps=2,
        warmup=1,
    )
    finetune(None, tmp_path / "second", second)  # starts from the first
    with pytest.raises(InputError, match="two models to start from"):
        finetune(str(checkpoint), tmp_path / "third", second)


def test_random_weights(checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path) -> None:
    finetune(
        str(checkpoint),
        tmp_path / "run",
        with_train_settings(replace(finetune_settings, random_weights=True), steps=1, warmup=0, lr=0.0),
    )
    before, after = (dict(load(folder).named_parameters()) for folder in (checkpoint, tmp_path / "run"))
    name = "encoder.ffn.0.up.weight"
    assert before[name].shape == after[name].shape
    assert not torch.equal(before[name], after[name])


def test_held_out_split_without_dev(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finetune(
        str(checkpoint),
        tmp_path / "run",
        with_train_settings(replace(finetune_settings, dev=None), steps=2, warmup=1),
    )
    assert "20 of 200 examples held out for evaluation" in capsys.readouterr().err


def test_truncation_and_unknown_tokens_are_reported(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [*reviews(1, 8), {**reviews(1, 1)[0], "review": "ka " * 80 + "漢"}]
    settings = replace(finetune_settings, data=str(write_csv(tmp_path / "long.csv", rows)))
    prepare_task(str(checkpoint), settings)
    assert "train: 1 of 9 examples truncated; tokens cut off: " in capsys.readouterr().err
    rows[-1]["review"] = "ka 漢"
    prepare_task(str(checkpoint), replace(settings, data=str(write_csv(tmp_path / "long.csv", rows))))
    messages = capsys.readouterr().err
    assert "% of the tokens are unknown; the vocabulary lacks their characters" in messages
    assert "truncated" not in messages


def test_transformers_gives_same_probabilities(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    from albertine.inference.pipeline import pipeline

    finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    texts = [row["review"] for row in reviews(5, 20)]
    reference_pipeline: Any = transformers.pipeline(
        "text-classification", model=str(tmp_path / "run"), device="cpu", top_k=None
    )
    predictions = pipeline(tmp_path / "run", device="cpu", precision="fp32")(texts)
    for prediction, reference in zip(predictions, reference_pipeline(texts), strict=True):
        expected = {label_score["label"]: label_score["score"] for label_score in reference}
        assert prediction["probabilities"] == pytest.approx(expected, abs=1e-5)


def test_evaluate_a_transformers_model(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    labels = dict(enumerate(sorted(LABELS)))
    model = AutoModelForSequenceClassification.from_pretrained(
        str(checkpoint),
        num_labels=3,
        id2label=labels,
        label2id={label: index for index, label in labels.items()},
    )
    tokenizer = AutoTokenizer.from_pretrained(str(checkpoint))
    rows = reviews(2, 60)
    with torch.no_grad():
        inputs = tokenizer([row["review"] for row in rows], padding=True, return_tensors="pt")
        is_correct = [
            labels[int(index)] == row["stars"]
            for index, row in zip(model(**inputs).logits.argmax(1), rows, strict=True)
        ]
    model.save_pretrained(tmp_path / "transformers")
    tokenizer.save_pretrained(tmp_path / "transformers")
    settings = EvaluateSettings(
        task="classify",
        data=finetune_settings.dev,
        text="review",
        label="stars",
        device="cpu",
        precision="fp32",
    )
    (evaluation,) = evaluate([str(tmp_path / "transformers")], settings)
    assert evaluation.metrics["accuracy"] == pytest.approx(sum(is_correct) / 60, abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": None}, "--task is missing: cola, sst-2"),
        ({"data": None}, "--data is missing"),
        ({"data": "nowhere.csv"}, "nowhere.csv: no such file or folder"),
        ({"text": "body"}, "no column body; its first line, taken as column names, has review, stars, mark"),
        ({"task": "cola"}, "no column text"),
        (
            {"label": "review"},
            "column review is the label, so a model would read the answer; leave it out of --text",
        ),
        ({"text": "stars", "label": "review"}, "labels in 260 examples; name the right column with --label"),
        ({"sequence": SequenceSettings(max_length=100)}, "the model takes at most 64 tokens"),
        ({"task": "tag", "data": "x.conll", "dev": None}, "--text is not used for a CoNLL file, whose last"),
    ],
)
def test_finetune_errors(
    changes: dict[str, Any],
    message: str,
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
) -> None:
    if changes.get("task") == "cola":
        changes = {**changes, "text": "text"}
    with pytest.raises(InputError, match=message):
        finetune(str(checkpoint), tmp_path / "run", replace(finetune_settings, **changes))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("prefix", "num_labels", "is_warned"), [("19", 21, True), ("19", 20, False), ("year 19", 21, False)]
)
def test_many_numbers_as_labels_give_a_warning(
    prefix: str,
    num_labels: int,
    is_warned: bool,
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A column of years is for regression: as labels, its numbers have no order."""
    rows = [
        {"review": f"vu {number}", "stars": f"{prefix}{10 + number % num_labels}"} for number in range(60)
    ]
    data = str(write_csv(tmp_path / "years.csv", rows))
    capsys.readouterr()
    prepare_task(str(checkpoint), replace(finetune_settings, data=data, dev=None))
    messages = capsys.readouterr().err
    assert ("years.csv: 21 labels, all of them numbers, such as 1910; if they" in messages) == is_warned
    assert ("use --task regress" in messages) == is_warned


def test_output_folder_without_runs_is_refused(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "summer.jpg").write_bytes(b"photo")
    with pytest.raises(InputError, match="exists already and is not a run folder"):
        finetune(str(checkpoint), tmp_path / "photos", finetune_settings)


def test_several_runs_need_their_own_folder(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    one_run = with_train_settings(finetune_settings, steps=2, warmup=1)
    two_runs = replace(one_run, seeds=2)
    for name, first, second, message in (
        ("one", one_run, two_runs, "is a single run; name another --out for several runs"),
        ("two", two_runs, one_run, "holds several runs; name another --out for a single run"),
    ):
        out = tmp_path / name
        finetune(str(checkpoint), out, first)
        weights_before = (out / "model.safetensors").read_bytes()
        with pytest.raises(InputError, match=message):
            finetune(str(checkpoint), out, second)
        assert (out / "model.safetensors").read_bytes() == weights_before


def test_folders_of_other_runs_are_refused_before_the_data_is_read(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    finetune(str(checkpoint), run, with_train_settings(finetune_settings, steps=2, warmup=1))
    with pytest.raises(InputError, match=r"run: a run on classify, not regress; name another --out"):
        finetune(str(checkpoint), run, replace(finetune_settings, task="regress", data="/nowhere.csv"))
    (tmp_path / "pretraining" / "checkpoints").mkdir(parents=True)
    (tmp_path / "pretraining" / "settings.toml").write_text('corpus = "text"\n')
    with pytest.raises(InputError, match=r"pretraining: a run of another command \(its settings have corpus"):
        finetune(str(checkpoint), tmp_path / "pretraining", replace(finetune_settings, data="/nowhere.csv"))
    (run / "settings.toml").write_text("damaged")
    with pytest.raises(InputError, match="nowhere"):
        finetune(str(checkpoint), run, replace(finetune_settings, data="/nowhere.csv"))


def test_resume_with_changed_dev_data(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=2, warmup=1))
    other_dev = write_csv(tmp_path / "other.csv", reviews(7, 30))
    with pytest.raises(InputError, match="differ from those that the run started with"):
        finetune(
            str(checkpoint),
            tmp_path / "run",
            with_train_settings(replace(finetune_settings, dev=str(other_dev)), steps=2, warmup=1),
        )


def test_label_only_in_held_out_split(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    rows = [*reviews(1, 30), {"review": "vu", "stars": "rare", "mark": 0}]
    data = str(write_csv(tmp_path / "rare.csv", rows))
    for seed in range(4):
        settings = with_train_settings(
            replace(finetune_settings, data=data, dev=None, held_out=0.5), steps=1, warmup=0, seed=seed
        )
        finetune(str(checkpoint), tmp_path / f"run-{seed}", settings)
        assert "rare" in load(tmp_path / f"run-{seed}").label_names


@pytest.mark.slow
def test_kill_during_restart_discards_collapsed_run(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finetune_settings = with_train_settings(finetune_settings, lr=3.0, max_gradient_norm=0.0, warmup=1)
    expected = finetune(str(checkpoint), tmp_path / "uninterrupted", finetune_settings)

    class Killed(BaseException):
        pass

    for deleted_folders in range(2):
        calls = 0

        def rmtree(folder: Path, deleted_folders: int = deleted_folders) -> None:
            nonlocal calls
            calls += 1
            if calls > deleted_folders:
                raise Killed
            shutil.rmtree(folder)

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(run_module, "rmtree", rmtree)
            finetune(str(checkpoint), tmp_path / "interrupted", finetune_settings)
    assert finetune(str(checkpoint), tmp_path / "interrupted", finetune_settings) == expected


def test_model_is_required(finetune_settings: FinetuneSettings, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="MODEL is missing"):
        finetune(None, tmp_path / "run", finetune_settings)
    with pytest.raises(InputError, match="albert-base: a preset"):
        finetune("albert-base", tmp_path / "run", finetune_settings)


def test_losses_do_not_depend_on_micro_batches(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune_settings = replace(finetune_settings, classifier_dropout=0.0)
    for name, micro_batch_tokens in (("large", 10_000), ("small", 64)):
        finetune(
            str(checkpoint),
            tmp_path / name,
            with_train_settings(finetune_settings, steps=6, warmup=1, micro_batch_tokens=micro_batch_tokens),
        )
    losses = [
        [line["label_loss"] for line in read_metrics(tmp_path / run) if "label_loss" in line]
        for run in ("large", "small")
    ]
    assert all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(*losses, strict=True))


def test_task_json_and_config_labels_agree(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=2, warmup=1))
    config = json.loads((tmp_path / "run/config.json").read_text())
    card = json.loads((tmp_path / "run/task.json").read_text())
    assert [config["id2label"][str(index)] for index in range(3)] == card["labels"] == sorted(LABELS)


def test_runs_of_a_call_may_become_more_and_fewer(tmp_path: Path) -> None:
    for name in ("lr-0.1-batch-16-dropout-0", "lr-0.2-batch-16-dropout-0"):
        (tmp_path / name / "checkpoints").mkdir(parents=True)
    points = [f"lr-{rate}-batch-16-dropout-0" for rate in (0.1, 0.2)]
    for names in (points, points[:1], [f"{point}-seed-{seed}" for point in points for seed in (0, 1)]):
        _check_runs_of_call(tmp_path, names)
    with pytest.raises(InputError, match=r"holds the run lr-0.1-batch-16-dropout-0, which is not one of"):
        _check_runs_of_call(tmp_path, ["seed-0", "seed-1"])
    (tmp_path / "seeds" / "seed-0" / "checkpoints").mkdir(parents=True)
    _check_runs_of_call(tmp_path / "seeds", ["seed-0", "seed-1"])
    with pytest.raises(InputError, match="holds the run seed-0"):
        _check_runs_of_call(tmp_path / "seeds", ["seed-1", "seed-2"])
