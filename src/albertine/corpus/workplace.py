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
from albertine.corpus.jobs import JOB_BYTES
from albertine.corpus.manifest import MANIFEST
from albertine.corpus.settings import CorpusSettings
from albertine.errors import InputError
from albertine.lock import held
from albertine.text.sources import PORTION_BYTES, Source
from albertine.version import __version__
from albertine.whole import new_file, new_folder, to_disk

_LOCK = "corpus.lock"
_DONE = ".building.partial"
# What only the second half of building looks at, or nothing that is written depends on.
_LATER = ("held_out", "keep_duplicates", "seed")
_NEVER = ("workers", "on_error")


@contextmanager
def workplace(out: Path) -> Iterator[Path]:
    """Give the folder to work in, locked; when the block ends well it is gone, and OUT is finished."""
    work = out / "building"
    _refuse_foreign(out, work)
    fresh = not out.exists()
    if not work.exists():
        with new_folder(work) as folder:
            (folder / _LOCK).touch()
    with held(work / _LOCK, _busy(out)):
        for leftover in [*out.glob(".*.partial"), *work.glob(".*.partial")]:
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
        try:
            yield work
        except InputError:
            _give_up(out, work, fresh=fresh)
            raise
        # First out of sight: a half removed workplace would look like one to go on in.
        shutil.rmtree(work.rename(out / _DONE))
        to_disk(out)


def _busy(out: Path) -> str:
    return f"{out}: another process is building there; wait for it, or name another folder"


def _refuse_foreign(out: Path, work: Path) -> None:
    taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
    if taken and not (work / _LOCK).exists():
        done = out / _DONE
        if (done / _LOCK).exists():  # ended in its last moment, a build leaves what it worked in
            with held(done / _LOCK, _busy(out)):
                shutil.rmtree(done)
            raise InputError(f"{out}: a finished corpus is there; use it, name another folder, or remove it")
        raise InputError(f"{out}: exists already; name another folder or remove it")


def _give_up(out: Path, work: Path, *, fresh: bool) -> None:
    """Remove what was made, if none of it is worth keeping."""
    if not list(work.glob("part-*.arrow")):
        shutil.rmtree(work)
        shutil.rmtree(out / "tokenizer", ignore_errors=True)
        if fresh:
            with suppress(OSError):
                out.rmdir()


def note(work: Path, sources: Sequence[Source], fingerprint: str, settings: CorpusSettings) -> None:
    """Note what is being built, or refuse to go on with something else.

    Shards that were written for other settings than now are removed; the parts are good for any.
    """
    asked = {key: value for key, value in asdict(settings).items() if key not in _NEVER}
    later = {key: asked.pop(key) for key in _LATER}
    asked["cut"] = [__version__, PORTION_BYTES, JOB_BYTES]  # by what the parts are cut
    text = json.dumps(
        {"sources": [_described(one) for one in sources], "tokenizer": fingerprint, "settings": asked}
    )
    file, shards = work / "note.json", work / "shards.json"
    if file.exists():
        if file.read_text(encoding="utf-8") != text:
            raise InputError(
                f"{work.parent}: an unfinished corpus of other text, tokenizer or settings; "
                "run its own command again, or remove it"
            )
        progress.say(f"{work.parent}: going on where it was broken off")
    if not shards.exists() or shards.read_text(encoding="utf-8") != json.dumps(later):
        for split in ("train", "dev"):
            for shard in work.parent.glob(f"{split}-*.arrow"):
                shard.unlink()
        with new_file(shards) as partial:
            partial.write_text(json.dumps(later), encoding="utf-8")
    with new_file(file) as partial:
        partial.write_text(text, encoding="utf-8")
    (work.parent / MANIFEST).unlink(missing_ok=True)  # broken off at the very end: it comes again, the same


def _described(source: Source) -> list[Any]:
    """Say what tells a source from a changed one."""
    if source.kind == "hub":
        return [source.name]
    if source.name == "standard input":
        with source.path.open("rb") as file:
            return [source.name, hashlib.file_digest(file, "sha256").hexdigest()]
    return [source.name, source.size, source.path.stat().st_mtime_ns]
