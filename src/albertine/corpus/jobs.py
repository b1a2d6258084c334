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
from albertine.corpus.settings import CorpusSettings
from albertine.corpus.shards import Documents, to_batch, write_batches
from albertine.processes import in_processes
from albertine.text.documents import Troubles, documents
from albertine.text.sources import Portion, Source, portions_of
from albertine.text.tokenizer import load_tokenizer
from albertine.text.words import WordEncoder, WordStarts
from albertine.whole import new_file

JOB_BYTES = 8 << 20


@dataclass(frozen=True)
class Job:
    """Some portions, and the file that their documents go into."""

    portions: tuple[Portion, ...]
    file: Path

    @property
    def bytes(self) -> int:
        """Size of its plain text; 0 where only reading tells."""
        return sum(portion.stop - portion.start for portion in self.portions if portion.source.is_cut)


def jobs_of(sources: Sequence[Source], folder: Path) -> Iterator[Job]:
    """Yield the jobs that make up the sources, in order."""
    gathered: list[Portion] = []
    size = count = 0

    def job() -> Job:
        return Job(tuple(gathered), folder / f"part-{count:06d}.arrow")

    for source in sources:
        for portion in portions_of(source):
            length = portion.stop - portion.start if source.is_cut else JOB_BYTES
            if gathered and size + length > JOB_BYTES:
                yield job()
                gathered, size, count = [], 0, count + 1
            gathered.append(portion)
            size += length
    if gathered:
        yield job()


def run_jobs(jobs: Sequence[Job], tokenizer: Path, settings: CorpusSettings) -> None:
    """Do all jobs whose files are not there yet."""
    left = [job for job in jobs if not job.file.exists()]
    total = sum(job.bytes for job in jobs)
    workers = min(settings.workers or os.cpu_count() or 1, max(1, len(left)))
    with progress.advancing("Encoding text", total=total or None, unit="bytes") as told:
        told(total - sum(job.bytes for job in left))
        if workers == 1:
            worker = _Worker(tokenizer, settings)
            for job in left:
                worker.do(job)
                told(job.bytes)
        else:
            advice = "The same command goes on from here, --workers 1 needs the least"
            given = (tokenizer, settings)
            for job, _ in in_processes(_work, left, workers, start=_start_worker, given=given, advice=advice):
                told(job.bytes)


_worker: "_Worker | None" = None


def _start_worker(tokenizer: Path, settings: CorpusSettings) -> None:
    global _worker
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    _worker = _Worker(tokenizer, settings)


def _work(job: Job) -> None:
    assert _worker is not None
    _worker.do(job)


class _Worker:
    """Does jobs, and remembers words from one to the next."""

    def __init__(self, folder: Path, settings: CorpusSettings):
        tokenizer = load_tokenizer(folder)
        self._words, self._starts = WordEncoder(tokenizer), WordStarts(tokenizer)
        self._settings = settings

    def do(self, job: Job) -> None:
        """Write a job's part, and beside it first what could not be read."""
        troubles = Troubles(skip=self._settings.on_error == "skip")
        with new_file(job.file) as file:
            write_batches(file, self._batches(job, troubles))
            with new_file(troubles_of(job)) as beside:
                beside.write_text(json.dumps([troubles.count, troubles.places]), encoding="utf-8")

    def _batches(self, job: Job, troubles: Troubles) -> Iterator[pa.RecordBatch]:
        """Yield the documents of a job in batches, so that a file of any size needs the same memory."""
        gathered: list[list[str]] = []
        size, none_yet = 0, True
        for portion in job.portions:
            for document in documents(portion, self._settings, troubles):
                gathered.append(document)
                size += sum(map(len, document))
                if size >= JOB_BYTES:
                    yield self._encoded(gathered)
                    gathered, size, none_yet = [], 0, False
        if gathered or none_yet:
            yield self._encoded(gathered)

    def _encoded(self, texts: list[list[str]]) -> pa.RecordBatch:
        """Encode documents, given as their sentences; what is empty to the tokenizer is left out."""
        tokens, lengths = self._words.encode([sentence for text in texts for sentence in text])
        counts = [len(text) for text in texts]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        bounds = ends[np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])]
        sentences = ends[:-1][lengths > 0]
        starts = self._starts.of(tokens)
        starts[sentences] = True
        full = np.diff(bounds) > 0
        names = [_fingerprint(text) for text, is_full in zip(texts, full, strict=True) if is_full]
        whole = Documents(tokens, starts, sentences, np.concatenate([bounds[:-1][full], bounds[-1:]]))
        return to_batch(whole, np.frombuffer(b"".join(names), np.uint64))


def troubles_of(job: Job) -> Path:
    """Return the file that lists what of a job could not be read."""
    return job.file.with_suffix(".json")


def _fingerprint(text: list[str]) -> bytes:
    """Return sixteen bytes that only an equal text shares."""
    return hashlib.blake2b("\n".join(text).encode("utf-8", "surrogatepass"), digest_size=16).digest()
