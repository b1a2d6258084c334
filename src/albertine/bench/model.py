"""Benchmark of the model against `transformers`, with the same weights and batches.

Each side runs in its own process, so that its peak memory can be measured. Their steps
alternate, so that a slower phase of the machine affects both. A training step is MLM and pair
loss, backward pass, gradient clipping and AdamW. A forward step is the encoder with its heads,
with logits for every token. Rates count real tokens, without padding.

In training, Albertine computes logits for the masked tokens only, `transformers` for all tokens.
"""

import multiprocessing
import signal
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import torch

from albertine import progress
from albertine.bench.finished_results import show_finished
from albertine.bench.peer_model import check_transformers, peer_options
from albertine.bench.peer_pretraining import reset_environment
from albertine.bench.settings import ModelBenchSettings
from albertine.device import choose_precision, peak_flops, peak_memory, synchronized_time
from albertine.errors import WorkError
from albertine.model.cost import count_flops
from albertine.processes import block_signals
from albertine.progress import format_bytes
from albertine.settings import ModelSettings

Workload = Literal["training", "forward"]
_Command = Literal["warm up", "step", "peak memory"]
_WARM_UP_STEPS = 2

# 21 quantiles, from 0% to 100% in steps of 5%, of the lengths of the 872 sentences of SST-2's dev set, in
# words plus two special tokens.
SST2_LENGTHS = (4, 8, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 25, 26, 28, 29, 31, 33, 36, 49)
BATCH_LENGTHS = {
    "8 x 128": (128,) * 8,
    "8 x 512": (512,) * 8,
    "sentences": SST2_LENGTHS * 3,
}


@dataclass(frozen=True)
class ModelBenchCase:
    """One case: a workload, a batch and a precision."""

    workload: Workload
    batch: str
    precision: Literal["fp32", "bf16"]


@dataclass(frozen=True)
class ModelComparison:
    """Result of one case.

    Attributes:
        case: the case.
        tokens_per_second: Albertine's median rate.
        peer_tokens_per_second: the peer's median rate.
        peak_bytes: Albertine's peak memory, of the process or the GPU.
        peer_peak_bytes: the peer's peak memory.
        utilization: Albertine's FLOP per second, as a fraction of the device's peak.
    """

    case: ModelBenchCase
    tokens_per_second: float
    peer_tokens_per_second: float
    peak_bytes: int
    peer_peak_bytes: int
    utilization: float

    @property
    def ratio(self) -> float:
        """Albertine's rate as a multiple of the peer's."""
        return self.tokens_per_second / self.peer_tokens_per_second

    def to_json(self) -> dict[str, Any]:
        """Return the result with stable keys."""
        return {
            **asdict(self.case),
            **{key: value for key, value in asdict(self).items() if key != "case"},
            "ratio": self.ratio,
        }


def measure_model(settings: ModelBenchSettings) -> Iterator[ModelComparison]:
    """Measure the selected cases; yield each result as soon as it is available."""
    check_transformers("bench model")
    peak_rates = {
        precision: _peak_rate(precision, settings.device) for precision in _precisions(settings.precision)
    }
    with tempfile.TemporaryDirectory() as folder:
        _write_weights(settings.model, Path(folder))
        for case in progress.track(list(_cases(settings)), "Measuring", unit="cases"):
            yield _measure_case(case, settings, Path(folder), peak_rates[case.precision])


def _precisions(choice: str) -> tuple[Any, ...]:
    return ("fp32", "bf16") if choice == "both" else (choice,)


def _cases(settings: ModelBenchSettings) -> Iterator[ModelBenchCase]:
    workloads = ("training", "forward") if settings.workload == "both" else (settings.workload,)
    for workload in workloads:
        for batch in BATCH_LENGTHS if settings.batch == "all" else (settings.batch,):
            for precision in _precisions(settings.precision):
                yield ModelBenchCase(workload, batch, precision)  # type: ignore[arg-type]  # the literals of the settings


def _write_weights(model: ModelSettings, folder: Path) -> None:
    from albertine.interop.save_checkpoint import save_folder
    from albertine.model.model import Model

    save_folder(Model(model), folder / "weights")


def _peak_rate(precision: str, device: str) -> float:
    """Return the FLOP per second of large matrix products."""
    return peak_flops(choose_precision(precision, torch.device(device)), torch.device(device))


