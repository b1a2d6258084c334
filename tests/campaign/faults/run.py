"""Runs trials of random faults until the deadline, and reports broken promises."""

import argparse
import contextlib
import importlib
import random
import re
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from tests.campaign.commands import command_text, import_all
from tests.campaign.faults import interruptions, resources
from tests.campaign.faults.cluster import CLUSTER_COMMANDS, CLUSTER_FAULTS
from tests.campaign.faults.damage import Damage, DamageRunner, all_damages
from tests.campaign.faults.promises import BrokenPromise
from tests.campaign.faults.trial import FaultTrial, Reference, run_undisturbed, state_before
from tests.campaign.faults.unfinished import make_unfinished_examples
from tests.campaign.faults.writing_commands import WRITING_COMMANDS
from tests.campaign.findings import Finding, Report

PART = "faults"
Fault = Callable[[FaultTrial], int]  # returns how often the fault took place

FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "kill": interruptions.kill,
        "kill second run": interruptions.kill_second_run,
        "stop request": interruptions.stop_request,
        "pause": interruptions.pause,
        "two writers": interruptions.two_writers,
        "no more files": resources.no_more_files,
        "file size limit": resources.file_size_limit,
        "full disk": resources.full_disk,
        "read-only": resources.read_only,
        **CLUSTER_FAULTS,
    }
)
_NEED_MOUNT = ("full disk", "read-only")
_WEIGHTS = {"kill": 5, "stop request": 2}  # 1 for the others
_FRESH_FAULTS = ("kill", "stop request", "pause")  # also tried with new Python processes
_FRESH_SHARE = 0.2
_DAMAGE_SHARE = 0.4  # of the trials
_CLUSTER_SHARE = 0.01  # each of these takes as long as many others
# Seconds that must be left to try a slow command.
_NEEDED_SECONDS, _DEFAULT_NEEDED_SECONDS = {"demo": 900.0}, 30.0
_CLUSTER_NEEDED_SECONDS = 300.0
# Two messages are the same problem if their beginnings are alike, without numbers and random names.
_VARIABLE_TEXT, _KEY_LENGTH = re.compile(r"\.\w{8}\b|\d+"), 60


class FaultRunner:
    """Runs trials of faults, and reports each broken promise once.

    Attributes:
        examples: a copy of the examples, with unfinished runs.
        faults: the faults that this machine allows.
    """

    def __init__(self, report: Report, examples: Path, work: Path):
        self._report, self._work = report, work
        self.examples, self._folder = work / "examples", work / "trial"
        shutil.copytree(examples, self.examples)
        make_unfinished_examples(self.examples, self._folder)
        self._damage_runner = DamageRunner(self.examples, self._folder)
        self._references: dict[str, Reference] = {}
        self._reported_problems: set[str] = set()
        is_mountable = resources.can_mount(work / "mount")
        self.faults = {
            name: fault for name, fault in FAULTS.items() if is_mountable or name not in _NEED_MOUNT
        }
        if find_spec("ray") is None:  # it is not built for every platform
            self.faults = {name: fault for name, fault in self.faults.items() if name not in CLUSTER_FAULTS}

    def run_damage(self, damage: Damage, seed: int) -> None:
        """Damage a file, and run a command that reads it."""
        reader = damage.reader
        subject = f"{damage.kind}: {reader.damaged}, {' '.join(reader.arguments[:2])}: {damage.file}"
        repeat = [damage.kind, reader.command, "--file", damage.file, "--seed", str(seed)]
        with self._report_broken_promise(subject, reader.arguments, self._folder, repeat):
            if self._damage_runner.run(damage, random.Random(seed)):
                self._report.count(PART, f"damage, {damage.kind}")

    def run_fault(self, fault: str, name: str, seed: int, *, is_fresh: bool) -> None:
        """Run a command with a fault.

        Args:
            fault: key of `FAULTS`.
            name: key of `WRITING_COMMANDS`.
            seed: seed of the trial.
            is_fresh: whether a new Python process runs the command, instead of a fork.
        """
        rng, writer = random.Random(seed), WRITING_COMMANDS[name]
        repeat = [fault, name, "--seed", str(seed), *(["--fresh"] if is_fresh else [])]
        before = state_before(self._folder)
        with self._report_broken_promise(f"{fault}: {name}", writer.arguments, before, repeat):
            if name not in self._references:
                self._references[name] = run_undisturbed(writer, self.examples, self._folder)
            reference = self._references[name]
            trial = FaultTrial(writer, self._folder, self.examples, reference, rng, is_fresh)
            if times := self.faults[fault](trial):
                self._report.count(PART, f"{fault}, {name}", int(times))

    @contextlib.contextmanager
    def _report_broken_promise(
        self, subject: str, arguments: list[str], state: Path, repeat: list[str]
    ) -> Iterator[None]:
        """Report a broken promise in the block, unless the same problem has been reported.

        Args:
            subject: the fault and the command, for the report.
            arguments: the arguments of the command.
            state: the folder in which the command shows the problem; a copy is kept.
            repeat: the options that repeat the trial.
        """
        try:
            yield
        except BrokenPromise as broken:
            self._report.count(PART, f"broken promise, {subject.partition(':')[0]}")
            key = _VARIABLE_TEXT.sub("", f"{subject.rpartition(':')[2]}: {str(broken)[:_KEY_LENGTH]}")
            if key in self._reported_problems:
                return
            self._reported_problems.add(key)
            kept = self._work / "findings" / f"{len(self._reported_problems):04d}"
            if state.exists():
                shutil.copytree(state, kept, symlinks=True)
            problem = f"{broken} (repeat: python -m tests.campaign.faults {shlex.join(repeat)})"
            self._report.add(Finding(PART, subject, problem, command_text(arguments, kept)))


