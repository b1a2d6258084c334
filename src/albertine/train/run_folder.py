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

from albertine.atomic import atomic_file
from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.settings import Settings, SettingsSource, build_settings, read_settings_file, settings_to_toml
from albertine.settings.schema import display_value, is_table, typed_fields
from albertine.train.checkpoints import CHECKPOINTS_FOLDER, MODEL_FILE, OPTIMIZER_FILE, STATE_FILE
from albertine.train.metrics_log import METRICS_FILE

SETTINGS_FILE = "settings.toml"
_LOCK_FILE = "run.lock"
_COMMAND_SETTINGS = {"corpus", "task"}  # each is a setting of one kind of run alone


@contextmanager
def run_lock(run: Path, settings: Settings, changeable: frozenset[str]) -> Iterator[None]:
    """Hold the folder of a run: a new one, or one of the same settings, but for those that are `changeable`."""
    lock = run / CHECKPOINTS_FOLDER / _LOCK_FILE
    if run.exists() and not lock.exists() and not _is_unused(run):
        raise InputError(f"{run}: exists already and is no run; name another folder or remove it")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(lock, f"{run}: another process is training there; wait for it, or name another folder"):
        _remove_partial_files(run)
        if has_checkpoints(run):
            _check_same_settings(run, settings, changeable)
        with atomic_file(run / SETTINGS_FILE) as file:
            file.write_text(settings_to_toml(settings), encoding="utf-8")
        yield


def has_checkpoints(run: Path) -> bool:
    """Tell whether there is something to go on from."""
    return (run / SETTINGS_FILE).exists() and any((run / CHECKPOINTS_FOLDER).glob("step-*"))


def _is_unused(run: Path) -> bool:
    """Tell whether nothing is there, or no more than the beginning of an attempt."""
    inside = [one for one in run.iterdir() if one.name != CHECKPOINTS_FOLDER] if run.is_dir() else [run]
    return not inside and not any((run / CHECKPOINTS_FOLDER).glob("*"))


def read_run_settings(run: Path, settings_type: type[Settings] | None = None) -> SettingsSource:
    """Return the settings that a run was started with; of a kind, if one is asked for."""
    if not (run / SETTINGS_FILE).exists():
        raise InputError(f"{run}: no run (it has no {SETTINGS_FILE})")
    layer = read_settings_file(run / SETTINGS_FILE)
    known = {field.name for field, _ in typed_fields(settings_type)} if settings_type else _COMMAND_SETTINGS
    foreign_setting = next((key for key in layer.values if key in _COMMAND_SETTINGS - known), None)
    if foreign_setting is not None:
        raise InputError(
            f"{run}: a run of another command (its {SETTINGS_FILE} says {foreign_setting}); name another folder"
        )
    return layer


def publish_model(run: Path, source: Path) -> None:
    """Make a checkpoint the model that the folder is, or another run's.

    Each file changes in one moment, the weights last.
    """
    files = sorted(source.iterdir(), key=lambda file: file.name == MODEL_FILE)
    for file in files:
        if not file.is_file() or file.name in (STATE_FILE, OPTIMIZER_FILE, SETTINGS_FILE, METRICS_FILE):
            continue
        with atomic_file(run / file.name) as partial:
            if file.name == MODEL_FILE:
                with suppress(OSError):  # a file system that has no links
                    os.link(file, partial)
            if not partial.exists():  # what a person might edit is a copy
                shutil.copyfile(file, partial)


def _remove_partial_files(run: Path) -> None:
    """Remove what a killed process left half written; the folder is ours alone now."""
    for leftover in [*run.glob(".*.partial"), *(run / CHECKPOINTS_FOLDER).glob(".*.partial")]:
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def _check_same_settings(run: Path, settings: Settings, changeable: frozenset[str]) -> None:
    before = build_settings(type(settings), read_run_settings(run, type(settings)))
    for key, was, now in _setting_differences(before, settings, ""):
        if key not in changeable:
            raise InputError(
                f"{run}: a run with {key} = {display_value(was)}, not {display_value(now)}; "
                "give the settings it was started with, or another --out"
            )


def _setting_differences(one: Settings, other: Settings, prefix: str) -> Iterator[tuple[str, Any, Any]]:
    for field, hint in typed_fields(type(one)):
        key, was, now = prefix + field.name, getattr(one, field.name), getattr(other, field.name)
        if is_table(hint):
            yield from _setting_differences(was, now, key + ".")
        elif was != now:
            yield key, was, now
