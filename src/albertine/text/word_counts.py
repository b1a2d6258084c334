"""Counts the words of all text, or of a sample of bounded size, in this process or on a cluster.

Both give the same counts: a cluster counts chunks of text, and this process adds them in order. It counts
those chunks itself in which the sample ends, or words become too many.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median_low

from albertine import progress
from albertine.errors import InputError
from albertine.executors.executor import Executor
from albertine.text.documents import read_documents
from albertine.text.read_errors import ReadErrors
from albertine.text.settings import TokenizerSettings
from albertine.text.sources import CHUNK_BYTES, Source, SourceChunk, source_chunks

_MAX_WORDS = 2_000_000  # distinct words that are counted at a time
_TEXT_PER_COMPRESSED_BYTE = 3  # roughly, of natural language


class WordCounter:
    """Counts words in bounded memory.

    Attributes:
        counts: how often each word occurs; if there are too many words, without rare ones.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, document: Sequence[str]) -> None:
        """Count the words of a document."""
        for sentence in document:
            self.counts.update(sentence.split())
        if len(self.counts) > _MAX_WORDS:
            self.counts = _without_rare_words(self.counts)

    def add_counts(self, counts: Counter[str]) -> bool:
        """Add the counts of several documents; return False, without adding, if words would be too many."""
        if len(self.counts.keys() | counts.keys()) > _MAX_WORDS:
            return False
        self.counts.update(counts)
        return True


def _without_rare_words(counts: Counter[str]) -> Counter[str]:
    """Return the counts of at most half of the words, the most frequent, each reduced by the median count.

    This is the algorithm of Misra and Gries, with the median. Subtraction treats early and late words alike:
    a word stays only if it occurs more often than the sum of the medians since it was first seen. At least
    half of the words are removed, so memory is bounded and calls are rare.
    """
    limit = median_low(counts.values())
    return Counter({word: count - limit for word, count in counts.items() if count > limit})


@dataclass(frozen=True)
class TextSample:
    """All text, or a sample of it: random chunks, and of compressed text the beginnings.

    Attributes:
        chunks: the chunks in the order in which they are read, until the sample is full.
        chunk_limits: bytes that each chunk gives at most, up to the end of a document.
        limit: bytes of the sample.
        total: bytes that are read; None if they are not known before.
        max_text_mb: the limit in megabytes, for messages.
    """

    chunks: Sequence[SourceChunk]
    chunk_limits: Sequence[int]
    limit: int
    total: int | None
    max_text_mb: int

    def size_in_progress(self, chunk: SourceChunk, text_bytes: int) -> int:
        """Return the bytes to show for a chunk that has given some text."""
        return chunk.stop - chunk.start if chunk.source.has_byte_ranges else text_bytes

    def report_cut(self) -> None:
        """Print that there is more text than was read."""
        has_whole_chunks = all(chunk.source.has_byte_ranges for chunk in self.chunks)
        sample = f"a random sample of at most {self.max_text_mb} MB of the text (--max-text-mb)"
        if not has_whole_chunks:
            sample += ", with the beginnings of files that can be read from their start only"
        progress.print_message(f"training on {sample}")


def plan_sample(sources: Sequence[Source], settings: TokenizerSettings) -> TextSample:
    """Return all text of the sources, or if it exceeds `max_text_mb`, random chunks up to that size."""
    chunks = [chunk for source in sources for chunk in source_chunks(source)]
    range_sizes = [chunk.stop - chunk.start for chunk in chunks if chunk.source.has_byte_ranges]
    limit, has_compressed = settings.max_text_mb << 20, len(range_sizes) < len(chunks)
    if sum(range_sizes) > limit or has_compressed:
        random.Random(settings.seed).shuffle(chunks)
    # The size of compressed text is unknown before it is read, so a chunk gives its share at most.
    chunk_limits = _shares(chunks, limit) if has_compressed else [limit] * len(chunks)
    total = None if has_compressed else min(sum(range_sizes), limit)
    return TextSample(chunks, chunk_limits, limit, total, settings.max_text_mb)


