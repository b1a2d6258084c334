"""The checkpoints of a run on disk: which of two of the same step counts, and what a full disk spoils."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from albertine.train.checkpoints import STATE_FILE, CheckpointContents, CheckpointStore
from albertine.train.run_folder import publish_model
from albertine.train.trainer_state import BestEvaluation, TrainerState


def write_checkpoint(store: CheckpointStore, step: int, best_step: int) -> None:
    state = TrainerState(step=step, best=BestEvaluation(best_step, 1.0)).to_json()
    store.start_writing(CheckpointContents(lambda _: None, {}, state, best_step, step))
    store.wait_or_raise()


def test_a_partly_removed_checkpoint_gives_way_to_the_newer_one_of_its_step(tmp_path: Path) -> None:
    """A process that is killed while it replaces a checkpoint leaves both, the older one incomplete."""
    store = CheckpointStore(tmp_path, keep_last=3)
    store.folder.mkdir()
    write_checkpoint(store, 1, 1)
    write_checkpoint(store, 2, 2)
    replaced, replacement = store.folder / "step-00000002", store.folder / "step-00000002.1"
    shutil.copytree(replaced, replacement)
    (replaced / STATE_FILE).unlink()
    write_checkpoint(store, 3, 2)
    assert store.checkpoint_folder(2) == replacement
    newest = store.newest_valid(needs_best=True)
    assert newest is not None
    assert newest.step == 3


def test_a_failed_copy_into_the_run_is_not_called_a_failed_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Old checkpoints are removed also then."""

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = CheckpointStore(tmp_path, keep_last=1, on_written=fail)
    store.folder.mkdir()
    for step in (1, 2):
        with pytest.raises(OSError, match="No space left"):
            write_checkpoint(store, step, step)
    assert [folder.name for folder in store.folder.iterdir()] == ["step-00000002"]
    messages = capsys.readouterr().err
    assert "copying the model of step 2 into the run failed: No space left on device" in messages
    assert "the checkpoint of" not in messages


def test_publishing_skips_files_that_are_the_same_and_names_the_one_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, checkpoint = tmp_path / "run", tmp_path / "checkpoint"
    for folder in (run, checkpoint):
        folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (checkpoint / name).write_text(name)

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfileobj", fail)
        with pytest.raises(OSError, match="No space left") as caught:
            publish_model(run, checkpoint)
    assert caught.value.filename == str(run / "config.json")
    publish_model(run, checkpoint)
    before = {file: file.stat().st_ino for file in run.iterdir()}
    publish_model(run, checkpoint)
    assert {file: file.stat().st_ino for file in run.iterdir()} == before
