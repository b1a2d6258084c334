"""The checkpoints of a run on disk: which of two of the same step counts."""

import shutil
from pathlib import Path

from albertine.train.checkpoints import STATE_FILE, CheckpointContents, CheckpointStore
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