def _measure_case(
    case: ModelBenchCase, settings: ModelBenchSettings, folder: Path, peak_rate: float
) -> ModelComparison:
    """Return the result of one case.

    Args:
        case: the case.
        settings: device, number of measurements and model.
        folder: folder that holds the weights.
        peak_rate: FLOP per second of large matrix products in the precision of the case.
    """
    context = multiprocessing.get_context("spawn")
    sides = []
    for side in ("ours", "peer"):
        parent_end, child_end = context.Pipe()
        process = context.Process(
            target=_run_side, args=(side, case, settings, folder, child_end), daemon=True
        )
        with block_signals(signal.SIGINT):
            process.start()
        child_end.close()
        sides.append((process, parent_end))
    try:
        for _, pipe in sides:
            _request(pipe, "warm up")
        seconds = [[_request(pipe, "step") for _, pipe in sides] for _ in range(settings.runs)]
        peak_bytes, peer_peak_bytes = (int(_request(pipe, "peak memory")) for _, pipe in sides)
    finally:
        for process, _ in sides:
            process.terminate()
            process.join()
    tokens = sum(BATCH_LENGTHS[case.batch])
    ours, peer = (tokens / statistics.median(side_seconds) for side_seconds in zip(*seconds, strict=True))
    utilization = ours * _flops_per_token(case, settings.model) / peak_rate
    return ModelComparison(case, ours, peer, peak_bytes, peer_peak_bytes, utilization)


def _request(pipe: Connection, command: _Command) -> float:
    """Send a command to the process of a side and return its answer; see `_run_side`."""
    with suppress(BrokenPipeError):  # a process that has failed sent its error before
        pipe.send(command)
    try:
        answer = pipe.recv()
    except (EOFError, ConnectionResetError):
        raise WorkError(
            "a process of the benchmark died, probably for lack of memory; use a smaller model or batch"
        ) from None
    if isinstance(answer, str):
        raise WorkError(f"the benchmark failed: {answer}")
    return float(answer)


def _flops_per_token(case: ModelBenchCase, model: ModelSettings) -> float:
    """Return the FLOP per token of Albertine's computation, as a mean over the batch."""
    lengths = BATCH_LENGTHS[case.batch]
    if case.workload == "forward":  # it computes the logits of all tokens
        counts = [(length, count_flops(model, length, masked_fraction=1.0)) for length in lengths]
    else:
        counts = [(length, count_flops(model, length)) for length in lengths]
    total = sum(
        length
        * (
            flops.training_per_token
            if case.workload == "training"
            else flops.forward_per_token + flops.heads_per_token
        )
        for length, flops in counts
    )
    return total / sum(lengths)


def _run_side(
    side: str, case: ModelBenchCase, settings: ModelBenchSettings, folder: Path, pipe: Connection
) -> None:
    """Run one side: build its step, then answer each command with its seconds or the peak memory in bytes."""
    if side == "peer":
        # The parent limited oneDNN's caches in the environment when it made the model. The peer gets the
        # default sizes.
        reset_environment()
    try:
        step = (_our_step if side == "ours" else _peer_step)(case, settings, folder / "weights")
        device = torch.device(settings.device)
        while True:
            command: _Command = pipe.recv()
            if command == "peak memory":
                pipe.send(peak_memory(device))
                continue
            started = synchronized_time(device)
            for _ in range(_WARM_UP_STEPS if command == "warm up" else 1):
                step()
            pipe.send(synchronized_time(device) - started)
    except EOFError:
        return
    except Exception as error:  # the parent raises it and ends the benchmark
        pipe.send(f"{side}: {type(error).__name__}: {error}")


def _random_padded_batch(
    case: ModelBenchCase, model: ModelSettings, device: str
) -> tuple[dict[str, Any], Any, Any]:
    """Return a random batch: inputs of `transformers`, MLM labels [batch, length] and pair labels [batch].

    About 15% of the real tokens, and at least one per sequence, have a label; the others have -100.
    """
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor(BATCH_LENGTHS[case.batch])
    attention_mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
    ids = torch.randint(5, model.vocab_size, attention_mask.shape, generator=generator) * attention_mask
    is_target = (torch.rand(attention_mask.shape, generator=generator) < 0.15) & attention_mask.bool()
    is_target[:, 1] = True
    labels = torch.where(is_target, ids, -100)
    pair_labels = torch.randint(0, 2, (len(lengths),), generator=generator)
    inputs = {"input_ids": ids, "attention_mask": attention_mask, "token_type_ids": torch.zeros_like(ids)}
    inputs = {name: tensor.to(device) for name, tensor in inputs.items()}
    return inputs, labels.to(device), pair_labels.to(device)


