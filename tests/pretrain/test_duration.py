"""Tests of pre-training runs whose length is given in minutes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from albertine.corpus.corpus import open_corpus
from albertine.errors import InputError
from albertine.pretrain import duration as pretrain_duration
from albertine.pretrain import run as pretrain_run
from albertine.pretrain.curriculum import CurriculumSettings
from albertine.pretrain.default_length import stored_length
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import resolved_settings
from albertine.settings import read_settings_file
from albertine.train import duration
from albertine.train.distributed import Distributed
from albertine.train.settings import PretrainTrainSettings
from albertine.train.trainer import Trainer

from .conftest import read_untimed_metrics, weight_bytes, with_train

MINUTES = 0.01  # 0.6 s
DEFAULT_STEPS = PretrainTrainSettings().steps  # the same as if no number were given


def test_minutes_become_steps_that_a_resumed_run_keeps(
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(duration, "_TIMED_SECONDS", 0.1)
    in_minutes = with_train(settings, steps=DEFAULT_STEPS, minutes=MINUTES)
    pretrain(tmp_path / "run", in_minutes)
    stored = read_settings_file(tmp_path / "run" / "settings.toml").values["train"]
    assert "minutes" not in stored
    steps = int(stored["steps"])
    assert 1 <= steps < 2_000
    assert f"0.01 minutes: {steps:,} steps" in capsys.readouterr().err

    pretrain(tmp_path / "same", with_train(settings, steps=steps))
    assert weight_bytes(tmp_path / "same") == weight_bytes(tmp_path / "run")
    assert read_untimed_metrics(tmp_path / "same") == read_untimed_metrics(tmp_path / "run")

    monkeypatch.setattr(duration, "seconds_per_token", lambda *_: pytest.fail("it is measured again"))
    pretrain(tmp_path / "run", in_minutes)
    assert f"finished at step {steps:,} of {steps:,}" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused_before_steps_are_measured(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "summer.jpg").write_bytes(b"sea")
    monkeypatch.setattr(pretrain_duration, "build_trainer", lambda *_: pytest.fail("a trainer was built"))
    with pytest.raises(InputError, match="is not a run folder"):
        pretrain(tmp_path / "photos", with_train(settings, steps=DEFAULT_STEPS, minutes=MINUTES))


@pytest.mark.slow
def test_minutes_choose_a_batch_and_measure_it(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measurements: list[int] = []

    def seconds_per_token(trainer: Trainer, step: int, distributed: Distributed) -> float:
        measurements.append(step)
        return 60 * MINUTES / 60_000

    monkeypatch.setattr(duration, "seconds_per_token", seconds_per_token)
    in_minutes = with_train(
        settings, steps=0, batch_tokens=0, minutes=MINUTES, micro_batch_tokens=8_192, evaluate_tokens=64
    )
    for _ in range(2):  # the second time, it is finished
        pretrain(tmp_path / "run", in_minutes)
        stored = read_settings_file(tmp_path / "run" / "settings.toml").values["train"]
        assert stored["batch_tokens"] == 4_096
        assert 10 <= int(stored["steps"]) <= 60_000 // 4_096
        assert len(measurements) == 2  # with 8,192 tokens, and with the batch of the run


@pytest.mark.slow
def test_the_mean_speed_is_that_of_all_stages(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seconds_per_token(trainer: Trainer, step: int, distributed: Distributed) -> float:
        trainer.time_step(step)
        return 0.001 if step < 0.25 * duration.TRIAL_STEPS else 0.002

    monkeypatch.setattr(duration, "seconds_per_token", seconds_per_token)
    monkeypatch.setattr(pretrain_duration, "_MIN_TOKENS_BETWEEN_EVALUATIONS", 256 * 10)
    settings = replace(settings, curriculum=CurriculumSettings(depth="1, 2 from 0.25"))
    settings = with_train(settings, steps=DEFAULT_STEPS, minutes=0.4, evaluate_every=None)
    pretrain(tmp_path / "run", settings)
    # A step takes 256 * (0.25 * 0.001 + 0.75 * 0.002) = 0.448 s, so 53 fit. They have 5 evaluations of 256
    # tokens, each in a third of the time of a step: 0.8 s.
    stored = read_settings_file(tmp_path / "run" / "settings.toml").values["train"]
    assert (stored["steps"], stored["evaluate_every"]) == (51, 10)


def test_evaluations_leave_half_of_the_time_for_steps() -> None:
    assert duration.steps_that_fit(1, step_seconds=1.0, evaluated_tokens=0, token_seconds=0.01) == 60
    assert duration.steps_that_fit(1, step_seconds=1.0, evaluated_tokens=3_000, token_seconds=0.01) == 50
    assert duration.steps_that_fit(1, step_seconds=1.0, evaluated_tokens=1e9, token_seconds=0.01) == 30
    assert duration.steps_that_fit(1, step_seconds=1e9, evaluated_tokens=0, token_seconds=0.01) == 1


def test_two_lengths_are_refused(settings: PretrainSettings, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--train\.minutes 5 and --train\.steps 12: two lengths"):
        pretrain(tmp_path / "run", with_train(settings, minutes=5))
    assert not (tmp_path / "run").exists()


def test_minutes_are_refused_where_only_steps_are_possible(settings: PretrainSettings) -> None:
    corpus = open_corpus(settings.corpus)
    with pytest.raises(InputError, match=r"--train\.minutes 5: not possible here"):
        resolved_settings(with_train(settings, steps=DEFAULT_STEPS, minutes=5), corpus, None)


def test_settings_without_steps_are_refused(settings: PretrainSettings, tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoints" / "step-00000001").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / "run.lock").touch()
    (tmp_path / "run" / "settings.toml").write_text("[train]\nlr = 0.1\n")
    with pytest.raises(InputError, match=r"settings\.toml: has no train\.steps"):
        pretrain(tmp_path / "run", with_train(settings, steps=DEFAULT_STEPS, minutes=5))


@pytest.mark.parametrize(
    ("seconds", "drawing", "workers", "expected"),
    [(5.0, 1.0, 2, 4.0), (5.0, 4.0, 1, 4.0), (5.0, 4.0, 2, 2.0), (5.0, 4.0, 8, 1.0)],
)
def test_workers_hide_the_drawing_until_they_limit_the_step(
    seconds: float, drawing: float, workers: int, expected: float
) -> None:
    assert pretrain_duration.seconds_beside_workers(seconds, drawing, workers) == expected


def test_a_start_without_a_checkpoint_does_not_fix_the_length(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise InputError("too large")

    with monkeypatch.context() as patch:
        patch.setattr(pretrain_run, "build_trainer", fail)
        with pytest.raises(InputError, match="too large"):
            pretrain(tmp_path / "run", with_train(settings, steps=7))
    assert stored_length(tmp_path / "run") is None
    pretrain(tmp_path / "run", with_train(settings, steps=2))
    assert stored_length(tmp_path / "run") == (2, settings.train.batch_tokens)