def _shares(chunks: Sequence[SourceChunk], limit: int) -> list[int]:
    """Divide bytes among chunks, by the size that their text probably has; each gets a megabyte at least.

    What is probably left is divided equally among those whose size is not known, which may be larger.
    """
    num_chunks = Counter(chunk.source for chunk in chunks)

    def probable_size(source: Source) -> float:
        if source.has_byte_ranges:
            return source.size
        return _TEXT_PER_COMPRESSED_BYTE * source.size or CHUNK_BYTES * num_chunks[source]

    total = max(1, sum(map(probable_size, num_chunks)))
    spare = max(0, limit - total) / sum(not chunk.source.has_byte_ranges for chunk in chunks)

    def share(chunk: SourceChunk) -> float:
        scale = min(1, limit / total)
        if chunk.source.has_byte_ranges:
            return scale * (chunk.stop - chunk.start)
        return scale * probable_size(chunk.source) / num_chunks[chunk.source] + spare

    return [max(1 << 20, int(share(chunk))) for chunk in chunks]


def sample_documents(
    sample: TextSample, settings: TokenizerSettings, errors: ReadErrors
) -> Iterator[list[str]]:
    """Yield the documents of a sample; show the progress."""
    remaining, is_cut = sample.limit, False
    with progress.progress_counter("Reading text", total=sample.total, unit="bytes") as advance:
        chunks = zip(sample.chunks, sample.chunk_limits, strict=True)
        for number, (chunk, chunk_limit) in enumerate(chunks, start=1):
            documents = _ChunkDocuments(chunk, settings, errors, min(remaining, chunk_limit))
            yield from documents
            is_cut |= documents.is_cut
            remaining -= documents.size
            advance(sample.size_in_progress(chunk, documents.size))
            if remaining <= 0:
                is_cut |= number < len(sample.chunks)
                break
    if is_cut:
        sample.report_cut()


class _ChunkDocuments:
    """The documents of a chunk, until they reach a limit; an iteration sets the attributes.

    Attributes:
        size: bytes of the documents.
        is_cut: whether there are more.
    """

    def __init__(
        self, chunk: SourceChunk, settings: TokenizerSettings, errors: ReadErrors, max_bytes: int
    ) -> None:
        self._chunk, self._settings, self._errors = chunk, settings, errors
        self._max_bytes = max_bytes
        self.size, self.is_cut = 0, False

    def __iter__(self) -> Iterator[list[str]]:
        for document in read_documents(self._chunk, self._settings, self._errors):
            if self.size >= self._max_bytes:
                self.is_cut = True
                return
            self.size += sum(map(_num_bytes, document))
            yield document


def _num_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


@dataclass(frozen=True)
class _ChunkCounts:
    """The words of one chunk.

    Attributes:
        counts: how often each word occurs.
        size: bytes of its text.
        is_cut: whether it has more.
        errors: errors that were skipped.
        failure: the error at which the reading stopped.
    """

    counts: Counter[str]
    size: int
    is_cut: bool
    errors: ReadErrors
    failure: InputError | None


def _count_chunk(settings: TokenizerSettings, chunk_and_limit: tuple[SourceChunk, int]) -> _ChunkCounts:
    """Return the counts of a chunk up to a limit, in a worker."""
    chunk, chunk_limit = chunk_and_limit
    counts: Counter[str] = Counter()
    errors = ReadErrors(skip=settings.on_error == "skip")
    failure = None
    documents = _ChunkDocuments(chunk, settings, errors, chunk_limit)
    try:
        for document in documents:
            for sentence in document:
                counts.update(sentence.split())
    except InputError as error:
        failure = error  # the sample may end before it
    return _ChunkCounts(counts, documents.size, documents.is_cut, errors, failure)


def count_on_cluster(
    sample: TextSample, settings: TokenizerSettings, errors: ReadErrors, executor: Executor
) -> Counter[str]:
    """Return the counts of the words of a sample; see `WordCounter`."""
    counter, remaining, is_cut = WordCounter(), sample.limit, False
    parts = executor.run(
        partial(_count_chunk, settings),
        list(zip(sample.chunks, sample.chunk_limits, strict=True)),
        in_order=True,
        advice="use less text with --max-text-mb",
    )
    with progress.progress_counter("Reading text", total=sample.total, unit="bytes") as advance:
        for number, ((chunk, chunk_limit), part) in enumerate(parts, start=1):
            size, is_part = part.size, part.is_cut
            if size < remaining and part.failure is not None:
                raise part.failure
            if size < remaining and counter.add_counts(part.counts):
                errors.add(part.errors)
            else:
                documents = _ChunkDocuments(chunk, settings, errors, min(remaining, chunk_limit))
                for document in documents:
                    counter.add(document)
                size, is_part = documents.size, documents.is_cut
            is_cut |= is_part
            remaining -= size
            advance(sample.size_in_progress(chunk, size))
            if remaining <= 0:
                is_cut |= number < len(sample.chunks)
                break
    if is_cut:
        sample.report_cut()
    return counter.counts
