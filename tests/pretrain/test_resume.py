"""Tests that an interrupted and resumed run ends with the weights and metrics of an uninterrupted one."""

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import albertine
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.settings import CorpusSettings
from albertine.errors import InputError, RunStopped, WorkError
from albertine.file_lock import file_lock
from albertine.interop.safetensors_file import write_tensors
from albertine.model.kernels import selection
from albertine.pretrain.curriculum import CurriculumSettings
from albertine.pretrain.pretraining import Pretraining
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.report.write import write_report
from albertine.settings import build_settings, settings_to_toml
from albertine.train import checkpoints, recorder
from albertine.train.optimizers import Optimizers
from albertine.train.run_folder import publish_model, read_run_settings
from albertine.train.trainer import Trainer
from albertine.train.trainer_state import BestEvaluation, TrainerState
from tests.conftest import ForkServer

from .conftest import MODEL, read_untimed_metrics, weight_bytes, with_train


class SimulatedCrash(BaseException):
    pass


def crash_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt a run after `steps` steps of this process."""
    original, taken_steps = Trainer._advance, 0

    def advance(self: Trainer) -> None:
        nonlocal taken_steps
        if taken_steps == steps:
            raise SimulatedCrash
        taken_steps += 1
        original(self)

    monkeypatch.setattr(Trainer, "_advance", advance)


CURRICULUM = CurriculumSettings("16, 32 from 0.5", "1, 2 from 0.25", "0.3, 0.15 from 0.4")
VARIANTS: dict[str, dict[str, Any]] = {
    "muon": {},
    "adamw": {"train": {"optimizer": "adamw"}},
    "lamb": {"train": {"optimizer": "lamb"}},
    "dropout": {"model": {"dropout": 0.2, "attention_dropout": 0.2}},
    "accumulation": {"train": {"micro_batch_tokens": 64}},
    "recomputation in bf16": {"train": {"recompute": True, "precision": "bf16"}},
    "curricula": {"curriculum": CURRICULUM},
    "workers": {"workers": 1, "curriculum": CURRICULUM},
    "several epochs": {"train": {"steps": 40, "batch_tokens": 2048}},
    "no pairs": {"objective": {"pair": "none"}},
    "unshared layers": {"model": {"share": "none"}},
    "halting in bf16": {
        "model": {"depth_rule": "halting", "step_signal": True, "dropout": 0.1},
        "train": {"recompute": True, "precision": "bf16", "micro_batch_tokens": 64},
        "curriculum": CURRICULUM,
    },
    "differences by step": {"model": {"step_rank": 2, "step_vectors": True}},
    "rotary": {"model": {"rotary": True, "norm_first": True}, "curriculum": CURRICULUM},
    "exits in bf16": {
        "model": {"dropout": 0.1, "attention_dropout": 0.1, "layers": 8},
        "train": {"exits": True, "recompute": True, "precision": "bf16", "micro_batch_tokens": 64},
        "curriculum": replace(CURRICULUM, depth="1, 2 from 0.25, 8 from 0.5"),
    },
    "causal samples": {
        "model": {"dropout": 0.1, "attention_dropout": 0.1},
        "objective": {"causal_fraction": 0.5},
        "train": {"micro_batch_tokens": 64},
        "curriculum": CURRICULUM,
    },
    "equilibrium": {"model": {"depth_rule": "equilibrium", "layers": 4}},
}
FAST_VARIANTS = ("muon", "curricula", "workers", "differences by step")


def variant(settings: PretrainSettings, name: str) -> PretrainSettings:
    """Return the settings with the changes of one of `VARIANTS`."""
    for table, change in VARIANTS[name].items():
        value = replace(getattr(settings, table), **change) if isinstance(change, dict) else change
        settings = replace(settings, **{table: value})
    return settings


@pytest.mark.parametrize(
    "name",
    [name if name in FAST_VARIANTS else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS],
)
def test_interrupted_run_matches_an_uninterrupted_one(
    name: str, settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = variant(settings, name)
    pretrain(tmp_path / "uninterrupted", settings)
    for steps in (1, 4, 5):
        with monkeypatch.context() as patch, pytest.raises(SimulatedCrash):
            crash_after(steps, patch)
            pretrain(tmp_path / "interrupted", settings)
    pretrain(tmp_path / "interrupted", settings)
    assert read_untimed_metrics(tmp_path / "uninterrupted") == read_untimed_metrics(tmp_path / "interrupted")
    assert weight_bytes(tmp_path / "uninterrupted") == weight_bytes(tmp_path / "interrupted")


def write_recipe_and_command(settings: PretrainSettings, out: Path, tmp_path: Path) -> list[str]:
    """Write the settings to a recipe and return the arguments of a `pretrain` command that uses it."""
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(settings_to_toml(settings))
    return ["pretrain", "--config", str(recipe), "--out", str(out)]


@pytest.mark.long
@pytest.mark.slow
def test_killed_at_random_times(settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer) -> None:
    """Twenty times, at any step, also during a write."""
    settings = with_train(variant(settings, "curricula"), steps=60, save_every=2, micro_batch_tokens=100)
    started = time.monotonic()
    exit_codes, output = fork_server.run(
        *write_recipe_and_command(settings, tmp_path / "uninterrupted", tmp_path)
    )
    assert exit_codes == [0], output
    run_seconds = time.monotonic() - started
    rng = random.Random()  # not seeded, so that every test run kills at other times
    command = [*write_recipe_and_command(settings, tmp_path / "killed", tmp_path), "--quiet"]
    kills = 0
    while kills < 20:
        seconds = rng.uniform(0.0, 0.35 * run_seconds)
        exit_codes, output = fork_server.run(*command, signal_after=seconds)
        assert exit_codes in ([-9], [0]), output
        if exit_codes == [-9]:
            kills += 1
        else:
            assert weight_bytes(tmp_path / "uninterrupted") == weight_bytes(tmp_path / "killed")
            shutil.rmtree(tmp_path / "killed")  # the run was faster than the kill: start a new one
    exit_codes, output = fork_server.run(*command)
    assert exit_codes == [0], output
    assert weight_bytes(tmp_path / "uninterrupted") == weight_bytes(tmp_path / "killed")
    assert read_untimed_metrics(tmp_path / "uninterrupted") == read_untimed_metrics(tmp_path / "killed")
    assert not list(tmp_path.rglob("*.partial"))


def start_run(settings: PretrainSettings, tmp_path: Path) -> "subprocess.Popen[str]":
    """Start a run in a process group of its own, and return when it has taken some steps."""
    command = [
        sys.executable,
        "-m",
        "albertine",
        *write_recipe_and_command(settings, tmp_path / "run", tmp_path),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    metrics_file = tmp_path / "run" / "metrics.jsonl"
    while not metrics_file.exists() or len(metrics_file.read_bytes().splitlines()) < 5:
        assert process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_shutdown_signal_writes_a_checkpoint(
    number: signal.Signals, status: int, settings: PretrainSettings, tmp_path: Path
) -> None:
    """A long step is dropped, so the process ends within seconds."""
    settings = with_train(settings, steps=400, batch_tokens=4096, save_every=None)
    process = start_run(settings, tmp_path)
    sent = time.monotonic()
    process.send_signal(number)
    output = process.communicate(timeout=30)[1]
    assert process.returncode == status, output
    assert time.monotonic() - sent < 5
    assert "run the same command again to resume" in output.splitlines()[-1]
    step = max(line["step"] for line in read_untimed_metrics(tmp_path / "run"))
    newest = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    assert newest.name == f"step-{step:08d}"


@pytest.mark.long
@pytest.mark.slow
def test_shutdown_signals_at_random_times(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    settings = with_train(settings, steps=40, save_every=None, micro_batch_tokens=100)
    exit_codes, output = fork_server.run(
        *write_recipe_and_command(settings, tmp_path / "uninterrupted", tmp_path)
    )
    assert exit_codes == [0], output
    command = [*write_recipe_and_command(settings, tmp_path / "stopped", tmp_path), "--quiet"]
    rng = random.Random()
    for _ in range(12):
        seconds = rng.uniform(0.3, 1.2)
        exit_codes, output = fork_server.run(*command, signal=signal.SIGTERM, signal_after=seconds)
        assert exit_codes[0] in (0, 143, 130), output
        assert "internal error" not in output
    exit_codes, output = fork_server.run(*command)
    assert exit_codes == [0], output
    assert weight_bytes(tmp_path / "uninterrupted") == weight_bytes(tmp_path / "stopped")
    assert read_untimed_metrics(tmp_path / "uninterrupted") == read_untimed_metrics(tmp_path / "stopped")


def fail_writes(monkeypatch: pytest.MonkeyPatch, calls: set[int]) -> None:
    """Let some writes of optimizer files fail halfway; `calls` are their numbers, from 1."""
    original, call = write_tensors, 0

    def write_or_fail(tensors: Any, file: Path) -> None:
        nonlocal call
        call += 1
        if call in calls:
            file.write_bytes(b"half of it")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(tensors, file)

    monkeypatch.setattr(checkpoints, "write_tensors", write_or_fail)


def test_temporarily_full_disk_does_not_stop_the_run(
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pretrain(tmp_path / "uninterrupted", settings)
    with monkeypatch.context() as patch:
        fail_writes(patch, {2, 3})
        pretrain(tmp_path / "full", settings)
    assert "No space left on device; training continues" in capsys.readouterr().err
    assert weight_bytes(tmp_path / "uninterrupted") == weight_bytes(tmp_path / "full")


def test_full_disk_stops_the_run_and_it_resumes(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretrain(tmp_path / "uninterrupted", settings)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        fail_writes(patch, set(range(4, 100)))
        pretrain(tmp_path / "full", settings)
    checkpoint = checkpoints.CheckpointStore(tmp_path / "full", 2).newest_valid()
    assert checkpoint is not None
    assert 0 < checkpoint.step < 12
    pretrain(tmp_path / "full", settings)
    assert weight_bytes(tmp_path / "uninterrupted") == weight_bytes(tmp_path / "full")
    assert read_untimed_metrics(tmp_path / "uninterrupted") == read_untimed_metrics(tmp_path / "full")


def interrupted_run(
    settings: PretrainSettings, run: Path, monkeypatch: pytest.MonkeyPatch, steps: int = 7
) -> Path:
    """Interrupt a run and return its newest checkpoint."""
    with monkeypatch.context() as patch, pytest.raises(SimulatedCrash):
        crash_after(steps, patch)
        pretrain(run, settings)
    return max((run / "checkpoints").glob("step-*"))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    "file", ["model.safetensors", "optimizer.safetensors", "state.json", "config.json", "tokenizer.json"]
)
@pytest.mark.parametrize("kind_of_damage", ["flipped", "cut", "missing", "empty"])
def test_damaged_checkpoint_is_skipped(
    file: str,
    kind_of_damage: str,
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    newest = interrupted_run(settings, tmp_path / "run", monkeypatch)
    damage(newest / file, kind_of_damage)
    pretrain(tmp_path / "run", settings)
    output = capsys.readouterr().err
    assert f"{newest.name}: damaged (" in output
    assert "; resuming from step-" in output
    pretrain(tmp_path / "uninterrupted", settings)
    assert weight_bytes(tmp_path / "uninterrupted") == weight_bytes(tmp_path / "run")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("answerable.safetensors", b"", "answerable.safetensors is not a file of it"),
        ("state.json", b"[" * 100_000, "state.json: not JSON"),
        ("state.json", b"{}", "state.json: KeyError"),
        ("config.json", Path("/dev/zero"), "config.json: a device, pipe or socket"),
        ("state.json", Path("/dev/zero"), "state.json: a device, pipe or socket"),
    ],
)
def test_hostile_checkpoint_is_skipped(
    file: str,
    content: bytes | Path,
    message: str,
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    newest = interrupted_run(settings, tmp_path / "run", monkeypatch)
    (newest / file).unlink(missing_ok=True)
    if isinstance(content, Path):
        (newest / file).symlink_to(content)
    else:
        (newest / file).write_bytes(content)
    pretrain(tmp_path / "run", settings)
    assert f"{newest.name}: damaged ({message}" in capsys.readouterr().err


def test_checkpoint_whose_best_is_damaged_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    store = checkpoints.CheckpointStore(tmp_path, keep_last=3)
    for step, best_step in ((1, 1), (2, 2), (3, 2)):
        state = TrainerState(step=step, best=BestEvaluation(best_step, 1.0)).to_json()
        contents = checkpoints.CheckpointContents(lambda _: None, {}, state, best_step, step)
        store.start_writing(contents)
        store.wait_or_raise()
    (tmp_path / "checkpoints" / "step-00000002" / "other").touch()
    for needs_best, expected_step in ((False, 3), (True, 1)):
        checkpoint = store.newest_valid(needs_best=needs_best)
        assert checkpoint is not None
        assert checkpoint.step == expected_step


def damage(file: Path, kind_of_damage: str) -> None:
    content = file.read_bytes()
    file.unlink()  # hard links to the file keep its content
    if kind_of_damage == "missing":
        return
    half = len(content) // 2
    flipped_byte = bytes([content[half] ^ 1])
    damaged = {
        "flipped": content[:half] + flipped_byte + content[half + 1 :],
        "cut": content[:half],
        "empty": b"",
    }
    file.write_bytes(damaged[kind_of_damage])


def test_all_checkpoints_damaged_raises(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_run(settings, tmp_path / "run", monkeypatch)
    for folder in (tmp_path / "run" / "checkpoints").glob("step-*"):
        damage(folder / "model.safetensors", "flipped")
    with pytest.raises(WorkError, match="no other checkpoint is intact"):
        pretrain(tmp_path / "run", settings)


def test_changed_corpus_raises(
    settings: PretrainSettings,
    tmp_path: Path,
    text: Path,
    tokenizer: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    corpus_settings = CorpusSettings(layout="lines", workers=1, held_out=0.2)
    build_corpus([str(text)], tokenizer, tmp_path / "corpus", corpus_settings)
    settings = replace(settings, corpus=tmp_path / "corpus")
    interrupted_run(settings, tmp_path / "run", monkeypatch)
    shutil.rmtree(tmp_path / "corpus")
    build_corpus([str(text / "a.txt")], tokenizer, tmp_path / "corpus", corpus_settings)
    with pytest.raises(
        InputError, match=r"not the corpus that the run started with: dev-00000\.arrow has changed"
    ):
        pretrain(tmp_path / "run", settings)


def test_changed_settings_raise_or_are_named(
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    interrupted_run(settings, tmp_path / "run", monkeypatch)
    with pytest.raises(
        InputError, match=r"a run with train\.lr = 0\.002, not 0\.003; give the settings of the run"
    ):
        pretrain(tmp_path / "run", with_train(settings, lr=3e-3))
    with pytest.raises(InputError, match=r"a run with objective\.mlm_probability"):
        pretrain(
            tmp_path / "run", replace(settings, objective=replace(settings.objective, mlm_probability=0.2))
        )
    # Settings of speed and storage may change.
    pretrain(
        tmp_path / "run", with_train(settings, micro_batch_tokens=64, keep_checkpoints=1, save_minutes=1.0)
    )
    output = capsys.readouterr().err
    assert re.findall(r"settings\.toml: (\S+) changes from .+? to (\S+)", output) == [
        ("train.micro_batch_tokens", "64"),
        ("train.save_minutes", "1.0"),
        ("train.keep_checkpoints", "1"),
    ]


def test_edited_settings_file_is_refused(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints have the settings, too, so that nothing depends on a file that people edit."""
    run = tmp_path / "run"
    interrupted_run(settings, run, monkeypatch)
    text = (run / "settings.toml").read_text()
    (run / "settings.toml").write_text(text.replace("steps = 12\n", ""))
    with pytest.raises(InputError, match=r"settings\.toml: train\.steps is missing, which the checkpoints"):
        read_run_settings(run)
    (run / "settings.toml").write_text(text.replace("steps = 12\n", "steps = 30\n"))
    with pytest.raises(
        InputError, match=r"a run with train\.steps = 12, not 30( \(also different: .+\))?; give the settings"
    ):
        pretrain(run, build_settings(PretrainSettings, read_run_settings(run)))
    (run / "settings.toml").unlink()
    with pytest.raises(InputError, match=r"a run with train\.steps = 12, not 30.*; .* or another --out"):
        pretrain(run, with_train(settings, steps=30))
    pretrain(run, settings)
    assert (run / "settings.toml").read_text() == text


