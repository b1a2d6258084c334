"""A folder of studies on object storage: it works in a local folder, which is uploaded as it grows.

Runs and reports that are only there are downloaded first, so machines can take turns with the claims of one
folder. The data is not uploaded: it is built again from its seeds or the user's text.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from albertine import progress
from albertine.atomic import remove_path
from albertine.checksums import file_checksum
from albertine.errors import InputError
from albertine.storage.cache import download_files, locked_path, work_folder
from albertine.storage.folder_manifest import FileEntry, FolderManifest, read_folder_manifest
from albertine.storage.upload import refuse_existing_url
from albertine.storage.urls import storage_url
from albertine.study.data import DATA_FOLDER
from albertine.study.study_run import RESULTS_FOLDER, RUNS_FOLDER
from albertine.train.mirrored_run import kept_uploaded, newest_steps, run_files, uploaded_file

LOCK_FILE = "study.lock"


@contextmanager
def mirrored_studies(out: Path) -> Iterator[Path]:
    """Yield the local folder of all studies; for a URL, restore them first, and keep them uploaded."""
    url = storage_url(out)
    if url is None:
        yield out
        return
    folder = work_folder(url)
    with locked_path(folder, url):
        _restore(folder, url)
        progress.print_message(f"{url}: the studies work in {folder}, and are uploaded as they grow")
        with kept_uploaded(folder, url, without=DATA_FOLDER):
            yield folder


@contextmanager
def restored_studies(out: Path) -> Iterator[Path]:
    """Yield the local folder of all studies, to read; if `out` is a URL, restore them first."""
    url = storage_url(out)
    if url is None:
        yield out
        return
    folder = work_folder(url)
    with locked_path(folder, url):
        _restore(folder, url)
        yield folder


def _restore(folder: Path, url: str) -> None:
    """Download the runs that are more advanced at a URL, and the other files that differ."""
    manifest = read_folder_manifest(url)
    if manifest is None:
        refuse_existing_url(url)
        if folder.exists() and uploaded_file(folder).exists():
            raise InputError(
                f"{url}: the studies are no longer there, but their local copy is in {folder}; remove the "
                "copy to start new ones, or name another --out"
            )
        return
    if LOCK_FILE not in manifest.files:
        raise InputError(f"{url}: exists already and holds no studies; name another URL")
    local_names = run_files(folder)
    for part, names in _parts(manifest.files).items():
        own_names = [name for name in local_names if _part(name) == part]
        is_run = part.startswith(f"{RUNS_FOLDER}/")
        if _is_behind(own_names, names) if is_run else _differs(folder / part, manifest.files[part]):
            _download(folder, part, url, FolderManifest({name: manifest.files[name] for name in names}))


def _part(name: str) -> str:
    """Return what is restored as a whole: the folder of a run, or a single file."""
    folders = name.split("/")
    return "/".join(folders[:2]) if folders[0] == RUNS_FOLDER else name


def _parts(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the files of each part."""
    parts: dict[str, list[str]] = {}
    for name in names:
        parts.setdefault(_part(name), []).append(name)
    return parts


def _is_behind(local_names: Collection[str], names: Collection[str]) -> bool:
    """Return whether the uploaded files of a run have results or steps that the local ones lack."""
    local_results, results = _results(local_names), _results(names)
    if results != local_results:
        return not results <= local_results
    local_steps = newest_steps(local_names)
    return any(local_steps.get(run, -1) < step for run, step in newest_steps(names).items())


def _results(names: Iterable[str]) -> set[str]:
    return {name for name in names if PurePosixPath(name).parent.name == RESULTS_FOLDER}


def _differs(path: Path, entry: FileEntry) -> bool:
    return not path.is_file() or file_checksum(path) != entry.sha256


def _download(folder: Path, part: str, url: str, manifest: FolderManifest) -> None:
    """Replace a part by the uploaded one."""
    downloaded = folder.with_name(f"{folder.name}.download")
    if downloaded.exists():
        remove_path(downloaded)  # of a call that was killed
    download_files(url, manifest, downloaded)
    target = folder / part
    if target.exists():
        remove_path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    (downloaded / part).rename(target)
    remove_path(downloaded)
