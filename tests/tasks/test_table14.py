"""What nobody sets is the paper's, for data and models of its size, and sensible for smaller ones."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from albertine.settings import MODELS
from albertine.tasks.settings import FinetuneSettings, TuneSettings
from albertine.tasks.table14 import TABLE, rate_for, row_for, settled
from albertine.tasks.task import NAMES, find

BASE = MODELS["albert-base"]


@pytest.mark.parametrize("task", sorted(TABLE))
def test_the_papers_own(task: str) -> None:
    row = TABLE[task]
    found = settled(FinetuneSettings(), task, BASE, row.examples, row.max_length)
    train = found.train
    assert (train.lr, train.batch, train.steps, train.warmup) == (row.lr, row.batch, row.steps, row.warmup)
    assert (found.dropout, found.classifier_dropout) == (row.dropout, 0.1)
    assert (train.optimizer, train.weight_decay, train.clip, train.schedule) == ("adamw", 0.01, 1.0, "linear")
    more = settled(FinetuneSettings(), task, BASE, 2 * row.examples, row.max_length)
    assert more.train.steps == row.steps


def test_version_2_differs_for_race() -> None:
    assert (row_for("race", v2=True).lr, row_for("race", v2=True).dropout) == (1e-5, 0.0)
    assert row_for("race", v2=True).steps == row_for("race").steps
    assert row_for("cola", v2=True) == row_for("cola")


@pytest.mark.parametrize("task", sorted(TABLE))
def test_steps_fall_with_the_data(task: str) -> None:
    row = TABLE[task]
    counts = [row.examples // share for share in (1, 2, 5, 20, 100)]
    steps = [row.steps_for(count, row.batch) for count in counts]
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] >= 1
    for count, taken in zip(counts, steps, strict=True):
        passes = taken * row.batch / count
        assert row.steps * row.batch / row.examples * 0.99 <= passes <= 2000 * 16 / 635 * 1.1


def test_steps_follow_the_batch() -> None:
    row = TABLE["sst-2"]
    assert row.steps_for(row.examples, 64) == pytest.approx(row.steps / 2, abs=1)


def test_what_is_asked_stays() -> None:
    asked = FinetuneSettings(dropout=0.3, train=TuneSettings(steps=7, lr=0.5, batch=3, warmup=2))
    found = settled(asked, "cola", BASE, 1000, 128)
    assert found.train == replace(asked.train, evaluate_every=1)
    assert found.dropout == 0.3


def test_narrow_models_learn_faster() -> None:
    row = row_for("cola")
    assert rate_for(row, 4096, row.batch) == rate_for(row, 768, row.batch) == row.lr
    assert rate_for(row, 384, row.batch) == pytest.approx(4 * row.lr)
    assert rate_for(row, 32, row.batch) == 5e-4


def test_few_examples_are_taken_in_smaller_batches() -> None:
    row = row_for("qqp")
    assert row.batch_for(row.examples) == 128
    assert (row.batch_for(4000), row.steps_for(4000, 32)) == (32, 800)
    assert rate_for(row, 768, 32) == pytest.approx(row.lr / 2)
    assert row.batch_for(100) == 16
    found = settled(FinetuneSettings(), "qqp", BASE, 4000, 128).train
    assert (found.batch, found.steps, found.lr) == (32, 800, 2.5e-5)
    given = settled(FinetuneSettings(train=TuneSettings(batch=128)), "qqp", BASE, 4000, 128).train
    assert (given.batch, given.steps, given.lr) == (128, 200, 5e-5)
    given = settled(FinetuneSettings(train=TuneSettings(steps=5000)), "qqp", BASE, 4000, 128).train
    assert (given.batch, given.steps, given.lr) == (128, 5000, 5e-5)
    assert rate_for(row, 768, 1024) == row.lr


@pytest.mark.parametrize("task", NAMES)
def test_every_task_has_a_row(task: str) -> None:
    assert row_for(task).steps > 0


def test_the_recipe_of_the_world_has_all_its_tasks() -> None:
    script = Path(__file__).parent.parent.parent / "recipes/world-tasks.sh"
    subprocess.run(["sh", "-n", str(script)], check=True)
    named = re.search(r'^tasks="(.*)"$', script.read_text(), re.MULTILINE)
    assert named
    assert named[1].split() == [name for name in NAMES if find(name).official and name != "dream"]
