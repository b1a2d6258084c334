"""Builds a corpus: text and a tokenizer in, shards and a manifest out.

    portions of text -> parts, by many processes -> shards, in order -> manifest.json

Everything unfinished lies in OUT/building, with a note of what is being built.
Killed at any moment, the same command goes on: finished parts and shards are kept,
everything else has a name that nothing else reads. The manifest comes last.
"""

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import albertine
from albertine import progress
from albertine.corpus.finish import Counted, write_shards
from albertine.corpus.jobs import jobs_of, run_jobs, troubles_of
from albertine.corpus.manifest import MANIFEST, Manifest, ShardEntry, write_manifest
from albertine.corpus.settings import CorpusSettings
from albertine.errors import InputError
from albertine.text.sources import Source, find_sources
from albertine.text.tokenizer import load_tokenizer
from albertine.whole import new_file, new_folder

_LIBRARIES = ("numpy", "pyarrow", "sentencex", "tokenizers")
_LISTED = 100


def build_corpus(texts: Sequence[str], tokenizer: Path, out: Path, settings: CorpusSettings) -> Manifest:
    """Build a corpus in `out`, or go on with one that was broken off there."""
    work = out / "building"
    if (out / MANIFEST).exists() or (out.exists() and not work.exists() and any(out.iterdir())):
        raise InputError(f"{out}: exists already; name another folder or remove it")
    mine = load_tokenizer(tokenizer)
    work.mkdir(parents=True, exist_ok=True)
    try:
        sources = find_sources(texts, spool=work / "standard-input")
        _note(work, sources, mine.fingerprint, settings)
        if not (out / "tokenizer").exists():
            with new_folder(out / "tokenizer") as folder:
                mine.save(folder)
        jobs = list(jobs_of(sources, work))
        run_jobs(jobs, out / "tokenizer", settings)
        entries, counted = write_shards([job.file for job in jobs], out, len(mine), settings)
    except InputError:
        _clear_if_fresh(out)  # what was wrong to begin with leaves nothing behind
        raise
    skipped = 0
    places: list[str] = []
    for job in jobs:
        count, some = json.loads(troubles_of(job).read_text(encoding="utf-8"))
        skipped, places = skipped + count, places + some
    manifest = _manifest(mine.fingerprint, len(mine), entries, counted, sources, settings)
    manifest = dataclasses.replace(manifest, skipped=skipped, skipped_places=places[:_LISTED])
    write_manifest(out, manifest)
    shutil.rmtree(work)
    return manifest


def _note(work: Path, sources: Sequence[Source], fingerprint: str, settings: CorpusSettings) -> None:
    """Note what is being built, or refuse to go on with something else."""
    asked = {key: value for key, value in dataclasses.asdict(settings).items() if key != "workers"}
    described = [_described(source) for source in sources]
    note = json.dumps({"sources": described, "tokenizer": fingerprint, "settings": asked}, indent=1)
    file = work / "note.json"
    if not file.exists():
        with new_file(file) as partial:
            partial.write_text(note, encoding="utf-8")
    elif file.read_text(encoding="utf-8") != note:
        raise InputError(
            f"{work.parent}: an unfinished corpus of other text, tokenizer or settings; "
            "run its own command again, or remove it"
        )
    else:
        progress.say(f"{work.parent}: going on where it was broken off")


def _described(source: Source) -> list[Any]:
    """Say what tells a source from a changed one."""
    if source.kind == "hub":
        return [source.name]
    if source.name == "standard input":
        with source.path.open("rb") as file:
            return [source.name, hashlib.file_digest(file, "sha256").hexdigest()]
    return [source.name, source.size, source.path.stat().st_mtime_ns]


def _clear_if_fresh(out: Path) -> None:
    """Remove a folder in which nothing has been built yet."""
    if not list((out / "building").glob("part-*.arrow")):
        shutil.rmtree(out, ignore_errors=True)


def _manifest(
    fingerprint: str,
    vocab_size: int,
    entries: list[ShardEntry],
    counted: Counted,
    sources: Sequence[Source],
    settings: CorpusSettings,
) -> Manifest:
    return Manifest(
        tokenizer=fingerprint,
        vocab_size=vocab_size,
        shards=entries,
        documents=counted.documents,
        sentences=counted.sentences,
        tokens=counted.tokens,
        words=counted.words,
        unigram_entropy=counted.entropy(),
        duplicates=counted.duplicates,
        skipped=0,
        skipped_places=[],
        sources=[source.name for source in sources],
        settings={key: value for key, value in dataclasses.asdict(settings).items() if key != "workers"},
        versions={"albertine": albertine.__version__, **{name: version(name) for name in _LIBRARIES}},
    )
