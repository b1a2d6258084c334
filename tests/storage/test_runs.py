"""Runs on object storage: the weights of a local run, resuming elsewhere, failing uploads."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from albertine import progress
from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.corpus import Corpus
from albertine.errors import InputError, WorkError
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import settings_to_toml
from albertine.storage import file_systems
from albertine.storage.cache import download_folder, work_folder
from albertine.storage.folder_manifest import FolderManifest, read_folder_manifest
from albertine.storage.objects import list_objects, remove_object
from albertine.storage.upload import upload_files, upload_new_folder
from albertine.train import mirrored_run as mirrored
from albertine.train.checkpoints import CheckpointStore
from albertine.train.trainer import Trainer
from tests.pretrain.conftest import settings, weight_bytes
from tests.task_fixtures import checkpoint, finetune_settings, with_train_settings

from .conftest import SECRET_KEY, LocalServer

__all__ = ["checkpoint", "finetune_settings", "settings"]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrored, "_POLL_SECONDS", 0.05)


class Crash(BaseException):
    """Stands for the loss of the machine."""


@contextmanager
def crash_after(steps: int, url: str, uploaded: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lose the machine after some steps, once the checkpoint `uploaded` is on object storage."""
    original, taken = Trainer._advance, 0

    def advance(self: Trainer) -> None:
        nonlocal taken
        if taken == steps:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                manifest = read_folder_manifest(url)
                if manifest and any(name.startswith(uploaded) for name in manifest.files):
                    raise Crash
                time.sleep(0.1)
            raise AssertionError(f"{uploaded} was not uploaded")
        taken += 1
        original(self)

    def stop(self: mirrored._Mirror, _attempts: int = 0) -> None:
        self._stopping.set()
        self._thread.join()

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_advance", advance)
        patched.setattr(mirrored._Mirror, "finish", stop)
        with pytest.raises(Crash):
            yield


def started_mirror(run: Path, url: str, former: FolderManifest | None) -> mirrored._Mirror:
    mirror = mirrored._Mirror(run, url, former)
    mirror.start()
    return mirror


def lose_machine(url: str) -> None:
    shutil.rmtree(work_folder(url).parent)


