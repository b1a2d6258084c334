"""Passages of text sources, drawn with a seed, from which the language is detected.

The passages are spread over all sources in proportion to their size. Little is read: some kilobytes for
each passage of plain text, and whole records of other sources, up to `_MAX_READ` in total.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from albertine.errors import InputError
from albertine.text.documents import read_texts, refusal
from albertine.text.read_errors import ReadErrors
from albertine.text.settings import ReadingSettings
from albertine.text.sources import CHUNK_BYTES, Source, SourceChunk, read_range, source_chunks

NUM_PASSAGES = 200
_PASSAGE_BYTES = 4096  # read for a passage of plain text
PASSAGE_LENGTH = 1000  # characters
_MIN_LENGTH = 300  # short records are joined, because a few words do not tell the language
_MAX_JOINED = 20
_MAX_CHUNKS = 16  # of compressed text, Parquet files and hub datasets, which have no random access
_MAX_READ = 32 << 20  # characters of records


def sample_passages(sources: Sequence[Source], reading: ReadingSettings, seed: int = 0) -> list[str]:
    """Return at most `NUM_PASSAGES` passages; the same text and seed give the same passages.

    Text that cannot be read is left out, because reading all of it reports it; but if it stops the reading,
    the error of a file of plain text is raised at once.
    """
    rng = random.Random(seed)
    chunks = [chunk for source in sources for chunk in source_chunks(source)]
    sizes = [_size(chunk) for chunk in chunks]
    if not sum(sizes):
        return []
    counts = Counter(rng.choices(range(len(chunks)), sizes, k=NUM_PASSAGES))
    passages: list[str] = []
    num_read = num_whole_chunks = 0
    for index in rng.sample(sorted(counts), len(counts)):  # the limits end it at chunks from anywhere
        chunk, wanted = chunks[index], min(counts[index], -(-sizes[index] // PASSAGE_LENGTH))
        if chunk.source.format == "text" and chunk.source.has_byte_ranges:
            passages += _plain_passages(chunk, reading, wanted, rng)
            continue
        if not chunk.source.has_byte_ranges:
            num_whole_chunks += 1
        if num_read >= _MAX_READ or num_whole_chunks > _MAX_CHUNKS:
            continue
        for text in _texts(chunk, reading, wanted, rng):
            num_read += len(text)
            passages.append(_passage(text, rng))
            if num_read >= _MAX_READ:
                break
    return [passage for passage in passages if passage.strip()]


def _size(chunk: SourceChunk) -> int:
    """Return the bytes of a chunk; as many as in a full chunk where they are unknown."""
    return chunk.stop - chunk.start if chunk.source.has_byte_ranges else CHUNK_BYTES


def _plain_passages(
    chunk: SourceChunk, reading: ReadingSettings, wanted: int, rng: random.Random
) -> list[str]:
    starts = [rng.randrange(chunk.start, chunk.stop) for _ in range(wanted)]
    try:
        return [] if refusal(chunk.source) else [_plain_passage(chunk, start) for start in starts]
    except InputError:
        if reading.on_error == "stop":
            raise
        return []


def _plain_passage(chunk: SourceChunk, start: int) -> str:
    start = max(chunk.start, min(start, chunk.stop - _PASSAGE_BYTES))
    content = read_range(chunk.source, start, min(_PASSAGE_BYTES, chunk.stop - start))
    return content.decode("utf-8", "ignore")[:PASSAGE_LENGTH]  # a character may be cut at both ends


def _texts(chunk: SourceChunk, reading: ReadingSettings, wanted: int, rng: random.Random) -> Iterator[str]:
    """Yield some texts of a chunk: those at random places, or without random access the first."""
    if chunk.source.has_byte_ranges:
        yield from _texts_at_random_places(chunk, reading, wanted, rng)
        return
    texts = joined_passages(read_texts(chunk, reading, ReadErrors(skip=True)), wanted)
    if chunk.source.format == "text":  # long blocks
        block = next(texts, "")
        yield from (_passage(block, rng) for _ in range(wanted))
        return
    yield from texts


def _texts_at_random_places(
    chunk: SourceChunk, reading: ReadingSettings, wanted: int, rng: random.Random
) -> Iterator[str]:
    """Yield for each random place in a chunk the next text; after the last one, the first of the chunk."""

    def next_text(start: int) -> str | None:
        rest = SourceChunk(chunk.source, start, chunk.stop)
        return next(joined_passages(read_texts(rest, reading, ReadErrors(skip=True)), 1), None)

    first_text: str | None = None
    end = chunk.stop  # no text begins from here on, so further places need not be tried
    for _ in range(wanted):
        start = rng.randrange(chunk.start, chunk.stop)
        text = next_text(start) if start < end else None
        if text is None:
            end = min(end, start)
            first_text = first_text or next_text(chunk.start)
            text = first_text
        if text is None:
            return
        yield text


def joined_passages(texts: Iterator[str], limit: int) -> Iterator[str]:
    """Yield at most `limit` texts; texts shorter than `_MIN_LENGTH` are joined with those that follow.

    Texts that are empty are left out.
    """
    parts: list[str] = []
    for text in filter(str.strip, texts):
        parts.append(text)
        if sum(map(len, parts)) >= _MIN_LENGTH or len(parts) == _MAX_JOINED:
            yield "\n".join(parts)
            parts, limit = [], limit - 1
            if limit == 0:
                return
    if parts:
        yield "\n".join(parts)


def _passage(text: str, rng: random.Random) -> str:
    start = rng.randrange(max(1, len(text) - PASSAGE_LENGTH + 1))
    return text[start : start + PASSAGE_LENGTH]
