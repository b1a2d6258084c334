"""Benchmark of `albertine plan`: five runs on this machine, predicted and measured.

Each run is predicted, takes place, and is predicted again, each time in a process of its own; the
prediction is the mean of both. So other work on the machine, which slows all three, matters less. The
measured time is that of the whole call of `pretrain`, with its start, evaluations and checkpoints.

A run is as long as its first prediction says that the given seconds allow. Each part has a limit, because
a busy machine can become slower than that; a run with a part that reaches its limit is left out.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from albertine import progress
from albertine.bench.finished_results import show_finished
from albertine.bench.settings import PlanBenchSettings
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import open_corpus
from albertine.corpus.settings import CorpusSettings
from albertine.device import peak_memory
from albertine.errors import WorkError
from albertine.executors.executor import JobT, ResultT
from albertine.executors.process_pool import ProcessPool
from albertine.plan.plan import TrainingPlan, forward_share, plan_training
from albertine.plan.settings import THIS_MACHINE, PlanSettings
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.progress import format_bytes, format_duration
from albertine.settings import SettingsSource, build_settings
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

_STORIES, _VOCAB_SIZE = 1_000, 1_000
_MIN_STEPS = 3
_EVALUATIONS = 2  # after the one before the first step
_EVALUATION_SHARE = 0.1  # of the seconds of a run
_EVALUATION_TOKENS = (1_024, 65_536)  # least and most
_PREDICTION_LIMIT = 60.0  # seconds; a prediction takes about ten, and starts Python
_RUN_LIMIT_FACTOR, _RUN_LIMIT_SECONDS = 3.0, 60.0  # of the seconds of a run, and for its start
_ADVICE = "free some memory, or choose another run with --run"

# The five runs: settings of `albertine pretrain`, and what they try.
RUNS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "demo, 128 tokens, Muon": {
            "model": {"preset": "demo"},
            "objective": {"max_length": "128"},
            "train": {"batch_tokens": "4096"},
        },
        "albert-tiny, 512 tokens, AdamW": {
            "model": {"preset": "albert-tiny"},
            "train": {"batch_tokens": "16384", "optimizer": "adamw"},
        },
        "albertine-tiny, 128 tokens, growing depth": {
            "model": {"preset": "albertine-tiny"},
            "objective": {"max_length": "128"},
            "train": {"batch_tokens": "4096"},
        },
        "albert-small, 128 tokens, LAMB, recomputation": {
            "model": {"preset": "albert-small"},
            "objective": {"max_length": "128"},
            "train": {"batch_tokens": "4096", "optimizer": "lamb", "recompute": "true"},
        },
        "albert-base, 128 tokens, dropout": {
            "model": {"preset": "albert-base", "dropout": "0.1"},
            "objective": {"max_length": "128"},
            "train": {"batch_tokens": "512", "optimizer": "adamw"},
        },
    }
)


class LimitReached(WorkError):  # noqa: N818  # what happened
    """A part of a measurement took longer than its limit."""


@dataclass(frozen=True)
class PlannedRun:
    """A run, predicted and measured.

    Attributes:
        name: what runs.
        steps: its number of optimizer steps.
        predicted_seconds: mean of the predictions before and after.
        measured_seconds: seconds of the whole run.
        predicted_bytes: memory of a training step, predicted.
        measured_bytes: peak memory of the process, without what it held before the run.
    """

    name: str
    steps: int
    predicted_seconds: float
    measured_seconds: float
    predicted_bytes: int
    measured_bytes: int

    @property
    def ratio(self) -> float:
        """Predicted seconds, as a multiple of those measured."""
        return self.predicted_seconds / self.measured_seconds

    def to_json(self) -> dict[str, Any]:
        """Return the run under stable keys."""
        return {**asdict(self), "ratio": self.ratio}


def measure_plans(settings: PlanBenchSettings) -> Iterator[PlannedRun]:
    """Yield each run as soon as it is measured; those that reach a limit are left out, with a message."""
    names = [name for number, name in enumerate(RUNS, 1) if settings.run in ("all", str(number))]
    progress.print_message(_announcement(len(names), settings.seconds))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with progress.quiet_output():
            vocab_size = _build_corpus(folder)
        for number, name in enumerate(progress.track(names, "Measuring", unit="runs")):
            try:
                yield _measure_run(
                    name, folder / "corpus", folder / str(number), vocab_size, settings.seconds
                )
            except LimitReached as reached:
                progress.print_message(f"{name}: left out, because {reached}")


def _announcement(count: int, seconds: float) -> str:
    """Return how long some runs take, in words."""
    longest = count * (2 * _PREDICTION_LIMIT + _run_limit(seconds))
    runs = "1 run" if count == 1 else f"{count} runs, each"
    return (
        f"{runs} of about {format_duration(seconds)}, with a prediction before and after it; "
        f"at most {format_duration(longest)} in all, besides the corpus"
    )


def _run_limit(seconds: float) -> float:
    """Return the seconds after which a run of about some seconds is stopped."""
    return _RUN_LIMIT_FACTOR * seconds + _RUN_LIMIT_SECONDS


def _build_corpus(folder: Path) -> int:
    """Build a corpus of the little world; return the size of its vocabulary."""
    write_world(folder / "world", WorldSettings(stories=_STORIES, extra=0, other=0, train=0))
    text = [str(folder / "world" / "text")]
    build_tokenizer(text, folder / "tokenizer", TokenizerSettings(vocab_size=_VOCAB_SIZE))
    build_corpus(text, folder / "tokenizer", folder / "corpus", CorpusSettings(held_out=0.1))
    return len(open_corpus(folder / "corpus").tokenizer)


@dataclass(frozen=True)
class _RunJob:
    """The settings of a run, and its folder."""

    values: Mapping[str, Any]
    run: Path


def _measure_run(name: str, corpus: Path, run: Path, vocab_size: int, seconds: float) -> PlannedRun:
    """Predict a run of about some seconds, train, and predict again."""
    values: dict[str, Any] = {table: dict(keys) for table, keys in RUNS[name].items()}
    values["model"]["vocab_size"] = str(vocab_size)
    values["corpus"] = str(corpus)
    before = _in_process(_predict, _RunJob(values, run), _PREDICTION_LIMIT, "its prediction")
    values["train"] |= _length_settings(before, seconds)
    measured_seconds, measured_bytes = _in_process(
        _train, _RunJob(values, run), _run_limit(seconds), "the run"
    )
    after = _in_process(_predict, _RunJob(values, run), _PREDICTION_LIMIT, "its second prediction")
    predicted = after.seconds * (before.step.total + after.step.total) / (2 * after.step.total)
    return PlannedRun(
        name, after.workload.steps, predicted, measured_seconds, after.memory.total, measured_bytes
    )


def _length_settings(plan: TrainingPlan, seconds: float) -> dict[str, str]:
    """Return the settings of a run that takes about some seconds, with its evaluations."""
    steps = max(_MIN_STEPS, round((1 - _EVALUATION_SHARE) * seconds / plan.step.total))
    interval = math.ceil(steps / _EVALUATIONS)
    token_seconds = forward_share(plan.workload) * plan.step.passes / plan.workload.step_tokens
    tokens = _EVALUATION_SHARE * seconds / (1 + steps // interval) / token_seconds
    least, most = _EVALUATION_TOKENS
    return {
        "steps": str(steps),
        "evaluate_every": str(interval),
        "evaluate_tokens": str(round(min(most, max(least, tokens)))),
    }


def _in_process(function: Callable[[JobT], ResultT], job: JobT, limit: float, part: str) -> ResultT:
    """Return the result of a function that runs in a new process; raise `LimitReached` if it takes too long.

    Args:
        function: the function.
        job: its argument.
        limit: seconds after which the process is stopped.
        part: what it measures, for the message.
    """
    deadline = time.monotonic() + limit

    def check_time() -> None:
        if time.monotonic() > deadline:
            raise LimitReached(
                f"{part} took longer than {format_duration(limit)}; measure when less else runs here"
            )

    ((_, result),) = ProcessPool(1).run(function, [job], on_poll=check_time, advice=_ADVICE)
    return result


def _predict(job: _RunJob) -> TrainingPlan:
    source = SettingsSource({**job.values, "hardware": THIS_MACHINE})
    return plan_training(build_settings(PlanSettings, source))


def _train(job: _RunJob) -> tuple[float, int]:
    """Take the run; return its seconds and the memory that it took."""
    device = torch.device("cpu")
    before, started = peak_memory(device), time.perf_counter()
    pretrain(job.run, build_settings(PretrainSettings, SettingsSource(job.values)))
    return time.perf_counter() - started, peak_memory(device) - before


def show_plans(runs: Iterator[PlannedRun], *, as_json: bool) -> None:
    """Print the runs as a table or JSON; if a run fails or is interrupted, those before it."""
    show_finished(runs, partial(_print_plans, as_json=as_json))


def _print_plans(runs: Sequence[PlannedRun], *, as_json: bool) -> None:
    if as_json:
        progress.print_json({"lines": [run.to_json() for run in runs]})
        return
    table = progress.result_table(
        *("run", "steps", "predicted", "measured", "ratio", "predicted memory", "measured memory")
    )
    for run in runs:
        table.add_row(
            run.name,
            f"{run.steps:,}",
            format_duration(run.predicted_seconds),
            format_duration(run.measured_seconds),
            f"{run.ratio:.2f}",
            format_bytes(run.predicted_bytes),
            format_bytes(run.measured_bytes),
        )
    progress.result_console().print(table)
