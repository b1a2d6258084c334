"""The folder of a run: one process at a time, one set of settings, and a model at any moment.

RUN/config.json, model.safetensors, tokenizer files    the newest checkpoint, as a model
RUN/settings.toml                                      enough to run it again
RUN/metrics.jsonl                                      how it went
RUN/trainer/                                           checkpoints to go on from
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.lock import held
from albertine.settings import Layer, Settings, layer_from_file, read, write
from albertine.settings.schema import fields, is_table, shown
from albertine.train.journal import JOURNAL
from albertine.train.snapshots import FOLDER, MODEL, OPTIMIZER, STATE
from albertine.whole import new_file

SETTINGS = "settings.toml"
_LOCK = "run.lock"
_TELLING = {"corpus", "task"}  # each is a setting of one kind of run alone


@contextmanager
def occupied(run: Path, settings: Settings, free: frozenset[str]) -> Iterator[None]:
    """Hold the folder of a run: a new one, or one of the same settings, but for those that are `free`."""
    lock = run / FOLDER / _LOCK
    if run.exists() and not lock.exists() and not _is_new(run):
        raise InputError(f"{run}: exists already and is no run; name another folder or remove it")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with held(lock, f"{run}: another process is training there; wait for it, or name another folder"):
        _remove_halves(run)
        if has_checkpoints(run):
            _refuse_others(run, settings, free)
        with new_file(run / SETTINGS) as file:
            file.write_text(write(settings), encoding="utf-8")
        yield


def has_checkpoints(run: Path) -> bool:
    """Tell whether there is something to go on from."""
    return (run / SETTINGS).exists() and any((run / FOLDER).glob("step-*"))


def _is_new(run: Path) -> bool:
    """Tell whether nothing is there, or no more than the beginning of an attempt."""
    inside = [one for one in run.iterdir() if one.name != FOLDER] if run.is_dir() else [run]
    return not inside and not any((run / FOLDER).glob("*"))


def settings_of(run: Path, kind: type[Settings] | None = None) -> Layer:
    """Return the settings that a run was started with; of a kind, if one is asked for."""
    if not (run / SETTINGS).exists():
        raise InputError(f"{run}: no run (it has no {SETTINGS})")
    layer = layer_from_file(run / SETTINGS)
    known = {field.name for field, _ in fields(kind)} if kind else _TELLING
    strange = next((key for key in layer.values if key in _TELLING - known), None)
    if strange is not None:
        raise InputError(
            f"{run}: a run of another command (its {SETTINGS} says {strange}); name another folder"
        )
    return layer


def publish(run: Path, snapshot: Path) -> None:
    """Make a checkpoint the model that the folder is, or another run's.

    Each file changes in one moment, the weights last.
    """
    files = sorted(snapshot.iterdir(), key=lambda file: file.name == MODEL)
    for file in files:
        if not file.is_file() or file.name in (STATE, OPTIMIZER, SETTINGS, JOURNAL):
            continue
        with new_file(run / file.name) as partial:
            if file.name == MODEL:
                with suppress(OSError):  # a file system that has no links
                    os.link(file, partial)
            if not partial.exists():  # what a person might edit is a copy
                shutil.copyfile(file, partial)


def _remove_halves(run: Path) -> None:
    """Remove what a killed process left half written; the folder is ours alone now."""
    for leftover in [*run.glob(".*.partial"), *(run / FOLDER).glob(".*.partial")]:
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def _refuse_others(run: Path, settings: Settings, free: frozenset[str]) -> None:
    before = read(type(settings), settings_of(run, type(settings)))
    for key, was, now in _differences(before, settings, ""):
        if key not in free:
            raise InputError(
                f"{run}: a run with {key} = {shown(was)}, not {shown(now)}; "
                "give the settings it was started with, or another --out"
            )


def _differences(one: Settings, other: Settings, prefix: str) -> Iterator[tuple[str, Any, Any]]:
    for field, hint in fields(type(one)):
        key, was, now = prefix + field.name, getattr(one, field.name), getattr(other, field.name)
        if is_table(hint):
            yield from _differences(was, now, key + ".")
        elif was != now:
            yield key, was, now
