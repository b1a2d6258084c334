"""Builds a corpus: text and a tokenizer in, shards and a manifest out.

    portions of text -> parts, by many processes -> shards, in order -> manifest.json

Everything unfinished lies in OUT/building (see `workplace`). Killed at any moment, the
same command goes on: finished parts and shards are kept, everything else has a name
that nothing else reads. The manifest comes last.
"""

import dataclasses
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from albertine import progress
from albertine.corpus.finish import Counted, write_shards
from albertine.corpus.jobs import jobs_of, run_jobs, troubles_of
from albertine.corpus.manifest import Manifest, ShardEntry, write_manifest
from albertine.corpus.settings import CorpusSettings
from albertine.corpus.workplace import note, workplace
from albertine.text.sources import Source, find_sources
from albertine.text.tokenizer import load_tokenizer
from albertine.version import __version__
from albertine.whole import new_folder

_LIBRARIES = ("numpy", "pyarrow", "sentencex", "tokenizers")
_LISTED = 100


def build_corpus(texts: Sequence[str], tokenizer: Path, out: Path, settings: CorpusSettings) -> Manifest:
    """Build a corpus in `out`, or go on with one that was broken off there."""
    mine = load_tokenizer(tokenizer)
    with workplace(out) as work:
        sources = find_sources(texts, spool=work / "standard-input")
        note(work, sources, mine.fingerprint, settings)
        if not (out / "tokenizer").exists():
            with new_folder(out / "tokenizer") as folder:
                mine.save(folder)
        jobs = list(jobs_of(sources, work))
        run_jobs(jobs, out / "tokenizer", settings)
        entries, counted = write_shards([job.file for job in jobs], out, len(mine), settings)
        skipped = 0
        places: list[str] = []
        for job in jobs:
            count, some = json.loads(troubles_of(job).read_text(encoding="utf-8"))
            skipped, places = skipped + count, places + some
        manifest = _manifest(mine.fingerprint, len(mine), entries, counted, sources, settings)
        manifest = dataclasses.replace(manifest, skipped=skipped, skipped_places=places[:_LISTED])
        write_manifest(out, manifest)
    _tell_of_much_held_out(manifest, settings.held_out)
    return manifest


def _tell_of_much_held_out(manifest: Manifest, asked: float) -> None:
    """Say it where whole documents are far more than the share that was asked for."""
    share = manifest.tokens["dev"] / max(1, sum(manifest.tokens.values()))
    if share > 2 * asked > 0:
        progress.say(
            f"held out: {share:.0%} of the text, where {100 * asked:g}% was asked for; "
            "documents are held out whole, and these are few or long"
        )


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
        versions={"albertine": __version__, **{name: version(name) for name in _LIBRARIES}},
    )
