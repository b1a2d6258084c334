"""The folder in which a corpus is being built: whose it is, who works there, what may be taken up again.

    OUT/building/corpus.lock    tells that the folder is ours; held by the process at work
    OUT/building/note.json      what is being built; another text or tokenizer is refused
    OUT/building/part-*.arrow   finished jobs

Nothing is removed that was not made here.
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
from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.text.sources import CHUNK_BYTES, Source
from albertine.version import __version__

_LOCK = "corpus.lock"
_FINISHED_FOLDER = ".building.partial"
# What only the second half of building looks at, or nothing that is written depends on.
_SHARD_SETTINGS = ("held_out", "keep_duplicates", "seed")
_IRRELEVANT_SETTINGS = ("workers", "on_error")


@contextmanager
def locked_build_folder(out: Path) -> Iterator[Path]:
    """Give the folder to work in, locked; when the block ends well it is gone, and OUT is finished."""
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
        # First out of sight: a half removed workplace would look like one to go on in.
        shutil.rmtree(work.rename(out / _FINISHED_FOLDER))
        sync_to_disk(out)


def _busy_message(out: Path) -> str:
    return f"{out}: another process is building there; wait for it, or name another folder"


def _check_out_folder(out: Path, work: Path) -> None:
    is_taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
    if is_taken and not (work / _LOCK).exists():
        finished = out / _FINISHED_FOLDER
        if (finished / _LOCK).exists():  # ended in its last moment, a build leaves what it worked in
            with file_lock(finished / _LOCK, _busy_message(out)):
                shutil.rmtree(finished)
            raise InputError(f"{out}: a finished corpus is there; use it, name another folder, or remove it")
        raise InputError(f"{out}: exists already; name another folder or remove it")


def _remove_if_empty(out: Path, work: Path, *, is_new: bool) -> None:
    """Remove what was made, if none of it is worth keeping."""
    if not list(work.glob("part-*.arrow")):
        shutil.rmtree(work)
        shutil.rmtree(out / "tokenizer", ignore_errors=True)
        if is_new:
            with suppress(OSError):
                out.rmdir()


def record_build(work: Path, sources: Sequence[Source], fingerprint: str, settings: CorpusSettings) -> None:
    """Note what is being built, or refuse to go on with something else.

    Shards that were written for other settings than now are removed; the parts are good for any.
    """
    encode_settings = {
        key: value for key, value in asdict(settings).items() if key not in _IRRELEVANT_SETTINGS
    }
    shard_settings = {key: encode_settings.pop(key) for key in _SHARD_SETTINGS}
    encode_settings["cut"] = [__version__, CHUNK_BYTES, JOB_BYTES]  # by what the parts are cut
    text = json.dumps(
        {
            "sources": [_source_identity(one) for one in sources],
            "tokenizer": fingerprint,
            "settings": encode_settings,
        }
    )
    file, shards = work / "note.json", work / "shards.json"
    if file.exists():
        if file.read_text(encoding="utf-8") != text:
            raise InputError(
                f"{work.parent}: an unfinished corpus of other text, tokenizer or settings; "
                "run its own command again, or remove it"
            )
        progress.print_message(f"{work.parent}: going on where it was broken off")
    if not shards.exists() or shards.read_text(encoding="utf-8") != json.dumps(shard_settings):
        for split in ("train", "dev"):
            for shard in work.parent.glob(f"{split}-*.arrow"):
                shard.unlink()
        with atomic_file(shards) as partial:
            partial.write_text(json.dumps(shard_settings), encoding="utf-8")
    with atomic_file(file) as partial:
        partial.write_text(text, encoding="utf-8")
    (work.parent / MANIFEST_FILE).unlink(
        missing_ok=True
    )  # broken off at the very end: it comes again, the same


def _source_identity(source: Source) -> list[Any]:
    """Say what tells a source from a changed one."""
    if source.format == "hub":
        return [source.name]
    if source.name == "standard input":
        with source.path.open("rb") as file:
            return [source.name, hashlib.file_digest(file, "sha256").hexdigest()]
    return [source.name, source.size, source.path.stat().st_mtime_ns]
