"""The folder of a run, which is also the folder of a model at any time.

    RUN/config.json, model.safetensors, tokenizer files    a copy of the newest or best checkpoint
    RUN/settings.toml                                      all settings of the run
    RUN/metrics.jsonl                                      a line for each step, evaluation and event
    RUN/checkpoints/                                       checkpoints to resume from, and the lock

One process at a time uses it, always with the same settings.
"""

import filecmp
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.atomic import atomic_file, is_unused, partial_paths, remove_path
from albertine.checksums import json_checksum
from albertine.display import display_value
from albertine.errors import InputError, WorkError, check_format
from albertine.file_lock import file_lock
from albertine.input_files import read_json_object
from albertine.settings import (
    Settings,
    SettingsSource,
    build_settings,
    read_settings_file,
    settings_from_toml,
    settings_to_toml,
)
from albertine.settings.schema import is_table, typed_fields
from albertine.train.checkpoints import (
    CHECKPOINTS_FOLDER,
    MODEL_FILE,
    OPTIMIZER_FILE,
    OTHER_FORMAT_ADVICE,
    SETTINGS_KEY,
    STATE_FILE,
    STATE_FORMAT,
    TRAINED_WEIGHTS_FILE,
)
from albertine.train.metrics_log import (
    METRICS_FILE,
    MetricsLine,
    held_out_scores,
    read_last_metrics,
    read_metrics,
)

SETTINGS_FILE = "settings.toml"
NO_RUN_FOLDER = "exists already and is not a run folder; name another folder or remove it"
_LISTED = 3  # settings that differ
_LOCK_FILE = "run.lock"
_FORMAT_1_FOLDER = "trainer"  # name of checkpoints/ in format 1
# Files beside a model that are not published with it.
_FILES_OF_RUNS = {STATE_FILE, OPTIMIZER_FILE, TRAINED_WEIGHTS_FILE, SETTINGS_FILE, METRICS_FILE}
_FILES_OF_RUNS |= {"report.html"}  # of `albertine report`
_COMMAND_SETTINGS = {"corpus", "task"}  # of pre-training only, and of fine-tuning only


@contextmanager
def run_lock(
    run: Path, settings: Settings, changeable: frozenset[str], wait_seconds: float = 0
) -> Iterator[None]:
    """Lock the folder of a run and check its settings; write those of a new run.

    A run that resumes keeps its file of settings until `write_run_settings`, because the data may turn out
    not to be those of the run. A file of the run that somebody removes while the block runs is a `WorkError`.

    Args:
        run: the folder.
        settings: all settings of the run.
        changeable: keys of settings that may differ from those in the newest checkpoint.
        wait_seconds: how long to wait for another process that holds the lock.
    """
    check_run_folder(run)
    lock = run / CHECKPOINTS_FOLDER / _LOCK_FILE
    lock.parent.mkdir(parents=True, exist_ok=True)
    busy_message = f"{run}: another process is training there; wait for it, or name another folder"
    with file_lock(lock, busy_message, wait_seconds):
        _remove_partial_files(run)
        _check_same_settings(run, settings, changeable)
        if not any(lock.parent.glob("step-*")):
            write_run_settings(run, settings)
        try:
            yield
        except FileNotFoundError as error:
            if Path(str(error.filename)).is_relative_to(run):  # not wrong input: the run had written it
                raise WorkError(
                    f"{error.filename}: removed while the run used it; run the same command again, "
                    "which resumes if checkpoints are left"
                ) from error
            raise


def check_run_folder(run: Path) -> None:
    """Raise `InputError` if a folder exists and is not a run that this version can resume."""
    _check_run_format(run)
    is_run = (run / CHECKPOINTS_FOLDER / _LOCK_FILE).exists()
    if run.exists() and not is_run and not _is_unused(run):
        raise InputError(f"{run}: {NO_RUN_FOLDER}")


def not_a_run_error(folder: Path, name: object) -> InputError:
    """Return the error for a folder that holds no run, or that does not exist, named as the user names it."""
    problem = "not a run" if folder.exists() else "no such folder"
    return InputError(f"{name}: {problem}; give the --out folder of albertine pretrain or albertine finetune")


