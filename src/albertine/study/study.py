"""`albertine study`: test claims by training runs, and write their pages.

OUT/claims/NAME.SCALE.json, .html    the report of a claim
OUT/index.html                       all reports in OUT
OUT/grounds/, OUT/runs/              texts and runs, which claims share; see `ground` and `study_run`
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from albertine import progress
from albertine.atomic import atomic_file, is_unused
from albertine.device import choose_device
from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.study.claim import Claim, merged
from albertine.study.equal_time import StepTiming, equal_time_steps, measure_times
from albertine.study.ground import Ground, find_ground
from albertine.study.page import claim_page
from albertine.study.plan import StudyPlan, make_plan
from albertine.study.protocol import Protocol, arm_values, check_arms, find_protocol
from albertine.study.report import ClaimReport, make_report, measures_of
from albertine.study.settings import StudySettings
from albertine.study.study_run import StudyRun
from albertine.study.summary import CLAIMS_FOLDER, read_summaries, summary_page
from albertine.train.parallel_runs import is_faster_in_parallel, run_in_parallel

INDEX_FILE, _LOCK_FILE = "index.html", "study.lock"


@dataclass(frozen=True)
class PlannedClaim:
    """A claim with the runs that test it.

    Attributes:
        claim: the claim.
        scale: name of the scale.
        protocol: the protocol.
        ground: the text of all runs.
    """

    claim: Claim
    scale: str
    protocol: Protocol
    ground: Ground

    @property
    def runs(self) -> dict[str, list[StudyRun]]:
        """The runs of each arm, one for each seed."""
        values = {arm: arm_values(self.claim, self.protocol, arm) for arm in self.claim.arms}
        if self.claim.equal_time is not None:
            steps = equal_time_steps(self.timings, self.claim.equal_time)
            values = {arm: merged(values[arm], {"train": {"steps": steps[arm]}}) for arm in values}
        return {
            arm: [
                StudyRun(self.ground, self.protocol, arm, values[arm], seed)
                for seed in range(self.protocol.seeds)
            ]
            for arm in self.claim.arms
        }

    @property
    def timings(self) -> dict[str, StepTiming]:
        """The times of a step of each arm, if all arms train for the same time."""
        if self.claim.equal_time is None:
            return {}
        return {
            arm: StepTiming(self.ground, arm_values(self.claim, self.protocol, arm))
            for arm in self.claim.arms
        }

    def report(self) -> ClaimReport:
        """Return the report from the results that are stored."""
        return make_report(self.claim, self.scale, self.protocol, self.runs)


def plan_studies(claims: Sequence[Claim], out: Path, settings: StudySettings) -> list[StudyPlan]:
    """Return the plan of each claim; write nothing."""
    planned = planned_claims(claims, out, settings)
    return [make_plan(one.claim, one.runs, one.report()) for one in planned]


def run_studies(claims: Sequence[Claim], out: Path, settings: StudySettings) -> list[ClaimReport]:
    """Test claims, or go on where an interrupted call stopped; return their reports."""
    with _study_folder(out):
        planned = planned_claims(claims, out, settings)
        for one in planned:
            one.ground.build()
        measure_times(timing for one in planned for timing in one.timings.values())
        _compute_runs(planned)
        reports = [one.report() for one in planned]
        for report in reports:
            _write(report, out, settings)
        summary_page(read_summaries(out)).write(out / INDEX_FILE)
    progress.print_message(f"{out / INDEX_FILE}: open it in a browser")
    return reports


@contextlib.contextmanager
def _study_folder(out: Path) -> Iterator[None]:
    """Hold the lock of a folder of studies; raise `InputError` if it is something else."""
    if not is_unused(out) and not (out / _LOCK_FILE).exists():
        raise InputError(f"{out}: exists and holds no studies; give another --out")
    out.mkdir(parents=True, exist_ok=True)
    with file_lock(out / _LOCK_FILE, f"{out}: in use by another study; wait for it, or give another --out"):
        yield


def planned_claims(claims: Sequence[Claim], out: Path, settings: StudySettings) -> list[PlannedClaim]:
    """Return claims with their protocols and texts; write nothing."""
    return [_planned_claim(claim, out, settings) for claim in claims]


def _planned_claim(claim: Claim, out: Path, settings: StudySettings) -> PlannedClaim:
    """Return a claim with its protocol and text."""
    protocol = find_protocol(claim, settings.scale)
    if settings.seeds is not None:
        protocol = replace(protocol, seeds=settings.seeds)
    check_arms(claim, protocol)
    return PlannedClaim(claim, settings.scale, protocol, find_ground(out.resolve(), protocol, settings.text))


def _compute_runs(planned: Sequence[PlannedClaim]) -> None:
    """Compute all runs that are not finished, seed by seed, so that an early look at the results is fair."""
    runs = [(run, measures_of(one.claim)) for one in planned for arm in one.runs.values() for run in arm]
    jobs: dict[Path, _RunJob] = {}
    for run, measures in sorted(runs, key=lambda pair: pair[0].seed):
        if not run.is_finished(measures):
            job = jobs.get(run.model, _RunJob(()))
            jobs[run.model] = _RunJob((*job.parts, (run, measures)))
    if not jobs:
        return
    first_runs = [job.parts[0][0] for job in jobs.values()]
    widest = max(run.settings.model.hidden_size for run in first_runs)
    if is_faster_in_parallel(choose_device("auto"), widest):
        total_steps = sum(run.settings.train.steps for run in first_runs)
        run_in_parallel(f"Training {len(jobs)} runs", jobs, total_steps)
    else:
        for number, (run, job) in enumerate(zip(first_runs, jobs.values(), strict=True), start=1):
            progress.print_message(f"run {number} of {len(jobs)}: {run.name}")
            job()


@dataclass(frozen=True)
class _RunJob:
    """Computes the measures of one run that several claims may share, in a process of its own.

    Attributes:
        parts: the run as each claim evaluates it, with the measures of the claim.
    """

    parts: tuple[tuple[StudyRun, tuple[str, ...]], ...]

    def __call__(self) -> None:
        """Compute what is missing."""
        for run, measures in self.parts:
            run.compute(measures)


def _write(report: ClaimReport, out: Path, settings: StudySettings) -> None:
    """Write the report of a claim as JSON and as a page."""
    folder, name = out / CLAIMS_FOLDER, f"{report.claim.name}.{report.scale}"
    folder.mkdir(exist_ok=True)
    with atomic_file(folder / f"{name}.json") as partial:
        partial.write_text(progress.json_text(report.to_json(), indent=2) + "\n", encoding="utf-8")
    claim_page(report, command(report, settings)).write(folder / f"{name}.html")


def command(report: ClaimReport, settings: StudySettings) -> str:
    """Return the command that repeats a study."""
    options = [f"--scale {report.scale}"]
    if settings.text is not None:
        options.append(f"--text {settings.text}")
    if settings.seeds is not None:
        options.append(f"--seeds {settings.seeds}")
    return f"albertine study {report.claim.name} {' '.join(options)}"