def test_checkpoint_without_settings_is_compared_with_the_file(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions saved the settings only in the run folder."""
    with monkeypatch.context() as patch:
        patch.setattr(recorder, "settings_to_toml", lambda _: None)
        interrupted_run(settings, tmp_path / "run", monkeypatch)
    with pytest.raises(InputError, match=r"a run with train\.steps = 12, not 30"):
        pretrain(tmp_path / "run", with_train(settings, steps=30))
    pretrain(tmp_path / "run", settings)


def test_kernels_may_be_switched_off_on_resume(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def must_not_be_called(*_: Any) -> None:
        raise AssertionError

    interrupted_run(settings, tmp_path / "run", monkeypatch)
    monkeypatch.setattr(selection, "short_attention", must_not_be_called)
    pretrain(tmp_path / "run", with_train(settings, kernels=False))


def test_another_number_of_threads_is_reported_on_resume(
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The number of threads determines the order of sums, so another number does not resume exactly."""
    interrupted_run(settings, tmp_path / "run", monkeypatch)
    shutil.copytree(tmp_path / "run", tmp_path / "same")
    capsys.readouterr()
    pretrain(tmp_path / "same", settings)
    assert "not be bit for bit" not in capsys.readouterr().err
    torch.set_num_threads(2)
    pretrain(tmp_path / "run", settings)
    message = (
        "resuming with 2 threads, not 1: the weights will not be bit for bit those of an uninterrupted run"
    )
    assert f"{message}; for that, set OMP_NUM_THREADS=1\n" in capsys.readouterr().err
    pretrain(tmp_path / "same", settings)  # which is finished
    assert "resuming" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["metrics.jsonl", "checkpoints"])