def write_run_settings(run: Path, settings: Settings) -> None:
    """Write the settings of a run; call it under the lock, and after a run has resumed."""
    with atomic_file(run / SETTINGS_FILE) as file:
        file.write_text(settings_to_toml(settings), encoding="utf-8")


def has_checkpoints(run: Path) -> bool:
    """Return whether a folder is a run with a checkpoint."""
    return (run / SETTINGS_FILE).exists() and any((run / CHECKPOINTS_FOLDER).glob("step-*"))


def _is_unused(run: Path) -> bool:
    """Return whether a folder is empty, or contains only an empty folder of checkpoints."""
    names = {path.name for path in run.iterdir()} if run.is_dir() else {""}
    return is_unused(run) or (names == {CHECKPOINTS_FOLDER} and is_unused(run / CHECKPOINTS_FOLDER))


def read_run_settings(run: Path, settings_type: type[Settings] | None = None) -> SettingsSource:
    """Return the settings of a run.

    Raise `InputError` if the run is not one of `settings_type`, or if its file of settings lacks one that
    its newest checkpoint has: the file was cut or edited, and a default would take the place of the setting.
    """
    if not (run / SETTINGS_FILE).exists():
        raise InputError(f"{run}: no run (it has no {SETTINGS_FILE})")
    _check_run_format(run)
    source = read_settings_file(run / SETTINGS_FILE)
    if settings_type is not None:
        check_command(run, source, settings_type)
    stored = _checkpoint_settings(run)
    missing = sorted(stored.keys - source.keys) if stored else []
    if missing:
        raise InputError(
            f"{run / SETTINGS_FILE}: {missing[0]} is missing, which the checkpoints of the run have; "
            "restore the file"
        )
    return source


def check_command(run: Path, source: SettingsSource, settings_type: type[Settings]) -> None:
    """Raise `InputError` if settings are those of another command than `settings_type`."""
    known = {field.name for field, _ in typed_fields(settings_type)}
    foreign_setting = next((key for key in source.values if key in _COMMAND_SETTINGS - known), None)
    if foreign_setting is not None:
        raise InputError(
            f"{run}: a run of another command (its settings have {foreign_setting}); name another folder"
        )


def unfinished_run_message(run: Path, name: str) -> str | None:
    """Return a message, with the name of the run, if a folder is one that has not taken all its steps."""
    if (progress_text := unfinished_run_progress(run)) is None:
        return None
    used = "using its model so far"
    with suppress(InputError, OSError):
        if "task" in read_run_settings(run).values and not any(map(_evaluates_training, read_metrics(run))):
            used = "using its model of step 0, which is untrained: no later one is evaluated yet"
    return f"{name}: {progress_text}; {used}"


def unfinished_run_progress(run: Path) -> str | None:
    """Return at which step a run is that has not taken all its steps; None for other folders."""
    with suppress(InputError, OSError, KeyError):  # not a run, or one of an older format
        steps = int(read_run_settings(run).values["train"]["steps"])
        lines = read_last_metrics(run)
        stopped_early = any(line.get("event_type") == "stopped early" for line in lines)
        step = max((line.get("step", 0) for line in lines), default=0)
        if step < steps and not stopped_early:
            return f"an unfinished run, about step {step:,} of {steps:,}"
    return None


def _evaluates_training(line: MetricsLine) -> bool:
    """Return whether a line has the scores of a model after the first step.

    The folder of a fine-tuning run holds the best of the evaluated models, at first that of step 0.
    """
    return line["step"] > 0 and bool(held_out_scores(line))


