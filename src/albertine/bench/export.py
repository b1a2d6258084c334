"""`albertine bench export`: one model with every engine and precision, in one run.

Each engine has a process of its own. It is measured with one sentence, with full rows, and with
sentences of many lengths: packed into rows, as Albertine does, and in padded batches, as other
programs do, in the order in which they arrive and sorted by length.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil
import torch

from albertine import progress
from albertine.bench.model import SST2_LENGTHS
from albertine.bench.settings import EXPORT_ROW_TOKENS, ExportBenchSettings
from albertine.checksums import file_checksum
from albertine.device import has_fast_bf16
from albertine.engines.engine import Engine
from albertine.engines.exported_engine import padded_inputs
from albertine.engines.exported_folder import open_export
from albertine.engines.libraries import check_libraries
from albertine.engines.model_files import write_model
from albertine.engines.single_graph_engine import SingleGraphEngine
from albertine.engines.torch_engine import prepare_torch_engine
from albertine.executors.process_pool import ProcessPool
from albertine.export.int8 import quantize
from albertine.interop.export_record import ExportRecord
from albertine.interop.load_checkpoint import load_folder
from albertine.interop.save_checkpoint import save_folder, write_config
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.progress import format_bytes
from albertine.settings import HeadSettings
from albertine.settings.engine import EngineOptions
from albertine.settings.export import ExportFormat, ExportPrecision
from albertine.tasks.sequences import split_by_tokens

_ONE_SENTENCE = [16]  # tokens
_SENTENCES = 512
_PADDED_BATCH = 32
_CALIBRATION_STRIPS = 8
_FIRST_TOKEN = 5  # no special token


@dataclass(frozen=True)
class EngineCase:
    """An engine to measure.

    Attributes:
        engine: "torch", "onnx" or "openvino".
        weights: precision of its weights.
        precision: precision of the products that are not in int8.
    """

    engine: str
    weights: ExportPrecision
    precision: str

    @property
    def name(self) -> str:
        """Name in the table."""
        library = {"torch": "torch", "onnx": "ONNX Runtime", "openvino": "OpenVINO"}[self.engine]
        return f"{library}, {self.weights if self.weights == 'int8' else self.precision}"


@dataclass(frozen=True)
class EngineResult:
    """What was measured of an engine.

    Attributes:
        name: name of the engine.
        num_bytes: size of the files of the model.
        loaded_bytes: memory taken by loading the model and running one sentence.
        sentence_ms: milliseconds for one sentence of 16 tokens.
        full_rows: tokens per second of 8 rows of 128 tokens.
        packed: tokens per second of sentences with the lengths of SST-2.
        padded: tokens per second of these sentences in padded batches of 32, as they arrive; None for torch.
        padded_sorted: the same, sorted by length.
    """

    name: str
    num_bytes: int
    loaded_bytes: int
    sentence_ms: float
    full_rows: float
    packed: float
    padded: float | None
    padded_sorted: float | None


def measure_engines(settings: ExportBenchSettings) -> list[EngineResult]:
    """Return what was measured of each engine, with random weights."""
    cases = [EngineCase("torch", "fp32", "fp32"), EngineCase("onnx", "fp32", "fp32")]
    cases += [EngineCase("onnx", "int8", "fp32"), EngineCase("openvino", "fp32", "fp32")]
    if has_fast_bf16(torch.device("cpu")):
        cases += [EngineCase("torch", "fp32", "bf16"), EngineCase("openvino", "fp32", "bf16")]
    cases.append(EngineCase("openvino", "int8", "fp32"))
    formats: tuple[ExportFormat, ...] = ("onnx", "openvino")
    for to in formats:
        check_libraries(to, "int8")
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = Model(settings.model, HeadSettings("classify")).eval()
        save_folder(model, folder / "torch-fp32")
        for to in progress.track(formats, "Exporting", unit="formats"):
            _write_exports(model, folder, to)
        return [
            _in_new_process(case, folder, settings.runs)
            for case in progress.track(sorted(cases, key=lambda case: case.name), "Measuring", unit="engines")
        ]


def _write_exports(model: Model, folder: Path, to: ExportFormat) -> None:
    """Write the export of a model in fp32 and in int8."""
    calibration = _packed_strips(model, 1024)[:_CALIBRATION_STRIPS]
    precisions: tuple[ExportPrecision, ...] = ("fp32", "int8")
    for precision in precisions:
        out = folder / f"{to}-{precision}"
        out.mkdir()
        write_config(model, out)
        files = write_model(model, out, to, in_steps=False)
        _record(out, to, "fp32", files)
        if precision == "int8":
            quantize(out, to, calibration, in_steps=False)
            _record(out, to, "int8", [name for name in files if (out / name).exists()])


def _record(folder: Path, to: ExportFormat, precision: ExportPrecision, files: Sequence[str]) -> None:
    checksums = {name: file_checksum(folder / name) for name in files}
    ExportRecord(to, precision, False, checksums).write(folder)


def _in_new_process(case: EngineCase, folder: Path, runs: int) -> EngineResult:
    function = partial(_measure, folder=folder / f"{case.engine}-{case.weights}", runs=runs)
    ((_, result),) = ProcessPool(1).run(function, [case], advice="measure a smaller model: --model")
    return result


def _measure(case: EngineCase, folder: Path, runs: int) -> EngineResult:
    """Return what is measured of an engine in this process, which has not loaded it before."""
    engine, loaded_bytes = _load(case, folder)
    vocab_size = engine.model_settings.vocab_size
    one_sentence = _random_strip(_ONE_SENTENCE, vocab_size)
    full_rows = _random_strip([EXPORT_ROW_TOKENS] * 8, vocab_size)
    sentences = _sentence_lengths()
    strips = [_random_strip(lengths, vocab_size) for lengths in _groups(sentences, engine.micro_batch_tokens)]
    padded = padded_sorted = None
    if isinstance(engine, SingleGraphEngine):
        padded = _padded_rate(engine, sentences, runs)
        padded_sorted = _padded_rate(engine, sorted(sentences), runs)
    return EngineResult(
        name=case.name,
        num_bytes=sum(file.stat().st_size for file in folder.iterdir() if file.name.startswith("model.")),
        loaded_bytes=loaded_bytes,
        sentence_ms=1000 * _median_seconds(lambda: engine.run(one_sentence), 10 * runs),
        full_rows=len(full_rows.tokens) / _median_seconds(lambda: engine.run(full_rows), runs),
        packed=sum(sentences) / _median_seconds(lambda: [engine.run(strip) for strip in strips], runs),
        padded=padded,
        padded_sorted=padded_sorted,
    )


def _load(case: EngineCase, folder: Path) -> tuple[Engine, int]:
    """Return an engine, and the memory that it takes after one sentence."""
    # Import the library first, so that its memory does not count as the model's; torch is imported already.
    if case.engine != "torch":
        import_module({"onnx": "onnxruntime", "openvino": "openvino"}[case.engine])
    before = psutil.Process().memory_info().rss
    if case.engine == "torch":
        engine: Engine = prepare_torch_engine(load_folder(folder), "cpu", case.precision)
    else:
        engine = open_export(folder, EngineOptions("cpu", case.precision))
    engine.run(_random_strip(_ONE_SENTENCE, engine.model_settings.vocab_size))
    return engine, psutil.Process().memory_info().rss - before


def _median_seconds(run: Callable[[], Any], runs: int) -> float:
    run()  # the first call chooses kernels for its shapes
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return median(seconds)


def _padded_rate(engine: SingleGraphEngine, lengths: Sequence[int], runs: int) -> float:
    """Return the tokens per second, without padding, of padded batches."""
    vocab_size = engine.model_settings.vocab_size
    batches = [
        padded_inputs(_random_strip(lengths[start : start + _PADDED_BATCH], vocab_size))
        for start in range(0, len(lengths), _PADDED_BATCH)
    ]
    return sum(lengths) / _median_seconds(lambda: [engine.run_rows(batch) for batch in batches], runs)


def _sentence_lengths() -> list[int]:
    """Return the lengths of sentences in the order in which they arrive."""
    lengths: list[int] = np.random.default_rng(0).choice(SST2_LENGTHS, _SENTENCES).tolist()
    return lengths


def _groups(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Return lengths in groups of at most `max_tokens`, the longest first, as predictions are computed."""
    return list(split_by_tokens(sorted(lengths, reverse=True), int, max_tokens))


