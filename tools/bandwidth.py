"""How the bandwidth between two nodes limits training: the step time of an ALBERT and of a BERT of its shape.

    python tools/bandwidth.py --corpus C --json step-times.json --svg docs/bandwidth.svg

Two nodes with one process each (see `nodes.py`) train one model and then the other, with the training
loop of `albertine pretrain`. The bandwidth changes while they train. Each result is the median time of a
few steps. Both models are 512 wide and have 36 layers; the BERT has 17 times as many parameters, about the
factor of BERT-large and ALBERT-large, which need more memory. The batches are small, so that two cores are
enough.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory

from albertine.model.cost import gradient_bytes
from albertine.model.parameter_counts import bert_of_same_shape
from albertine.settings import ModelSettings
from bandwidth_chart import draw_step_times
from nodes import Nodes, bits_per_second, exit_on_sigterm, torchrun, unusable_reason

MODELS = ("ALBERT", "BERT")
RATES = ("10gbit", "3gbit", "1gbit", "300mbit", "100mbit")
_BATCH_TOKENS, _MAX_LENGTH = 128, 64
_WARM_UP_STEPS = 2


@dataclass(frozen=True)
class StepTime:
    """The step time of a model at a bandwidth.

    Attributes:
        model: "ALBERT" or "BERT".
        gradient_bytes: size of its gradients.
        rate: bandwidth of each node in each direction, such as `100mbit`.
        seconds: median seconds per step.
        runs: seconds of each step.
    """

    model: str
    gradient_bytes: int
    rate: str
    seconds: float
    runs: list[float]


def model_settings(model: str) -> ModelSettings:
    """Return the settings of a model by its name in `MODELS`."""
    albert = ModelSettings(hidden_size=512, layers=36, heads=8)
    return albert if model == "ALBERT" else bert_of_same_shape(albert)


def train(model: str, corpus: Path) -> None:
    """Train as one process of `torchrun` until killed; the main process prints the seconds of each step."""
    from albertine.corpus.corpus import open_corpus
    from albertine.corpus.settings import ObjectiveSettings
    from albertine.pretrain.assembly import build_trainer
    from albertine.pretrain.settings import PretrainSettings
    from albertine.pretrain.setup import resolved_settings
    from albertine.train.distributed import init_distributed
    from albertine.train.settings import PretrainTrainSettings

    settings = PretrainSettings(
        corpus=corpus,
        device="cpu",
        model=model_settings(model),
        objective=ObjectiveSettings(max_length=_MAX_LENGTH),
        train=PretrainTrainSettings(optimizer="adamw", precision="fp32", batch_tokens=_BATCH_TOKENS),
    )
    settings = settings.with_explicit_keys({"model.vocab_size"})  # 30,000, whatever the corpus has
    opened = open_corpus(corpus)
    with TemporaryDirectory() as folder, init_distributed("cpu") as distributed:
        settings = resolved_settings(settings, opened, None, distributed.world_size)
        trainer = build_trainer(Path(folder), settings, opened, None, distributed)
        for step in count():
            started = time.perf_counter()
            trainer.time_step(step)
            if distributed.is_main:
                print(json.dumps(time.perf_counter() - started), flush=True)


def measure(model: str, corpus: Path, runs: int) -> Iterator[StepTime]:
    """Yield the step time of a model at each bandwidth."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with TemporaryDirectory() as folder, Nodes(2) as nodes:
        nodes.start_rendezvous(environment)
        program = [str(Path(__file__).resolve()), "--train", model, "--corpus", str(corpus)]
        logs = [Path(folder) / f"node-{node}.log" for node in range(nodes.count)]
        started = [
            nodes.start(
                node,
                [*torchrun("2", 1, nodes.rendezvous, "--local-addr", nodes.address(node)), *program],
                environment,
                log,
            )
            for node, log in enumerate(logs)
        ]
        _wait_for_steps(logs, started, _WARM_UP_STEPS)
        for rate in RATES:
            nodes.limit_bandwidth(rate)
            first = len(_read_steps(logs)) + 1  # the current step began before the change
            seconds = _wait_for_steps(logs, started, first + runs)[first:]
            size = gradient_bytes(model_settings(model))
            yield StepTime(model, size, rate, statistics.median(seconds), seconds)


def _wait_for_steps(logs: list[Path], started: list[Popen[bytes]], number: int) -> list[float]:
    """Return the seconds of the steps so far, at least `number`; `SystemExit` if a process ends."""
    while len(steps := _read_steps(logs)) < number:
        if any(process.poll() is not None for process in started):
            raise SystemExit("\n".join(log.read_text() for log in logs))
        time.sleep(0.05)
    return steps


def _read_steps(logs: list[Path]) -> list[float]:
    """Return the numbers that the main process has printed; it runs on one of the nodes."""
    steps = []
    for log in logs:
        for line in log.read_text().splitlines() if log.exists() else []:
            try:
                steps.append(float(line))
            except ValueError:
                continue  # a message of torch
    return steps


def main() -> int:
    """Measure, and write the results and the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True, help="folder of a corpus")
    parser.add_argument("--runs", type=int, default=3, help="steps for each bandwidth")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--svg", type=Path, help="file for the picture")
    parser.add_argument(
        "--train", choices=MODELS, help=argparse.SUPPRESS
    )  # of the processes that this starts
    options = parser.parse_args()
    if options.train:
        train(options.train, options.corpus)
        return 0
    if reason := unusable_reason():
        parser.error(reason)
    exit_on_sigterm()
    results = []
    for model in MODELS:
        for result in measure(model, options.corpus.resolve(), options.runs):
            print(f"{model}, {result.rate}: {result.seconds:.2f} s per step", flush=True)
            results.append(result)
    if options.json:
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    if options.svg:
        curves = {
            model: [(bits_per_second(each.rate), each.seconds) for each in results if each.model == model]
            for model in MODELS
        }
        options.svg.write_text(draw_step_times(curves))
    return 0


if __name__ == "__main__":
    sys.exit(main())