def _check_run_format(run: Path) -> None:
    """Raise `InputError` for a run whose newest checkpoint has another format.

    Checked before the settings are read, because another version may have other settings.
    """
    if (run / _FORMAT_1_FOLDER).is_dir() and not (run / CHECKPOINTS_FOLDER).is_dir():
        check_format(run / _FORMAT_1_FOLDER, 1, STATE_FORMAT, OTHER_FORMAT_ADVICE)
    for file in sorted((run / CHECKPOINTS_FOLDER).glob(f"step-*/{STATE_FILE}"))[-1:]:
        try:
            found = read_json_object(file, "")["state"]["format"]
        except (InputError, OSError, KeyError, TypeError):
            continue  # damaged; resuming looks for an older one
        check_format(file, found, STATE_FORMAT, OTHER_FORMAT_ADVICE)


def publish_model(run: Path, source: Path) -> None:
    """Copy the model of a checkpoint, or of another run, into the folder of a run.

    Each file that differs is replaced atomically, the weights last.
    """
    files = sorted(source.iterdir(), key=lambda file: file.name == MODEL_FILE)
    for file in files:
        if not file.is_file() or file.name in _FILES_OF_RUNS:
            continue
        if _is_same_file(file, run / file.name):
            continue
        with atomic_file(run / file.name) as partial:
            if file.name == MODEL_FILE:
                with suppress(OSError):  # some file systems have no hard links
                    os.link(file, partial)
            if not partial.exists():  # small files are copied, because users may edit them
                _copy_file(file, partial)


def _is_same_file(file: Path, other: Path) -> bool:
    return other.is_file() and (file.samefile(other) or filecmp.cmp(file, other, shallow=False))


def _copy_file(source: Path, destination: Path) -> None:
    """Copy a file. Unlike those of `shutil.copyfile`, an error of a full disk does not name the source."""
    with source.open("rb") as reader, destination.open("wb") as writer:
        shutil.copyfileobj(reader, writer)


def _remove_partial_files(run: Path) -> None:
    """Remove the partial files of a killed process; call it under the lock."""
    for leftover in partial_paths(run) + partial_paths(run / CHECKPOINTS_FOLDER):
        remove_path(leftover)


def _check_same_settings(run: Path, settings: Settings, changeable: frozenset[str]) -> None:
    """Compare settings with those of the checkpoints: print what differs, or raise `InputError`."""
    source = _checkpoint_settings(run)
    if source is None:
        if not has_checkpoints(run):
            return
        source = read_settings_file(run / SETTINGS_FILE)  # that of an older checkpoint
    check_command(run, source, type(settings))
    before = build_settings(type(settings), SettingsSource(settings.earlier_values), source)
    differences = list(_setting_differences(before, settings, ""))
    fixed = [difference for difference in differences if difference[0] not in changeable]
    if fixed:
        key, was, now = fixed[0]
        others = [other for other, *_ in differences if other != key][:_LISTED]
        also = f" (also different: {', '.join(others)})" if others else ""  # other data can be the reason
        raise InputError(
            f"{run}: a run with {key} = {display_value(was)}, not {display_value(now)}{also}; "
            f"give the settings of the run (see its {SETTINGS_FILE}), or another --out"
        )
    for key, was, now in differences:
        progress.print_message(
            f"{run / SETTINGS_FILE}: {key} changes from {display_value(was)} to {display_value(now)}"
        )


def _checkpoint_settings(run: Path) -> SettingsSource | None:
    """Return the settings in the newest checkpoint whose state is intact; None if there are none.

    Unlike the file of settings, which people may edit, they are covered by a checksum.
    """
    for file in sorted((run / CHECKPOINTS_FOLDER).glob(f"step-*/{STATE_FILE}"), reverse=True):
        with suppress(InputError, OSError, KeyError, TypeError):
            document = read_json_object(file, "")
            state = document["state"]
            if isinstance(state, dict) and document["sha256"] == json_checksum(state):
                text = state.get(SETTINGS_KEY)
                return settings_from_toml(text, str(file)) if isinstance(text, str) else None
    return None


def _setting_differences(before: Settings, after: Settings, prefix: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the key of each setting that differs, its old value and its new value."""
    for field, hint in typed_fields(type(before)):
        key, was, now = prefix + field.name, getattr(before, field.name), getattr(after, field.name)
        if is_table(hint):
            yield from _setting_differences(was, now, key + ".")
        elif was != now:
            yield key, was, now
