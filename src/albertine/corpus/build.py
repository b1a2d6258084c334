"""Builds a corpus from text and a tokenizer.

    chunks of text -> parts, written by several processes -> shards, in order -> manifest.json

Unfinished files are in OUT/building (see `build_folder`). If interrupted, the same command
resumes: it keeps finished parts and shards, and removes partial files. The manifest is
written last. See docs/decisions/corpus-in-two-phases.md.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

from albertine import progress
from albertine.atomic import atomic_folder, partial_folder, remove_path
from albertine.corpus.build_folder import (
    locked_build_folder,
    record_build,
    recorded_language,
    source_identities,
)
from albertine.corpus.checked_json import read_checked_json, write_checked_json
from albertine.corpus.encode_jobs import plan_jobs, run_jobs
from albertine.corpus.job_report import JobReport, sum_reports
from albertine.corpus.manifest import MANIFEST_FILE, Manifest, read_manifest, write_manifest
from albertine.corpus.settings import CorpusSettings
from albertine.corpus.shard_writer import write_shards
from albertine.errors import InputError
from albertine.executors.executor import Executor
from albertine.storage.upload import resumable_folder
from albertine.storage.urls import storage_url
from albertine.text.characters import list_characters, most_frequent
from albertine.text.documents import check_reading_settings
from albertine.text.find_sources import find_sources
from albertine.text.language_detection import resolve_reading_language
from albertine.text.languages import AUTO
from albertine.text.sources import Source
from albertine.text.tokenizer import Tokenizer, load_tokenizer, tokenizer_checksums
from albertine.version import __version__

_LIBRARIES = ("numpy", "pyarrow", "sentencex", "tokenizers")
_MAX_LISTED = 100
_SOURCES_SUFFIX = ".sources.json"  # of what a corpus was built from, beside it until it is uploaded


def build_corpus(
    sources: Sequence[str],
    tokenizer: Path,
    out: Path,
    settings: CorpusSettings,
    executor: Executor | None = None,
) -> Manifest:
    """Build a corpus, or resume an interrupted build; return its manifest.

    Args:
        sources: text; see `find_sources`.
        tokenizer: folder of a tokenizer.
        out: folder of the corpus; for a URL, it is built in the cache and uploaded when it is finished.
        settings: settings of the build.
        executor: where text is encoded; None for processes of this machine.
    """
    url = storage_url(out)
    if url is None:
        return _build_in(out, sources, tokenizer, settings, executor)
    with resumable_folder(url) as folder:
        record = folder.with_name(f"{folder.name}{_SOURCES_SUFFIX}")
        if (folder / MANIFEST_FILE).exists() and not (folder / "building").exists():
            manifest = _finished_manifest(folder, record, sources, tokenizer, settings)
        else:
            manifest = _build_in(folder, sources, tokenizer, settings, executor, record)
    record.unlink(missing_ok=True)  # the corpus has been uploaded
    return manifest


def _finished_manifest(
    folder: Path, record: Path, sources: Sequence[str], tokenizer: Path, settings: CorpusSettings
) -> Manifest:
    """Return the manifest of a finished corpus whose upload failed; refuse other text and settings."""
    manifest = read_manifest(folder)
    with partial_folder(record) as scratch:
        identities = source_identities(find_sources(sources, spool=scratch / "standard-input"))
    recorded = None  # names alone then say whether the text is the same
    with suppress(FileNotFoundError, ValueError):  # an earlier version wrote none, or it is damaged
        recorded = read_checked_json(record)
    is_same_text = identities == recorded
    if recorded is None:
        is_same_text = [name for name, *_ in identities] == manifest.sources
    wanted = {key: value for key, value in asdict(settings).items() if key not in ("workers", "language")}
    if (
        load_tokenizer(tokenizer).fingerprint != manifest.tokenizer_fingerprint
        or not is_same_text
        or settings.language not in (AUTO, manifest.settings.get("language"))
        or wanted != {key: manifest.settings.get(key) for key in wanted}
    ):
        raise InputError(
            f"{folder}: a finished corpus of other text, tokenizer or settings, which is not uploaded; "
            "repeat the command that built it, or remove it"
        )
    return manifest


def _build_in(
    out: Path,
    sources: Sequence[str],
    tokenizer: Path,
    settings: CorpusSettings,
    executor: Executor | None,
    record: Path | None = None,
) -> Manifest:
    """Build a corpus in a local folder; see `build_corpus`.

    Args:
        out: folder of the corpus.
        sources: text.
        tokenizer: folder of a tokenizer.
        settings: settings of the build.
        executor: where text is encoded.
        record: file to write the identities of the sources to.
    """
    loaded = load_tokenizer(tokenizer)
    with locked_build_folder(out) as work:
        found = find_sources(sources, spool=work / "standard-input")
        check_reading_settings(settings, found)
        settings = _resolve_language(settings, work, found)
        record_build(work, found, loaded.fingerprint, settings)
        _copy_tokenizer(loaded, out / "tokenizer")
        jobs = list(plan_jobs(found, work))
        run_jobs(jobs, out / "tokenizer", settings, executor)
        shards, counts = write_shards([job.file for job in jobs], out, len(loaded), settings)
        report = sum_reports(job.file for job in jobs)
        manifest = Manifest(
            tokenizer_fingerprint=loaded.fingerprint,
            tokenizer_files=tokenizer_checksums(out / "tokenizer"),
            vocab_size=len(loaded),
            shards=shards,
            documents=counts.documents,
            sentences=counts.sentences,
            tokens=counts.tokens,
            words=counts.words,
            unigram_entropy=counts.unigram_entropy(),
            duplicates=counts.duplicates,
            skipped=report.skipped,
            skipped_locations=report.skipped_locations,
            unknown_tokens=report.unknown_tokens,
            lost_characters=dict(most_frequent(report.lost_characters, _MAX_LISTED)),
            sources=[source.name for source in found],
            settings={key: value for key, value in asdict(settings).items() if key != "workers"},
            versions={"albertine": __version__, **{name: version(name) for name in _LIBRARIES}},
            held_out_passages=counts.passages or None,
        )
        if record is not None:
            write_checked_json(record, source_identities(found))
        write_manifest(out, manifest)
    _report_lost_characters(report)
    _report_held_out(manifest, settings.held_out)
    return manifest


def _resolve_language(settings: CorpusSettings, work: Path, sources: Sequence[Source]) -> CorpusSettings:
    """Return settings with the language: the one of the interrupted build in `work`, or else detected."""
    recorded = recorded_language(work) if settings.language == AUTO else None
    return replace(settings, language=recorded) if recorded else resolve_reading_language(settings, sources)


def _copy_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the tokenizer of the corpus, unless an interrupted build has, and its copy is undamaged."""
    if folder.is_dir():
        files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        if files == dict(tokenizer.files):
            return
        remove_path(folder)
    with atomic_folder(folder) as partial:
        tokenizer.save(partial)


def _report_lost_characters(report: JobReport) -> None:
    """Print which characters of the text the vocabulary lacks, if any."""
    if report.lost_characters:
        progress.print_message(
            f"{report.unknown_tokens:,} of {report.tokens:,} tokens "
            f"({report.unknown_tokens / report.tokens:.4%}) are unknown; characters without a token: "
            f"{list_characters(report.lost_characters)}; `tokenizer train` on this text, or with "
            "--byte-fallback, gives a vocabulary with them"
        )


def _report_held_out(manifest: Manifest, requested: float) -> None:
    """Print a message if passages are held out, or more than twice the requested fraction of tokens."""
    fraction = manifest.tokens["dev"] / max(1, sum(manifest.tokens.values()))
    if manifest.held_out_passages:
        progress.print_message(
            f"held out: {manifest.held_out_summary} ({fraction:.1%} of the tokens), because the documents "
            "are few and long"
        )
    elif fraction > 2 * requested > 0:
        progress.print_message(
            f"held out: {fraction:.0%} of the tokens, {100 * requested:g}% requested; "
            "only whole documents are held out, and they are few or differ in length"
        )
