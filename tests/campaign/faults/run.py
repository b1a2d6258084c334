"""Draws trials of faults until the time is up, and reports what broke a promise."""

import contextlib
import importlib
import random
import re
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from tests.campaign.commands import command_text, import_all
from tests.campaign.faults import interruptions, resources
from tests.campaign.faults.damage import Damage, DamageTrials, all_damages
from tests.campaign.faults.promises import BrokenPromise
from tests.campaign.faults.trial import Reference, Trial, run_undisturbed
from tests.campaign.faults.unfinished import make_unfinished_examples
from tests.campaign.faults.writers import WRITERS
from tests.campaign.findings import Finding, Report

PART = "faults"
Fault = Callable[[Trial], int]  # returns how often the fault took place

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
    }
)
_NEED_MOUNT = ("full disk", "read-only")
_WEIGHTS = {"kill": 5, "stop request": 2}  # 1 for the others
_FRESH_FAULTS = ("kill", "stop request", "pause")  # also tried with new Python processes
_FRESH_SHARE = 0.2
# The same problem is reported once: the same command or file, and a message that starts alike.
_VARIABLE, _KEY_LENGTH = re.compile(r"\.\w{8}\b|\d+"), 60
_DAMAGE_SHARE = 0.4  # of the trials
_SLOW_SECONDS = {"demo": 900.0}  # slow commands are tried only if so much time is left; 30 for the others


class FaultTrials:
    """Runs trials of faults.

    Attributes:
        examples: a copy of the examples, with unfinished runs.
        faults: the faults that this machine allows.
    """

    def __init__(self, report: Report, examples: Path, work: Path):
        self._report, self._work = report, work
        self.examples, self._folder = work / "examples", work / "trial"
        shutil.copytree(examples, self.examples)
        make_unfinished_examples(self.examples, self._folder)
        self._damage_trials = DamageTrials(self.examples, self._folder)
        self._references: dict[str, Reference] = {}
        self._known: set[str] = set()
        mountable = resources.can_mount(work / "mount")
        self.faults = {name: fault for name, fault in FAULTS.items() if mountable or name not in _NEED_MOUNT}

    def run_damage(self, damage: Damage, seed: int) -> None:
        """Damage a file and run a command that reads it."""
        subject = f"{damage.kind}: {damage.reader.damaged}, {' '.join(damage.reader.arguments[:2])}"
        repeat = [damage.kind, damage.reader.command, "--file", damage.file, "--seed", str(seed)]
        with self._reported(f"{subject}: {damage.file}", damage.reader.arguments, self._folder, repeat):
            if self._damage_trials.run(damage, random.Random(seed)):
                self._report.count(PART, f"damage, {damage.kind}")

    def run_fault(self, fault: str, command: str, seed: int, *, is_fresh: bool) -> None:
        """Run a command with a fault."""
        rng, writer = random.Random(seed), WRITERS[command]
        repeat = [fault, command, "--seed", str(seed), *(["--fresh"] if is_fresh else [])]
        with self._reported(
            f"{fault}: {command}", writer.arguments, self._folder.with_name("before"), repeat
        ):
            if command not in self._references:
                self._references[command] = run_undisturbed(writer, self.examples, self._folder)
            reference = self._references[command]
            trial = Trial(writer, self._folder, self.examples, reference, rng, is_fresh)
            if times := self.faults[fault](trial):
                self._report.count(PART, f"{fault}, {command}", int(times))

    @contextlib.contextmanager
    def _reported(self, subject: str, arguments: list[str], state: Path, repeat: list[str]) -> Iterator[None]:
        """Report a broken promise of the block, and keep the folder from which it can be seen again."""
        try:
            yield
        except BrokenPromise as broken:
            self._report.count(PART, f"broken promise, {subject.partition(':')[0]}")
            key = _VARIABLE.sub("", f"{subject.rpartition(':')[2]}: {str(broken)[:_KEY_LENGTH]}")
            if key in self._known:
                return
            self._known.add(key)
            kept = self._work / "findings" / f"{len(self._known):04d}"
            if state.exists():
                shutil.copytree(state, kept, symlinks=True)
            problem = f"{broken} (again: python -m tests.campaign.faults {shlex.join(repeat)})"
            self._report.add(Finding(PART, subject, problem, command_text(arguments, kept)))


def run_part(report: Report, examples: Path, work: Path, rng: random.Random, deadline: float) -> None:
    """Run trials of faults until the deadline, at least one; keep what broke a promise in `work/findings`."""
    # A background job ignores Ctrl-C, and the commands that it starts would, too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    import_all_for_faults()
    trials = FaultTrials(report, examples, work)
    damages = list(all_damages(work / "examples"))
    rng.shuffle(damages)
    commands = _endless(list(WRITERS), rng)
    weighted_faults = [name for name in trials.faults for _ in range(_WEIGHTS.get(name, 1))]
    num_trials = 0
    while time.monotonic() < deadline or not num_trials:
        seed = rng.getrandbits(32)
        if rng.random() < _DAMAGE_SHARE and damages:
            trials.run_damage(damages.pop(), seed)
            num_trials += 1
            continue
        command, fault, fresh = next(commands), rng.choice(weighted_faults), rng.random() < _FRESH_SHARE
        if WRITERS[command].is_slow and deadline - time.monotonic() < _SLOW_SECONDS.get(command, 30):
            continue
        trials.run_fault(fault, command, seed, is_fresh=fresh and fault in _FRESH_FAULTS)
        num_trials += 1
    signal.signal(signal.SIGINT, before)


def import_all_for_faults() -> None:
    """Import what commands import when they run, so that a fork starts at once."""
    import_all()
    for name in ("pandas", "matplotlib.pyplot"):  # for plots, if they are installed
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _endless(names: list[str], rng: random.Random) -> Iterator[str]:
    """Yield all names in random order, again and again."""
    while True:
        rng.shuffle(names)
        yield from names