@pytest.mark.slow
def test_a_run_resumes_on_another_machine_with_the_same_weights(
    any_bucket: str, settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretrain(tmp_path / "local", settings)
    url = f"{any_bucket}/runs/first"
    with crash_after(7, url, "checkpoints/step-00000006", monkeypatch):
        pretrain(url, settings)
    lose_machine(url)
    metrics = pretrain(url, settings)
    assert weight_bytes(download_folder(url)) == weight_bytes(tmp_path / "local")
    lose_machine(url)
    assert pretrain(url, settings) == metrics  # finished; nothing is trained again


def test_every_uploaded_version_resumes(
    bucket: str, settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each upload that succeeds, the run on object storage has an intact newest checkpoint."""
    url, steps = f"{bucket}/run", list[int]()
    original = mirrored._Mirror._upload

    def upload_and_check(self: mirrored._Mirror) -> str | None:
        problem = original(self)
        assert problem is None
        folder = tmp_path / str(len(steps))
        shutil.copytree(download_folder(url), folder)
        checkpoint = CheckpointStore(folder, 1).newest_valid()
        assert checkpoint is not None
        steps.append(checkpoint.step)
        return problem

    monkeypatch.setattr(mirrored._Mirror, "_upload", upload_and_check)
    pretrain(url, settings)
    assert steps == sorted(steps)
    assert steps[-1] == 12
    names = [name for name in list_objects(url) if name.endswith("state.json")]
    assert len(names) <= 4  # the objects of removed checkpoints are removed


def test_a_checkpoint_may_be_replaced_while_files_are_listed(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, url, original = tmp_path / "run", f"{bucket}/run", mirrored.run_files
    newest = tmp_path / "newest"
    for folder in (run / "checkpoints" / "step-00000000", newest):
        folder.mkdir(parents=True)
        for name in ("model.safetensors", "state.json"):
            (folder / name).write_text(f"{folder} has {name}")
    listings: list[dict[str, Path]] = []

    def listed(folder: Path) -> dict[str, Path]:
        files = original(folder)
        if newest.exists() and listings:  # the second time, for the upload
            newest.rename(run / "checkpoints" / "step-00000003")
            (run / "checkpoints" / "step-00000000" / "state.json").unlink()
            del files["checkpoints/step-00000000/state.json"]
        listings.append(files)
        return files

    monkeypatch.setattr(mirrored, "run_files", listed)
    assert started_mirror(run, url, None).finish() is None
    assert not newest.exists()
    assert "checkpoints/step-00000003/state.json" in list_objects(url)


def test_checkpoints_may_be_removed_faster_than_they_are_uploaded(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, url, original, removed = tmp_path / "run", f"{bucket}/run", upload_files, list[str]()

    def write(step: int) -> Path:
        folder = run / "checkpoints" / f"step-{step:08}"
        folder.mkdir(parents=True)
        (folder / "state.json").write_text(str(step))
        return folder

    def upload(files: dict[str, Path], *arguments: Any, **options: Any) -> FolderManifest:
        if len(removed) < 8:  # more often than a failed upload is repeated
            name = next(name for name in files if name.endswith("state.json"))
            write(len(removed) + 1)
            shutil.rmtree(files[name].parent)
            removed.append(name)
        return original(files, *arguments, **options)

    write(0)
    monkeypatch.setattr(mirrored, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(mirrored, "upload_files", upload)
    assert started_mirror(run, url, None).finish() is None
    assert len(removed) == 8
    assert "checkpoints/step-00000008/state.json" in list_objects(url)
    assert "Errno" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_lost_connection_does_not_stop_training_and_loses_nothing(
    bucket: str, settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, messages = f"{bucket}/run", list[str]()
    monkeypatch.setattr(mirrored, "_LAST_ATTEMPTS", 1)
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    original = Trainer.train

    def lose_connection(self: Trainer) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            os.environ["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{unused.getsockname()[1]}"
        original(self)

    monkeypatch.setattr(file_systems, "_ATTEMPTS", 1)
    progress.set_message_writer(messages.append)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(Trainer, "train", lose_connection)
            with pytest.raises(WorkError, match="no connection") as raised:
                pretrain(url, settings)
    finally:
        progress.set_message_writer(None)
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    assert str(work_folder(url)) in str(raised.value)
    assert SECRET_KEY not in "".join(messages) + str(raised.value)
    assert read_folder_manifest(url) is None
    pretrain(url, settings)  # only uploads
    pretrain(tmp_path / "local", settings)
    assert weight_bytes(download_folder(url)) == weight_bytes(tmp_path / "local")


@pytest.mark.slow
def test_another_process_that_writes_there_is_noticed(
    bucket: str, settings: PretrainSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{bucket}/run"
    pretrain(url, settings)
    monkeypatch.setattr(mirrored, "_LAST_ATTEMPTS", 1)
    first = started_mirror(work_folder(url), url, read_folder_manifest(url))
    assert first.finish() is None
    second = started_mirror(work_folder(url), url, read_folder_manifest(url))
    (work_folder(url) / "note.txt").write_text("second")
    assert second.finish() is None
    assert "another process" in str(first.finish())


@pytest.mark.slow
def test_a_removed_run_does_not_come_back(bucket: str, settings: PretrainSettings) -> None:
    url = f"{bucket}/run"
    pretrain(url, settings)
    for name in list_objects(url):
        remove_object(f"{url}/{name}")
    with pytest.raises(InputError, match="no longer there"):
        pretrain(url, settings)
    lose_machine(url)
    pretrain(url, settings)


def test_a_folder_that_is_no_run_stays_as_it_is(
    bucket: str, settings: PretrainSettings, corpus: Corpus
) -> None:
    upload_new_folder(corpus.folder, f"{bucket}/corpus")
    before = list_objects(f"{bucket}/corpus")
    with pytest.raises(InputError, match="exists already"):
        pretrain(f"{bucket}/corpus", settings)
    assert list_objects(f"{bucket}/corpus") == before


def test_a_run_and_its_corpus_on_object_storage_hold_no_credentials(
    bucket: str, settings: PretrainSettings, corpus: Corpus, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    upload_new_folder(corpus.folder, f"{bucket}/corpus")
    config = tmp_path / "settings.toml"
    config.write_text(settings_to_toml(replace(settings, corpus=Path(f"{bucket}/corpus"))))
    url = f"{bucket}/run"
    assert run_command(app, ["pretrain", "--config", str(config), "--out", url]) == 0
    assert run_command(app, ["pretrain", "--out", url, "--resume"]) == 0
    printed = capfd.readouterr()
    written = [path.read_bytes() for path in work_folder(url).rglob("*") if path.is_file()]
    for content in (printed.out.encode(), printed.err.encode(), *written):
        assert SECRET_KEY.encode() not in content
        assert b"a-key" not in content
    assert Path(f"{bucket}/corpus").as_posix() in (work_folder(url) / "settings.toml").read_text()


def test_a_command_that_fails_before_the_run_leaves_nothing(bucket: str, settings: PretrainSettings) -> None:
    with pytest.raises(InputError):
        pretrain(f"{bucket}/run", replace(settings, corpus=Path("/no/such/corpus")))
    assert not list_objects(f"{bucket}/run")
    pretrain(f"{bucket}/run", settings)


@pytest.mark.slow
def test_finetuning_with_several_seeds_resumes_on_another_machine(
    bucket: str,
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = with_train_settings(replace(finetune_settings, seeds=2), steps=20, evaluate_every=10)
    local = finetune(str(checkpoint), tmp_path / "local", wanted)
    url = f"{bucket}/tuned"
    with crash_after(
        25, url, "seed-0/checkpoints/step-00000020", monkeypatch
    ):  # in the run of the second seed
        finetune(str(checkpoint), url, wanted)
    lose_machine(url)
    remote = finetune(str(checkpoint), url, wanted)
    assert [run.metrics for run in remote.runs] == [run.metrics for run in local.runs]
    assert weight_bytes(download_folder(url)) == weight_bytes(tmp_path / "local")


_KILLED_RUN = """
import os, sys
from albertine.cli import app
from albertine.command import run_command
from albertine.train import mirrored_run
mirrored_run._POLL_SECONDS = 0.05
sys.exit(run_command(app, sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_stopped_run_uploads_its_last_checkpoint(
    bucket: str, settings: PretrainSettings, tmp_path: Path
) -> None:
    """SIGTERM comes before a machine is taken away."""
    train = replace(settings.train, steps=100_000, save_every=None, evaluate_every=50_000)
    config = tmp_path / "settings.toml"
    config.write_text(settings_to_toml(replace(settings, train=train)))
    url = f"{bucket}/run"
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED_RUN, "pretrain", "--config", str(config), "--out", url],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    while not _has_step(work_folder(url), 5):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, messages = process.communicate(timeout=120)
    assert process.returncode == 143
    assert "uploading the last checkpoint" in messages
    lose_machine(url)
    checkpoint = CheckpointStore(download_folder(url), 1).newest_valid()
    assert checkpoint is not None
    assert checkpoint.step >= 5


@pytest.mark.slow
def test_a_second_signal_ends_a_run_whose_store_does_not_answer(
    bucket: str, server: LocalServer, settings: PretrainSettings, tmp_path: Path
) -> None:
    train = replace(settings.train, steps=100_000, save_every=None, evaluate_every=50_000)
    config = tmp_path / "settings.toml"
    config.write_text(settings_to_toml(replace(settings, train=train)))
    url = f"{bucket}/run"
    with (
        subprocess.Popen(
            [sys.executable, "-m", "albertine", "pretrain", "--config", str(config), "--out", url],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        ) as process,
        frozen_after(server, lambda: _has_step(work_folder(url), 5)),
    ):
        process.send_signal(signal.SIGTERM)
        time.sleep(5)
        assert process.poll() is None  # it waits for the store
        process.send_signal(signal.SIGTERM)
        _, messages = process.communicate(timeout=20)
        assert process.returncode == 143
        assert f"a second signal leaves it in {work_folder(url)}" in messages
        assert "Traceback" not in messages
    checkpoint = CheckpointStore(work_folder(url), 1).newest_valid()
    assert checkpoint is not None
    assert checkpoint.step >= 5


def _has_step(run: Path, step: int) -> bool:
    metrics = run / "metrics.jsonl"
    return metrics.exists() and f'"step": {step}' in metrics.read_text()


@contextmanager
def frozen_after(server: LocalServer, condition: Callable[[], bool]) -> Iterator[None]:
    """Freeze the store for the block, once a condition is true."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    server.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.send_signal(signal.SIGCONT)


@pytest.mark.long
@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_with_the_same_weights(
    bucket: str, settings: PretrainSettings, tmp_path: Path
) -> None:
    """The process is killed again and again, and every second time the machine is lost as well."""
    settings = replace(settings, train=replace(settings.train, steps=60))
    pretrain(tmp_path / "local", settings)
    config = tmp_path / "settings.toml"
    config.write_text(settings_to_toml(settings))
    url = f"{bucket}/run"
    command = [sys.executable, "-c", _KILLED_RUN, "pretrain", "--config", str(config), "--out", url]
    for attempt in range(6):
        process = subprocess.Popen(
            command, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        time.sleep(6 + attempt / 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if attempt % 2 and work_folder(url).exists():
            lose_machine(url)
    pretrain(url, settings)
    assert weight_bytes(download_folder(url)) == weight_bytes(tmp_path / "local")


def test_the_files_of_a_run_are_listed_while_folders_are_removed(tmp_path: Path) -> None:
    kept = tmp_path / "checkpoints" / "step-1" / "weights"
    kept.parent.mkdir(parents=True)
    kept.touch()
    stopping = threading.Event()

    def write_and_remove() -> None:
        while not stopping.is_set():
            for folder in ("checkpoints/.partial", "studies/a/b"):
                (tmp_path / folder / "c").mkdir(parents=True)
                shutil.rmtree(tmp_path / folder)

    writer = threading.Thread(target=write_and_remove)
    writer.start()
    try:
        listed = [mirrored.run_files(tmp_path) for _ in range(5000)]
    finally:
        stopping.set()
        writer.join()
    assert all(files == {"checkpoints/step-1/weights": kept} for files in listed)
