"""Studies on object storage: machines take turns, and none computes what another has finished."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.pretrain.run import pretrain
from albertine.storage import objects
from albertine.storage.cache import download_folder, work_folder
from albertine.storage.folder_manifest import read_folder_manifest
from albertine.storage.objects import list_objects
from albertine.storage.upload import upload_files, upload_new_folder
from albertine.study import study_run
from albertine.study.catalog import find_claim
from albertine.study.data import find_data
from albertine.study.mirrored_studies import _paths_to_download, restored_studies
from albertine.study.protocol import find_protocol
from albertine.study.settings import StudySettings
from albertine.train.trainer import Trainer

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


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
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


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_another_machine_continues_an_interrupted_study(
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

    monkeypatch.setattr(study_run, "pretrain", interrupted_after_one)
    assert study(claim, url) == 130
    lose_machine(url)
    monkeypatch.setattr(study_run, "pretrain", counted)
    assert study(claim, url) == 0
    assert len(runs) == len(set(runs)) == 4


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_another_machine_resumes_an_unfinished_run(
    bucket: str, claim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim.write_text(CLAIM.replace("train.steps = 3", "train = { steps = 8, save_every = 2 }"))
    url, original, steps = f"{bucket}/studies", Trainer._advance, list[int]()

    def advance(trainer: Trainer) -> None:
        if trainer.state.step == 5:
            raise KeyboardInterrupt
        original(trainer)

    def counted(trainer: Trainer) -> None:
        steps.append(trainer.state.step)
        original(trainer)

    monkeypatch.setattr(Trainer, "_advance", advance)
    assert study(claim, url) == 130
    lose_machine(url)
    monkeypatch.setattr(Trainer, "_advance", counted)
    assert study(claim, url) == 0
    assert steps[0] in (4, 5)  # the last checkpoint is that of the best evaluation, if it was after step 4
    assert steps == [*range(steps[0], 8), *range(8), *range(8), *range(8)]


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_reports_changed_on_either_side_are_kept(bucket: str, claim: Path) -> None:
    url = f"{bucket}/studies"
    assert study(claim, url) == 0
    report = work_folder(url) / "claims" / "order.smoke.json"
    original = report.read_bytes()
    report.write_bytes(b"changed here")
    with restored_studies(Path(url)):
        assert report.read_bytes() == b"changed here"  # as after a failed upload
    report.write_bytes(original)
    elsewhere = download_folder(url)
    (elsewhere / "claims" / "order.smoke.json").write_bytes(b"changed there")
    manifest = read_folder_manifest(url)
    upload_files(
        {name: elsewhere / name for name in (manifest.files if manifest else ())},
        url,
        manifest,
        writer="other",
    )
    with restored_studies(Path(url)):
        assert report.read_bytes() == b"changed there"


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_other_folders_and_removed_studies_are_refused(
    bucket: str, claim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    upload_new_folder(claim.parent, f"{bucket}/other")
    write_object(f"{bucket}/plain/file.txt", b"text")
    for name in ("other", "plain"):
        assert study(claim, f"{bucket}/{name}") == 2
        assert "exists already" in capsys.readouterr().err
    assert study(claim, "hf://owner/studies") == 2
    assert "hf upload" in capsys.readouterr().err
    url = f"{bucket}/studies"
    assert study(claim, url) == 0
    for name in list_objects(url):
        objects.remove_object(f"{url}/{name}")
    capsys.readouterr()
    assert study(claim, url) == 2
    assert "no longer there" in capsys.readouterr().err


CHECKPOINT = "runs/a/model/checkpoints/step-0000000{}/state.json"
TRAINED, PROBED, SCORED = (f"runs/a/results/{name}.json" for name in ("training", "probe-1", "sst-2"))


@pytest.mark.parametrize(
    ("local", "uploaded", "wanted"),
    [
        ([], ["runs/a/run.json", CHECKPOINT.format(1)], ["runs/a"]),
        ([CHECKPOINT.format(1)], [CHECKPOINT.format(2)], ["runs/a"]),
        ([CHECKPOINT.format(2)], [CHECKPOINT.format(1)], []),
        ([TRAINED], [CHECKPOINT.format(9)], []),  # finished, and its checkpoints removed
        ([CHECKPOINT.format(9)], [TRAINED], ["runs/a"]),
        ([TRAINED, PROBED], [TRAINED, SCORED], [SCORED]),
        ([CHECKPOINT.format(1).replace("runs/a", "runs/b")], [CHECKPOINT.format(1)], ["runs/a"]),
    ],
)
def test_what_is_further_is_downloaded(local: list[str], uploaded: list[str], wanted: list[str]) -> None:
    assert _paths_to_download("runs/a", local, uploaded) == wanted


def test_text_on_object_storage_names_its_version(bucket: str, tmp_path: Path) -> None:
    protocol = find_protocol(find_claim("table-5"), "evening")
    settings = StudySettings(scale="evening", text=f"{bucket}/text")
    folders = set[Path]()
    for content in (b"One text.", b"Another text."):
        write_object(f"{bucket}/text/a.txt", content)
        folders.update(find_data(tmp_path, protocol, settings).folder for _ in range(2))
    assert len(folders) == 2