@pytest.mark.usefixtures("draw_curves")
def test_a_file_removed_during_the_run_is_no_wrong_input(
    name: str, settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Trainer._advance

    def advance(self: Trainer) -> None:
        original(self)
        if self.state.step == 7:
            self.recorder.checkpoints.wait()
            path = tmp_path / "run" / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    monkeypatch.setattr(Trainer, "_advance", advance)
    with pytest.raises(WorkError, match=f"{name}.*: removed while the run used it"):
        pretrain(tmp_path / "run", settings)


def test_locked_run_folder_raises(settings: PretrainSettings, tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with (
        file_lock(tmp_path / "run" / "checkpoints" / "run.lock", "busy"),
        pytest.raises(InputError, match="another process is training there"),
    ):
        pretrain(tmp_path / "run", settings)


def test_folder_that_is_no_run_raises(settings: PretrainSettings, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "summer.jpg").write_bytes(b"sea")
    with pytest.raises(InputError, match="exists already and is not a run folder"):
        pretrain(tmp_path / "photos", settings)
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["summer.jpg"]


def test_run_of_an_earlier_version_raises(settings: PretrainSettings, tmp_path: Path) -> None:
    (tmp_path / "run" / "trainer" / "step-00000003").mkdir(parents=True)
    (tmp_path / "run" / "settings.toml").write_text("[train]\nat_once = 64\n")
    with pytest.raises(
        InputError, match=r"trainer: format 1, written by an older version .* start a new run"
    ):
        pretrain(tmp_path / "run", settings)
    with pytest.raises(InputError, match="format 1, written by an older version"):
        read_run_settings(tmp_path / "run", PretrainSettings)


@pytest.mark.parametrize(
    ("format_number", "message"),
    [
        (1, r"state\.json: format 1, written by an older version .* start a new run"),
        (3, r"state\.json: format 3, written by a newer version .* reads format 2; update Albertine"),
    ],
)
def test_checkpoint_of_another_format_raises(
    format_number: int,
    message: str,
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "STATE_FORMAT", format_number)
        pretrain(tmp_path / "run", settings)
    with pytest.raises(InputError, match=message):
        pretrain(tmp_path / "run", settings)
    # The version comes first: another version may have settings that this one does not know.
    with (tmp_path / "run" / "settings.toml").open("a") as file:
        file.write("\n[other]\nsetting = 1\n")
    with pytest.raises(InputError, match=message):
        read_run_settings(tmp_path / "run", PretrainSettings)


def test_finished_run_is_not_changed(
    settings: PretrainSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = pretrain(tmp_path / "run", settings)
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*.safetensors")}
    assert pretrain(tmp_path / "run", settings) == metrics
    assert "run: finished at step 12 of 12; nothing to resume" in capsys.readouterr().err
    assert times == {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*.safetensors")}


def test_a_finished_run_without_metrics_stays_finished(
    settings: PretrainSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str], draw_curves: None
) -> None:
    run = tmp_path / "run"

    def evaluate(*_: Any) -> dict[str, float]:
        (run / "metrics.jsonl").unlink(missing_ok=True)
        return {"loss": 1.0}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pretraining, "evaluate", evaluate)
        with pytest.raises(WorkError, match=r"metrics\.jsonl: removed while the run used it"):
            pretrain(run, settings)
    assert pretrain(run, settings) == {"loss": 1.0}
    messages = capsys.readouterr().err
    assert "run: finished at step 12 of 12; nothing to resume" in messages
    assert f"{run / 'metrics.jsonl'}: missing; the run has no learning curve" in messages
    with pytest.raises(InputError, match=r"metrics\.jsonl: missing, and the report is made of it"):
        write_report(run)


def test_newest_and_best_checkpoints_are_kept(settings: PretrainSettings, tmp_path: Path) -> None:
    settings = with_train(
        settings, steps=30, save_every=2, evaluate_every=4, keep_checkpoints=2, lr=0.1, warmup=15
    )
    settings = with_train(settings, schedule="constant")
    pretrain(tmp_path / "run", settings)
    scores = {
        line["step"]: line["held_out_loss"]
        for line in read_untimed_metrics(tmp_path / "run")
        if "held_out_loss" in line
    }
    best = min(scores, key=scores.__getitem__)
    assert best < 28  # at this learning rate the loss rises
    kept_steps = sorted(int(path.name[5:]) for path in (tmp_path / "run" / "checkpoints").glob("step-*"))
    state = json.loads((tmp_path / "run" / "checkpoints" / "step-00000030" / "state.json").read_text())
    last_healthy_step = state["state"]["doctor"]["last_healthy_step"]
    last_healthy = max(step for step in range(0, 31, 2) if step <= last_healthy_step)
    assert kept_steps == sorted({best, last_healthy, 28, 30})


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
@pytest.mark.slow
def test_shutdown_with_data_workers(
    number: signal.Signals, status: int, settings: PretrainSettings, tmp_path: Path
) -> None:
    settings = replace(with_train(settings, steps=100_000, save_every=None), workers=2)
    process = start_run(settings, tmp_path)
    os.killpg(process.pid, number)  # the process and its workers, as a terminal, torchrun and Slurm do
    output = process.communicate(timeout=30)[1]
    assert process.returncode == status, output
    assert "internal error" not in output
    assert "Traceback" not in output
    # The lock is released.
    with file_lock(tmp_path / "run" / "checkpoints" / "run.lock", "busy"):
        pass


@pytest.mark.slow
def test_surviving_workers_release_the_run_lock(settings: PretrainSettings, tmp_path: Path) -> None:
    settings = replace(with_train(settings, steps=100_000, save_every=None), workers=2)
    process = start_run(settings, tmp_path)
    process.kill()
    process.wait(30)  # `communicate` would also wait for the workers, which share the pipe
    assert process.stderr
    process.stderr.close()
    with file_lock(tmp_path / "run" / "checkpoints" / "run.lock", "busy"):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("interrupted_call", [1, 2, 3])  # the first evaluation, the middle one, the last
def test_interrupted_evaluation_is_repeated(
    interrupted_call: int,
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    draw_curves: None,
) -> None:
    settings = with_train(settings, evaluate_every=6)
    pretrain(tmp_path / "uninterrupted", settings)
    original, call = Pretraining.evaluate, 0

    def evaluate(self: Pretraining, model: Any, step: int) -> dict[str, float]:
        nonlocal call
        call += 1
        if call == interrupted_call:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        return original(self, model, step)

    with monkeypatch.context() as patch, pytest.raises(RunStopped):
        patch.setattr(Pretraining, "evaluate", evaluate)
        pretrain(tmp_path / "interrupted", settings)
    assert pretrain(tmp_path / "interrupted", settings) == pretrain(tmp_path / "uninterrupted", settings)
    assert read_untimed_metrics(tmp_path / "uninterrupted") == read_untimed_metrics(tmp_path / "interrupted")
    assert (tmp_path / "interrupted" / "curve.png").exists()


@pytest.mark.slow
def test_interrupted_publishing_is_repeated(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draw_curves: None
) -> None:
    pretrain(tmp_path / "uninterrupted", settings)

    def fail_for_the_last_checkpoint(run: Path, checkpoint: Path) -> None:
        if checkpoint.name == "step-00000012":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        publish_model(run, checkpoint)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(recorder, "publish_model", fail_for_the_last_checkpoint)
        pretrain(tmp_path / "run", settings)
    assert weight_bytes(tmp_path / "run") != weight_bytes(tmp_path / "uninterrupted")
    pretrain(tmp_path / "run", settings)
    assert weight_bytes(tmp_path / "run") == weight_bytes(tmp_path / "uninterrupted")
    assert (tmp_path / "run" / "curve.png").exists()


def test_rollback_skips_nonfinite_checkpoints(
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    original, calls = Optimizers.step, 0

    def step_and_break_weights(self: Optimizers, lr: float) -> None:
        nonlocal calls
        original(self, lr)
        calls += 1
        if calls == 9:
            next(iter(self._names)).detach().fill_(float("inf"))

    monkeypatch.setattr(Optimizers, "step", step_and_break_weights)
    pretrain(tmp_path / "run", with_train(settings, steps=30, evaluate_every=30))
    assert capsys.readouterr().err.count("rolled back to step") == 1
    assert all(parameter.isfinite().all() for parameter in albertine.load(tmp_path / "run").parameters())


def test_failed_first_start_can_be_repeated_with_other_settings(
    settings: PretrainSettings, tmp_path: Path
) -> None:
    """A run without checkpoints accepts other settings."""
    first_settings = replace(settings, objective=replace(settings.objective, seed=1))
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "settings.toml").write_text(settings_to_toml(first_settings))
    (tmp_path / "run" / "checkpoints" / "run.lock").touch()
    pretrain(tmp_path / "run", settings)


def test_resuming_with_a_moved_corpus_and_without_the_init_checkpoint(
    settings: PretrainSettings, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    albertine.save(albertine.Model(MODEL), tmp_path / "start", tokenizer=corpus.tokenizer)
    settings = replace(settings, init_from=str(tmp_path / "start"))
    interrupted_run(settings, tmp_path / "run", monkeypatch)
    shutil.rmtree(tmp_path / "start")
    shutil.copytree(corpus.folder, tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    pretrain(tmp_path / "run", replace(settings, corpus=Path("moved")))
    assert albertine.load(tmp_path / "run").settings.hidden_size == MODEL.hidden_size


def test_best_is_reset_when_the_objective_changes(settings: PretrainSettings, tmp_path: Path) -> None:
    """Predicting more of the tokens is harder, so the losses before and after are not comparable."""
    harder = replace(settings, curriculum=CurriculumSettings(mlm_probability="0.15, 0.8 from 0.5"))
    pretrain(tmp_path / "run", with_train(harder, evaluate_every=2, save_every=100, lr=1e-3))
    kept_steps = [int(path.name[5:13]) for path in (tmp_path / "run" / "checkpoints").glob("step-*")]
    assert min(kept_steps) > 6
