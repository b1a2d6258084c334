"""Benchmark of corpus building and sampling.

Three things are timed:

- building, from text files to shards; the peer is the `tokenizers` library, which encodes
  the same sentences from memory on the same cores;
- drawing samples with pairs and masks on one core; the peer is the reference algorithm
  (`reference_masking`);
- loading these samples as batches for training, with worker processes; without a peer.
"""

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
from albertine.corpus.masking import prediction_count
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.text.documents import ReadErrors, read_documents
from albertine.text.sources import find_sources, source_chunks
from albertine.text.tokenizer import load_tokenizer

_SAMPLES = 2000


@dataclass(frozen=True)
class CorpusComparison:
    """One line of the result.

    Attributes:
        name: name of the benchmark.
        unit: unit of the rates.
        rate: Albertine's rate, the median of all runs.
        peer_rate: the peer's rate; None without a peer.
        peer: description of the peer.
    """

    name: str
    unit: str
    rate: float
    peer_rate: float | None
    peer: str


def measure_corpus(
    texts: tuple[str, ...], tokenizer_folder: Path, settings: CorpusBenchSettings
) -> Iterator[CorpusComparison]:
    """Measure building, sampling and batches; yield each result as soon as it is measured."""
    with progress.quiet_output(), tempfile.TemporaryDirectory() as scratch:
        yield _measure_building(texts, tokenizer_folder, Path(scratch), settings)
        corpus = Corpus(Path(scratch) / "0")
        dataset = PretrainDataset(corpus, ObjectiveSettings(max_length=settings.max_length))
        yield _measure_sampling(corpus, dataset, settings)
        yield _measure_batches(dataset, settings)


def _measure_building(
    texts: tuple[str, ...], tokenizer_folder: Path, scratch: Path, settings: CorpusBenchSettings
) -> CorpusComparison:
    tokenizer = load_tokenizer(tokenizer_folder)
    sentences = [
        sentence
        for source in find_sources(texts)
        for chunk in source_chunks(source)
        for document in read_documents(chunk, settings.reading_settings(), ReadErrors(skip=True))
        for sentence in document
    ]
    seconds, peer_seconds, token_count = [], [], 0
    for run in range(settings.runs):
        corpus_settings = CorpusSettings(**asdict(settings.reading_settings()), keep_duplicates=True)
        out = scratch / str(run)
        seconds.append(_seconds(lambda: build_corpus(texts, tokenizer_folder, out, corpus_settings)))  # noqa: B023
        started = time.perf_counter()
        token_count = sum(
            sum(
                map(
                    len,
                    tokenizer.backend.encode_batch_fast(
                        sentences[start : start + 10_000], add_special_tokens=False
                    ),
                )
            )
            for start in range(0, len(sentences), 10_000)
        )
        peer_seconds.append(time.perf_counter() - started)
    peer = "tokenizers, sentences in memory"
    return CorpusComparison(
        "build", "tokens/s", token_count / median(seconds), token_count / median(peer_seconds), peer
    )


def _measure_sampling(
    corpus: Corpus, dataset: PretrainDataset, settings: CorpusBenchSettings
) -> CorpusComparison:
    """Measure sampling on one core; runs of Albertine and of the reference algorithm alternate."""
    shard = corpus.shards("train")[0]
    token_count = min(len(shard.tokens), 200_000)
    document_count = max(
        1, int(np.searchsorted(shard.document_offsets, np.int32(token_count), side="right")) - 1
    )
    word_starts = shard.word_starts(0, int(shard.document_offsets[document_count]))
    documents: list[list[list[tuple[int, bool]]]] = []
    for number in range(document_count):
        start, end = int(shard.document_offsets[number]), int(shard.document_offsets[number + 1])
        low, high = np.searchsorted(shard.sentence_starts, [np.uint32(start), np.uint32(end)])
        sentence_offsets = [*shard.sentence_starts[low:high].tolist(), end]
        documents.append(
            [
                list(zip(shard.tokens[a:b].tolist(), word_starts[a:b].tolist(), strict=True))
                for a, b in pairwise(sentence_offsets)
            ]
        )
    rates, peer_rates = [], []
    vocab_size = corpus.manifest.vocab_size
    for run in range(settings.runs):
        indices = np.arange(run * _SAMPLES, (run + 1) * _SAMPLES)
        rates.append(_SAMPLES / _seconds(lambda: dataset.draw(indices)))  # noqa: B023
        sample_count, rng = 0, random.Random(run)
        started = time.perf_counter()
        for document in documents:
            sample_count += len(
                reference_masking.reference_instances(
                    document,
                    max_length=settings.max_length,
                    short_fraction=0.1,
                    max_masked=prediction_count(settings.max_length, dataset.objective),
                    vocab_size=vocab_size,
                    rng=rng,
                )
            )
        peer_rates.append(sample_count / (time.perf_counter() - started))
    return CorpusComparison(
        "pairs and masks, one core", "samples/s", median(rates), median(peer_rates), "reference algorithm"
    )


def _measure_batches(dataset: PretrainDataset, settings: CorpusBenchSettings) -> CorpusComparison:
    """Measure batches as training loads them, with one worker per core."""
    workers = os.cpu_count() or 1
    rates = []
    for _ in range(settings.runs):
        batches = iter(BatchLoader(dataset, 64 * settings.max_length, workers=workers))
        list(islice(batches, 8 * workers))  # the workers start, and what they draw in advance is used up
        started = time.perf_counter()
        samples = sum(len(batch.strip) for batch in islice(batches, 100))
        rates.append(samples / (time.perf_counter() - started))
    return CorpusComparison(f"batches, {workers} workers", "samples/s", median(rates), None, "")


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def show_corpus(lines: Iterator[CorpusComparison], *, as_json: bool) -> None:
    """Print the results as a table or JSON."""
    if as_json:
        progress.print_json({"lines": [asdict(line) for line in lines]})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("benchmark", "ours", "peer's", "ratio", "unit", "peer"):
        table.add_column(
            title, justify="left" if title in ("benchmark", "unit", "peer") else "right", no_wrap=True
        )
    for line in lines:
        peer_rate, ratio = (
            (f"{line.peer_rate:,.0f}", f"{line.rate / line.peer_rate:.2f}") if line.peer_rate else ("", "")
        )
        table.add_row(line.name, f"{line.rate:,.0f}", peer_rate, ratio, line.unit, line.peer)
    progress.result_console().print(table)
