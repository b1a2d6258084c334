"""Studies on object storage: machines take turns, and none computes what another has finished."""

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.pretrain.run import pretrain
from albertine.storage import objects
from albertine.storage.cache import download_folder, work_folder
from albertine.storage.objects import list_objects
from albertine.storage.upload import upload_new_folder
from albertine.study import study_run
from albertine.study.mirrored_studies import _is_behind

from .test_folders import write_object

CLAIM = """
claim = "Order is better."
source = "a test"
columns = ["sop_accuracy"]
[arms]
none = { objective.pair = "none" }
SOP = { objective.pair = "sop" }
[[expectations]]
measure = "sop_accuracy"
arm = "SOP"
than = "none"
margin = 5
[scales.smoke]
stories = 60
vocab_size = 400
probe_tokens = 800
pretrain.train.steps = 3
"""


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    path = tmp_path / "order.toml"
    path.write_text(CLAIM)
    return path


def study(claim: Path, out: str, *options: str) -> int:
    return run_command(app, ["study", str(claim), "--scale", "smoke", "--out", out, *options])


def lose_machine(url: str) -> None:
    shutil.rmtree(work_folder(url).parent)


def values(folder: Path) -> dict[str, Any]:
    report = json.loads((folder / "claims" / "order.smoke.json").read_text())
    return {arm["name"]: (arm["runs"], arm["values"]["sop_accuracy"]) for arm in report["arms"]}


def refuse(*_: Any) -> None:
    raise AssertionError("a run was computed again")


def test_another_machine_reads_the_results_and_computes_nothing(
    bucket: str,
    claim: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"{bucket}/studies"
    assert study(claim, str(tmp_path / "local")) == study(claim, url) == 0
    assert values(download_folder(url)) == values(tmp_path / "local")
    assert f"--out {url}<" in (download_folder(url) / "claims" / "order.smoke.html").read_text()
    assert not any(name.startswith("data/") for name in list_objects(url))
    lose_machine(url)
    monkeypatch.setattr(study_run, "pretrain", refuse)
    assert run_command(app, ["study", "--out", url]) == 0
    assert "order" in capsys.readouterr().out
    assert study(claim, url) == 0
    assert study(claim, url, "--print-plan") == 0
    assert "4 runs, 4 finished" in capsys.readouterr().out
    assert values(work_folder(url)) == values(tmp_path / "local")


def test_an_interrupted_study_goes_on_elsewhere(
    bucket: str, claim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, runs = f"{bucket}/studies", list[Path]()

    def interrupted_after_one(run: Path, settings: Any) -> Any:
        if runs:
            raise KeyboardInterrupt
        runs.append(run)
        return pretrain(run, settings)

    def counted(run: Path, settings: Any) -> Any:
        runs.append(run)
        return pretrain(run, settings)

    monkeypatch.setattr("albertine.study.execution.are_parallel", lambda _: False)  # runs in this process
    monkeypatch.setattr(study_run, "pretrain", interrupted_after_one)
    assert study(claim, url) == 130
    lose_machine(url)
    monkeypatch.setattr(study_run, "pretrain", counted)
    assert study(claim, url) == 0
    assert len(runs) == len(set(runs)) == 4


def test_other_folders_and_removed_studies_are_refused(
    bucket: str, claim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upload_new_folder(claim.parent, f"{bucket}/other")
    write_object(f"{bucket}/plain/file.txt", b"text")
    for name in ("other", "plain"):
        assert study(claim, f"{bucket}/{name}") == 2
        assert "exists already" in capsys.readouterr().err
    url = f"{bucket}/studies"
    assert study(claim, url) == 0
    for name in list_objects(url):
        objects.remove_object(f"{url}/{name}")
    capsys.readouterr()
    assert study(claim, url) == 2
    assert "no longer there" in capsys.readouterr().err


CHECKPOINT = "runs/a/model/checkpoints/step-0000000{}/state.json"


@pytest.mark.parametrize(
    ("local", "uploaded", "is_behind"),
    [
        ([], ["runs/a/run.json", CHECKPOINT.format(1)], True),
        ([CHECKPOINT.format(1)], [CHECKPOINT.format(2)], True),
        ([CHECKPOINT.format(2)], [CHECKPOINT.format(1)], False),
        (
            ["runs/a/results/training.json"],
            [CHECKPOINT.format(9)],
            False,
        ),  # finished, and its checkpoints removed
        ([CHECKPOINT.format(9)], ["runs/a/results/training.json"], True),
        (["runs/a/results/x.json"], ["runs/a/results/x.json", "runs/a/run.json"], False),
    ],
)
def test_the_more_advanced_run_wins(
    local: Collection[str], uploaded: Collection[str], is_behind: bool
) -> None:
    assert _is_behind(local, uploaded) == is_behind
