"""Faults in a run of several nodes: the run must continue with the nodes that are left.

    python -m tests.campaign.elastic --faults 30 --seed 0 [--shard]

Nodes are network namespaces on this machine (`tools/nodes.py`), so this needs Linux, root and iproute2. All
nodes share the run folder. `torchrun --nnodes 1:3` runs on each, and the rendezvous is outside of them.
After each fault, the run must write a later checkpoint. With the next fault, a node that was killed starts
again, and one that was frozen goes on; it joins when it is ready. At the end the losses must be those of an
undisturbed run with one process. With --shard, the processes hold shards of weights and optimizer state.
"""

import argparse
import json
import math
import os
import random
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import Popen

from albertine.corpus.build import build_corpus
from albertine.corpus.settings import CorpusSettings
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer
from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from albertine.train.metrics_log import read_metrics
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from nodes import Nodes, exit_on_sigterm, torchrun, unusable_reason  # noqa: E402

__all__ = ["FAULTS", "find_problems", "run_faults", "unusable_reason"]

_STEPS_PER_FAULT = 60
_SAVE_EVERY = 5
_HANG_SECONDS = 400.0  # without a new checkpoint
_FROZEN_SECONDS = 60.0
_MAX_LOSS_DIFFERENCE = 0.02
_OPTIONS = (
    "--device cpu --model.embedding-size 16 --model.hidden-size 32 --model.layers 2 --model.heads 2 "
    "--model.max-length 64 --objective.max-length 32 --train.batch-tokens 512 "
    "--train.evaluate-every 1000000 --train.evaluate-tokens 4096 --train.precision fp32"
)
_TIMEOUT_MINUTES = 0.5
_MESSAGE = re.compile(r"^albertine: rank \d+ of \d+: .*", re.MULTILINE)


class Hang(Exception):  # noqa: N818  # the finding of a campaign
    """The run no longer makes progress, or has failed."""


class Finished(Exception):  # noqa: N818  # not an error
    """The run has taken all its steps."""


Workers = Mapping[int, tuple[int, int]]  # node and process id of each rank


@dataclass(frozen=True)
class Fault:
    """A fault and what followed.

    Attributes:
        kind: key of `FAULTS`.
        step: step of the newest checkpoint when it came.
        seconds: time until a later checkpoint.
        processes: number of processes before it, and then.
    """

    kind: str
    step: int
    seconds: float
    processes: tuple[int, int]


class ElasticRun:
    """A run on several nodes."""

    def __init__(self, nodes: Nodes, run: Path, arguments: list[str], logs: Path):
        self._nodes, self._run, self._arguments, self._logs = nodes, run, arguments, logs
        self._environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            # Otherwise processes can get addresses of an earlier start; see docs/scale.md.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }
        self._agents: dict[int, Popen[bytes]] = {}
        self._frozen: dict[int, list[int]] = {}  # processes of each frozen node

    def start(self) -> None:
        """Start the rendezvous and all nodes."""
        self._nodes.start_rendezvous(self._environment)
        for node in range(self._nodes.count):
            self.start_node(node)

    def start_node(self, node: int) -> None:
        """Start `torchrun` on a node."""
        options = [
            "--max-restarts", "1000", "--monitor-interval", "0.5", "--local-addr", self._nodes.address(node),
            "--rdzv-conf", "last_call_timeout=5",
        ]  # fmt: skip
        command = torchrun(f"1:{self._nodes.count}", 1, self._nodes.rendezvous, *options)
        self._agents[node] = self._nodes.start(
            node, [*command, "-m", "albertine", *self._arguments], self._environment, self._log(node)
        )

    def kill_node(self, node: int) -> None:
        """Kill a node; its peers are not told."""
        self._nodes.kill(node)
        self._agents.pop(node).wait()

    def freeze_node(self, node: int) -> None:
        """Stop all processes of a node, as if its machine was suspended; connections stay open."""
        self._frozen[node] = self._nodes.processes(node)
        for pid in self._frozen[node]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def thaw_nodes(self) -> None:
        """Let the frozen nodes go on."""
        for pids in self._frozen.values():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self._frozen.clear()

    def restart_lost_nodes(self) -> None:
        """Let frozen nodes go on; connect and start the nodes that were killed."""
        self.thaw_nodes()
        for node in range(self._nodes.count):
            if node not in self._agents:
                self._nodes.plug_in(node)
                self.start_node(node)

    @property
    def nodes_left(self) -> list[int]:
        """The nodes on which `torchrun` runs and is not frozen."""
        return sorted(self._agents.keys() - self._frozen.keys())

    def workers(self) -> Workers:
        """Return node and process id of each rank that runs."""
        found = {}
        for node in self.nodes_left:
            for pid in self._nodes.processes(node):
                with suppress(OSError):
                    environment = Path(f"/proc/{pid}/environ").read_bytes()
                    if match := re.search(rb"(?:^|\0)RANK=(\d+)", environment):
                        found[int(match[1])] = node, pid
        return found

    @property
    def newest_step(self) -> int:
        """Step of the newest checkpoint; -1 if there is none."""
        folders = (self._run / CHECKPOINTS_FOLDER).glob("step-????????")
        return max((int(folder.name.removeprefix("step-")) for folder in folders), default=-1)

    def wait_for_step(self, step: int) -> None:
        """Wait for a checkpoint of a step or a later one; raise `Hang` or `Finished` if none comes."""
        last, since = self.newest_step, time.monotonic()
        while (newest := self.newest_step) < step:
            if newest != last:
                last, since = newest, time.monotonic()
            if time.monotonic() - since > _HANG_SECONDS:
                raise Hang(f"no checkpoint after step {newest} for {_HANG_SECONDS:g} s")
            for node, agent in self._agents.items():
                if agent.poll() == 0:
                    raise Finished
                if agent.poll() is not None:
                    raise Hang(f"node {node} ended with status {agent.returncode}")
            time.sleep(0.02)

    def wait(self) -> list[int]:
        """Wait until all nodes have ended; return their statuses."""
        return [agent.wait() for agent in self._agents.values()]

    def messages(self) -> list[str]:
        """Return the lines with which processes said that they lost another one."""
        logs = [self._log(node) for node in range(self._nodes.count)]
        return [line for log in logs for line in _MESSAGE.findall(log.read_text(errors="replace"))]

    def _log(self, node: int) -> Path:
        return self._logs / f"node-{node}.log"


