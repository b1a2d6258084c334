"""Checkpoints of a run: each a folder that is a model, with all that going on needs beside it.

    RUN/trainer/step-00001200/
        config.json, model.safetensors, tokenizer files     a model, as any other
        optimizer.safetensors                               what the optimizers remember
        state.json                                          where everything is, and checksums of all files

They are written by a thread while training goes on, from copies made in a moment, and
appear whole or not at all. The last few stay, and the best. One that is found damaged
is passed over for the one before.
"""

import hashlib
import json
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from albertine import progress
from albertine.atomic import atomic_folder, sync_to_disk
from albertine.errors import WorkError
from albertine.interop.safetensors_file import write_tensors

CHECKPOINTS_FOLDER = "trainer"
MODEL_FILE, OPTIMIZER_FILE, STATE_FILE = "model.safetensors", "optimizer.safetensors", "state.json"
STATE_FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint that was found whole.

    Attributes:
        folder: where it lies.
        state: what its `state.json` says.
    """

    folder: Path
    state: dict[str, Any]

    @property
    def step(self) -> int:
        """How many steps made it."""
        return int(self.state["step"])

    def load_optimizer_state(self) -> dict[str, Tensor]:
        """Read what the optimizers remembered."""
        return load_file(self.folder / OPTIMIZER_FILE)


@dataclass(frozen=True)
class CheckpointContents:
    """What a checkpoint is to hold: copies that nobody changes any more.

    Attributes:
        write_model: writes the model's files into a folder.
        optimizer_state: what the optimizers remember.
        state: where everything is; with `step`.
        best_step: the step of the best checkpoint so far, which stays.
        last_healthy_step: the last step after which the weights were seen to be well; one to go back to stays.
    """

    write_model: Callable[[Path], None]
    optimizer_state: dict[str, Tensor]
    state: dict[str, Any]
    best_step: int | None
    last_healthy_step: int


class CheckpointStore:
    """The checkpoints of a run; `on_written` is called with each one written, and whether it is the best."""

    def __init__(self, run: Path, keep_last: int, on_written: Callable[[Path, bool], None] | None = None):
        self.folder = run / CHECKPOINTS_FOLDER
        self._keep_last, self._on_written = keep_last, on_written
        self._idle = threading.Event()
        self._idle.set()
        self._last_error: Exception | None = None

    def start_writing(self, contents: CheckpointContents) -> None:
        """Write a checkpoint while the caller goes on; waits for the one before."""
        self.wait()
        self._idle.clear()
        threading.Thread(target=self._write_or_record_error, args=(contents,)).start()

    def wait_or_raise(self) -> None:
        """Wait until all is written; raise if the last one could not be."""
        self.wait()
        if self._last_error:
            raise self._last_error

    def wait(self) -> None:
        """Wait until nothing is being written."""
        self._idle.wait()

    def _write_or_record_error(self, contents: CheckpointContents) -> None:
        try:
            self._write(contents)
            self._last_error = None
        except Exception as error:  # told, and raised by `finish` if it was the last word
            self._last_error = error
            step = contents.state["step"]
            reason = getattr(error, "strerror", None) or error
            progress.print_message(
                f"{self.folder}: step {step:,} could not be kept: {reason}; the run goes on"
            )
        finally:
            self._idle.set()

    def _write(self, contents: CheckpointContents) -> None:
        step = int(contents.state["step"])
        existing = [folder for at, folder in self._folders_by_step() if at == step]
        folder = self.folder / folder_name(step, existing)
        with atomic_folder(folder) as partial:
            contents.write_model(partial)
            write_tensors(contents.optimizer_state, partial / OPTIMIZER_FILE)
            files = {file.name: _checksum(file) for file in sorted(partial.iterdir())}
            state = {**contents.state, "format": STATE_FORMAT, "files": files}
            text = json.dumps({"state": state, "sha256": _digest(state)}, indent=1)
            (partial / STATE_FILE).write_text(text, encoding="utf-8")
        for older in existing:
            shutil.rmtree(older)
        if self._on_written:
            self._on_written(folder, step == contents.best_step)
        self._remove_old(contents)

    def _remove_old(self, contents: CheckpointContents) -> None:
        """Remove all but the last few, the last sound one and the best."""
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
        """Return the steps and folders of all checkpoints, the oldest first."""
        matches = [(_FOLDER_NAME.fullmatch(one.name), one) for one in self.folder.iterdir()]
        found = [(int(match[1]), int(match[2] or 0), one) for match, one in matches if match]
        return [(step, folder) for step, _, folder in sorted(found)]

    def checkpoint_folder(self, step: int) -> Path | None:
        """Return the folder of a step's checkpoint, if there is one."""
        return next((folder for at, folder in self._folders_by_step() if at == step), None)

    def newest_valid(self, last_step: int | None = None) -> Checkpoint | None:
        """Return the newest checkpoint that is whole; pass over one that is not, and say so."""
        self.wait()
        damaged = None
        for step, folder in reversed(self._folders_by_step()):
            if last_step is not None and step > last_step:
                continue
            problem, state = _verify(folder)
            if not problem:
                if damaged:
                    progress.print_message(f"{damaged}; going on from {folder.name}")
                return Checkpoint(folder, state)
            damaged = f"{folder}: damaged ({problem})"
        if damaged:
            raise WorkError(
                f"{damaged}, and no other checkpoint is whole; remove {self.folder} to begin anew"
            )
        return None

    def remove_after(self, step: int) -> None:
        """Remove what the run has gone back from."""
        for later, folder in self._folders_by_step():
            if later > step:
                shutil.rmtree(folder)


_FOLDER_NAME = re.compile(r"step-(\d+)(?:\.(\d+))?")


def folder_name(step: int, existing: list[Path]) -> str:
    """Return the name of a checkpoint's folder, another than those that are there of this step."""
    taken = [int((_FOLDER_NAME.fullmatch(folder.name) or [0, 0, 0])[2] or 0) for folder in existing]
    return f"step-{step:08d}" + (f".{max(taken) + 1}" if taken else "")


def _verify(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return what is wrong with a checkpoint, or nothing and its state."""
    try:
        document = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
        state = document["state"]
        if document["sha256"] != _digest(state):
            return STATE_FILE, {}
        if state["format"] != STATE_FORMAT:
            return f"format {state['format']}, not {STATE_FORMAT}", {}
        for name, expected in state["files"].items():
            if _checksum(folder / name) != expected:
                return name, {}
        load_file(folder / OPTIMIZER_FILE)
    except FileNotFoundError as error:
        return f"{Path(str(error.filename)).name} is missing", {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        return f"{STATE_FILE}: {error}", {}
    return "", state


def _digest(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
