"""Tests of fine-tuning runs whose length is given in minutes."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from tests.task_fixtures import with_train_settings

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.finetune.duration import with_all_values, with_measured_steps
from albertine.finetune.finetune import finetune
from albertine.finetune.prepare import prepare_task
from albertine.finetune.settings import FinetuneSettings, SweepGrid, SweepSettings
from albertine.settings import SettingError, read_settings_file
from albertine.train import duration
from albertine.train.distributed import Distributed

MINUTES = 0.01  # 0.6 s


@pytest.mark.parametrize("seeds", [1, 2])
def test_minutes_become_steps_that_a_resumed_run_keeps(
    seeds: int,
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(duration, "_TIMED_SECONDS", 0.1)
    settings = with_train_settings(finetune_settings, steps=0, batch_size=None, warmup=None, minutes=MINUTES)
    settings = replace(settings, seeds=seeds)
    results = finetune(str(checkpoint), tmp_path / "run", settings)
    folder = tmp_path / "run" / ("seed-1" if seeds > 1 else "")
    stored = read_settings_file(folder / "settings.toml").values["train"]
    steps = int(stored["steps"])
    assert "minutes" not in stored
    assert {run.steps for run in results.runs} == {steps}
    assert f"0.01 minutes: {steps:,} steps" in capsys.readouterr().err

    with_steps = with_train_settings(settings, minutes=None, steps=steps, batch_size=stored["batch_size"])
    same = finetune(str(checkpoint), tmp_path / "same", with_steps)
    assert [run.metrics for run in same.runs] == [run.metrics for run in results.runs]

    monkeypatch.setattr(duration, "seconds_per_token", lambda *_: pytest.fail("it is measured again"))
    finetune(str(checkpoint), tmp_path / "run", settings)


def test_warmup_is_compared_with_the_measured_steps(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those may be more than the default steps of the task, with which the trial has its other values."""
    data = prepare_task(str(checkpoint), finetune_settings)
    default = with_all_values(with_train_settings(finetune_settings, steps=0, warmup=None), data).train.steps
    settings = with_train_settings(finetune_settings, steps=0, minutes=1, warmup=default + 5)
    world = Distributed(0, 1, torch.device("cpu"))
    runs = [tmp_path / "run"]
    monkeypatch.setattr(duration, "seconds_per_token", lambda *_: 1e-9)
    assert with_measured_steps(runs, settings, data, world).train.steps > default + 5
    monkeypatch.setattr(duration, "seconds_per_token", lambda *_: 1e3)
    with pytest.raises(
        InputError, match=rf"--train\.warmup {default + 5}: longer than the run, which takes 1 step in"
    ):
        with_measured_steps(runs, settings, data, world)
    # Without minutes, the steps are the default, which the user has not given.
    message = rf"--train\.warmup {default + 5}: longer than {default} steps, the default for this task and"
    with pytest.raises(InputError, match=message):
        with_all_values(with_train_settings(settings, minutes=None), data)


def test_two_lengths_and_sweeps_are_refused(
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = with_train_settings(finetune_settings, minutes=5)
    with pytest.raises(InputError, match=r"--train\.minutes 5 and --train\.steps"):
        finetune(str(checkpoint), tmp_path / "run", settings)
    settings = with_train_settings(settings, steps=0)
    sweep = SweepSettings(**{field.name: getattr(settings, field.name) for field in fields(settings)})
    with pytest.raises(InputError, match=r"--train\.minutes 5: the runs of a sweep"):
        finetune(str(checkpoint), tmp_path / "run", sweep, sweep=True)
    sweep = replace(sweep, dropout=0.3, train=replace(sweep.train, minutes=None, steps=8))
    with pytest.raises(InputError, match=r"--dropout 0\.3: a sweep takes the values of --grid\.dropout"):
        finetune(str(checkpoint), tmp_path / "run", sweep, sweep=True)
    with pytest.raises(InputError, match=r"--grid: only a sweep has a grid; add --sweep"):
        finetune(str(checkpoint), tmp_path / "run", replace(sweep, dropout=None, grid=SweepGrid(lr="1x")))
    options = ["--task", "classify", "--data", str(settings.data), "--grid.lr", "1x", "--dropout", "0.1"]
    assert run_command(app, ["finetune", str(checkpoint), "--out", str(tmp_path / "run"), *options]) == 2
    assert "--grid: only a sweep has a grid; add --sweep" in capsys.readouterr().err
    with pytest.raises(SettingError, match="is not used if there is a dev"):
        replace(sweep, dev="dev.jsonl", held_out=0.2)