def _signal_worker(workers: Workers, rng: random.Random, number: signal.Signals) -> None:
    _, pid = workers[rng.choice(sorted(workers))]
    os.kill(pid, number)


def _kill_node(run: ElasticRun, workers: Workers, rng: random.Random, *, has_main_rank: bool) -> None:
    rank = 0 if has_main_rank else rng.choice([rank for rank in sorted(workers) if rank])
    run.kill_node(workers[rank][0])


def _freeze_node(run: ElasticRun, workers: Workers, rng: random.Random) -> None:
    run.freeze_node(workers[rng.choice([rank for rank in sorted(workers) if rank])][0])


def _freeze_main_node(run: ElasticRun, workers: Workers, _: random.Random) -> None:
    """Freeze the node of rank 0, which keeps the lock of the run folder, so that the others have to wait."""
    run.freeze_node(workers[0][0])
    time.sleep(_FROZEN_SECONDS)
    run.thaw_nodes()


FAULTS: Mapping[str, Callable[[ElasticRun, Workers, random.Random], None]] = {
    "kill a worker": lambda _, workers, rng: _signal_worker(workers, rng, signal.SIGKILL),
    "kill a node": lambda run, workers, rng: _kill_node(run, workers, rng, has_main_rank=False),
    "kill the node of rank 0": lambda run, workers, rng: _kill_node(run, workers, rng, has_main_rank=True),
    "freeze a worker": lambda _, workers, rng: _signal_worker(workers, rng, signal.SIGSTOP),
    "freeze a node": _freeze_node,
    "freeze the node of rank 0 for a while": _freeze_main_node,
}


