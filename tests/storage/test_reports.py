"""Reports and comparisons of runs on object storage are those of local ones."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.corpus import Corpus
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.storage.cache import cache_folder
from albertine.storage.objects import object_writer
from albertine.storage.upload import upload_new_folder
from tests.pretrain.conftest import settings, with_train
from tests.task_fixtures import checkpoint, finetune_settings, with_train_settings

__all__ = ["checkpoint", "finetune_settings", "settings"]


@pytest.fixture
def finetuned(checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path) -> Path:
    """A run of two seeds."""
    wanted = with_train_settings(replace(finetune_settings, seeds=2), steps=6, evaluate_every=3)
    finetune(str(checkpoint), tmp_path / "judge", wanted)
    return tmp_path / "judge"


def report(run: str, out: Path) -> str:
    assert run_command(app, ["report", run, "--out", str(out)]) == 0
    return out.read_text(encoding="utf-8")


def test_the_report_of_a_pretraining_run(
    bucket: str, settings: PretrainSettings, corpus: Corpus, tmp_path: Path
) -> None:
    pretrain(tmp_path / "first", settings)
    upload_new_folder(corpus.folder, f"{bucket}/corpus")
    upload_new_folder(tmp_path / "first", f"{bucket}/first")
    page = report(f"{bucket}/first", tmp_path / "remote.html")
    assert page.replace(f"{bucket}/first", str(tmp_path / "first")) == report(
        str(tmp_path / "first"), tmp_path / "local.html"
    )
    assert f"albertine finetune {bucket}/first" in page
    assert str(cache_folder()) not in page
    assert not list(cache_folder().rglob("optimizer.safetensors"))


def test_the_report_of_a_finetuning_run(bucket: str, finetuned: Path, tmp_path: Path) -> None:
    upload_new_folder(finetuned, f"{bucket}/judge")
    page = report(f"{bucket}/judge", tmp_path / "remote.html")
    assert page.replace(f"{bucket}/judge", str(finetuned)) == report(str(finetuned), tmp_path / "local.html")
    assert f"albertine predict {bucket}/judge" in page
    assert "<h2>Runs</h2>" in page
    assert not list(cache_folder().rglob("optimizer.safetensors"))


@pytest.mark.slow
def test_comparisons(
    bucket: str,
    settings: PretrainSettings,
    finetuned: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, lr in (("a", 1e-3), ("b", 2e-3)):
        pretrain(tmp_path / name, with_train(settings, lr=lr))
        upload_new_folder(tmp_path / name, f"{bucket}/{name}")
    upload_new_folder(finetuned, f"{bucket}/judge")
    local, remote = [str(tmp_path / name) for name in "ab"], [f"{bucket}/{name}" for name in "ab"]
    found = []
    for runs in (local, remote, [local[0], remote[1]]):
        capsys.readouterr()
        assert run_command(app, ["compare", *runs, "--json"]) == 0
        comparison = json.loads(capsys.readouterr().out)
        assert [run.pop("run") for run in comparison["runs"]] == runs
        found.append(comparison)
    assert found[0] == found[1] == found[2]
    assert "train.lr" in found[0]["differing_settings"]
    seeds = [f"{bucket}/judge", str(finetuned)]
    assert run_command(app, ["compare", *seeds, "--out", str(tmp_path / "page.html")]) == 0
    assert f"{bucket}/judge" in (tmp_path / "page.html").read_text()
    assert not list(cache_folder().rglob("*.safetensors"))  # metrics are enough


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("report {bucket}/none --out {out}", "no such folder"),
        ("report {bucket}/none", "name a file for its report with --out"),
        ("report {bucket}/text --out {out}", "{bucket}/text: not a run"),
        ("report {bucket}/text --out {bucket}/page.html", "must be a local path"),
        ("report run --out page.txt", "ends in .html"),
        ("compare {bucket}/none {bucket}/none-2", "no such folder"),
        ("compare {bucket}/text {bucket}/text-2", "{bucket}/text: not a run"),
        ("compare s3://k:hunter2@b/x s3://b/y", "may be secret"),
    ],
)
def test_wrong_urls_give_one_line_and_status_2(
    bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, message: str
) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("text")
    upload_new_folder(tmp_path / "text", f"{bucket}/text")
    capsys.readouterr()
    status = run_command(app, command.format(bucket=bucket, out=tmp_path / "page.html").split())
    error = capsys.readouterr().err
    assert status == 2, error
    assert message.format(bucket=bucket) in error
    assert len(error.splitlines()) == 1
    assert "hunter2" not in error


def test_settings_are_read_from_object_storage(bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    with object_writer(f"{bucket}/recipe.toml") as stream:
        stream.write(b"[train]\nsteps = 7\nsteps_typo = 1\n")
    command = ["pretrain", "--corpus", "c", "--out", "o", "--config"]
    assert run_command(app, [*command, f"{bucket}/recipe.toml"]) == 2
    assert f"{bucket}/recipe.toml: train.steps_typo = 1: unknown setting" in capsys.readouterr().err
    assert run_command(app, [*command, f"{bucket}/none.toml"]) == 2
    assert f"{bucket}/none.toml: no such file; give --config a TOML file" in capsys.readouterr().err
