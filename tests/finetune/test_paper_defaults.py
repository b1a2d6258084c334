"""Tests of the paper's hyperparameters for each task and of their scaling to data and models."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from albertine.finetune import paper_defaults
from albertine.finetune.paper_defaults import (
    TABLE_14,
    learning_rate_warning,
    scaled_learning_rate,
    task_defaults,
    with_task_defaults,
)
from albertine.finetune.prepare import prepare_task
from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.settings import MODEL_PRESETS, ModelSettings
from albertine.tasks.registry import TASK_NAMES, find_task
from albertine.train.schedule import LearningRateSchedule
from albertine.train.settings import OptimizerName

BASE = MODEL_PRESETS["albert-base"]


@pytest.mark.parametrize("task", sorted(TABLE_14))
def test_defaults_match_the_paper(task: str) -> None:
    row = TABLE_14[task]
    settings = with_task_defaults(FinetuneSettings(), task, BASE, row.num_train_examples, row.max_length)
    train = settings.train
    assert (train.lr, train.batch_size, train.steps, train.warmup) == (
        row.lr,
        row.batch_size,
        row.steps,
        row.warmup,
    )
    assert (settings.dropout, settings.classifier_dropout) == (row.dropout, 0.1)
    assert (train.optimizer, train.weight_decay, train.max_gradient_norm, train.schedule) == (
        "bert-adam",
        0.01,
        1.0,
        "linear-from-start",
    )
    twice_the_data = with_task_defaults(
        FinetuneSettings(), task, BASE, 2 * row.num_train_examples, row.max_length
    )
    assert twice_the_data.train.steps == row.steps


def test_rates_of_rte_match_google() -> None:
    """The rate is 3e-5 * step / 200 in the warm-up, then 3e-5 * (1 - step / 800)."""
    train = with_task_defaults(FinetuneSettings(), "rte", BASE, 2_490, 512).train
    schedule = LearningRateSchedule.from_resolved_settings(train)
    expected = {0: 0.0, 1: 1.5e-7, 100: 1.5e-5, 199: 2.985e-5, 200: 2.25e-5, 400: 1.5e-5, 799: 3.75e-8}
    assert {step: schedule.lr_at(step) for step in expected} == pytest.approx(expected)


def test_narrow_models_take_muon_and_the_usual_schedule() -> None:
    narrow = replace(BASE, hidden_size=312, heads=12)
    train = with_task_defaults(FinetuneSettings(), "rte", narrow, 2_490, 512).train
    assert (train.optimizer, train.schedule, train.batch_size, train.lr) == ("muon", "linear", 32, 2e-3)
    adamw = FinetuneSettings(train=FinetuneTrainSettings(optimizer="adamw"))
    train = with_task_defaults(adamw, "rte", narrow, 2_490, 512).train
    assert (train.schedule, train.lr) == ("linear", 1.82e-4)


def test_albert_v2_defaults() -> None:
    assert (task_defaults("race", albert_v2=True).lr, task_defaults("race", albert_v2=True).dropout) == (
        1e-5,
        0.0,
    )
    assert task_defaults("race", albert_v2=True).steps == task_defaults("race").steps
    assert task_defaults("cola", albert_v2=True) == task_defaults("cola")


@pytest.mark.parametrize("task", sorted(TABLE_14))
def test_steps_scale_with_data(task: str) -> None:
    row = TABLE_14[task]
    counts = [row.num_train_examples // divisor for divisor in (1, 2, 5, 20, 100)]
    steps = [row.scaled_steps(count, row.batch_size) for count in counts]
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] >= 1
    paper_epochs = row.steps * row.batch_size / row.num_train_examples
    wnli_epochs = 2000 * 16 / 635
    for count, num_steps in zip(counts, steps, strict=True):
        epochs = num_steps * row.batch_size / count
        assert paper_epochs * 0.99 <= epochs <= wnli_epochs * 1.1


def test_steps_scale_with_batch_size() -> None:
    row = TABLE_14["sst-2"]
    assert row.scaled_steps(row.num_train_examples, 64) == pytest.approx(row.steps / 2, abs=1)


def test_explicit_settings_are_kept() -> None:
    train = FinetuneTrainSettings(
        steps=7, lr=0.5, batch_size=3, warmup=2, optimizer="muon", schedule="cosine"
    )
    explicit = FinetuneSettings(dropout=0.3, train=train)
    settings = with_task_defaults(explicit, "cola", BASE, 1000, 128)
    assert settings.train == replace(explicit.train, evaluate_every=1)
    assert settings.dropout == 0.3


def test_learning_rate_scales_with_width() -> None:
    row = task_defaults("cola")
    assert (
        scaled_learning_rate(row, 4096, row.batch_size, "bert-adam")
        == scaled_learning_rate(row, 768, row.batch_size, "bert-adam")
        == row.lr
    )
    assert scaled_learning_rate(row, 384, row.batch_size, "adamw") == pytest.approx(4 * row.lr)
    assert scaled_learning_rate(row, 32, row.batch_size, "adamw") == 5e-4


def test_the_rate_of_muon_depends_on_the_batch_of_narrow_models() -> None:
    row = task_defaults("cola")
    assert scaled_learning_rate(row, 312, 64, "muon") == scaled_learning_rate(row, 128, 32, "muon") == 2e-3
    assert scaled_learning_rate(row, 312, 8, "muon") == 1e-3


def test_a_rate_far_above_that_of_the_optimizer_gives_a_warning() -> None:
    narrow = replace(BASE, hidden_size=312, heads=12)

    def warning(model: ModelSettings, lr: float, optimizer: OptimizerName) -> str | None:
        settings = FinetuneSettings(train=FinetuneTrainSettings(lr=lr, batch_size=32, optimizer=optimizer))
        return learning_rate_warning(settings, "rte", model)

    assert warning(narrow, 1e-2, "muon") is None
    expected = "the learning rate 0.04 is 20 times the usual 0.002; lower --train.lr"
    assert warning(narrow, 0.04, "muon") == expected
    assert warning(narrow, 1e-2, "adamw") is not None
    assert warning(BASE, 1e-2, "muon") is None  # no usual rate is known


def test_batch_size_scales_with_data() -> None:
    row = task_defaults("qqp")
    assert row.scaled_batch_size(row.num_train_examples) == 128
    assert (row.scaled_batch_size(4000), row.scaled_steps(4000, 32)) == (32, 800)
    assert scaled_learning_rate(row, 768, 32, "bert-adam") == pytest.approx(row.lr / 2)
    assert row.scaled_batch_size(100) == 16
    scaled = with_task_defaults(FinetuneSettings(), "qqp", BASE, 4000, 128).train
    assert (scaled.batch_size, scaled.steps, scaled.lr) == (32, 800, 2.5e-5)
    explicit_batch_size = with_task_defaults(
        FinetuneSettings(train=FinetuneTrainSettings(batch_size=128)), "qqp", BASE, 4000, 128
    ).train
    assert (explicit_batch_size.batch_size, explicit_batch_size.steps, explicit_batch_size.lr) == (
        128,
        200,
        5e-5,
    )
    explicit_steps = with_task_defaults(
        FinetuneSettings(train=FinetuneTrainSettings(steps=5000)), "qqp", BASE, 4000, 128
    ).train
    assert (explicit_steps.batch_size, explicit_steps.steps, explicit_steps.lr) == (128, 5000, 5e-5)
    assert scaled_learning_rate(row, 768, 1024, "bert-adam") == row.lr


@pytest.mark.parametrize("task", TASK_NAMES)
def test_every_task_has_defaults(task: str) -> None:
    assert task_defaults(task).steps > 0


def test_world_recipe_lists_all_tasks() -> None:
    script = Path(__file__).parent.parent.parent / "recipes/world-tasks.sh"
    subprocess.run(["sh", "-n", str(script)], check=True)
    match = re.search(r'^tasks="(.*)"$', script.read_text(), re.MULTILINE)
    assert match
    assert match[1].split() == [
        name for name in TASK_NAMES if find_task(name).is_official and name != "dream"
    ]


def test_default_dropout_before_the_last_layer_is_defined_once(
    checkpoint: Path, finetune_settings: FinetuneSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_defaults, "_CLASSIFIER_DROPOUT", 0.25)
    assert prepare_task(str(checkpoint), finetune_settings).task_type.head_settings.dropout == 0.25
