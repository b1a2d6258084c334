"""The network beside `transformers`: same weights, same work, one run.

Each side is a process of its own, so that its peak memory is its own, and they
work in turn, so that a machine that slows down slows both. A step of training is
MLM and the pair loss, backward, clip, AdamW; forward is the encoder with its heads.
Only real tokens count: what a side spends on padding is its own affair.
"""

import json
import multiprocessing
import signal
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import torch
from rich.table import Table

from albertine import progress
from albertine.bench.peer import as_delivered
from albertine.bench.settings import ModelBench
from albertine.errors import InputError, WorkError
from albertine.model.cost import count_flops
from albertine.processes import holding
from albertine.progress import size
from albertine.settings import ModelSettings
from albertine.train.machine import choose_precision, matrix_rate, now, peak_memory

Work = Literal["training", "forward"]

# Lengths of the 872 sentences of SST-2's dev set in words and two special pieces: every twentieth part.
SENTENCES = (4, 8, 11, 12, 13, 15, 16, 17, 18, 20, 21, 22, 23, 25, 26, 28, 29, 31, 33, 36, 49)
BATCHES = {
    "8 x 128": (128,) * 8,
    "8 x 512": (512,) * 8,
    "sentences": SENTENCES * 3,
}


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    work: Work
    batch: str
    precision: Literal["fp32", "bf16"]


@dataclass(frozen=True)
class Measured:
    """One line's result: tokens per second, peak memory of process or GPU, our share of the matrix rate."""

    case: Case
    ours_tokens: float
    theirs_tokens: float
    ours_bytes: int
    theirs_bytes: int
    roof_share: float

    @property
    def ratio(self) -> float:
        """How many times as fast as the peer."""
        return self.ours_tokens / self.theirs_tokens

    def to_json(self) -> dict[str, Any]:
        """Return the line under stable keys."""
        return {
            **asdict(self.case),
            **{k: v for k, v in asdict(self).items() if k != "case"},
            "ratio": self.ratio,
        }


def measure(settings: ModelBench) -> Iterator[Measured]:
    """Measure each case in turn."""
    if find_spec("transformers") is None:
        raise InputError("bench model: the peer is missing; pip install transformers")
    roofs = {precision: _roof(precision, settings.device) for precision in _asked(settings.precision)}
    with tempfile.TemporaryDirectory() as folder:
        _write_weights(settings.model, Path(folder))
        for case in progress.track(list(_cases(settings)), "Measuring", unit="lines"):
            yield _measure(case, settings, Path(folder), roofs[case.precision])


def _asked(choice: str) -> tuple[Any, ...]:
    return ("fp32", "bf16") if choice == "both" else (choice,)


def _cases(settings: ModelBench) -> Iterator[Case]:
    works = ("training", "forward") if settings.work == "both" else (settings.work,)
    for work in works:
        for batch in BATCHES if settings.batch == "all" else (settings.batch,):
            for precision in _asked(settings.precision):
                yield Case(work, batch, precision)  # type: ignore[arg-type]  # the literals of the settings


def _write_weights(model: ModelSettings, folder: Path) -> None:
    from albertine.interop.huggingface import save_folder
    from albertine.model.network import Model

    save_folder(Model(model), folder / "weights")


def _roof(precision: str, device: str) -> float:
    return matrix_rate(choose_precision(precision, torch.device(device)), torch.device(device))


def _measure(case: Case, settings: ModelBench, folder: Path, roof: float) -> Measured:
    context = multiprocessing.get_context("spawn")
    sides = []
    for side in ("ours", "theirs"):
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(side, case, settings, folder, there), daemon=True)
        with holding(signal.SIGINT):
            process.start()
        there.close()
        sides.append((process, here))
    try:
        for _, pipe in sides:
            _ask(pipe, "warm up")
        seconds = [[_ask(pipe, "work") for _, pipe in sides] for _ in range(settings.runs)]
        peaks = [int(_ask(pipe, "peak")) for _, pipe in sides]
    finally:
        for process, _ in sides:
            process.terminate()
            process.join()
    tokens = sum(BATCHES[case.batch])
    ours, theirs = (tokens / statistics.median(column) for column in zip(*seconds, strict=True))
    share = ours * _flops_per_token(case, settings.model) / roof
    return Measured(case, ours, theirs, peaks[0], peaks[1], share)


def _ask(pipe: Connection, what: str) -> float:
    try:
        pipe.send(what)
        answer = pipe.recv()
    except (EOFError, BrokenPipeError):
        raise WorkError("a side of the benchmark died; was there memory enough?") from None
    if isinstance(answer, str):
        raise WorkError(f"a side of the benchmark failed: {answer}")
    return float(answer)


