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
from albertine.errors import WorkError
from albertine.tensors import write_tensors
from albertine.whole import new_folder, to_disk

FOLDER = "trainer"
MODEL, OPTIMIZER, STATE = "model.safetensors", "optimizer.safetensors", "state.json"
FORMAT = 1


@dataclass(frozen=True)
class Snapshot:
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

    def optimizer(self) -> dict[str, Tensor]:
        """Read what the optimizers remembered."""
        return load_file(self.folder / OPTIMIZER)


@dataclass(frozen=True)
class ToWrite:
    """What a checkpoint is to hold: copies that nobody changes any more.

    Attributes:
        model: writes the model's files into a folder.
        optimizer: what the optimizers remember.
        state: where everything is; with `step`.
        best: the step of the best checkpoint so far, which stays.
        sound: the last step after which the weights were seen to be well; one to go back to stays.
    """

    model: Callable[[Path], None]
    optimizer: dict[str, Tensor]
    state: dict[str, Any]
    best: int | None
    sound: int


class Snapshots:
    """The checkpoints of a run; `published` is called with each one written, and whether it is the best."""

    def __init__(self, run: Path, keep: int, published: Callable[[Path, bool], None] | None = None):
        self.folder = run / FOLDER
        self._keep, self._published = keep, published
        self._idle = threading.Event()
        self._idle.set()
        self._failure: Exception | None = None

    def write(self, what: ToWrite) -> None:
        """Write a checkpoint while the caller goes on; waits for the one before."""
        self.wait()
        self._idle.clear()
        threading.Thread(target=self._try_to_write, args=(what,)).start()

    def finish(self) -> None:
        """Wait until all is written; raise if the last one could not be."""
        self.wait()
        if self._failure:
            raise self._failure

    def wait(self) -> None:
        """Wait until nothing is being written."""
        self._idle.wait()

    def _try_to_write(self, what: ToWrite) -> None:
        try:
            self._write(what)
            self._failure = None
        except Exception as error:  # told, and raised by `finish` if it was the last word
            self._failure = error
            step = what.state["step"]
            reason = getattr(error, "strerror", None) or error
            progress.say(f"{self.folder}: step {step:,} could not be kept: {reason}; the run goes on")
        finally:
            self._idle.set()

    def _write(self, what: ToWrite) -> None:
        step = int(what.state["step"])
        before = [folder for at, folder in self._kept() if at == step]
        folder = self.folder / name_of(step, before)
        with new_folder(folder) as partial:
            what.model(partial)
            write_tensors(what.optimizer, partial / OPTIMIZER)
            files = {file.name: _checksum(file) for file in sorted(partial.iterdir())}
            state = {**what.state, "format": FORMAT, "files": files}
            text = json.dumps({"state": state, "sha256": _digest(state)}, indent=1)
            (partial / STATE).write_text(text, encoding="utf-8")
        for older in before:
            shutil.rmtree(older)
        if self._published:
            self._published(folder, step == what.best)
        self._rotate(what)

    def _rotate(self, what: ToWrite) -> None:
        """Remove all but the last few, the last sound one and the best."""
        steps = sorted({step for step, _ in self._kept()})
        stay = {*steps[-self._keep :], *[step for step in steps if step <= what.sound][-1:], what.best}
        for step, folder in self._kept():
            if step not in stay:
                shutil.rmtree(folder)
        to_disk(self.folder)

    def _kept(self) -> list[tuple[int, Path]]:
        """Return the steps and folders of all checkpoints, the oldest first."""
        matches = [(_NAME.fullmatch(one.name), one) for one in self.folder.iterdir()]
        found = [(int(match[1]), int(match[2] or 0), one) for match, one in matches if match]
        return [(step, folder) for step, _, folder in sorted(found)]

    def folder_of(self, step: int) -> Path | None:
        """Return the folder of a step's checkpoint, if there is one."""
        return next((folder for at, folder in self._kept() if at == step), None)

    def newest(self, upto: int | None = None) -> Snapshot | None:
        """Return the newest checkpoint that is whole; pass over one that is not, and say so."""
        self.wait()
        damaged = None
        for step, folder in reversed(self._kept()):
            if upto is not None and step > upto:
                continue
            problem, state = _examined(folder)
            if not problem:
                if damaged:
                    progress.say(f"{damaged}; going on from {folder.name}")
                return Snapshot(folder, state)
            damaged = f"{folder}: damaged ({problem})"
        if damaged:
            raise WorkError(
                f"{damaged}, and no other checkpoint is whole; remove {self.folder} to begin anew"
            )
        return None

    def remove_after(self, step: int) -> None:
        """Remove what the run has gone back from."""
        for later, folder in self._kept():
            if later > step:
                shutil.rmtree(folder)


_NAME = re.compile(r"step-(\d+)(?:\.(\d+))?")


def name_of(step: int, before: list[Path]) -> str:
    """Return the name of a checkpoint's folder, another than those that are there of this step."""
    taken = [int((_NAME.fullmatch(folder.name) or [0, 0, 0])[2] or 0) for folder in before]
    return f"step-{step:08d}" + (f".{max(taken) + 1}" if taken else "")


def _examined(folder: Path) -> tuple[str, dict[str, Any]]:
    """Return what is wrong with a checkpoint, or nothing and its state."""
    try:
        told = json.loads((folder / STATE).read_text(encoding="utf-8"))
        state = told["state"]
        if told["sha256"] != _digest(state):
            return STATE, {}
        if state["format"] != FORMAT:
            return f"format {state['format']}, not {FORMAT}", {}
        for name, expected in state["files"].items():
            if _checksum(folder / name) != expected:
                return name, {}
        load_file(folder / OPTIMIZER)
    except FileNotFoundError as error:
        return f"{Path(str(error.filename)).name} is missing", {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        return f"{STATE}: {error}", {}
    return "", state


def _digest(state: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
