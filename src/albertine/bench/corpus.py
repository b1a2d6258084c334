"""Benchmark of corpus building and sampling.

Three things are timed:

- building, from text files to shards; the peer is the `tokenizers` library, which encodes
  the same sentences from memory on the same cores;
- drawing samples with pairs and masks on one core; the peer is the reference algorithm
  (`reference_masking`);
- loading these samples as batches for training, with worker processes; without a peer.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from albertine import progress
from albertine.bench.finished_results import show_finished
from albertine.bench.reference_masking import ReferenceDocument, reference_instances
from albertine.bench.settings import CorpusBenchSettings
from albertine.corpus.batches import BatchLoader
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.masking import prediction_count
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.corpus.shards import Shard
from albertine.processes import num_cores
from albertine.text.documents import read_documents
from albertine.text.find_sources import find_sources
from albertine.text.language_detection import resolve_reading_language
from albertine.text.read_errors import ReadErrors
from albertine.text.settings import ReadingSettings
from albertine.text.sources import source_chunks
from albertine.text.tokenizer import Tokenizer, load_tokenizer

T = TypeVar("T")

_SAMPLES = 2000  # of each run of Albertine
_REFERENCE_TOKENS = 200_000  # of the documents for the reference algorithm, which is slow
_PEER_BATCH = 10_000  # sentences of one call of the peer, which limits the memory of its results


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
    """Measure building on all cores; runs of Albertine and of the peer alternate."""
    corpus_settings = CorpusSettings(**asdict(settings.reading_settings()), keep_duplicates=True)
    tokenizer = load_tokenizer(tokenizer_folder)
    sentences = read_sentences(texts, settings.reading_settings())
    seconds, peer_seconds, token_count = [], [], 0
    for run in range(settings.runs):
        build = partial(build_corpus, texts, tokenizer_folder, scratch / str(run), corpus_settings)
        _, build_seconds = _timed(build)
        token_count, encode_seconds = _timed(partial(_encode_with_peer, tokenizer, sentences))
        seconds.append(build_seconds)
        peer_seconds.append(encode_seconds)
    return CorpusComparison(
        "build",
        "tokens/s",
        token_count / median(seconds),
        token_count / median(peer_seconds),
        "tokenizers, sentences in memory",
    )


def read_sentences(texts: tuple[str, ...], reading: ReadingSettings) -> list[str]:
    """Return the sentences that a corpus of the texts has, split by the rules of the same language."""
    sources = find_sources(texts)
    reading = resolve_reading_language(reading, sources)
    return [
        sentence
        for source in sources
        for chunk in source_chunks(source)
        for document in read_documents(chunk, reading, ReadErrors(skip=True))
        for sentence in document
    ]


def _encode_with_peer(tokenizer: Tokenizer, sentences: list[str]) -> int:
    """Encode sentences with the `tokenizers` library; return their number of tokens."""
    token_count = 0
    for start in range(0, len(sentences), _PEER_BATCH):
        batch = sentences[start : start + _PEER_BATCH]
        encodings = tokenizer.backend.encode_batch_fast(batch, add_special_tokens=False)
        token_count += sum(len(encoding) for encoding in encodings)
    return token_count


def _measure_sampling(
    corpus: Corpus, dataset: PretrainDataset, settings: CorpusBenchSettings
) -> CorpusComparison:
    """Measure sampling on one core; runs of Albertine and of the reference algorithm alternate."""
    documents = _reference_documents(corpus)
    rates, peer_rates = [], []
    for run in range(settings.runs):
        indices = np.arange(run * _SAMPLES, (run + 1) * _SAMPLES)
        samples, seconds = _timed(partial(dataset.draw, indices))
        rates.append(len(samples) / seconds)
        peer_samples, peer_seconds = _timed(
            partial(_draw_with_peer, documents, dataset.objective, corpus.manifest.vocab_size, run)
        )
        peer_rates.append(peer_samples / peer_seconds)
    return CorpusComparison(
        "pairs and masks, one core", "samples/s", median(rates), median(peer_rates), "reference algorithm"
    )


def _reference_documents(corpus: Corpus) -> list[ReferenceDocument]:
    """Return the first documents of a corpus, at least one, as the reference algorithm reads them."""
    shard = corpus.shards("train")[0]
    num_documents = max(1, shard.document_index(min(len(shard.tokens), _REFERENCE_TOKENS)))
    offsets = shard.document_offsets[: num_documents + 1].tolist()
    return [_reference_document(shard, start, stop) for start, stop in pairwise(offsets)]


def _reference_document(shard: Shard, start: int, stop: int) -> ReferenceDocument:
    """Return the sentences of the tokens from `start` to `stop` of a shard."""
    tokens = shard.tokens[start:stop].tolist()
    word_starts = shard.word_starts(start, stop).tolist()
    first, end = np.searchsorted(shard.sentence_starts, np.array([start, stop], np.uint32))
    bounds = [*(shard.sentence_starts[first:end] - start).tolist(), stop - start]
    return [list(zip(tokens[a:b], word_starts[a:b], strict=True)) for a, b in pairwise(bounds)]


def _draw_with_peer(
    documents: list[ReferenceDocument], objective: ObjectiveSettings, vocab_size: int, seed: int
) -> int:
    """Draw the samples of documents with the reference algorithm; return their number."""
    rng = random.Random(seed)
    sample_count = 0
    for document in documents:
        samples = reference_instances(
            document,
            max_length=objective.max_length,
            short_fraction=objective.short_seq_prob,
            max_masked=prediction_count(objective.max_length, objective),
            vocab_size=vocab_size,
            rng=rng,
        )
        sample_count += len(samples)
    return sample_count


def _measure_batches(dataset: PretrainDataset, settings: CorpusBenchSettings) -> CorpusComparison:
    """Measure batches as training loads them, with one worker per core."""
    workers = num_cores()
    rates = []
    for _ in range(settings.runs):
        batches = iter(BatchLoader(dataset, 64 * settings.max_length, workers=workers))
        # Do not measure the start of the workers and the batches that they have drawn in advance.
        for _ in islice(batches, 8 * workers):
            pass
        started = time.perf_counter()
        samples = sum(len(batch.strip) for batch in islice(batches, 100))
        rates.append(samples / (time.perf_counter() - started))
    return CorpusComparison(f"batches, {workers} workers", "samples/s", median(rates), None, "")


def _timed(function: Callable[[], T]) -> tuple[T, float]:
    """Return the result of a function, and the seconds that it took."""
    started = time.perf_counter()
    result = function()
    return result, time.perf_counter() - started


def show_corpus(lines: Iterator[CorpusComparison], *, as_json: bool) -> None:
    """Print the results as a table or JSON; if a measurement fails or is interrupted, those before it."""
    show_finished(lines, partial(_print_corpus, as_json=as_json))


def _print_corpus(lines: Sequence[CorpusComparison], *, as_json: bool) -> None:
    if as_json:
        progress.print_json({"lines": [asdict(line) for line in lines]})
        return
    table = progress.result_table(
        *("benchmark", "ours", "peer's", "ratio", "unit", "peer"), left_aligned=("benchmark", "unit", "peer")
    )
    for line in lines:
        peer_rate, ratio = (
            (f"{line.peer_rate:,.0f}", f"{line.rate / line.peer_rate:.2f}") if line.peer_rate else ("", "")
        )
        table.add_row(line.name, f"{line.rate:,.0f}", peer_rate, ratio, line.unit, line.peer)
    progress.result_console().print(table)
