"""The checkpoints of a run; each is a model folder with everything that resuming needs.

    RUN/checkpoints/step-00001200/
        config.json, model.safetensors, tokenizer files     the model
        trained_weights.safetensors                         weights that the model has in another form
        optimizer.safetensors                               the state of the optimizers
        state.json                                          the state of the trainer, and checksums

A thread writes them from copies while training continues. A checkpoint appears complete
or not at all. The newest few are kept, the best, and one that a rollback can restore. A
run that resumes skips damaged checkpoints.

A step can be saved again, for instance after its evaluation. The new folder then has a suffix, as in
step-00001200.1, and the old one is removed. A process that is killed in between leaves both; the newer one
counts.
"""

import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from albertine import progress
from albertine.atomic import atomic_folder, sync_to_disk
from albertine.checksums import file_checksum, json_checksum
from albertine.display import display_text
from albertine.errors import InputError, WorkError, check_format
from albertine.input_files import check_regular_file, read_json_object
from albertine.interop.load_checkpoint import load_folder
from albertine.interop.safetensors_file import write_tensors
from albertine.json_input import JsonError
from albertine.train.trainer_state import TrainerState

CHECKPOINTS_FOLDER = "checkpoints"
MODEL_FILE, OPTIMIZER_FILE, STATE_FILE = "model.safetensors", "optimizer.safetensors", "state.json"
# Weights as trained on transformed targets; the model has weights that predict in original units instead.
TRAINED_WEIGHTS_FILE = "trained_weights.safetensors"
STATE_FORMAT = 2
SETTINGS_KEY = "settings"  # key in the state: the settings of the run, as TOML; older checkpoints lack it
OTHER_FORMAT_ADVICE = "resume it with that version, or start a new run with another --out"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk whose checksums are correct.

    Attributes:
        folder: its folder.
        state: the state in its `state.json`.
    """

    folder: Path
    state: dict[str, Any]

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return int(self.state["step"])

    def load_weights(self) -> dict[str, Tensor]:
        """Return the trained weights, by parameter name."""
        weights = {name: weight.detach() for name, weight in load_folder(self.folder).named_parameters()}
        file = self.folder / TRAINED_WEIGHTS_FILE
        return weights | load_file(file) if file.exists() else weights

    def load_optimizer_state(self) -> dict[str, Tensor]:
        """Return the state of the optimizers."""
        return load_file(self.folder / OPTIMIZER_FILE)


@dataclass(frozen=True)
class CheckpointContents:
    """The contents of a checkpoint to write: copies that training does not change.

    Attributes:
        write_model: writes the files of the model into a folder.
        optimizer_state: the state of the optimizers.
        state: the state of the trainer.
        best_step: step of the best checkpoint so far, which is kept.
        last_healthy_step: last step whose weights gave a normal loss; the newest checkpoint up to it is kept.
    """

    write_model: Callable[[Path], None]
    optimizer_state: dict[str, Tensor]
    state: dict[str, Any]
    best_step: int | None
    last_healthy_step: int


class CheckpointStore:
    """Reads and writes the checkpoints of a run.

    Attributes:
        folder: the folder that contains them.
    """

    def __init__(self, run: Path, keep_last: int, on_written: Callable[[Path, bool], None] | None = None):
        """Store the arguments.

        Args:
            run: folder of the run.
            keep_last: number of the newest checkpoints to keep.
            on_written: called with the folder of each written checkpoint, and whether it is the best so far.
        """
        self.folder = run / CHECKPOINTS_FOLDER
        self._keep_last, self._on_written = keep_last, on_written
        self._idle = threading.Event()
        self._idle.set()
        self._last_error: Exception | None = None

    def start_writing(self, contents: CheckpointContents) -> None:
        """Start writing a checkpoint in a thread, after the previous one is written."""
        self.wait()
        self._idle.clear()
        threading.Thread(target=self._write_or_record_error, args=(contents,)).start()

    def wait_or_raise(self) -> None:
        """Wait until the last checkpoint is written; raise its error if it failed."""
        self.wait()
        if self._last_error:
            raise self._last_error

    def wait(self) -> None:
        """Wait until the last checkpoint is written or has failed."""
        self._idle.wait()

    def _write_or_record_error(self, contents: CheckpointContents) -> None:
        step, self._last_error = int(contents.state["step"]), None
        try:
            with self._recording_error(f"the checkpoint of step {step:,} failed"):
                folder = self._write(contents, step)
                with self._recording_error(f"copying the model of step {step:,} into the run failed"):
                    if self._on_written:
                        self._on_written(folder, step == contents.best_step)
                self._remove_old(contents)
        finally:
            self._idle.set()

    @contextmanager
    def _recording_error(self, problem: str) -> Iterator[None]:
        """Print and keep an error of the block; `wait_or_raise` raises it if no later checkpoint succeeds."""
        try:
            yield
        except Exception as error:
            self._last_error = error
            reason = getattr(error, "strerror", None) or error
            progress.print_message(f"{self.folder}: {problem}: {reason}; training continues")

    def _write(self, contents: CheckpointContents, step: int) -> Path:
        """Write a checkpoint in place of earlier ones of its step, and return its folder."""
        existing = [folder for other_step, folder in self._folders_by_step() if other_step == step]
        folder = self.folder / _new_folder_name(step, existing)
        with atomic_folder(folder) as partial:
            contents.write_model(partial)
            write_tensors(contents.optimizer_state, partial / OPTIMIZER_FILE)
            files = {file.name: file_checksum(file) for file in sorted(partial.iterdir())}
            state = {**contents.state, "format": STATE_FORMAT, "files": files}
            text = json.dumps({"state": state, "sha256": json_checksum(state)}, indent=1)
            (partial / STATE_FILE).write_text(text, encoding="utf-8")
        for replaced in existing:
            shutil.rmtree(replaced)
        return folder

    def _remove_old(self, contents: CheckpointContents) -> None:
        """Remove all checkpoints but the newest few, the newest healthy one and the best."""
        steps = sorted({step for step, _ in self._folders_by_step()})
        kept_steps = {
            *steps[-self._keep_last :],
            *[step for step in steps if step <= contents.last_healthy_step][-1:],
            contents.best_step,
        }
        for step, folder in self._folders_by_step():
            if step not in kept_steps:
                shutil.rmtree(folder)
        sync_to_disk(self.folder)

    def _folders_by_step(self) -> list[tuple[int, Path]]:
        """Return step and folder of all checkpoints, oldest first."""
        numbered = [(_step_and_suffix(path), path) for path in self.folder.iterdir()]
        checkpoints = sorted((numbers, path) for numbers, path in numbered if numbers is not None)
        return [(step, folder) for (step, _), folder in checkpoints]

    def checkpoint_folder(self, step: int) -> Path | None:
        """Return the folder of the newest checkpoint of a step, or None."""
        folders = [folder for other_step, folder in self._folders_by_step() if other_step == step]
        return folders[-1] if folders else None

    def newest_valid(self, last_step: int | None = None, *, needs_best: bool = False) -> Checkpoint | None:
        """Return the newest undamaged checkpoint; None if there is no checkpoint.

        Raises `WorkError` if all of them are damaged.

        Args:
            last_step: last step to consider; None for all.
            needs_best: whether the checkpoint with the best model at that time must be undamaged, too.
        """
        self.wait()
        damaged = None
        for step, folder in reversed(self._folders_by_step()):
            if last_step is not None and step > last_step:
                continue
            problem, state = _verify(folder)
            if not problem and needs_best and (best := state.get("best")):
                problem = self._damage_of_best(int(best["step"]), step)
            if not problem:
                if damaged:
                    progress.print_message(f"{damaged}; resuming from {folder.name}")
                return Checkpoint(folder, state)
            damaged = f"{folder}: damaged ({problem})"
        if damaged:
            raise WorkError(f"{damaged}; no other checkpoint is intact; remove {self.folder} to start again")
        return None

    def _damage_of_best(self, best_step: int, step: int) -> str:
        """Return the damage of the best checkpoint at some step; empty if there is none."""
        folder = None if best_step == step else self.checkpoint_folder(best_step)
        problem = "" if folder is None else _verify(folder)[0]
        return f"its best checkpoint, {folder.name}, is: {problem}" if folder and problem else ""

    def remove_after(self, step: int) -> None:
        """Remove the checkpoints of later steps."""
        for other_step, folder in self._folders_by_step():
            if other_step > step:
                shutil.rmtree(folder)


_FOLDER_NAME = re.compile(r"step-(\d+)(?:\.(\d+))?")


def _step_and_suffix(folder: Path) -> tuple[int, int] | None:
    """Return the step and the suffix in the name of a checkpoint's folder; None for any other folder."""
    match = _FOLDER_NAME.fullmatch(folder.name)
    return None if match is None else (int(match[1]), int(match[2] or 0))


