"""A run on object storage: it works in a local folder, which is uploaded after each checkpoint.

An upload makes all files of the run visible at once (see `storage.upload`), so another machine always finds
a complete checkpoint to resume from. A failed upload is repeated while training continues, and the local
folder stays, so a lost connection loses nothing.
"""

import itertools
import json
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from albertine import progress
from albertine.atomic import atomic_file, atomic_folder, remove_path
from albertine.errors import InputError, RunStopped, WorkError
from albertine.file_lock import file_lock
from albertine.interruptions import join_or_leave
from albertine.storage.cache import download_files, waiting_lock, work_folder
from albertine.storage.folder_manifest import FolderManifest, read_folder_manifest
from albertine.storage.upload import refuse_existing_url, upload_files
from albertine.storage.urls import storage_url
from albertine.train.checkpoints import CHECKPOINTS_FOLDER, STATE_FILE
from albertine.train.run_folder import SETTINGS_FILE

_LOCK_FILE = "run.lock"
_CHECKPOINT = re.compile(rf"(.*)\b{CHECKPOINTS_FOLDER}/step-(\d+)[.\d]*/{re.escape(STATE_FILE)}")
CHECKPOINTS = f"**/{CHECKPOINTS_FOLDER}/step-*/{STATE_FILE}"
_POLL_SECONDS = 0.5
_MAX_PAUSE = 60.0  # seconds before a failed upload is repeated
_LAST_ATTEMPTS = 4  # at the end of a run


@contextmanager
def mirrored_run(out: Path) -> Iterator[Path]:
    """Yield the local folder of a run; if `out` is a URL, restore the run there first, and keep it uploaded.

    Of several processes, the one of rank 0 uploads. Raises `WorkError` at the end if the last upload failed.
    """
    url = storage_url(out)
    if url is None:
        yield out
        return
    run, manifest = _restored(url)
    if os.environ.get("RANK", "0") != "0":
        yield run
        return
    busy = f"{url}: another process is training there; wait for it, or name another URL"
    with file_lock(run.with_name(f"{run.name}.lock"), busy):
        progress.print_message(f"{url}: the run is stored in {run}, and uploaded after each checkpoint")
        with kept_uploaded(run, url, manifest):
            yield run


@contextmanager
def kept_uploaded(
    folder: Path,
    url: str,
    former: FolderManifest | None,
    *,
    watched: tuple[str, ...] = (CHECKPOINTS,),
    without: str | None = None,
) -> Iterator[None]:
    """Upload a folder of runs whenever it has more results, and at the end of the block.

    Raises `WorkError` at the end if the last upload failed.

    Args:
        folder: the folder, which no other process may upload.
        url: destination.
        former: manifest of the uploaded version that the folder continues; None if there is none.
        watched: patterns of files whose changes start an upload.
        without: name of a folder in it that is left out.
    """
    mirror = _Mirror(folder, url, former, watched, without)
    mirror.start()
    try:
        yield
    except BaseException as error:
        attempts = _LAST_ATTEMPTS
        if isinstance(error, RunStopped | KeyboardInterrupt):  # this machine may be taken away soon
            attempts = 1
            message = f"uploading the last checkpoint; a second signal leaves it in {folder}"
            progress.print_message(f"{url}: {message}")
        if problem := mirror.finish(attempts):
            progress.print_message(problem)
        raise
    if problem := mirror.finish():
        raise WorkError(problem)


def restored_run(out: Path) -> Path:
    """Return the local folder of a run; for a URL, download the run unless the local one is as advanced."""
    url = storage_url(out)
    return out if url is None else _restored(url)[0]


def _restored(url: str) -> tuple[Path, FolderManifest | None]:
    """Return the local folder of a run at a URL, and the manifest of the uploaded run."""
    run = work_folder(url)
    run.parent.mkdir(parents=True, exist_ok=True)
    with waiting_lock(run.with_name(f"{run.name}.restore")):  # other ranks of this machine restore it, too
        manifest = read_folder_manifest(url)
        local_steps = newest_steps(run_files(run))
        if manifest is None:
            refuse_removed(url, run)
            return run, None
        steps = newest_steps(manifest.files)
        if not any(_is_settings(name) for name in manifest.files):
            raise InputError(f"{url}: exists already and is not a run; name another URL or remove it")
        if any(local_steps.get(name, -1) < step for name, step in steps.items()):
            _replace(run, url, manifest)
        return run, manifest


def refuse_removed(url: str, folder: Path) -> None:
    """Raise `InputError` if a URL has other files, or if what it had was removed and a local copy is left."""
    refuse_existing_url(url)
    if folder.exists() and uploaded_file(folder).exists():
        raise InputError(
            f"{url}: no longer there, but a local copy is in {folder}; remove the copy to start anew, or "
            "name another --out"
        )


def _replace(run: Path, url: str, manifest: FolderManifest) -> None:
    """Download a run in place of an older local state of it."""
    if run.exists():
        with file_lock(run.with_name(f"{run.name}.lock"), f"{url}: another process is training in {run}"):
            remove_path(run)
    with atomic_folder(run) as partial:
        download_files(url, manifest, partial)
        make_run_locks(partial, manifest.files)
    mark_uploaded(run, manifest)


def make_run_locks(folder: Path, names: Iterable[str]) -> None:
    """Make the lock file of each downloaded run, without which its folder is not taken for a run."""
    for name in filter(_is_settings, names):
        checkpoints = (folder / name).parent / CHECKPOINTS_FOLDER
        checkpoints.mkdir(exist_ok=True)
        (checkpoints / _LOCK_FILE).touch()


