"""A folder of studies on object storage: the command works in a local folder and uploads what it finishes.

Runs and reports that only the URL has are downloaded first, so machines can take turns with the claims of one
folder. The data is not uploaded: it is built again from its seeds or the user's text.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from albertine import progress
from albertine.atomic import remove_path
from albertine.checksums import file_checksum
from albertine.errors import InputError
from albertine.input_files import read_json_object
from albertine.storage.cache import download_files, download_folder, locked_path, work_folder
from albertine.storage.folder_manifest import FolderManifest, read_folder_manifest
from albertine.storage.objects import check_can_write
from albertine.storage.urls import storage_url
from albertine.study.data import DATA_FOLDER
from albertine.study.equal_time import TIMINGS_FOLDER
from albertine.study.study_run import RESULTS_FOLDER, RUNS_FOLDER, TRAINING
from albertine.study.summary import CLAIMS_FOLDER
from albertine.train.mirrored_run import (
    CHECKPOINTS,
    kept_uploaded,
    make_run_locks,
    mark_uploaded,
    newest_steps,
    refuse_removed,
    run_files,
    uploaded_file,
)

LOCK_FILE = "study.lock"  # also uploaded: it shows that a folder holds studies
_WATCHED = (
    f"{RUNS_FOLDER}/{CHECKPOINTS}",
    f"{RUNS_FOLDER}/*/{RESULTS_FOLDER}/*",
    f"{TIMINGS_FOLDER}/*/*",
    f"{CLAIMS_FOLDER}/*",
)


@contextmanager
def mirrored_studies(out: Path) -> Iterator[Path]:
    """Yield the local folder of all studies; for a URL, restore them first, and keep them uploaded."""
    url = storage_url(out)
    if url is None:
        yield out
        return
    check_can_write(url)
    folder = work_folder(url)
    with locked_path(folder, url):
        manifest = _restore(folder, url)
        progress.print_message(f"{url}: the studies are stored in {folder}, and their results uploaded")
        with kept_uploaded(folder, url, manifest, watched=_WATCHED, without=DATA_FOLDER):
            yield folder


@contextmanager
def restored_studies(out: Path) -> Iterator[Path]:
    """Yield the local folder of all studies; for a URL, restore them first."""
    url = storage_url(out)
    if url is None:
        yield out
        return
    folder = work_folder(url)
    with locked_path(folder, url):
        _restore(folder, url)
        yield folder


def downloaded_reports(out: Path) -> Path:
    """Return a local folder with the reports of all studies, and perhaps more; none may exist yet."""
    url = storage_url(out)
    if url is None or read_folder_manifest(url) is None:
        return out
    return download_folder(url, lambda name: name.startswith(f"{CLAIMS_FOLDER}/"))


def _restore(folder: Path, url: str) -> FolderManifest | None:
    """Download what is newer at a URL; return the manifest there, or None if there are no studies yet."""
    manifest = read_folder_manifest(url)
    if manifest is None:
        refuse_removed(url, folder)
        return None
    if LOCK_FILE not in manifest.files:
        raise InputError(f"{url}: exists already and holds no studies; name another URL")
    local, synchronized = run_files(folder), _synchronized_checksums(folder)
    runs, files = _by_run(manifest.files)
    for run, names in runs.items():
        for path in _paths_to_download(run, local, names):
            _download(folder, path, url, manifest)
    for name in files:
        checksum = file_checksum(local[name]) if name in local else None
        if checksum in (None, synchronized.get(name)) and checksum != manifest.files[name].sha256:
            _download(folder, name, url, manifest)  # unchanged here since the last upload or download
    mark_uploaded(folder, manifest)
    return manifest


def _synchronized_checksums(folder: Path) -> dict[str, str]:
    """Return the checksum of each file when it was uploaded or downloaded last."""
    file = uploaded_file(folder)
    values = read_json_object(file, "remove it") if file.exists() and file.stat().st_size else {}
    return {name: str(checksum) for name, checksum in values.items()}


def _by_run(names: Iterable[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the files of each run by its folder, and the other files."""
    runs: dict[str, list[str]] = {}
    others = []
    for name in names:
        first, _, rest = name.partition("/")
        if first == RUNS_FOLDER:
            runs.setdefault(f"{first}/{rest.partition('/')[0]}", []).append(name)
        else:
            others.append(name)
    return runs, others


def _paths_to_download(run: str, local: Iterable[str], uploaded: Iterable[str]) -> list[str]:
    """Return the paths of an uploaded run to download.

    These are the missing results if its training is finished here; its folder if the uploaded run has taken
    more steps, or finished; otherwise none.
    """
    results = f"{run}/{RESULTS_FOLDER}/"
    local = [name for name in local if name.startswith(f"{run}/")]
    local_results, uploaded_results = (
        {name for name in names if name.startswith(results)} for names in (local, uploaded)
    )
    trained = f"{results}{TRAINING}.json"
    if trained in local_results:
        return sorted(uploaded_results - local_results)
    local_steps = newest_steps(local)
    is_further = any(local_steps.get(key, -1) < step for key, step in newest_steps(uploaded).items())
    return [run] if is_further or trained in uploaded_results else []


def _download(folder: Path, path: str, url: str, manifest: FolderManifest) -> None:
    """Replace a file, or a folder with all its files, by the uploaded one."""
    files = {
        name: entry for name, entry in manifest.files.items() if name == path or name.startswith(f"{path}/")
    }
    downloaded = folder.with_name(f"{folder.name}.download")
    if downloaded.exists():
        remove_path(downloaded)  # of a call that was killed
    download_files(url, FolderManifest(files), downloaded)
    make_run_locks(downloaded, files)
    target = folder / path
    if target.exists():
        remove_path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    (downloaded / path).rename(target)
    remove_path(downloaded)
