"""The folder of an unfinished corpus: its lock, its settings and its finished parts.

    OUT/building/corpus.lock    marks the folder as ours; locked by the building process
    OUT/building/build.json     sources, tokenizer and settings of the parts; others are refused
    OUT/building/shards.json    settings of the shards; other settings rewrite the shards
    OUT/building/part-*.arrow   finished jobs

Only files that a build has written are removed.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.atomic import atomic_file, atomic_folder, sync_to_disk
from albertine.corpus.encode_jobs import JOB_BYTES
from albertine.corpus.manifest import MANIFEST_FILE
from albertine.corpus.settings import CorpusSettings
from albertine.errors import InputError, check_format
from albertine.file_lock import file_lock
from albertine.text.sources import CHUNK_BYTES, Source
from albertine.version import __version__

_LOCK = "corpus.lock"
_FINISHED_FOLDER = ".building.partial"
# Settings that affect only the shards, and settings that affect no output.
_SHARD_SETTINGS = ("held_out", "keep_duplicates", "seed")
_BUILD_FORMAT = 2
_FORMAT_1_FILE = "note.json"  # the name of build.json in format 1
_IRRELEVANT_SETTINGS = ("workers", "on_error")


@contextmanager
def locked_build_folder(out: Path) -> Iterator[Path]:
    """Yield the locked build folder; remove it when the block ends without an error."""
    work = out / "building"
    _check_out_folder(out, work)
    is_new = not out.exists()
    if not work.exists():
        with atomic_folder(work) as folder:
            (folder / _LOCK).touch()
    with file_lock(work / _LOCK, _busy_message(out)):
        for leftover in [*out.glob(".*.partial"), *work.glob(".*.partial")]:
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        try:
            yield work
        except InputError:
            _remove_if_empty(out, work, is_new=is_new)
            raise
        # Renamed first: a half-removed build folder would look like one to resume.
        shutil.rmtree(work.rename(out / _FINISHED_FOLDER))
        sync_to_disk(out)


def _busy_message(out: Path) -> str:
    return f"{out}: another process is building there; wait for it or use another folder"


def _check_out_folder(out: Path, work: Path) -> None:
    is_taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
    if is_taken and not (work / _LOCK).exists():
        finished = out / _FINISHED_FOLDER
        if (finished / _LOCK).exists():  # left by a build that was interrupted while it cleaned up
            with file_lock(finished / _LOCK, _busy_message(out)):
                shutil.rmtree(finished)
            raise InputError(f"{out}: already a finished corpus; use it, remove it or name another folder")
        raise InputError(f"{out}: exists already; name another folder or remove it")


def _remove_if_empty(out: Path, work: Path, *, is_new: bool) -> None:
    """Remove the build folder and the tokenizer if no part is finished."""
    if not list(work.glob("part-*.arrow")):
        shutil.rmtree(work)
        shutil.rmtree(out / "tokenizer", ignore_errors=True)
        if is_new:
            with suppress(OSError):
                out.rmdir()


def record_build(work: Path, sources: Sequence[Source], fingerprint: str, settings: CorpusSettings) -> None:
    """Write what is being built; refuse to resume a build of other text, tokenizer or settings.

    Shards written with other shard settings are removed; parts do not depend on these settings.
    """
    encode_settings = {
        key: value for key, value in asdict(settings).items() if key not in _IRRELEVANT_SETTINGS
    }
    shard_settings = {key: encode_settings.pop(key) for key in _SHARD_SETTINGS}
    encode_settings["chunking"] = [__version__, CHUNK_BYTES, JOB_BYTES]  # determine the parts
    text = json.dumps(
        {
            "format": _BUILD_FORMAT,
            "sources": [_source_identity(one) for one in sources],
            "tokenizer": fingerprint,
            "settings": encode_settings,
        }
    )
    file, shards = work / "build.json", work / "shards.json"
    advice = f"remove {work.parent} and build again"
    if (work / _FORMAT_1_FILE).exists():
        check_format(work / _FORMAT_1_FILE, 1, _BUILD_FORMAT, advice)
    if file.exists():
        written = file.read_text(encoding="utf-8")
        check_format(file, json.loads(written).get("format"), _BUILD_FORMAT, advice)
        if written != text:
            raise InputError(
                f"{work.parent}: unfinished corpus of other text, tokenizer or settings; "
                "repeat the command that started it, or remove it"
            )
        progress.print_message(f"{work.parent}: resuming the interrupted build")
    if not shards.exists() or shards.read_text(encoding="utf-8") != json.dumps(shard_settings):
        for split in ("train", "dev"):
            for shard in work.parent.glob(f"{split}-*.arrow"):
                shard.unlink()
        with atomic_file(shards) as partial:
            partial.write_text(json.dumps(shard_settings), encoding="utf-8")
    with atomic_file(file) as partial:
        partial.write_text(text, encoding="utf-8")
    # Present if the build was interrupted during cleanup; it is written again, with the same content.
    (work.parent / MANIFEST_FILE).unlink(missing_ok=True)


def _source_identity(source: Source) -> list[Any]:
    """Return values that differ if a source has changed."""
    if source.format == "hub":
        return [source.name]
    if source.name == "standard input":
        with source.path.open("rb") as file:
            return [source.name, hashlib.file_digest(file, "sha256").hexdigest()]
    return [source.name, source.size, source.path.stat().st_mtime_ns]