def mark_uploaded(run: Path, manifest: FolderManifest) -> None:
    """Store beside a local folder which version of it is on object storage."""
    with atomic_file(uploaded_file(run)) as file:
        file.write_text(json.dumps({name: entry.sha256 for name, entry in manifest.files.items()}))


def uploaded_file(run: Path) -> Path:
    """Return the file beside a local folder with the checksums of its last upload or download."""
    return run.with_name(f"{run.name}.uploaded")


def _is_settings(name: str) -> bool:
    return name.rpartition("/")[2] == SETTINGS_FILE


def newest_steps(names: Iterable[str]) -> dict[str, int]:
    """Return the step of the newest checkpoint of each run among some files; a sweep has several runs."""
    steps: dict[str, int] = {}
    for match in filter(None, map(_CHECKPOINT.fullmatch, names)):
        steps[match[1]] = max(steps.get(match[1], -1), int(match[2]))
    return steps


def run_files(run: Path) -> dict[str, Path]:
    """Return the files of a run by name, without locks and partial files; checkpoints are first."""
    paths = []
    # Unlike `Path.rglob`, `os.walk` bears that folders are renamed and removed meanwhile.
    for folder, subfolders, names in os.walk(run):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        paths += [Path(folder, name) for name in names if not name.startswith(".") and name != _LOCK_FILE]
    return {path.relative_to(run).as_posix(): path for path in sorted(paths) if path.is_file()}


class _Mirror:
    """Uploads a run in a thread, whenever its checkpoints have changed."""

    def __init__(
        self,
        run: Path,
        url: str,
        former: FolderManifest | None,
        watched: tuple[str, ...] = (CHECKPOINTS,),
        without: str | None = None,
    ):
        """Store what to upload; see `kept_uploaded`."""
        self._run, self._url, self._writer = run, url, uuid4().hex
        self._manifest, self._watched, self._without = former, watched, without
        self._known_writers = {self._writer, self._manifest.writer if self._manifest else ""}
        self._uploaded_state: object = None
        self._leftover = set[str]()  # objects of uploads that failed
        self._failures, self._stopping = 0, threading.Event()
        self._thread = threading.Thread(target=self._upload_changes, daemon=True)

    def start(self) -> None:
        """Start to upload changes."""
        self._thread.start()

    def finish(self, attempts: int = _LAST_ATTEMPTS) -> str | None:
        """Upload the final state; return what is wrong if that fails."""
        self._stopping.set()
        join_or_leave(self._thread)
        result: Future[str | None] = Future()

        def upload() -> None:
            try:
                result.set_result(self._upload_finally(attempts))
            except BaseException as error:  # raised again by result()
                result.set_exception(error)

        # A signal does not end a call of the storage library, but it ends the wait for a thread.
        final = threading.Thread(target=upload, daemon=True)
        final.start()
        join_or_leave(final)
        return result.result()

    def _upload_finally(self, attempts: int) -> str | None:
        problem = None
        for attempt in range(attempts):
            if attempt:
                time.sleep(2.0**attempt)
            problem = self._upload()
            if problem is None:
                return None
        return f"{problem}; the run is in {self._run}; the same command uploads it"

    def _upload_changes(self) -> None:
        while not self._stopping.wait(min(_MAX_PAUSE, _POLL_SECONDS * 2**self._failures)):
            state = self._checkpoint_state()
            if not state or state == self._uploaded_state:
                continue
            problem = self._upload()
            if problem is None:
                self._uploaded_state = state
                self._failures = 0
                continue
            if not self._failures:
                progress.print_message(f"{problem}; training continues, and the upload is repeated")
            self._failures += 1

    def _files(self) -> dict[str, Path]:
        files = run_files(self._run)
        return {name: path for name, path in files.items() if name.split("/")[0] != self._without}

    def _checkpoint_state(self) -> list[tuple[str, int]]:
        """Return what changes when a checkpoint, or another watched file, is written or removed."""
        while True:
            files = itertools.chain.from_iterable(self._run.glob(pattern) for pattern in self._watched)
            with suppress(FileNotFoundError):  # a checkpoint was removed meanwhile; look again
                return sorted((str(file), file.stat().st_mtime_ns) for file in files)

    def _upload(self) -> str | None:
        """Upload the run as it is now; return what is wrong if that fails."""
        try:
            found = read_folder_manifest(self._url)
            if found is not None and found.writer not in self._known_writers:
                return f"{self._url}: another process has uploaded a run there meanwhile"
            if found is None and self._manifest is not None:
                return f"{self._url}: the run was removed there meanwhile"
            if not self._files():  # the command ended before there was a run
                return None
            self._manifest = self._upload_files(found)
            mark_uploaded(self._run, self._manifest)
        except (InputError, OSError) as error:
            return str(error)
        return None

    def _upload_files(self, former: FolderManifest | None) -> FolderManifest:
        """Upload the files of the run; start again if an old checkpoint is removed meanwhile."""
        attempts = _LAST_ATTEMPTS
        while True:
            state, files = self._listed_files()
            try:
                return upload_files(files, self._url, former, writer=self._writer, leftover=self._leftover)
            except FileNotFoundError:
                if self._checkpoint_state() != state:  # a short run may remove them faster than they upload
                    self._stopping.wait(_POLL_SECONDS)
                    continue
                attempts -= 1
                if not attempts:
                    raise

    def _listed_files(self) -> tuple[list[tuple[str, int]], dict[str, Path]]:
        """Return the checkpoints and the files of the run, listed while no checkpoint was written or removed.

        Otherwise the list could have a part of an old checkpoint, and not yet the new one.
        """
        while True:
            state, files = self._checkpoint_state(), self._files()
            if self._checkpoint_state() == state:
                return state, files