def _packed_strips(model: Model, max_tokens: int) -> list[Strip]:
    groups = _groups(_sentence_lengths(), max_tokens)
    return [_random_strip(group, model.settings.vocab_size) for group in groups]


def _random_strip(lengths: Sequence[int], vocab_size: int) -> Strip:
    rng = np.random.default_rng(sum(lengths))
    return Strip.from_sequences([rng.integers(_FIRST_TOKEN, vocab_size, n).tolist() for n in lengths])


def show_engines(results: Sequence[EngineResult], *, as_json: bool) -> None:
    """Print the results as a table or JSON."""
    if as_json:
        progress.print_json({"engines": [asdict(result) for result in results]})
        return
    table = progress.result_table(
        "", "file", "memory", "16 tokens", "8 x 128", "sentences", "padded", "sorted"
    )
    for result in results:
        rates = (result.full_rows, result.packed, result.padded, result.padded_sorted)
        table.add_row(
            result.name,
            format_bytes(result.num_bytes),
            format_bytes(result.loaded_bytes),
            f"{result.sentence_ms:.1f} ms",
            *("" if rate is None else f"{rate:,.0f}" for rate in rates),
        )
    progress.result_console().print(table)
    print("Tokens per second, padding not counted; sentences as long as those of SST-2, packed or padded.")
