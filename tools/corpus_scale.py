"""Measure how the time and the memory of `albertine corpus build` grow with the text.

    python tools/corpus_scale.py novels/ --tokenizer my-tokenizer --scratch scale --gigabytes 0.25 0.5 1
    python tools/corpus_scale.py --scratch scale --documents 250000 500000 1000000
    python tools/corpus_scale.py --scratch scale --documents 5000000 10000000 --tokens-per-document 1

The first command repeats the text up to each size, with numbers appended to some of its words, so that
documents differ, and builds a corpus of it. The others run the second phase of a build alone, on parts of
random tokens: 250,000 documents of 1,000 tokens are about 1 GB of text. Each size is measured in a new
process. The table has the seconds of each stage, elapsed and of the processors; the peak memory of the
process that builds, and of the largest of its workers; and a straight line through the sizes, extended to
10 GB and 1 TB.

A size needs about three times its bytes in the scratch folder; they are removed after its build.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np

from albertine import progress
from albertine.corpus import build, shard_writer
from albertine.corpus.settings import CorpusSettings
from albertine.corpus.shards import EncodedDocuments, to_record_batch, write_record_batches

HELD_OUT = 0.01
DOCUMENT_CHARACTERS = 4000
WORDS_PER_NUMBER = 25  # every so many words, one gets a number
FILE_BYTES = 256 << 20
VOCAB_SIZE = 30_000
TOKENS_PER_SENTENCE = 25
DOCUMENTS_PER_PART = 2000  # 8 MB of text, as a job has, in documents of 4,000 characters
STAGES = {
    "encode text": (build, "run_jobs"),
    "find duplicates": (shard_writer, "first_occurrences"),
    "choose held-out text": (shard_writer, "choose_held_out"),
}
DOCUMENTS_PER_GIGABYTE = 250_000
PROJECTED_GIGABYTES = (10, 1000)

Measurement = dict[str, float]


def read_source_documents(texts: Sequence[Path]) -> list[str]:
    """Return the paragraphs of text files, joined to documents of about 4,000 characters."""
    files = sorted(file for text in texts for file in (text.glob("*.txt") if text.is_dir() else [text]))
    documents, paragraphs, size = [], [], 0
    for paragraph in (part for file in files for part in file.read_text("utf-8").split("\n\n")):
        paragraphs.append(" ".join(paragraph.split()))
        size += len(paragraph)
        if size >= DOCUMENT_CHARACTERS:
            documents.append(" ".join(paragraphs))
            paragraphs, size = [], 0
    return [*documents, " ".join(paragraphs)]


def numbered_documents(documents: Sequence[str]) -> Iterator[str]:
    """Yield documents again and again, each time with other numbers after some of its words."""
    rng = random.Random(0)
    for _ in count():
        for document in documents:
            words = document.split(" ")
            for index in range(
                rng.randrange(min(len(words), WORDS_PER_NUMBER)), len(words), WORDS_PER_NUMBER
            ):
                words[index] += str(rng.randrange(10_000))
            yield " ".join(words)


def write_text(folder: Path, documents: Sequence[str], size: int) -> None:
    """Write at least `size` bytes of numbered documents as files of JSON lines."""
    folder.mkdir()
    texts = numbered_documents(documents)
    for number in count():
        with (folder / f"{number:04d}.jsonl").open("wb") as file:
            while file.tell() < FILE_BYTES:
                size -= file.write(json.dumps({"text": next(texts)}).encode() + b"\n")
                if size <= 0:
                    return


def measure_build(text: Path, tokenizer: Path, out: Path, workers: int) -> Measurement:
    """Return the seconds of the stages of a build, and the peak memory in MB."""
    settings = CorpusSettings(held_out=HELD_OUT, language="en", workers=workers)
    return measure_stages(STAGES, lambda: build.build_corpus([str(text)], tokenizer, out, settings))


def measure_second_phase(folder: Path, num_documents: int, tokens_per_document: int) -> Measurement:
    """Return the seconds of the stages of the second phase, and the peak memory in MB."""
    rng = np.random.default_rng(0)
    offsets = np.arange(DOCUMENTS_PER_PART + 1) * tokens_per_document
    sentence_starts = np.arange(0, offsets[-1], min(tokens_per_document, TOKENS_PER_SENTENCE))
    parts = [folder / f"part-{number:06d}.arrow" for number in range(num_documents // DOCUMENTS_PER_PART)]
    for part in parts:
        tokens = rng.integers(0, VOCAB_SIZE, offsets[-1], np.uint16)
        fingerprints = rng.integers(0, 1 << 64, (DOCUMENTS_PER_PART, 2), np.uint64)
        documents = EncodedDocuments(tokens, tokens % 2 == 0, sentence_starts, offsets)
        write_record_batches(part, [to_record_batch(documents, fingerprints)])
    settings = CorpusSettings(held_out=HELD_OUT)
    stages = {stage: STAGES[stage] for stage in ("find duplicates", "choose held-out text")}
    return measure_stages(stages, lambda: shard_writer.write_shards(parts, folder, VOCAB_SIZE, settings))


def measure_stages(stages: Mapping[str, tuple[ModuleType, str]], work: Callable[[], object]) -> Measurement:
    """Return the seconds of some functions while `work` runs, of its other functions, and the peak memory."""
    progress.set_quiet(True)
    elapsed, processor = dict[str, float](), dict[str, float]()

    def timed(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            started, processor_started = time.perf_counter(), processor_seconds()
            result = function(*arguments)
            elapsed[stage] = time.perf_counter() - started
            processor[stage] = processor_seconds() - processor_started
            return result

        return run

    with ExitStack() as patches:
        for stage, (module, name) in stages.items():
            patches.enter_context(patch.object(module, name, timed(stage, getattr(module, name))))
        timed("all", work)()
    for seconds in (elapsed, processor):
        seconds["write shards and rest"] = 2 * seconds["all"] - sum(seconds.values())
    names = (*stages, "write shards and rest", "all")
    return {
        **{f"{name}, s": elapsed[name] for name in names},
        **{f"{name}, processor s": processor[name] for name in names},
        **peak_memory(),
    }


def processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def peak_memory() -> Measurement:
    """Return the peak memory of this process and of its largest child, in MB, with memory-mapped files.

    That of a child also counts what this process had when it started it.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    # On Linux, `getrusage` of this process would count that of its parent, too.
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    own = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return {"peak MB": own / 1e6, "peak MB of a worker": children / 1e6}


