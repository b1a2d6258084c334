"""The first half of building: portions of text become parts, by as many processes as there are.

A job is a few portions of about the same size together; it is what one process
does at a time, and what is not done twice after a break. Jobs and what they write
depend on the text alone, so the number of processes changes no byte.
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
    """Some portions, and the file that their documents go into."""

    chunks: tuple[SourceChunk, ...]
    file: Path

    @property
    def text_bytes(self) -> int:
        """Size of its plain text; 0 where only reading tells."""
        return sum(portion.stop - portion.start for portion in self.chunks if portion.source.is_splittable)


def plan_jobs(sources: Sequence[Source], folder: Path) -> Iterator[EncodeJob]:
    """Yield the jobs that make up the sources, in order."""
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
    """Do all jobs whose files are not there yet."""
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
            advice = "The same command goes on from here, --workers 1 needs the least"
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
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    _worker = _EncodeWorker(tokenizer, settings)


def _run_job(job: EncodeJob) -> None:
    assert _worker is not None
    _worker.run(job)


class _EncodeWorker:
    """Does jobs, and remembers words from one to the next."""

    def __init__(self, folder: Path, settings: CorpusSettings):
        tokenizer = load_tokenizer(folder)
        self._encoder, self._boundaries = WordEncoder(tokenizer), WordBoundaries(tokenizer)
        self._settings = settings

    def run(self, job: EncodeJob) -> None:
        """Write a job's part, and beside it first what could not be read."""
        errors = ReadErrors(skip=self._settings.on_error == "skip")
        with atomic_file(job.file) as file:
            write_record_batches(file, self._encode_job(job, errors))
            with atomic_file(read_errors_file(job)) as errors_file:
                errors_file.write_text(json.dumps([errors.count, errors.locations]), encoding="utf-8")

    def _encode_job(self, job: EncodeJob, errors: ReadErrors) -> Iterator[pa.RecordBatch]:
        """Yield the documents of a job in batches, so that a file of any size needs the same memory."""
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
        """Encode documents, given as their sentences; what is empty to the tokenizer is left out."""
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
    """Return the file that lists what of a job could not be read."""
    return job.file.with_suffix(".json")


def _fingerprint(text: list[str]) -> bytes:
    """Return sixteen bytes that only an equal text shares."""
    return hashlib.blake2b("\n".join(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()
