"""The part of the campaign that runs trials of hostile input and keeps what they find."""

import json
import os
import random
import shutil
import time
from dataclasses import asdict
from pathlib import Path

from tests.campaign.commands import Limits, command_text
from tests.campaign.findings import Finding, Report
from tests.campaign.hostile_input.derived_examples import build_derived_examples
from tests.campaign.hostile_input.hostile_values import HostileValues, draw_hostile_values
from tests.campaign.hostile_input.oracle import LIMITS, PATIENT_LIMITS, is_exceeded_limit, problem_kind
from tests.campaign.hostile_input.trials import (
    Trial,
    arguments_of,
    draw_trial,
    prepare,
    run_trial,
    smaller_trials,
)

_PART = "input"
_MAX_CASE_BYTES = 100_000  # of a file that can become a case


class _Search:
    """Runs trials and keeps the first one of each kind of problem."""

    def __init__(self, report: Report, examples: Path, work: Path, values: HostileValues):
        self._report, self._work, self._values = report, work, values
        self._sources = [work / "derived", examples]
        self._folder = work / "trial"
        self._found: set[tuple[str, str]] = set()  # readers and kinds of problems

    def run(self, trial: Trial) -> None:
        """Run a trial; report its problem if it is the first of its kind for the reader."""
        if not prepare(trial, self._sources, self._values, self._folder):
            return
        self._report.count(_PART, trial.reader_name)
        problem = run_trial(trial, self._folder)
        if problem is None or (trial.reader_name, problem_kind(problem)) in self._found:
            return
        if is_exceeded_limit(problem) and self._repeat(trial, PATIENT_LIMITS) is None:
            return  # the machine was busy
        self._found.add((trial.reader_name, problem_kind(problem)))
        self._keep(self._smallest(trial, problem), problem)

    def _repeat(self, trial: Trial, limits: Limits = LIMITS) -> str | None:
        """Run a trial again; return its problem, or None."""
        changed = prepare(trial, self._sources, self._values, self._folder)
        return run_trial(trial, self._folder, limits) if changed else None

    def _smallest(self, trial: Trial, problem: str) -> Trial:
        """Return a trial with the same kind of problem and as few edits as possible."""
        if is_exceeded_limit(problem):
            return trial  # each attempt would take as long again
        for smaller in smaller_trials(trial):
            found = self._repeat(smaller)
            if found is not None and problem_kind(found) == problem_kind(problem):
                return self._smallest(smaller, found)
        return trial

    def _keep(self, trial: Trial, problem: str) -> None:
        """Keep a folder in which the command of a trial reproduces the problem, and report the finding."""
        number = len(self._found)
        folder = self._work / "findings" / f"{number:03}-{trial.reader_name}"
        prepare(trial, self._sources, self._values, folder)
        arguments = arguments_of(trial, folder)
        note = json.dumps({"problem": problem, "arguments": arguments, "trial": asdict(trial)}, indent=2)
        (self._work / "findings" / f"{folder.name}.json").write_text(note + "\n")
        file = trial.reader.path(folder)
        if not trial.special and file.stat().st_size <= _MAX_CASE_BYTES:
            cases = self._work / "findings" / "cases"
            cases.mkdir(exist_ok=True)
            shutil.copy(file, cases / f"{trial.reader_name}.{number:03}{file.suffix}")
        subject = f"{trial.reader_name}, {trial.special}" if trial.special else trial.reader_name
        self._report.add(Finding(_PART, subject, problem, command_text(arguments, folder)))


def run_part(report: Report, examples: Path, work: Path, rng: random.Random, deadline: float) -> None:
    """Run trials until the deadline."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # a hostile name must not reach the network
    values = draw_hostile_values(rng.getrandbits(32))
    build_derived_examples(examples, work / "derived")
    search = _Search(report, examples, work, values)
    while time.monotonic() < deadline:
        search.run(draw_trial(rng))
    shutil.rmtree(work / "trial", ignore_errors=True)
