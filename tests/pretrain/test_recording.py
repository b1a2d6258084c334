"""Tests of the records of a run: display, metrics.jsonl, trackers and curve."""

import json
import os
import re
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from albertine import progress
from albertine.corpus.corpus import open_corpus
from albertine.errors import InputError
from albertine.extras import install_command
from albertine.pretrain.curriculum import CurriculumSettings
from albertine.pretrain.curve_plot import draw_curve
from albertine.pretrain.plateau import PlateauDetector
from albertine.pretrain.pretraining import Pretraining
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.train import trackers
from albertine.train.display import TrainingDisplay, sparkline
from albertine.train.distributed import Distributed
from albertine.train.metrics_log import METRICS_FILE, MetricsLog, read_metrics
from albertine.train.step_metrics import StepMetrics

from .conftest import read_untimed_metrics, with_train


def step_metrics(step: int, loss: float = 6.0) -> StepMetrics:
    return StepMetrics(
        step=step,
        tokens=100 * step,
        seconds=0.5 * step,
        loss=loss + 0.7,
        losses={"mlm": loss, "pair": 0.7},
        accuracies={"mlm": 0.1, "pair": 0.5},
        lr=1e-3,
        gradient_norm=1.0,
        tokens_per_second=200.0,
        utilization=0.5,
        peak_memory=1_500_000_000,
    )


