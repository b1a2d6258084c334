"""Tests that commands give the same bytes on a Ray cluster as without, also if workers are killed."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from tests.study.test_study import CLAIM
from tests.task_fixtures import (
    checkpoint,
    finetune_settings,
    reviews,
    save_untrained_model,
    with_train_settings,
    write_csv,
)

from albertine.corpus import encode_jobs
from albertine.corpus.build import build_corpus
from albertine.corpus.settings import CorpusSettings
from albertine.errors import InputError
from albertine.executors.ray_cluster import RayCluster
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings, SweepGrid, SweepSettings
from albertine.inference.predict import predict
from albertine.inference.settings import PredictSettings
from albertine.settings import HeadSettings
from albertine.study.catalog import find_claim
from albertine.study.settings import StudySettings
from albertine.study.study import run_studies
from albertine.tasks.card import TaskCard
from albertine.text import sources
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

__all__ = ["checkpoint", "finetune_settings"]

pytest.importorskip("ray")  # it is not built for every platform


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "local")
        one = RayCluster()
        yield one
        one.close()


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a folder, except those that have times."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name not in ("metrics.jsonl", "state.json")
    }


@pytest.mark.slow
def test_world(cluster: RayCluster, tmp_path: Path) -> None:
    settings = WorldSettings(
        stories=20, extra=3, other=3, train=8, dev=4, test=4, workers=1, baselines=False, tasks="rte,squad"
    )
    write_world(tmp_path / "alone", settings)
    write_world(tmp_path / "cluster", settings, cluster)
    assert contents(tmp_path / "alone") == contents(tmp_path / "cluster")


@pytest.mark.slow
def test_corpus(
    cluster: RayCluster, text: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "CHUNK_BYTES", 1 << 14)
    monkeypatch.setattr(encode_jobs, "JOB_BYTES", 1 << 15)
    settings = CorpusSettings(layout="lines", held_out=0.2, workers=1)
    for name, executor in (("alone", None), ("cluster", cluster)):
        build_corpus([str(text)], tokenizer, tmp_path / name, settings, executor)
    assert contents(tmp_path / "alone") == contents(tmp_path / "cluster")


@pytest.mark.slow
def test_vocabulary(cluster: RayCluster, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "CHUNK_BYTES", 1 << 15)
    settings = TokenizerSettings(vocab_size=220, layout="lines")
    for name, executor in (("alone", None), ("cluster", cluster)):
        build_tokenizer([str(text)], tmp_path / name, settings, executor)
    assert contents(tmp_path / "alone") == contents(tmp_path / "cluster")


@pytest.mark.parametrize("rows", [None, [{"other": "ka"}]])
def test_data_that_cannot_be_predicted_start_no_cluster(
    rows: list[dict[str, str]] | None, checkpoint: Path, tmp_path: Path
) -> None:
    card = TaskCard("classify", "classify", ("red", "green", "blue"), max_length=8)
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify", labels=3), card)
    if rows is not None:
        write_csv(tmp_path / "new.csv", rows)
    settings = PredictSettings(data=str(tmp_path / "new.csv"), device="cpu")
    unused = Mock(spec=RayCluster)
    with pytest.raises(InputError, match=r"new.csv: no such file|new.csv: no column text"):
        predict(model, settings, tmp_path / "out.jsonl", executor=unused)
    assert not unused.mock_calls


@pytest.mark.slow
def test_predictions(
    cluster: RayCluster, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = TaskCard("classify", "classify", ("red", "green", "blue"), max_length=8)
    model = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify", labels=3), card)
    rows = [{"text": row["review"]} for row in reviews(3, 2_500)]  # three chunks
    settings = PredictSettings(data=str(write_csv(tmp_path / "new.csv", rows)), device="cpu")
    messages = []
    for name, executor in (("alone", None), ("cluster", cluster)):
        assert predict(model, settings, tmp_path / f"{name}.jsonl", executor=executor) == 2_500
        messages.append([line for line in capsys.readouterr().err.splitlines() if "truncated" in line])
    assert (tmp_path / "alone.jsonl").read_bytes() == (tmp_path / "cluster.jsonl").read_bytes()
    assert len(messages[0]) == 1
    assert messages[0] == messages[1]


@pytest.mark.slow
def test_seeds_of_finetuning(
    cluster: RayCluster, checkpoint: Path, tmp_path: Path, finetune_settings: FinetuneSettings
) -> None:
    settings = with_train_settings(replace(finetune_settings, seeds=2), steps=6, evaluate_every=3)
    for name, executor in (("alone", None), ("cluster", cluster)):
        finetune(str(checkpoint), tmp_path / name, settings, executor=executor)
    assert contents(tmp_path / "alone") == contents(tmp_path / "cluster")


@pytest.mark.slow
def test_a_sweep(
    cluster: RayCluster, checkpoint: Path, tmp_path: Path, finetune_settings: FinetuneSettings
) -> None:
    short = with_train_settings(finetune_settings, steps=6, evaluate_every=3)
    settings = SweepSettings(
        **{**vars(short), "grid": SweepGrid(lr="1e-6, 1x", batch_size="16", dropout="0")}
    )
    for name, executor in (("alone", None), ("cluster", cluster)):
        results = finetune(str(checkpoint), tmp_path / name, settings, sweep=True, executor=executor)
        assert len(results.runs) == 2
    assert contents(tmp_path / "alone") == contents(tmp_path / "cluster")


def kill_worker_after(file: Path, killed: list[int]) -> None:
    """Kill the worker that runs a job, once a file exists."""
    deadline = time.monotonic() + 200
    while not list(file.parent.glob(file.name)):
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[0].startswith("ray::run_job"):
                os.kill(process.pid, signal.SIGKILL)
                killed.append(process.pid)


@pytest.mark.long
@pytest.mark.slow
def test_a_run_of_a_killed_worker_resumes(
    cluster: RayCluster, checkpoint: Path, tmp_path: Path, finetune_settings: FinetuneSettings
) -> None:
    settings = with_train_settings(replace(finetune_settings, seeds=2), steps=240, save_every=20)
    finetune(str(checkpoint), tmp_path / "alone", settings)
    killed: list[int] = []
    second = tmp_path / "cluster" / "seed-0" / "checkpoints" / "step-*40"
    thread = threading.Thread(target=kill_worker_after, args=(second, killed))
    thread.start()
    finetune(str(checkpoint), tmp_path / "cluster", settings, executor=cluster)
    thread.join()
    assert killed
    assert contents(tmp_path / "alone") == contents(tmp_path / "cluster")
    started = (tmp_path / "cluster" / "seed-0" / "metrics.jsonl").read_text().count('"step": 1,')
    assert started == 1  # the second worker did not begin at the first step


@pytest.mark.long
@pytest.mark.slow
def test_study(cluster: RayCluster, tmp_path: Path) -> None:
    (tmp_path / "order.toml").write_text(CLAIM)
    claim, settings = find_claim(str(tmp_path / "order.toml")), StudySettings(scale="smoke")
    out = tmp_path / "studies"  # the same, because the ids of runs contain it
    measured = []
    for name, executor in (("alone", None), ("cluster", cluster)):
        (report,) = run_studies([claim], out, settings, executor)
        values = [{**arm.values, "seconds": None} for arm in report.arms]
        measured.append([values, [arm.runs for arm in report.arms], report.verdicts])
        out.rename(tmp_path / name)
    assert measured[0] == measured[1]
    weights = list((tmp_path / "alone").rglob("*.safetensors"))
    assert len(weights) >= 4
    for file in weights:
        other = tmp_path / "cluster" / file.relative_to(tmp_path / "alone")
        assert file.read_bytes() == other.read_bytes()