def in_new_process(function: Callable[..., Measurement], *arguments: Any) -> Measurement:
    """Return the result of a function, called in a new process, whose peak memory is its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def print_table(unit: str, measurements: dict[float, Measurement], projected: Sequence[float]) -> None:
    """Print one line for each stage: its measurements, seconds per unit, and the projections."""
    sizes = list(measurements)
    header = [
        "",
        *(f"{size:g} {unit}" for size in sizes),
        f"per {unit}",
        *(f"{size:g} {unit}" for size in projected),
    ]
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for name in measurements[sizes[0]]:
        values = [measurements[size][name] for size in sizes]
        cells = [f"{value:.1f}" for value in values]
        if len(sizes) > 1 and "MB" not in name:
            slope, intercept = np.polyfit(sizes, values, 1)
            cells += [f"{slope:.2f}", *(f"{intercept + slope * size:,.0f}" for size in projected)]
        print("| " + " | ".join([name, *cells]) + " |")


def main(arguments: Sequence[str]) -> None:
    """Measure all sizes and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", nargs="*", type=Path, help="text files, or folders of .txt files")
    parser.add_argument("--tokenizer", type=Path, help="folder of a tokenizer")
    parser.add_argument("--scratch", type=Path, required=True, help="folder for text and corpora")
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[], help="sizes of the text")
    parser.add_argument("--documents", type=int, nargs="+", default=[], help="numbers of documents")
    parser.add_argument("--tokens-per-document", type=int, default=1000, help="tokens of each of them")
    parser.add_argument("--workers", type=int, default=0, help="processes that encode text; 0: one per core")
    options = parser.parse_args(arguments)
    if options.gigabytes and not (options.text and options.tokenizer):
        parser.error("--gigabytes needs text and --tokenizer")
    if any(number < DOCUMENTS_PER_PART for number in options.documents):
        parser.error(f"--documents: at least {DOCUMENTS_PER_PART:,}")
    options.scratch.mkdir(parents=True, exist_ok=True)
    measurements: dict[float, Measurement] = {}
    source = read_source_documents(options.text) if options.gigabytes else []
    for size in options.gigabytes:
        with TemporaryDirectory(dir=options.scratch) as scratch:
            text, out = Path(scratch) / "text", Path(scratch) / "corpus"
            write_text(text, source, round(size * 1e9))
            measurements[size] = in_new_process(measure_build, text, options.tokenizer, out, options.workers)
    if measurements:
        print_table("GB", measurements, PROJECTED_GIGABYTES)
    measurements = {}
    for num_documents in options.documents:
        with TemporaryDirectory(dir=options.scratch) as scratch:
            sizes = (num_documents, options.tokens_per_document)
            measurements[num_documents / 1e6] = in_new_process(measure_second_phase, Path(scratch), *sizes)
    if measurements:
        projected = [DOCUMENTS_PER_GIGABYTE / 1e6 * size for size in PROJECTED_GIGABYTES]
        print_table("million documents", measurements, projected)


if __name__ == "__main__":
    main(sys.argv[1:])
