"""Text to samples, beside what people use: the `tokenizers` library, and the reference code's way to masks.

Building counts everything from file to shard, against the bare library encoding
the same sentences, handed to it in memory, on the same cores. Sampling is pairs and
masks of 512 pieces on one core, against the reference algorithm (`reference`), and
then through the batches that training takes, with worker processes.
"""

import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from statistics import median

import numpy as np
from rich.table import Table

from albertine import progress
from albertine.bench import reference_masking
from albertine.bench.settings import CorpusBenchSettings
from albertine.corpus.batches import BatchLoader
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.text.documents import ReadErrors, read_documents
from albertine.text.sources import find_sources, source_chunks
from albertine.text.tokenizer import load_tokenizer

_SAMPLES = 2000


@dataclass(frozen=True)
class CorpusComparison:
    """One line: what was done, how many a second, and how many the peer did."""

    name: str
    unit: str
    rate: float
    peer_rate: float | None
    peer: str


def measure_corpus(
    texts: tuple[str, ...], tokenizer: Path, settings: CorpusBenchSettings
) -> Iterator[CorpusComparison]:
    """Measure building and sampling in turn."""
    progress.set_quiet(True)
    with tempfile.TemporaryDirectory() as scratch:
        yield _measure_building(texts, tokenizer, Path(scratch), settings)
        corpus = Corpus(Path(scratch) / "0")
        sampler = PretrainDataset(corpus, ObjectiveSettings(max_length=settings.max_length))
        yield _measure_sampling(corpus, sampler, settings)
        yield _measure_batches(sampler, settings)


def _measure_building(
    texts: tuple[str, ...], tokenizer: Path, scratch: Path, settings: CorpusBenchSettings
) -> CorpusComparison:
    encoder = load_tokenizer(tokenizer)
    sentences = [
        sentence
        for source in find_sources(texts)
        for portion in source_chunks(source)
        for document in read_documents(portion, settings.reading_settings(), ReadErrors(skip=True))
        for sentence in document
    ]
    seconds, peer_seconds, token_count = [], [], 0
    for turn in range(settings.runs):
        corpus_settings = CorpusSettings(**asdict(settings.reading_settings()), keep_duplicates=True)
        seconds.append(_seconds(lambda: build_corpus(texts, tokenizer, scratch / str(turn), corpus_settings)))  # noqa: B023
        started = time.perf_counter()
        token_count = sum(
            sum(
                map(
                    len,
                    encoder.backend.encode_batch_fast(sentences[at : at + 10_000], add_special_tokens=False),
                )
            )
            for at in range(0, len(sentences), 10_000)
        )
        peer_seconds.append(time.perf_counter() - started)
    peer = "tokenizers, sentences in memory"
    return CorpusComparison(
        "build", "pieces/s", token_count / median(seconds), token_count / median(peer_seconds), peer
    )


def _measure_sampling(
    corpus: Corpus, sampler: PretrainDataset, settings: CorpusBenchSettings
) -> CorpusComparison:
    """Draw samples on one core, ours and the reference's in turn."""
    shard = corpus.shards("train")[0]
    token_count = min(len(shard.tokens), 200_000)
    last = max(1, int(np.searchsorted(shard.document_offsets, np.int32(token_count), side="right")) - 1)
    starts = shard.word_starts(0, int(shard.document_offsets[last]))
    texts: list[list[list[tuple[int, bool]]]] = []
    for number in range(last):
        first, end = int(shard.document_offsets[number]), int(shard.document_offsets[number + 1])
        low, high = np.searchsorted(shard.sentence_starts, [np.uint32(first), np.uint32(end)])
        cuts = [*shard.sentence_starts[low:high].tolist(), end]
        texts.append(
            [
                list(zip(shard.tokens[a:b].tolist(), starts[a:b].tolist(), strict=True))
                for a, b in pairwise(cuts)
            ]
        )
    rates, peer_rates = [], []
    vocab_size = corpus.manifest.vocab_size
    for turn in range(settings.runs):
        places = np.arange(turn * _SAMPLES, (turn + 1) * _SAMPLES)
        rates.append(_SAMPLES / _seconds(lambda: sampler.draw(places)))  # noqa: B023
        sample_count, rng = 0, random.Random(turn)
        started = time.perf_counter()
        for text in texts:
            sample_count += len(
                reference_masking.reference_instances(
                    text,
                    max_length=settings.max_length,
                    short_fraction=0.1,
                    max_masked=77,
                    vocab_size=vocab_size,
                    rng=rng,
                )
            )
        peer_rates.append(sample_count / (time.perf_counter() - started))
    return CorpusComparison(
        "pairs and masks, one core", "samples/s", median(rates), median(peer_rates), "reference algorithm"
    )


def _measure_batches(sampler: PretrainDataset, settings: CorpusBenchSettings) -> CorpusComparison:
    """Take batches as training does, from as many workers as there are cores."""
    workers = os.cpu_count() or 1
    rates = []
    for _ in range(settings.runs):
        batches = iter(BatchLoader(sampler, 64 * settings.max_length, workers=workers))
        next(batches)  # the processes are there
        started = time.perf_counter()
        samples = sum(len(batch.strip) for batch in islice(batches, 100))
        rates.append(samples / (time.perf_counter() - started))
    return CorpusComparison(f"batches, {workers} workers", "samples/s", median(rates), None, "")


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def show_corpus(lines: Iterator[CorpusComparison], *, as_json: bool) -> None:
    """Print the table."""
    if as_json:
        print(json.dumps({"lines": [asdict(line) for line in lines]}, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("what", "ours", "peer's", "ratio", "unit", "peer"):
        table.add_column(
            title, justify="left" if title in ("what", "unit", "peer") else "right", no_wrap=True
        )
    for line in lines:
        theirs, ratio = (
            (f"{line.peer_rate:,.0f}", f"{line.rate / line.peer_rate:.2f}") if line.peer_rate else ("", "")
        )
        table.add_row(line.name, f"{line.rate:,.0f}", theirs, ratio, line.unit, line.peer)
    progress.result_console().print(table)