def _training_step(model: Any, compute_loss: Callable[[], Any]) -> Callable[[], None]:
    """Return a function that takes one training step; both sides use it."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        compute_loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def _forward_step(model: Any, compute_outputs: Callable[[], Any]) -> Callable[[], None]:
    """Return a function that runs one forward pass without gradients; both sides use it."""
    model.eval()

    def step() -> None:
        with torch.inference_mode():
            compute_outputs()

    return step


def _our_step(case: ModelBenchCase, settings: ModelBenchSettings, weights: Path) -> Callable[[], None]:
    from albertine.interop.load_checkpoint import load_folder
    from albertine.model.encoder import ComputeOptions
    from albertine.model.pretraining_heads import MaskedLMTargets, PretrainingTargets
    from albertine.model.strip import Strip

    model = load_folder(weights).to(settings.device)
    dtype = torch.float32 if case.precision == "fp32" else torch.bfloat16
    model.configure(ComputeOptions(dtype=dtype, compile=settings.compile))
    inputs, labels, pair_labels = _random_padded_batch(case, settings.model, settings.device)
    strip = Strip.from_padded(inputs["input_ids"], inputs["attention_mask"], inputs["token_type_ids"])
    strip_labels = labels[inputs["attention_mask"].bool()]
    indices = (strip_labels != -100).nonzero().squeeze(1)
    targets = PretrainingTargets(MaskedLMTargets(indices, strip_labels[indices]), pair_labels)
    if case.workload == "training":
        return _training_step(model, lambda: model(strip, targets).loss)
    return _forward_step(model, lambda: model(strip))  # logits of every token, as the peer computes them


def _peer_step(case: ModelBenchCase, settings: ModelBenchSettings, weights: Path) -> Callable[[], None]:
    import transformers

    model_class = transformers.AutoModelForPreTraining
    options = {"attn_implementation": "sdpa", "dtype": torch.float32, **peer_options(weights, settings.model)}
    model = model_class.from_pretrained(weights, **options).to(settings.device)
    compiled_model = torch.compile(model) if settings.compile else model
    inputs, labels, pair_labels = _random_padded_batch(case, settings.model, settings.device)
    is_bert = type(model).__name__.startswith("Bert")
    targets = {"labels": labels, "next_sentence_label" if is_bert else "sentence_order_label": pair_labels}
    # Given targets, the model also computes a loss, which is not part of a forward step.
    arguments = {**inputs, **targets} if case.workload == "training" else inputs
    use_bf16 = case.precision == "bf16"

    def compute_outputs() -> Any:
        with torch.autocast(settings.device, torch.bfloat16, enabled=use_bf16):
            return compiled_model(**arguments)

    if case.workload == "training":
        return _training_step(model, lambda: compute_outputs().loss)
    return _forward_step(model, compute_outputs)


def show_comparisons(results: Iterator[ModelComparison], *, as_json: bool) -> None:
    """Print the results as a table or JSON; if a case fails or is interrupted, those before it."""
    show_finished(results, partial(_print_comparisons, as_json=as_json))


def _print_comparisons(results: Sequence[ModelComparison], *, as_json: bool) -> None:
    if as_json:
        progress.print_json({"lines": [result.to_json() for result in results]})
        return
    table = progress.result_table(
        *("workload", "batch", "", "tokens/s", "peer", "ratio", "of peak", "memory", "peer's"),
        left_aligned=("workload", "batch", ""),
    )
    for result in results:
        table.add_row(
            result.case.workload,
            result.case.batch,
            result.case.precision,
            f"{result.tokens_per_second:,.0f}",
            f"{result.peer_tokens_per_second:,.0f}",
            f"{result.ratio:.2f}",
            f"{result.utilization:.0%}",
            format_bytes(result.peak_bytes),
            format_bytes(result.peer_peak_bytes),
        )
    progress.result_console().print(table)
