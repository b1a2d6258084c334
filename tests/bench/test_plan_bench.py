"""Tests of `albertine bench plan`: its five runs, its output, and one short run."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from albertine.bench import plan as plan_bench
from albertine.bench.plan import PlannedRun
from albertine.bench.settings import PlanBenchSettings
from albertine.device import peak_memory
from albertine.plan.estimate import StepTime
from albertine.plan.plan import TrainingPlan, plan_training
from albertine.plan.settings import PlanSettings
from albertine.plan.workload import make_workload
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import SettingsSource, build_settings

LINE = PlannedRun("a", 4, 11.0, 10.0, 2_000_000_000, 2_100_000_000)


def test_the_five_runs_have_valid_settings_and_differ() -> None:
    workloads = []
    for values in plan_bench.RUNS.values():
        build_settings(PretrainSettings, SettingsSource(values))
        workloads.append(make_workload(build_settings(PlanSettings, SettingsSource(values))))
    assert len(workloads) == 5
    assert len({workload.flops_per_token for workload in workloads}) == 5
    assert {workload.train.optimizer for workload in workloads} == {"muon", "adamw", "lamb"}


def test_predictions_are_shown_beside_measurements(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> Iterator[PlannedRun]:
        yield LINE
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan_bench.show_plans(interrupted(), as_json=True)
    (line,) = json.loads(capsys.readouterr().out)["lines"]
    assert line["ratio"] == pytest.approx(1.1)
    plan_bench.show_plans(iter([LINE]), as_json=False)
    out = capsys.readouterr().out
    assert "11 s" in out
    assert "1.10" in out
    assert "2.1 GB" in out


def plan_with(step: StepTime) -> TrainingPlan:
    """Return the plan of a run on another device, with other seconds of a step."""
    values = {**plan_bench.RUNS["albert-base, 128 tokens, dropout"], "hardware": "H100"}
    return replace(plan_training(build_settings(PlanSettings, SettingsSource(values))), step=step)


@pytest.mark.parametrize("step_seconds", [0.01, 0.5, 3.0])
def test_steps_and_evaluations_fill_the_seconds(step_seconds: float) -> None:
    plan = plan_with(StepTime(0.9 * step_seconds, 0.1 * step_seconds, 0.0))
    length = {name: int(value) for name, value in plan_bench._length_settings(plan, 60.0).items()}
    evaluations = 1 + length["steps"] // length["evaluate_every"]
    token_seconds = 0.9 * step_seconds / plan.workload.step_tokens / 3
    seconds = length["steps"] * step_seconds
    seconds += evaluations * length["evaluate_tokens"] * token_seconds
    assert seconds == pytest.approx(60, rel=0.15)
    assert length["steps"] >= 3
    assert evaluations == 3


def test_a_model_that_is_too_slow_takes_the_fewest_steps() -> None:
    length = plan_bench._length_settings(plan_with(StepTime(90.0, 10.0, 0.0)), 60.0)
    assert length == {"steps": "3", "evaluate_every": "2", "evaluate_tokens": "1024"}


def test_a_part_that_takes_too_long_is_stopped() -> None:
    started = time.monotonic()
    with pytest.raises(plan_bench.LimitReached, match="the run took longer than 1 s"):
        plan_bench._in_process(time.sleep, 600, 1.0, "the run")
    assert time.monotonic() - started < 60


def test_limits_are_told_and_a_run_that_reaches_one_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(name: str, *_: object) -> plan_bench.PlannedRun:
        if name.startswith("demo"):
            raise plan_bench.LimitReached("the run took longer than 9 s")
        return replace(LINE, name=name)

    monkeypatch.setattr(plan_bench, "_build_corpus", lambda _: 1000)
    monkeypatch.setattr(plan_bench, "_measure_run", measure)
    lines = list(plan_bench.measure_plans(PlanBenchSettings(seconds=20)))
    assert [line.name for line in lines] == list(plan_bench.RUNS)[1:]
    messages = capsys.readouterr().err
    assert "5 runs, each of about 20 s" in messages
    assert "at most 20 min 00 s in all" in messages  # two minutes of predictions, and two of each run
    assert "demo, 128 tokens, Muon: left out, because the run took longer than 9 s" in messages


@pytest.mark.long
@pytest.mark.slow
def test_a_short_run_is_predicted_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_bench, "_STORIES", 300)
    (line,) = plan_bench.measure_plans(PlanBenchSettings(seconds=5, run="1"))
    assert line.steps >= 3
    assert 1 / 5 < line.ratio < 5  # a wide limit: tests share the machine
    assert line.measured_bytes > 10**7


@pytest.mark.slow
def test_the_memory_of_a_run_is_not_that_of_the_process_that_starts_it() -> None:
    ballast = bytearray(800 << 20)
    ballast[:: 1 << 12] = b"x" * len(ballast[:: 1 << 12])
    small = plan_bench._in_process(peak_memory, torch.device("cpu"), 300.0, "the memory")
    assert 0 < small < peak_memory(torch.device("cpu")) - (200 << 20)
