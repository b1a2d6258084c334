"""Tests of the GPU benchmark, in its dry form on the CPU."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from albertine.bench import gpu, gpu_checks, gpu_paths, local_ranks
from albertine.bench.gpu_paths import PATHS, GpuPath, PathJob, run_path
from albertine.bench.gpu_ranks import check_ranks
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import ExitStatus, InputError
from albertine.settings import MODEL_PRESETS


def make_job(path: GpuPath) -> PathJob:
    return PathJob(path, MODEL_PRESETS["demo"], "cpu", (1, 5), (3, 4), 0.0)


def _no_work(_: object) -> tuple[float, float]:
    raise AssertionError("replaced by _with_error")


def _with_error(_function: object, _rank: object) -> tuple[float, float]:
    return 0.5, 1.0


def read_report(folder: Path) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = json.loads((folder / "gpu.json").read_text())["lines"]
    return lines


@pytest.mark.slow
def test_dry_form_writes_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "gpu", "--dry", "--only", "forward, variable", "--out", str(tmp_path)]
    assert run_command(app, command) == ExitStatus.DONE
    [line] = read_report(tmp_path)
    assert line["precision"] == "bf16"
    assert 0 < line["error"] < line["tolerance"]
    assert 0 < line["launch_ms"] <= line["ms"]
    text = (tmp_path / "gpu.txt").read_text()
    assert "forward, variable-length attention" in text
    assert "forward, variable-length attention" in capsys.readouterr().out


def test_where_the_report_goes_is_checked_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "measure_gpu", lambda _: pytest.fail("it measures"))
    (tmp_path / "notes.txt").write_text("x")
    for command, message in (
        (["bench", "gpu", "--dry", "--out", str(tmp_path / "notes.txt")], "notes.txt: not a folder"),
        (
            ["bench", "gpu", "--out", str(tmp_path / "new"), "--model.max-length", "64"],
            "the 512 tokens of a row",
        ),
        (["bench", "export", "--model.max-length", "64"], "less than the 128 tokens of a row"),
    ):
        assert run_command(app, command) == ExitStatus.BAD_INPUT
        assert message in capsys.readouterr().err


def test_a_gpu_for_each_process_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InputError, match="2 processes on cuda need as many GPUs, and torch sees 1"):
        local_ranks.run_ranks(lambda _: None, 2, "cuda", advice="")


@pytest.mark.slow
@pytest.mark.parametrize("check", ["communication", "sharded training"])
def test_what_several_processes_do_is_checked(check: str, tmp_path: Path) -> None:
    command = ["bench", "gpu", "--dry", "--only", check, "--out", str(tmp_path)]
    assert run_command(app, command) == ExitStatus.DONE
    [line] = read_report(tmp_path)
    assert line["name"] == f"{check}, gloo, 2 processes"
    assert line["error"] <= line["tolerance"]
    assert line["ms"] > 0


@pytest.mark.slow
def test_wrong_gradients_of_a_sharded_model_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_ranks, "_run_rank", _with_error)
    result = check_ranks("sharded training", 1e-3, _no_work, "cpu", 1)
    assert result.failure == "relative error 0.5 is larger than 0.001"
    assert (result.error, result.ms) == (0.5, None)


@pytest.mark.slow  # compiles
def test_all_paths_in_the_dry_form(tmp_path: Path) -> None:
    assert run_command(app, ["bench", "gpu", "--dry", "--out", str(tmp_path)]) == ExitStatus.DONE
    lines = read_report(tmp_path)
    assert [line["name"] for line in lines] == [
        *(path.name for path in PATHS),
        "communication, gloo, 2 processes",
        "sharded training, gloo, 2 processes",
    ]
    assert all(line["error"] <= line["tolerance"] for line in lines)


@pytest.mark.slow  # compiles
def test_a_compiled_path_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(path for path in PATHS if path.compile)
    graphs = gpu_checks._compiled_graphs()
    assert run_path(make_job(path)).failure == ""
    assert gpu_checks._compiled_graphs() > graphs
    monkeypatch.setattr(gpu_checks, "_compiled_graphs", lambda: graphs)
    assert run_path(make_job(path)).failure == "nothing was compiled"


@pytest.mark.parametrize("work", ["forward", "training", "optimizer"])
def test_a_wrong_result_is_a_failure(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checked side computes on other tokens, or changes the weights by 1% more."""
    path = replace(next(path for path in PATHS if path.work == work), kernels=True)
    assert run_path(make_job(path)).failure == ""
    calls = 0
    original_batch, original_updates = gpu_checks.random_batch, gpu_checks.optimizer_updates

    def wrong_batch(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        strip, targets = original_batch(*arguments)
        if calls == 2:  # the first call is the reference
            strip = replace(strip, tokens=strip.tokens.flip(0))
        return strip, targets

    def wrong_updates(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return [value * (1.01 if calls == 1 else 1) for value in original_updates(*arguments)]

    monkeypatch.setattr(gpu_paths, "random_batch", wrong_batch)
    monkeypatch.setattr(gpu_paths, "optimizer_updates", wrong_updates)
    result = run_path(make_job(path))
    assert "is larger than" in result.failure
    assert result.ms is None


@pytest.mark.slow
def test_an_error_is_a_failure_and_other_paths_run(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = replace(make_job(PATHS[0]), check_lengths=(10_000,))  # longer than the model's positions
    jobs = [make_job(PATHS[0]), bad, make_job(PATHS[1])]
    results = list(gpu._run_paths(jobs))
    assert [bool(result.failure) for result in results] == [False, True, False]
    assert [result.precision for result in results] == ["fp32", "fp32", "bf16"]


def test_failures_give_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(jobs: list[PathJob]) -> Any:
        for job in jobs:
            yield run_path(replace(job, check_lengths=(10_000,)))

    monkeypatch.setattr(gpu, "_run_paths", failing)
    command = ["bench", "gpu", "--dry", "--only", "forward, variable", "--out", str(tmp_path)]
    assert run_command(app, command) == ExitStatus.FAILED
    assert "1 of 1 paths failed" in capsys.readouterr().err
    assert read_report(tmp_path)[0]["failure"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app, ["bench", "gpu", "--out", str(tmp_path / "new")]) == ExitStatus.BAD_INPUT
    assert "--dry runs the same code" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_path_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", "gpu", "--dry", "--only", "fp8", "--out", str(tmp_path / "new")]
    assert run_command(app, command) == ExitStatus.BAD_INPUT
    assert 'only "fp8"' in capsys.readouterr().err
