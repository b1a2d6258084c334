"""The folder of an unfinished corpus: its lock, its settings and its finished parts.

    OUT/building/corpus.lock    shows that a build made the folder; locked while one uses it
    OUT/building/build.json     sources, tokenizer and settings of the parts; must not change
    OUT/building/shards.json    settings of the shards; if they change, the shards are rewritten
    OUT/building/part-*.arrow   parts of finished jobs
    OUT/building/part-*.json    reports of these jobs: skipped records, characters without a token
    OUT/building/*.sha256       checksums of the shards that are written

A build removes only files that a build has written.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.atomic import (
    atomic_file,
    atomic_folder,
    folder_in_use,
    is_unused,
    partial_paths,
    remove_path,
    sync_to_disk,
)
from albertine.checksums import file_checksum
from albertine.corpus.checked_json import read_checked_json, write_checked_json
from albertine.corpus.encode_jobs import JOB_BYTES
from albertine.corpus.held_out import SingleDocument
from albertine.corpus.manifest import MANIFEST_FILE
from albertine.corpus.settings import CorpusSettings
from albertine.errors import InputError, check_format
from albertine.file_lock import file_lock
from albertine.text.languages import LANGUAGES
from albertine.text.sources import CHUNK_BYTES, Source
from albertine.version import __version__

_LOCK = "corpus.lock"
_REMOVED_FOLDER = ".building.partial"  # the build folder of a finished corpus, while it is removed
_BUILD_FORMAT = 4
_FORMAT_1_FILE = "note.json"  # the name of build.json in format 1
_SHARD_SETTINGS = ("held_out", "keep_duplicates", "seed")  # no effect on the parts
_UNRECORDED_SETTINGS = ("workers", "on_error")  # may be changed when a build resumes


@contextmanager
def locked_build_folder(out: Path) -> Iterator[Path]:
    """Yield the build folder, locked; remove it when the block ends without an error."""
    work = out / "building"
    _check_out_folder(out, work)
    is_new = not out.exists()
    if not work.exists():
        with suppress(InputError), atomic_folder(work) as folder:  # another process may be as fast
            (folder / _LOCK).touch()
    with file_lock(work / _LOCK, _busy_message(out)):
        _remove_leftovers(out, work)
        try:
            with folder_in_use(out), folder_in_use(work):  # they get very many files
                yield work
        except (InputError, OSError) as error:
            parts = list(work.glob("part-*.arrow"))
            # A single short document is soon read again, and other options may read it as several.
            if not parts or (len(parts) == 1 and isinstance(error, SingleDocument)):
                _remove_unfinished(out, work, is_new=is_new)
            raise
        # Renamed first: a half-removed build folder would look like one to resume.
        _remove_finished_build(work.rename(out / _REMOVED_FOLDER))
        sync_to_disk(out)


def _remove_finished_build(folder: Path) -> None:
    """Remove the renamed build folder of a finished corpus, its lock last: by it a later call knows it."""
    for path in folder.iterdir():
        if path.name != _LOCK:
            remove_path(path)
    shutil.rmtree(folder)


def _remove_leftovers(out: Path, work: Path) -> None:
    """Remove what a killed build left; call it under the lock."""
    partials_of_starting_builds = set(partial_paths(out, work.name))
    leftovers = {out / _REMOVED_FOLDER, *partial_paths(out), *partial_paths(work)}
    for leftover in leftovers - partials_of_starting_builds:
        if leftover.exists() or leftover.is_symlink():
            remove_path(leftover)


def _busy_message(out: Path) -> str:
    return f"{out}: another process is building there; wait for it or use another folder"


def _check_out_folder(out: Path, work: Path) -> None:
    """Raise an error if `out` is neither empty nor an unfinished corpus."""
    if not is_unused(out) and not (work / _LOCK).exists():
        removed = out / _REMOVED_FOLDER  # left by a build that was interrupted while it cleaned up
        if (removed / _LOCK).exists():
            with file_lock(removed / _LOCK, _busy_message(out)):
                _remove_finished_build(removed)
            raise InputError(f"{out}: already a finished corpus; use it, remove it or name another folder")
        with suppress(OSError):  # there is none, or it is not empty and no build made it
            removed.rmdir()
        raise InputError(f"{out}: exists already; name another folder or remove it")


def _remove_unfinished(out: Path, work: Path, *, is_new: bool) -> None:
    """Remove the build folder and the tokenizer."""
    shutil.rmtree(work)
    shutil.rmtree(out / "tokenizer", ignore_errors=True)
    if is_new:
        with suppress(OSError):
            out.rmdir()


def record_build(work: Path, sources: Sequence[Source], fingerprint: str, settings: CorpusSettings) -> None:
    """Record what is being built; raise an error if the folder is a build of something else.

    Shards written with other settings are removed; parts do not depend on the settings of the shards.
    """
    part_settings = {key: value for key, value in asdict(settings).items() if key not in _UNRECORDED_SETTINGS}
    shard_settings = {key: part_settings.pop(key) for key in _SHARD_SETTINGS}
    part_settings["chunking"] = [__version__, CHUNK_BYTES, JOB_BYTES]  # the parts depend on these, too
    build = {
        "format": _BUILD_FORMAT,
        "sources": source_identities(sources),
        "tokenizer": fingerprint,
        "settings": part_settings,
    }
    file = work / "build.json"
    advice = f"remove {work.parent} and build again"
    if (work / _FORMAT_1_FILE).exists():
        check_format(work / _FORMAT_1_FILE, 1, _BUILD_FORMAT, advice)
    if file.exists():
        if _read_build(file, advice) != json.loads(json.dumps(build)):
            raise InputError(
                f"{work.parent}: unfinished corpus of other text, tokenizer or settings; "
                "repeat the command that started it, or remove it"
            )
        progress.print_message(f"{work.parent}: resuming the interrupted build")
    _record_shard_settings(work, shard_settings)
    write_checked_json(file, build)
    # The manifest exists if the build was interrupted during cleanup; it is written again.
    (work.parent / MANIFEST_FILE).unlink(missing_ok=True)


def recorded_language(work: Path) -> str | None:
    """Return the language of the interrupted build in a folder; None if there is none."""
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        language = read_checked_json(work / "build.json")["settings"]["language"]
        return language if language in LANGUAGES else None
    return None


def _read_build(file: Path, advice: str) -> Any:
    """Return what a build recorded; raise `InputError` if it is damaged or of another format."""
    try:
        build = read_checked_json(file)
    except ValueError as error:
        with suppress(ValueError, TypeError, KeyError, RecursionError):  # before format 4, without a checksum
            check_format(file, json.loads(file.read_bytes())["format"], _BUILD_FORMAT, advice)
        raise InputError(f"{file}: damaged; {advice}") from error
    check_format(file, build["format"], _BUILD_FORMAT, advice)
    return build


def _record_shard_settings(work: Path, settings: dict[str, Any]) -> None:
    """Record the settings of the shards; remove shards that were written with others."""
    file, text = work / "shards.json", json.dumps(settings)
    if file.is_file() and file.read_bytes() == text.encode():
        return
    for split in ("train", "dev"):
        for shard in work.parent.glob(f"{split}-*.arrow"):
            shard.unlink()
    with atomic_file(file) as partial:
        partial.write_text(text, encoding="utf-8")


def source_identities(sources: Sequence[Source]) -> list[list[Any]]:
    """Return for each source values that change if its text changes."""
    return [_source_identity(source) for source in sources]


def _source_identity(source: Source) -> list[Any]:
    if source.format == "hub":
        return [source.name]
    if source.name == "standard input":
        return [source.name, file_checksum(source.path)]
    return [source.name, source.size, source.version]
