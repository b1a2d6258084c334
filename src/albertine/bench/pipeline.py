"""`albertine bench pipeline`: text in and labels out, compared with the bare engine.

A caller waits for more than the products of a network: for tokenization, packing and the labels. The peer is
the same engine with token ids that are ready. A library that runs a graph of all layers gets padded batches
of 32, in the order in which the texts arrive and sorted by length, as other programs run it; torch, and an
export with exits, get strips. The texts have as many tokens as the sentences of SST-2. Both sides are
measured in turn.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from rich.markup import escape

from albertine import progress
from albertine.bench.model import SST2_LENGTHS
from albertine.bench.settings import PipelineBenchSettings
from albertine.device import choose_device, synchronized_time
from albertine.engines.engine import Engine
from albertine.engines.exported_engine import padded_inputs
from albertine.engines.single_graph_engine import SingleGraphEngine
from albertine.errors import InputError
from albertine.inference.finetuned_model import load_finetuned
from albertine.inference.pipeline import Pipeline
from albertine.model.strip import Strip
from albertine.settings.engine import EngineOptions
from albertine.tasks.sequences import split_by_tokens
from albertine.text.tokenizer import Tokenizer

_SENTENCES, _PADDED_BATCH = 512, 32
_MAX_WORDS = 1_000
_SPECIAL_TOKENS = 2


@dataclass(frozen=True)
class PipelineResult:
    """The two sides on one workload.

    Attributes:
        workload: what was measured.
        tokens: number of tokens, without padding.
        pipeline_seconds: median time from texts to labels.
        engine_seconds: median time of the bare engine from token ids to logits.
        ratio: median of the ratios of engine time to pipeline time, of measurements beside each other; 1 if
            the pipeline costs nothing, more if packing saves more than the rest costs.
    """

    workload: str
    tokens: int
    pipeline_seconds: float
    engine_seconds: float
    ratio: float


def measure_pipeline(source: str, settings: PipelineBenchSettings) -> tuple[str, list[PipelineResult]]:
    """Return the name of the engine, and the result of each workload."""
    model = load_finetuned(source, EngineOptions(settings.device, settings.precision, settings.engine))
    pipeline = Pipeline(model)
    required = {(one.name, one.type) for one in pipeline.input_fields if one.required}
    if required != {("text", "text")}:
        raise InputError(
            f"{source}: of type {pipeline.type_name}; the benchmark needs a model of single texts, such as a "
            "classifier"
        )
    words = _words(model.tokenizer)
    longest = min(128, pipeline.max_length)
    sentences = np.random.default_rng(0).choice(SST2_LENGTHS, _SENTENCES).clip(max=longest).tolist()
    has_rows = isinstance(model.engine, SingleGraphEngine)
    arrival = "as they arrive" if has_rows else "in strips"
    workloads = {
        f"one text of {min(16, longest)} tokens": ([min(16, longest)], False),
        f"8 texts of {longest} tokens": ([longest] * 8, False),
        f"{_SENTENCES} sentences, {arrival}": (sentences, False),
        **({f"{_SENTENCES} sentences, sorted": (sentences, True)} if has_rows else {}),
    }
    results = []
    for name, (lengths, is_sorted) in progress.track(workloads.items(), "Measuring", unit="workloads"):
        texts = _texts(words, lengths)
        ids = [model.tokenizer.encode_with_special_tokens(text)[0] for text in texts]
        run_engine = _bare_engine(model.engine, sorted(ids, key=len) if is_sorted else ids)
        runs = settings.runs * (10 if len(texts) == 1 else 1)
        sides = partial(pipeline, texts), run_engine
        results.append(_measure(name, sum(map(len, ids)), sides, runs, choose_device(settings.device)))
    return model.engine.name, results


def _measure(
    name: str,
    tokens: int,
    sides: tuple[Callable[[], Any], Callable[[], Any]],
    runs: int,
    device: torch.device,
) -> PipelineResult:
    """Measure both sides in turn; the first calls choose kernels for their shapes, and do not count."""
    times = [tuple(_seconds(side, device) for side in sides) for _ in range(runs + 1)][1:]
    ours, bare = zip(*times, strict=True)
    return PipelineResult(
        name, tokens, median(ours), median(bare), median(engine / whole for whole, engine in times)
    )


def _seconds(run: Callable[[], Any], device: torch.device) -> float:
    started = synchronized_time(device)
    run()
    return synchronized_time(device) - started


def _words(tokenizer: Tokenizer) -> list[tuple[str, int]]:
    """Return words of the vocabulary with their number of tokens, which is the smallest that there is."""
    words: dict[str, int] = {}
    for number in np.random.default_rng(0).permutation(len(tokenizer)).tolist():
        word = tokenizer.decode([number]).strip()
        if word.isalpha():
            words[word] = len(tokenizer.encode(word, add_special_tokens=False))
    fewest = min(words.values(), default=0)
    if not fewest:
        raise InputError("the tokenizer has no token of letters, from which the benchmark makes its texts")
    return [item for item in words.items() if item[1] == fewest][:_MAX_WORDS]


def _texts(words: Sequence[tuple[str, int]], lengths: Sequence[int]) -> list[str]:
    """Return texts of these numbers of tokens or a little less, [CLS] and [SEP] included."""
    rng = np.random.default_rng(1)
    names, tokens = [word for word, _ in words], words[0][1]
    counts = [max(1, (length - _SPECIAL_TOKENS) // tokens) for length in lengths]
    return [" ".join(rng.choice(names, count)) for count in counts]


def _bare_engine(engine: Engine, sequences: Sequence[Sequence[int]]) -> Callable[[], Any]:
    """Return a function that runs an engine on token ids that are ready, in its usual batches."""
    if not isinstance(engine, SingleGraphEngine):
        strips = _strips(sequences, engine.micro_batch_tokens)
        return lambda: [engine.run(strip) for strip in strips]
    batches = [
        padded_inputs(Strip.from_sequences(sequences[start : start + _PADDED_BATCH]))
        for start in range(0, len(sequences), _PADDED_BATCH)
    ]
    return lambda: [engine.run_rows(batch) for batch in batches]


def _strips(sequences: Sequence[Sequence[int]], max_tokens: int) -> list[Strip]:
    """Return strips of at most `max_tokens`, the longest sequences first."""
    groups = split_by_tokens(sorted(sequences, key=len, reverse=True), len, max_tokens)
    return [Strip.from_sequences(group) for group in groups]


def show_pipeline(engine: str, results: Sequence[PipelineResult], *, as_json: bool) -> None:
    """Print the results as a table or JSON."""
    if as_json:
        progress.print_json({"engine": engine, "workloads": [asdict(result) for result in results]})
        return
    table = progress.result_table("", "text to labels", "tokens/s", "bare engine", "ratio")
    for result in results:
        table.add_row(
            escape(result.workload),
            f"{1000 * result.pipeline_seconds:,.1f} ms",
            f"{result.tokens / result.pipeline_seconds:,.0f}",
            f"{1000 * result.engine_seconds:,.1f} ms",
            f"{result.ratio:.2f}",
        )
    console = progress.result_console()
    console.print(escape(engine), highlight=False)
    console.print(table)
    print(
        "Ratio: time of the bare engine, with token ids that are ready, divided by that of the pipeline; "
        "the median of the ratios of measurements beside each other, so not the quotient of the medians."
    )