def run_part(report: Report, examples: Path, work: Path, rng: random.Random, deadline: float) -> None:
    """Run trials of faults until the deadline, at least one; keep what broke a promise in `work/findings`."""
    # In a background job SIGINT is ignored, and the commands that it starts would ignore it, too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    import_all_for_faults()
    runner = FaultRunner(report, examples, work)
    damages = list(all_damages(work / "examples"))
    rng.shuffle(damages)
    names = _random_names(list(WRITING_COMMANDS), rng)
    cluster_faults = [fault for fault in runner.faults if fault in CLUSTER_FAULTS]
    weighted_faults = [
        fault for fault in runner.faults for _ in range(_WEIGHTS.get(fault, 1)) if fault not in CLUSTER_FAULTS
    ]
    num_trials = 0
    while time.monotonic() < deadline or not num_trials:
        seed = rng.getrandbits(32)
        if rng.random() < _DAMAGE_SHARE and damages:
            runner.run_damage(damages.pop(), seed)
        elif cluster_faults and rng.random() < _CLUSTER_SHARE:
            if deadline - time.monotonic() < _CLUSTER_NEEDED_SECONDS:
                continue
            fault, name = rng.choice(cluster_faults), rng.choice(CLUSTER_COMMANDS)
            runner.run_fault(fault, name, seed, is_fresh=False)
        else:
            name, fault, is_fresh = next(names), rng.choice(weighted_faults), rng.random() < _FRESH_SHARE
            needed_seconds = _NEEDED_SECONDS.get(name, _DEFAULT_NEEDED_SECONDS)
            if WRITING_COMMANDS[name].is_slow and deadline - time.monotonic() < needed_seconds:
                continue
            runner.run_fault(fault, name, seed, is_fresh=is_fresh and fault in _FRESH_FAULTS)
        num_trials += 1
    signal.signal(signal.SIGINT, before)


def share_of(text: str) -> slice:
    """Return the slice that "I/N" means: every N-th of a sequence, from the I-th on."""
    index, num_shares = map(int, text.split("/"))
    if not 1 <= index <= num_shares:
        raise argparse.ArgumentTypeError(f"{text}: expected I/N with I from 1 to N")
    return slice(index - 1, None, num_shares)


def import_all_for_faults() -> None:
    """Import all modules of Albertine, and what commands import when they run."""
    import_all()
    for name in ("pandas", "matplotlib.pyplot"):  # for plots, if they are installed
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _random_names(names: list[str], rng: random.Random) -> Iterator[str]:
    """Yield all names in random order, again and again."""
    while True:
        rng.shuffle(names)
        yield from names
