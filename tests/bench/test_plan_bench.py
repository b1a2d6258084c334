"""Tests of `albertine bench plan`: its five runs, its output, and one short run."""

import json

import pytest

from albertine.bench import plan as plan_bench
from albertine.bench.settings import PlanBenchSettings
from albertine.plan.settings import PlanSettings
from albertine.plan.workload import make_workload
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import SettingsSource, build_settings

LINE = plan_bench.PlannedRun("a", 4, 11.0, 10.0, 2_000_000_000, 2_100_000_000)


def test_the_five_runs_have_valid_settings_and_differ() -> None:
    workloads = []
    for values in plan_bench.RUNS.values():
        build_settings(PretrainSettings, SettingsSource(values))
        workloads.append(make_workload(build_settings(PlanSettings, SettingsSource(values))))
    assert len(workloads) == 5
    assert len({workload.flops_per_token for workload in workloads}) == 5
    assert {workload.train.optimizer for workload in workloads} == {"muon", "adamw", "lamb"}


def test_predictions_are_shown_beside_measurements(capsys: pytest.CaptureFixture[str]) -> None:
    plan_bench.show_plans(iter([LINE]), as_json=True)
    (line,) = json.loads(capsys.readouterr().out)["lines"]
    assert line["ratio"] == pytest.approx(1.1)
    plan_bench.show_plans(iter([LINE]), as_json=False)
    out = capsys.readouterr().out
    assert "11 s" in out
    assert "1.10" in out
    assert "2.1 GB" in out


@pytest.mark.slow
def test_a_short_run_is_predicted_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_bench, "_STORIES", 300)
    (line,) = plan_bench.measure_plans(PlanBenchSettings(seconds=5, run="1"))
    assert line.steps >= 3
    assert 1 / 5 < line.ratio < 5  # a wide limit: tests share the machine
    assert line.measured_bytes > 10**7