class FakeStream:
    """A standard error stream that keeps its text."""

    def __init__(self, is_terminal: bool):
        self.is_terminal, self.text = is_terminal, ""

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def make_display(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> tuple[TrainingDisplay, FakeStream]:
    stream = FakeStream(is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    return TrainingDisplay(100, 25, {"mlm": ("unigram", 6.4)}, equal_steps), stream


def equal_steps(start: int, end: int) -> float:
    return end - start


def test_display_without_a_terminal_prints_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    display, stream = make_display(monkeypatch, is_terminal=False)
    with display.running():
        for step in range(1, 11):
            display.update(step_metrics(step))
    line = stream.text.splitlines()[-1]
    assert line == (
        "step 10 of 100: mlm 6.000 (unigram 6.40) 10.0% correct, pair 0.700 50.0% correct, lr 1.00e-03, "
        "gradient 1.00, 200 tokens/s (50% of the machine), 1.5 GB, 45 s left"
    )
    assert "\x1b" not in stream.text


def test_the_time_left_counts_that_later_steps_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(start: int, end: int) -> float:  # from step 50 on, three times as much
        return end - start + 2 * (max(50, end) - max(50, start))

    stream = FakeStream(is_terminal=False)
    monkeypatch.setattr(sys, "stderr", stream)
    display = TrainingDisplay(100, 100, {}, work)
    with display.running():
        for step in range(1, 11):
            display.update(step_metrics(step))
    assert stream.text.splitlines()[-1].endswith("1 min 35 s left")  # 40 steps of 0.5 s, 50 of 1.5 s


def test_the_time_left_and_the_time_taken_include_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    display, stream = make_display(monkeypatch, is_terminal=False)
    monkeypatch.setattr(display, "_interval", 0.0)
    with display.running():
        display.update_evaluation(0, {}, seconds=2.0)
        for step in range(1, 26):
            display.update(step_metrics(step))
        display.update_evaluation(25, {}, seconds=6.0)
        display.update(step_metrics(26))
        display.update(step_metrics(100))
        display.update_evaluation(100, {}, seconds=15.0)
    lines = [line.rpartition(", ")[2] for line in stream.text.splitlines()]
    assert lines[1] == "57 s left"  # 98 steps of 0.5 s, and evaluations of 2 s at steps 25, 50, 75 and 100
    assert lines[25] == "46 s left"  # 74 steps, and three evaluations of 3 s
    assert lines[-1] == "took 1 min 05 s"


def test_a_rollback_to_before_the_first_step_begins_the_estimate_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = FakeStream(is_terminal=False)
    monkeypatch.setattr(sys, "stderr", stream)
    display = TrainingDisplay(100, 100, {}, lambda start, end: max(0, end - start))
    with display.running():
        for step in (61, 41, 42, 43):
            display.update(step_metrics(step))
    assert stream.text.splitlines()[-1].endswith("28 s left")  # 57 steps of 0.5 s


def test_the_work_of_steps_is_that_of_their_depth(settings: PretrainSettings) -> None:
    grown = replace(settings, curriculum=CurriculumSettings(depth="1, 2 from 0.3"))
    grown = with_train(grown, steps=12)
    corpus = open_corpus(grown.corpus)
    distributed = Distributed(0, 1, torch.device("cpu"))
    with closing(
        Pretraining(corpus, grown, distributed, PlateauDetector(grown, 5.0, 0.0), 4096)
    ) as pretraining:
        shallow, deep = pretraining.work(0, 1), pretraining.work(4, 5)
        assert shallow < deep
        assert [pretraining.work(step, step + 1) for step in range(12)] == [shallow] * 4 + [deep] * 8
        assert pretraining.work(2, 7) == pytest.approx(2 * shallow + 3 * deep)
        batch = pretraining.next_batch(5)
        assert batch.flops == pytest.approx(batch.tokens * deep)


def test_display_on_a_terminal_redraws_a_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    display, stream = make_display(monkeypatch, is_terminal=True)
    monkeypatch.setattr(display, "_interval", 0.0)
    with display.running():
        display.update(step_metrics(1))
        display.update_evaluation(
            1, {"mlm_loss": 5.5, "mlm_accuracy": 0.2, "pair_loss": 0.6, "pair_accuracy": 0.7}, seconds=1.0
        )
        display.update(step_metrics(2))
        progress.print_message("something happened")
        display.update(step_metrics(3))
    first, second, third, last = stream.text.split("\x1b[J")[1:]
    assert first.count("\n") == second.count("\n") - 1 == 5
    assert first.endswith("\x1b[5A")  # the cursor moves up, so the second panel replaces the first
    assert "held out   5.500   20.0%" in second
    assert second.endswith("something happened\n\r")  # without moving up: the third panel is below
    assert third.endswith("\x1b[5A")
    assert last.count("\n") == 5


def test_quiet_display_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    display, stream = make_display(monkeypatch, is_terminal=True)
    progress.set_quiet(True)
    try:
        with display.running():
            display.update(step_metrics(1))
    finally:
        progress.set_quiet(False)
    assert stream.text == ""


def test_sparkline() -> None:
    assert sparkline([]) == sparkline([1.0]) == ""
    assert sparkline([2.0, 1.0]) == "█▁"
    assert sparkline([float("nan"), 1.0, 1.0, float("inf")]) == "▁▁"
    assert len(sparkline([float(n % 7) for n in range(5000)])) == 48


def test_metrics_are_buffered_while_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = MetricsLog(tmp_path, -1)
    log.write({"step": 1, "loss": float("nan")})
    log.flush()
    original_write = os.write

    def write_until_full(descriptor: int, block: bytes) -> int:
        original_write(descriptor, block[:5])  # a part of a line
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_until_full)
        for step in range(2, 200):
            log.write({"step": step})
    assert [line["step"] for line in read_metrics(tmp_path)] == [1]
    log.close()
    lines = read_metrics(tmp_path)
    assert [line["step"] for line in lines] == list(range(1, 200))
    assert lines[0]["loss"] is None
    assert capsys.readouterr().err.count("No space left") == 1


def test_metrics_log_is_truncated_on_resume(tmp_path: Path) -> None:
    (tmp_path / METRICS_FILE).write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    log = MetricsLog(tmp_path, 2)
    log.write({"step": 3, "is_repeated": True})
    log.close()
    assert read_metrics(tmp_path) == [{"step": 1}, {"step": 2}, {"step": 3, "is_repeated": True}]


def test_tensorboard_gets_the_metrics(settings: PretrainSettings, tmp_path: Path) -> None:
    pretrain(tmp_path / "run", with_train(settings, tracker="tensorboard"))
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    actual = {event.step: event.value for event in events.Scalars("mlm_loss")}
    expected = {
        line["step"]: line["mlm_loss"]
        for line in read_untimed_metrics(tmp_path / "run")
        if "mlm_loss" in line
    }
    assert actual == pytest.approx(expected)
    assert events.Scalars("held_out_mlm_loss")


@pytest.mark.slow
def test_wandb_gets_the_metrics(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    pretrain(tmp_path / "run", with_train(settings, tracker="wandb"))
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb"))


def test_missing_tracker_raises(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=re.escape(install_command("track"))):
        pretrain(tmp_path / "run", with_train(settings, tracker="wandb"))
    assert not (tmp_path / "run").exists()


def test_wandb_without_login_raises_an_input_error(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb

    def refuse_login(**_: Any) -> None:
        raise wandb.Error("No API key configured.\nUse `wandb login`")

    monkeypatch.setattr(wandb, "init", refuse_login)
    with pytest.raises(InputError, match=r"wandb: No API key configured\. Use `wandb login`"):
        pretrain(tmp_path / "run", with_train(settings, tracker="wandb"))


def test_curve_of_a_run(settings: PretrainSettings, tmp_path: Path) -> None:
    pretrain(tmp_path / "run", settings)
    draw_curve(tmp_path / "run")
    assert "unigram baseline" in (tmp_path / "run" / "curve.svg").read_text()
    objective = replace(settings.objective, pair="none")
    pretrain(tmp_path / "mlm-only", replace(settings, objective=objective))
    draw_curve(tmp_path / "mlm-only")


@pytest.mark.parametrize("lines", [None, [], [{"step": 0, "held_out_loss": 1.0}]])
def test_curve_without_metrics_raises(
    lines: list[Any] | None, settings: PretrainSettings, tmp_path: Path
) -> None:
    pretrain(tmp_path / "run", settings)
    (tmp_path / "run" / METRICS_FILE).unlink()
    if lines is not None:
        (tmp_path / "run" / METRICS_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError, match="nothing to draw"):
        draw_curve(tmp_path / "run")
    with pytest.raises(InputError, match="no run"):
        draw_curve(tmp_path / "nowhere")