def run_faults(
    out: Path,
    num_faults: int,
    seed: int,
    minutes: float = math.inf,
    num_nodes: int = 3,
    *,
    shard: bool = False,
) -> dict[str, object]:
    """Run a training run with faults and one without; return faults, losses and messages.

    Args:
        out: folder of all files; it is replaced.
        num_faults: number of faults; each kind comes equally often.
        seed: seed of their order, moments and targets.
        minutes: after this time, no further fault comes.
        num_nodes: number of nodes, with one process each.
        shard: whether the processes shard the weights.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    steps = str(_STEPS_PER_FAULT * (num_faults + 2))
    counts = ["--train.steps", steps, "--train.save-every", str(_SAVE_EVERY)]
    arguments = ["pretrain", "--corpus", str(_build_corpus(out)), *_OPTIONS.split(), *counts]
    elastic = [*arguments, "--out", str(out / "run"), "--train.timeout-minutes", str(_TIMEOUT_MINUTES)]
    elastic += ["--train.shard"] if shard else []
    with (out / "undisturbed.log").open("wb") as log, Nodes(num_nodes) as nodes:
        undisturbed = Popen(
            [sys.executable, "-m", "albertine", *arguments, "--out", str(out / "undisturbed")],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
        )
        try:
            run = ElasticRun(nodes, out / "run", elastic, out)
            run.start()
            faults = list(_fault_after_fault(run, num_faults, random.Random(seed), minutes))
            statuses = [*run.wait(), undisturbed.wait()]
        finally:
            undisturbed.kill()
        messages = run.messages()
    losses, expected = _losses(out / "run"), _losses(out / "undisturbed")
    return {
        "seed": seed,
        "shard": shard,
        "faults": [asdict(fault) for fault in faults],
        "statuses": statuses,
        "messages": messages,
        "steps": len(losses) - 1,
        "held_out_loss": losses[-1],
        "undisturbed_held_out_loss": expected[-1],
        "largest_difference": max(abs(a - b) for a, b in zip(losses, expected, strict=True)),
    }


def _fault_after_fault(
    run: ElasticRun, num_faults: int, rng: random.Random, minutes: float
) -> Iterator[Fault]:
    """Cause faults, each after the run has recovered from the one before; yield what followed."""
    kinds = [kind for _ in range(num_faults) for kind in FAULTS][:num_faults]
    rng.shuffle(kinds)
    deadline = time.monotonic() + 60 * minutes
    run.wait_for_step(_SAVE_EVERY)
    for number, kind in enumerate(kinds, start=1):
        if time.monotonic() > deadline:
            return
        try:
            fault = _run_fault(run, kind, rng)
        except Finished:
            return
        print(f"{number:3} {fault}", flush=True)
        yield fault
    run.restart_lost_nodes()


def _run_fault(run: ElasticRun, kind: str, rng: random.Random) -> Fault:
    """Cause a fault while at least two processes train, and wait for the next checkpoint."""
    run.restart_lost_nodes()
    while True:
        run.wait_for_step(run.newest_step)  # raises an error if the run has ended
        time.sleep(rng.uniform(0, 1))
        workers = run.workers()
        if len(workers) < 2 or 0 not in workers:
            continue
        step, started = run.newest_step, time.monotonic()
        with suppress(ProcessLookupError):  # it has just ended, to start again with another number of nodes
            FAULTS[kind](run, workers, rng)
            break
    run.wait_for_step(step + _SAVE_EVERY + 1)  # not the checkpoint that was being written
    seconds = round(time.monotonic() - started, 1)
    return Fault(kind, step, seconds, (len(workers), len(run.workers())))


def _losses(run: Path) -> list[float]:
    """Return the loss of each step, and then that on held-out data at the end."""
    lines = read_metrics(run)
    last = [line["held_out_loss"] for line in lines if "held_out_loss" in line][-1]
    return [line["loss"] for line in lines if "loss" in line] + [last]


def _build_corpus(out: Path) -> Path:
    """Build a small corpus of the little world."""
    write_world(out / "world", WorldSettings(stories=1500, extra=0, other=0, train=0, workers=1))
    text = [str(out / "world" / "text")]
    build_tokenizer(text, out / "tokenizer", TokenizerSettings(vocab_size=700))
    build_corpus(text, out / "tokenizer", out / "corpus", CorpusSettings(workers=1, held_out=0.05))
    return out / "corpus"


def find_problems(result: Mapping[str, object]) -> list[str]:
    """Return what a result has that the documentation does not promise."""
    problems = []
    if any(result["statuses"]):  # type: ignore[arg-type]  # a list
        problems.append(f"exit statuses {result['statuses']}")
    difference = result["largest_difference"]
    if not (isinstance(difference, float) and difference <= _MAX_LOSS_DIFFERENCE):  # NaN is not
        problems.append(f"a loss differs by {difference} from that of the undisturbed run")
    return problems


def main() -> int:
    """Run the faults with the options of the command line; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=30, help="number of faults")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random choices")
    parser.add_argument("--minutes", type=float, default=math.inf, help="minutes after which no fault comes")
    parser.add_argument("--shard", action="store_true", help="shard the weights over the processes")
    parser.add_argument("--out", type=Path, default=Path("build/elastic"), help="folder; it is replaced")
    options = parser.parse_args()
    if reason := unusable_reason():
        parser.error(reason)
    exit_on_sigterm()
    out = options.out.resolve()
    try:
        result = run_faults(out, options.faults, options.seed, options.minutes, shard=options.shard)
    except Hang as hang:
        print(f"FOUND {hang}; the output of the nodes is in {out}")
        return 1
    (out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    summary = {key: value for key, value in result.items() if key not in ("faults", "messages")}
    print(json.dumps(summary))
    for problem in find_problems(result):
        print(f"FOUND {problem}")
    return 1 if find_problems(result) else 0


if __name__ == "__main__":
    sys.exit(main())
