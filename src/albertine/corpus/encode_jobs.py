"""First phase of a corpus build: several processes encode chunks of text into parts.

A job is a few chunks of about `JOB_BYTES` in total. One process runs a job at a time, and
a finished job is not repeated when the build resumes. Jobs and their output depend only on
the text, so the number of processes does not change the result.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from albertine import progress
from albertine.atomic import atomic_file
from albertine.corpus.settings import CorpusSettings
from albertine.corpus.shards import EncodedDocuments, to_record_batch, write_record_batches
from albertine.processes import run_in_processes
from albertine.text.documents import ReadErrors, read_documents
from albertine.text.sources import Source, SourceChunk, source_chunks
from albertine.text.tokenizer import load_tokenizer
from albertine.text.word_encoder import WordBoundaries, WordEncoder

JOB_BYTES = 8 << 20


@dataclass(frozen=True)
class EncodeJob:
    """Some chunks of text, and the part file for their documents."""

    chunks: tuple[SourceChunk, ...]
    file: Path

    @property
    def text_bytes(self) -> int:
        """Bytes of plain text; compressed sources count as 0."""
        return sum(chunk.stop - chunk.start for chunk in self.chunks if chunk.source.is_splittable)


def plan_jobs(sources: Sequence[Source], folder: Path) -> Iterator[EncodeJob]:
    """Yield jobs that cover the sources, in order."""
    gathered: list[SourceChunk] = []
    size = count = 0

    def job() -> EncodeJob:
        return EncodeJob(tuple(gathered), folder / f"part-{count:06d}.arrow")

    for source in sources:
        for chunk in source_chunks(source):
            length = chunk.stop - chunk.start if source.is_splittable else JOB_BYTES
            if gathered and size + length > JOB_BYTES:
                yield job()
                gathered, size, count = [], 0, count + 1
            gathered.append(chunk)
            size += length
    if gathered:
        yield job()


def run_jobs(jobs: Sequence[EncodeJob], tokenizer: Path, settings: CorpusSettings) -> None:
    """Run the jobs whose part files do not exist yet."""
    remaining = [job for job in jobs if not job.file.exists()]
    total = sum(job.text_bytes for job in jobs)
    workers = min(settings.workers or os.cpu_count() or 1, max(1, len(remaining)))
    with progress.progress_counter("Encoding text", total=total or None, unit="bytes") as advance:
        advance(total - sum(job.text_bytes for job in remaining))
        if workers == 1:
            worker = _EncodeWorker(tokenizer, settings)
            for job in remaining:
                worker.run(job)
                advance(job.text_bytes)
        else:
            advice = "repeat the command to resume; --workers 1 needs the least memory"
            worker_arguments = (tokenizer, settings)
            for job, _ in run_in_processes(
                _run_job,
                remaining,
                workers,
                initializer=_start_worker,
                initargs=worker_arguments,
                advice=advice,
            ):
                advance(job.text_bytes)


_worker: "_EncodeWorker | None" = None


def _start_worker(tokenizer: Path, settings: CorpusSettings) -> None:
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread per process; the processes run in parallel
    _worker = _EncodeWorker(tokenizer, settings)


def _run_job(job: EncodeJob) -> None:
    assert _worker is not None
    _worker.run(job)


class _EncodeWorker:
    """Runs jobs, and keeps the encoder's word cache from one to the next."""

    def __init__(self, folder: Path, settings: CorpusSettings):
        tokenizer = load_tokenizer(folder)
        self._encoder, self._boundaries = WordEncoder(tokenizer), WordBoundaries(tokenizer)
        self._settings = settings

    def run(self, job: EncodeJob) -> None:
        """Write the part of a job; its read errors are written first, to a file beside it."""
        errors = ReadErrors(skip=self._settings.on_error == "skip")
        with atomic_file(job.file) as file:
            write_record_batches(file, self._encode_job(job, errors))
            with atomic_file(read_errors_file(job)) as errors_file:
                errors_file.write_text(json.dumps([errors.count, errors.locations]), encoding="utf-8")

    def _encode_job(self, job: EncodeJob, errors: ReadErrors) -> Iterator[pa.RecordBatch]:
        """Yield the documents of a job in batches of bounded size, which bounds the memory."""
        gathered: list[list[str]] = []
        size, is_first = 0, True
        for chunk in job.chunks:
            for document in read_documents(chunk, self._settings, errors):
                gathered.append(document)
                size += sum(map(len, document))
                if size >= JOB_BYTES:
                    yield self._encode_documents(gathered)
                    gathered, size, is_first = [], 0, False
        if gathered or is_first:
            yield self._encode_documents(gathered)

    def _encode_documents(self, texts: list[list[str]]) -> pa.RecordBatch:
        """Encode documents, given as lists of sentences; documents without tokens are dropped."""
        tokens, lengths = self._encoder.encode([sentence for text in texts for sentence in text])
        counts = [len(text) for text in texts]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        bounds = ends[np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])]
        sentence_starts = ends[:-1][lengths > 0]
        word_starts = self._boundaries.starts(tokens)
        word_starts[sentence_starts] = True
        is_nonempty = np.diff(bounds) > 0
        fingerprints = [
            _fingerprint(text) for text, is_full in zip(texts, is_nonempty, strict=True) if is_full
        ]
        encoded = EncodedDocuments(
            tokens, word_starts, sentence_starts, np.concatenate([bounds[:-1][is_nonempty], bounds[-1:]])
        )
        return to_record_batch(encoded, np.frombuffer(b"".join(fingerprints), np.uint64))


def read_errors_file(job: EncodeJob) -> Path:
    """Return the file with the read errors of a job: their count, and a list of locations."""
    return job.file.with_suffix(".json")


def _fingerprint(text: list[str]) -> bytes:
    """Return a 16-byte hash of a document's text."""
    return hashlib.blake2b("\n".join(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()