def _flops_per_token(case: Case, model: ModelSettings) -> float:
    lengths = BATCHES[case.batch]
    counts = [(length, count_flops(model, length)) for length in lengths]
    total = sum(
        length
        * (one.training_per_token if case.work == "training" else one.forward_per_token + one.heads_per_token)
        for length, one in counts
    )
    return total / sum(lengths)


def _serve(side: str, case: Case, settings: ModelBench, folder: Path, pipe: Connection) -> None:
    """Be one side: make ready, then work when asked to and say how long it took."""
    if side != "ours":
        as_delivered()
    try:
        step = (_our_step if side == "ours" else _their_step)(case, settings, folder / "weights")
        device = torch.device(settings.device)
        while True:
            asked = pipe.recv()
            started = now(device)
            for _ in range(2 if asked == "warm up" else 1 if asked == "work" else 0):
                step()
            seconds = now(device) - started
            pipe.send(peak_memory(device) if asked == "peak" else seconds)
    except EOFError:
        return
    except Exception as error:  # told to the parent, which ends the run
        pipe.send(f"{side}: {type(error).__name__}: {error}")


def _padded(case: Case, model: ModelSettings, device: str) -> tuple[dict[str, Any], Any, Any]:
    """Draw a batch: inputs as `transformers` takes them, labels at 15% of the real tokens, pair labels."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor(BATCHES[case.batch])
    mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
    ids = torch.randint(5, model.vocab_size, mask.shape, generator=generator) * mask
    chosen = (torch.rand(mask.shape, generator=generator) < 0.15) & mask.bool()
    chosen[:, 1] = True  # at least one in each
    labels = torch.where(chosen, ids, -100)
    pair = torch.randint(0, 2, (len(lengths),), generator=generator)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    return {name: one.to(device) for name, one in inputs.items()}, labels.to(device), pair.to(device)


def _training(network: Any, loss: Callable[[], Any]) -> Callable[[], None]:
    """Return a step of training, the same for both sides."""
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-5, weight_decay=0.01, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()

    return step


def _forward(network: Any, outputs: Callable[[], Any]) -> Callable[[], None]:
    """Return a forward pass, the same for both sides."""
    network.eval()

    def step() -> None:
        with torch.inference_mode():
            outputs()

    return step


def _our_step(case: Case, settings: ModelBench, weights: Path) -> Callable[[], None]:
    from albertine.interop.huggingface import load_folder
    from albertine.model.encoder import Computation
    from albertine.model.heads import MaskedTargets, PretrainTargets
    from albertine.model.strip import Strip

    network = load_folder(weights).to(settings.device)
    dtype = torch.float32 if case.precision == "fp32" else torch.bfloat16
    network.encoder.computation = Computation(dtype=dtype, compile=settings.compile)
    inputs, labels, pair = _padded(case, settings.model, settings.device)
    strip = Strip.from_padded(inputs["input_ids"], inputs["attention_mask"], inputs["token_type_ids"])
    flat = labels[inputs["attention_mask"].bool()]
    at = (flat != -100).nonzero().squeeze(1)
    targets = PretrainTargets(MaskedTargets(at, flat[at]), pair)
    if case.work == "training":
        return _training(network, lambda: network(strip, targets).loss)
    return _forward(network, lambda: network(strip))  # every token scored, as the peer does


def _their_step(case: Case, settings: ModelBench, weights: Path) -> Callable[[], None]:
    import transformers

    kind = transformers.AutoModelForPreTraining
    network = kind.from_pretrained(weights, attn_implementation="sdpa").to(settings.device)
    called = torch.compile(network) if settings.compile else network
    inputs, labels, pair = _padded(case, settings.model, settings.device)
    bert = type(network).__name__.startswith("Bert")
    names = {"labels": labels, "next_sentence_label" if bert else "sentence_order_label": pair}
    half = case.precision == "bf16"

    def outputs() -> Any:
        with torch.autocast(settings.device, torch.bfloat16, enabled=half):
            return called(**inputs, **names)

    if case.work == "training":
        return _training(network, lambda: outputs().loss)
    return _forward(network, outputs)


def show(lines: Iterator[Measured], *, as_json: bool) -> None:
    """Print the table."""
    if as_json:
        print(json.dumps({"lines": [line.to_json() for line in lines]}, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("work", "batch", "", "tokens/s", "peer", "ratio", "roof", "peak", "peer's"):
        table.add_column(title, justify="left" if title in ("work", "batch", "") else "right", no_wrap=True)
    for line in lines:
        table.add_row(
            line.case.work,
            line.case.batch,
            line.case.precision,
            f"{line.ours_tokens:,.0f}",
            f"{line.theirs_tokens:,.0f}",
            f"{line.ratio:.2f}",
            f"{line.roof_share:.0%}",
            size(line.ours_bytes),
            size(line.theirs_bytes),
        )
    progress.results().print(table)
