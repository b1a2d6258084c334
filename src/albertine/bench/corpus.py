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
from albertine.bench import reference
from albertine.bench.settings import CorpusBench
from albertine.corpus.batches import Batches
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.samples import Sampler
from albertine.corpus.settings import CorpusSettings, Objective
from albertine.text.documents import Troubles, documents
from albertine.text.sources import find_sources, portions_of
from albertine.text.tokenizer import load_tokenizer

_SAMPLES = 2000


@dataclass(frozen=True)
class Measured:
    """One line: what was done, how many a second, and how many the peer did."""

    what: str
    unit: str
    ours: float
    theirs: float | None
    peer: str


def measure(texts: tuple[str, ...], tokenizer: Path, settings: CorpusBench) -> Iterator[Measured]:
    """Measure building and sampling in turn."""
    progress.be_quiet(True)
    with tempfile.TemporaryDirectory() as scratch:
        yield _building(texts, tokenizer, Path(scratch), settings)
        corpus = Corpus(Path(scratch) / "0")
        sampler = Sampler(corpus, Objective(max_length=settings.length))
        yield _sampling(corpus, sampler, settings)
        yield _batches(sampler, settings)


def _building(texts: tuple[str, ...], tokenizer: Path, scratch: Path, settings: CorpusBench) -> Measured:
    bare = load_tokenizer(tokenizer)
    sentences = [
        sentence
        for source in find_sources(texts)
        for portion in portions_of(source)
        for document in documents(portion, settings.reading(), Troubles(skip=True))
        for sentence in document
    ]
    ours, theirs, pieces = [], [], 0
    for turn in range(settings.runs):
        asked = CorpusSettings(**asdict(settings.reading()), keep_duplicates=True)
        ours.append(_seconds(lambda: build_corpus(texts, tokenizer, scratch / str(turn), asked)))  # noqa: B023
        started = time.perf_counter()
        pieces = sum(
            sum(
                map(
                    len, bare.backend.encode_batch_fast(sentences[at : at + 10_000], add_special_tokens=False)
                )
            )
            for at in range(0, len(sentences), 10_000)
        )
        theirs.append(time.perf_counter() - started)
    peer = "tokenizers, sentences in memory"
    return Measured("build", "pieces/s", pieces / median(ours), pieces / median(theirs), peer)


def _sampling(corpus: Corpus, sampler: Sampler, settings: CorpusBench) -> Measured:
    """Draw samples on one core, ours and the reference's in turn."""
    shard = corpus.shards("train")[0]
    pieces = min(len(shard.tokens), 200_000)
    last = max(1, int(np.searchsorted(shard.documents, np.int32(pieces), side="right")) - 1)
    starts = shard.starts(0, int(shard.documents[last]))
    texts: list[list[list[tuple[int, bool]]]] = []
    for number in range(last):
        first, end = int(shard.documents[number]), int(shard.documents[number + 1])
        low, high = np.searchsorted(shard.sentences, [np.uint32(first), np.uint32(end)])
        cuts = [*shard.sentences[low:high].tolist(), end]
        texts.append(
            [
                list(zip(shard.tokens[a:b].tolist(), starts[a:b].tolist(), strict=True))
                for a, b in pairwise(cuts)
            ]
        )
    ours, theirs = [], []
    vocab_size = corpus.manifest.vocab_size
    for turn in range(settings.runs):
        places = np.arange(turn * _SAMPLES, (turn + 1) * _SAMPLES)
        ours.append(_SAMPLES / _seconds(lambda: sampler.draw(places)))  # noqa: B023
        made, draw = 0, random.Random(turn)
        started = time.perf_counter()
        for text in texts:
            made += len(
                reference.instances(
                    text, length=settings.length, short=0.1, most_masked=77, vocab_size=vocab_size, draw=draw
                )
            )
        theirs.append(made / (time.perf_counter() - started))
    return Measured(
        "pairs and masks, one core", "samples/s", median(ours), median(theirs), "reference algorithm"
    )


def _batches(sampler: Sampler, settings: CorpusBench) -> Measured:
    """Take batches as training does, from as many workers as there are cores."""
    workers = os.cpu_count() or 1
    rates = []
    for _ in range(settings.runs):
        batches = iter(Batches(sampler, 64 * settings.length, workers=workers))
        next(batches)  # the processes are there
        started = time.perf_counter()
        samples = sum(len(batch.strip) for batch in islice(batches, 100))
        rates.append(samples / (time.perf_counter() - started))
    return Measured(f"batches, {workers} workers", "samples/s", median(rates), None, "")


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def show(lines: Iterator[Measured], *, as_json: bool) -> None:
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
        theirs, ratio = (f"{line.theirs:,.0f}", f"{line.ours / line.theirs:.2f}") if line.theirs else ("", "")
        table.add_row(line.what, f"{line.ours:,.0f}", theirs, ratio, line.unit, line.peer)
    progress.results().print(table)
