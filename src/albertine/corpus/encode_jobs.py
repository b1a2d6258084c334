"""First phase of a corpus build: several processes encode chunks of text into parts.

A job is a few chunks of about `JOB_BYTES` in total, and writes one part. A process runs one
job at a time. Jobs that have finished are not repeated when the build resumes. Jobs and parts
do not depend on the number of processes.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from albertine import progress
from albertine.atomic import atomic_file
from albertine.corpus.job_report import JobReport, is_intact, write_report
from albertine.corpus.settings import CorpusSettings
from albertine.corpus.shards import EncodedDocuments, to_record_batch, write_record_batches
from albertine.executors.executor import Executor
from albertine.executors.process_pool import ProcessPool
from albertine.processes import num_cores
from albertine.text.characters import (
    language_warning,
    lost_characters,
    lost_word_characters,
    single_characters,
)
from albertine.text.documents import read_documents
from albertine.text.read_errors import ReadErrors
from albertine.text.sources import Source, SourceChunk, source_chunks
from albertine.text.tokenizer import load_tokenizer
from albertine.text.word_encoder import WordBoundaries, WordEncoder

JOB_BYTES = 8 << 20
_SAMPLED_SENTENCES = 4096  # per record batch, for the warning about the language


@dataclass(frozen=True)
class EncodeJob:
    """Some chunks of text, and the file of the part that their documents are written to."""

    chunks: tuple[SourceChunk, ...]
    file: Path

    @property
    def text_bytes(self) -> int:
        """Bytes of plain text; compressed sources count as 0."""
        return sum(chunk.stop - chunk.start for chunk in self.chunks if chunk.source.has_byte_ranges)


def plan_jobs(sources: Sequence[Source], folder: Path) -> Iterator[EncodeJob]:
    """Yield the jobs that encode all text of the sources, in order."""
    chunks: list[SourceChunk] = []
    size = count = 0

    def job() -> EncodeJob:
        return EncodeJob(tuple(chunks), folder / f"part-{count:06d}.arrow")

    for source in sources:
        for chunk in source_chunks(source):
            chunk_size = chunk.stop - chunk.start if source.has_byte_ranges else JOB_BYTES
            if chunks and size + chunk_size > JOB_BYTES:
                yield job()
                chunks, size, count = [], 0, count + 1
            chunks.append(chunk)
            size += chunk_size
    if chunks:
        yield job()


def run_jobs(
    jobs: Sequence[EncodeJob], tokenizer: Path, settings: CorpusSettings, executor: Executor | None
) -> None:
    """Run the jobs whose parts are missing or damaged; print at most one warning about their language.

    Args:
        jobs: all jobs of the build.
        tokenizer: folder of the tokenizer.
        settings: settings of the build.
        executor: where the jobs run; None for processes of this machine.
    """
    remaining = [job for job in jobs if not is_intact(job.file)]
    for job in remaining:
        if job.file.exists():
            progress.print_message(f"{job.file}: damaged; its text is encoded again")
    total = sum(job.text_bytes for job in jobs)
    workers = min(settings.workers or num_cores(), max(1, len(remaining)))
    with progress.progress_counter("Encoding text", total=total or None, unit="bytes") as advance:
        advance(total - sum(job.text_bytes for job in remaining))
        finished: Iterator[tuple[EncodeJob, str | None]]
        if executor is None and workers == 1:
            worker = _EncodeWorker(tokenizer, settings)
            finished = ((job, worker.run(job)) for job in remaining)
        else:
            finished = (executor or ProcessPool(workers)).run(
                _run_job,
                remaining,
                initializer=_start_worker,
                initargs=(tokenizer, settings),
                advice="repeat the command to resume; --workers 1 needs the least memory",
            )
        has_warned = False
        for job, warning in finished:
            advance(job.text_bytes)
            if warning and not has_warned:
                progress.print_message(f"{job.chunks[0].source.name}: {warning}")
                has_warned = True


_worker: "_EncodeWorker | None" = None  # of a worker process


def _start_worker(tokenizer: Path, settings: CorpusSettings) -> None:
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread per process; the processes run in parallel
    _worker = _EncodeWorker(tokenizer, settings)


def _run_job(job: EncodeJob) -> str | None:
    assert _worker is not None
    return _worker.run(job)


class _EncodeWorker:
    """Runs one job after another, and keeps the encoder's word cache between them."""

    def __init__(self, tokenizer: Path, settings: CorpusSettings):
        loaded = load_tokenizer(tokenizer)
        self._encoder, self._boundaries = WordEncoder(loaded), WordBoundaries(loaded)
        self._tokenizer, self._tokens = loaded, frozenset(loaded.vocabulary)
        self._known_characters = single_characters(loaded.vocabulary)
        self._settings = settings
        self._report, self._characters = JobReport(), Counter[str]()  # of the current job

    def run(self, job: EncodeJob) -> str | None:
        """Write the report and then the part of a job; return a warning about the language, if any."""
        errors = ReadErrors(skip=self._settings.on_error == "skip")
        self._report, self._characters = JobReport(), Counter()
        with atomic_file(job.file) as file:
            write_record_batches(file, self._encode_job(job, errors))
            self._report.skipped, self._report.skipped_locations = errors.count, errors.messages
            write_report(job.file, file, self._report)
        removes_accents = self._tokenizer.normalize("é") == "e"
        return language_warning(
            self._characters, removes_accents=removes_accents, language=self._settings.language
        )

    def _encode_job(self, job: EncodeJob, errors: ReadErrors) -> Iterator[pa.RecordBatch]:
        """Yield the documents of a job in record batches, at least one, whose size bounds the memory."""
        documents: list[list[str]] = []
        size, is_first = 0, True
        for chunk in job.chunks:
            for document in read_documents(chunk, self._settings, errors):
                documents.append(document)
                size += sum(map(len, document))
                if size >= JOB_BYTES:
                    yield self._encode_documents(documents)
                    documents, size, is_first = [], 0, False
        if documents or is_first:
            yield self._encode_documents(documents)

    def _encode_documents(self, documents: list[list[str]]) -> pa.RecordBatch:
        """Return documents (lists of sentences) as a record batch; those without tokens are dropped."""
        sentences = [sentence for document in documents for sentence in document]
        tokens, lengths = self._encoder.encode(sentences)
        self._inspect(sentences, tokens, lengths)
        sentence_counts = [len(document) for document in documents]
        sentence_offsets = np.concatenate([[0], np.cumsum(lengths)])
        document_offsets = sentence_offsets[np.concatenate([[0], np.cumsum(sentence_counts, dtype=np.int64)])]
        sentence_starts = sentence_offsets[:-1][lengths > 0]
        word_starts = self._boundaries.starts(tokens)
        word_starts[sentence_starts] = True
        has_tokens = np.diff(document_offsets) > 0
        fingerprints = [
            _fingerprint(document) for document, kept in zip(documents, has_tokens, strict=True) if kept
        ]
        encoded = EncodedDocuments(
            tokens,
            word_starts,
            sentence_starts,
            np.concatenate([document_offsets[:-1][has_tokens], document_offsets[-1:]]),
        )
        return to_record_batch(encoded, np.frombuffer(b"".join(fingerprints), np.uint64))

    def _inspect(self, sentences: list[str], tokens: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        """Count the unknown tokens, their characters, and the characters of a sample of the sentences."""
        unknown = np.flatnonzero(tokens == self._tokenizer.special_ids.unk)
        affected = np.unique(np.searchsorted(np.cumsum(lengths), unknown, side="right"))
        words = Counter(chain.from_iterable(sentences[index].split() for index in affected))
        self._report.tokens += len(tokens)
        self._report.unknown_tokens += len(unknown)
        self._report.lost_characters.update(self._lost_characters(words))
        sample = sentences[:: max(1, len(sentences) // _SAMPLED_SENTENCES)]
        self._characters.update(chain.from_iterable(sample))

    def _lost_characters(self, words: Counter[str]) -> Counter[str]:
        """Return how often each character without a token occurs in words."""
        if self._tokenizer.marks_continuations:
            return lost_word_characters(words, self._tokens, self._tokenizer.unknown_words)
        return lost_characters(words, self._known_characters, self._tokenizer.normalize)


def _fingerprint(document: list[str]) -> bytes:
    """Return a 16-byte hash of a document's text."""
    return hashlib.blake2b("\n".join(document).encode("utf-8", "surrogatepass"), digest_size=16).digest()