def _new_folder_name(step: int, existing: list[Path]) -> str:
    """Return an unused folder name for a step, which may have been saved before.

    Args:
        step: the step.
        existing: folders of earlier checkpoints of the same step.
    """
    used_suffixes = [numbers[1] for numbers in map(_step_and_suffix, existing) if numbers is not None]
    return f"step-{step:08d}" + (f".{max(used_suffixes) + 1}" if used_suffixes else "")


def _verify(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the damage of a checkpoint, as text that is empty if there is none, and its state.

    The checksums cover all files of the folder; a file without a checksum is damage, too.
    """
    file = folder / STATE_FILE
    try:
        document = read_json_object(file, "get the file again")
        state = document["state"]
        if document["sha256"] != json_checksum(state):
            return STATE_FILE, {}
        state_format = state["format"]
        checksums = state["files"] if state_format == STATE_FORMAT else {}
        if not isinstance(checksums, dict):
            raise TypeError("files is not an object")
    except FileNotFoundError:
        return f"{STATE_FILE} is missing", {}
    except (InputError, OSError, ValueError, KeyError, TypeError) as error:
        return _without_folder(error, folder), {}
    check_format(file, state_format, STATE_FORMAT, OTHER_FORMAT_ADVICE)
    try:
        TrainerState.from_json(state)
    except JsonError as error:
        return f"{STATE_FILE}: {error}", {}
    try:
        unknown_names = {path.name for path in folder.iterdir()} - {STATE_FILE, *checksums}
        if unknown_names:
            return f"{display_text(min(unknown_names))} is not a file of it", {}
        for name, expected in checksums.items():
            check_regular_file(folder / name)
            if file_checksum(folder / name) != expected:
                return name, {}
        load_file(folder / OPTIMIZER_FILE)
    except FileNotFoundError as error:
        return f"{Path(str(error.filename)).name} is missing", {}
    except (InputError, OSError, SafetensorError) as error:
        return _without_folder(error, folder), {}
    return "", state


def _without_folder(error: Exception, folder: Path) -> str:
    """Return the message of an error about a file of a folder, with the name of the file alone."""
    text = str(error) if isinstance(error, InputError | OSError) else f"{STATE_FILE}: {error!r}"
    return text.replace(f"{folder}{os.sep}", "")
