"""`albertine study`: test claims by training runs, and write their pages.

OUT/claims/NAME.SCALE.json, .html    the report of a claim
OUT/index.html                       all reports in OUT
OUT/data/, OUT/runs/, OUT/timings/   what claims share; see `data`, `study_run` and `equal_time`
OUT/study.lock                       locked while a study runs

OUT may be a URL; see `mirrored_studies`.
"""

import contextlib
import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.atomic import atomic_file, is_unused
from albertine.display import counted
from albertine.errors import InputError
from albertine.executors.executor import Executor
from albertine.file_lock import file_lock
from albertine.json_output import json_text
from albertine.storage.urls import storage_url
from albertine.study.claim import Claim, claim_at, claim_version, merged
from albertine.study.data import StudyData, find_data
from albertine.study.equal_time import StepTiming, equal_time_steps, measure_times, timed_on
from albertine.study.execution import execute
from albertine.study.mirrored_studies import LOCK_FILE, mirrored_studies, restored_studies
from albertine.study.page import claim_page
from albertine.study.plan import StudyPlan, make_plan
from albertine.study.protocol import (
    Protocol,
    arm_values,
    check_arms,
    check_other_scales,
    find_protocol,
    protocol_version,
    shortest_training,
    tasks_to_finetune,
)
from albertine.study.repeated_samples import check_epochs
from albertine.study.report import ClaimReport, claim_measures, make_report
from albertine.study.run_progress import planned_steps_together, steps_done_together
from albertine.study.settings import StudySettings
from albertine.study.study_run import StudyRun
from albertine.study.summary import CLAIMS_FOLDER, read_summaries, summary_page
from albertine.study.tasks import FinetuningPlan

INDEX_FILE = "index.html"


@dataclass(frozen=True)
class ClaimRuns:
    """A claim with the runs that test it.

    Attributes:
        claim: the claim.
        settings: settings of the command.
        protocol: the protocol.
        data: text and corpus of all runs.
        version: checksum of the content of the claim.
    """

    claim: Claim
    settings: StudySettings
    protocol: Protocol
    data: StudyData
    version: str

    def by_arm(self) -> dict[str, list[StudyRun]]:
        """Return the runs of each arm, one for each seed; they depend on the data, once these are built."""
        values = {arm: arm_values(self.claim, self.protocol, arm) for arm in self.claim.arms}
        if self.claim.equal_time is not None:
            steps = equal_time_steps(self.timings(), self.claim.equal_time)
            values = {arm: merged(values[arm], {"train": {"steps": steps[arm]}}) for arm in values}

        probe_length = shortest_training(self.claim, self.protocol)

        def run(arm: str, seed: int) -> StudyRun:
            start = self.claim.starts.get(arm)
            before = None if start is None else run(start, seed)
            plan = self._plan(arm)
            return StudyRun(self.data, self.protocol, arm, values[arm], seed, before, plan, probe_length)

        return {arm: [run(arm, seed) for seed in range(self.protocol.seeds)] for arm in self.claim.arms}

    def _plan(self, arm: str) -> FinetuningPlan | None:
        """Return how an arm is fine-tuned, if the claim says so."""
        plans = self.claim.finetuning
        return plans.get(arm, FinetuningPlan()) if plans and self.protocol.tasks else None

    def timings(self) -> dict[str, StepTiming]:
        """Return the times of a step of each arm, if all arms train for the same time."""
        if self.claim.equal_time is None:
            return {}
        return {
            arm: StepTiming.of(self.data, arm_values(self.claim, self.protocol, arm))
            for arm in self.claim.arms
        }

    def report(self, runs: dict[str, list[StudyRun]], *, with_fits: bool = True) -> ClaimReport:
        """Return the report from the results that are stored."""
        return make_report(
            self.claim,
            self.settings.scale,
            self.protocol,
            runs,
            with_fits=with_fits,
            timed_on=timed_on(self.timings()),
        )


def plan_studies(claims: Sequence[Claim], out: Path, settings: StudySettings) -> list[StudyPlan]:
    """Return the plan of each claim; write nothing."""
    plans = []
    with restored_studies(out) as folder:
        for one in claim_runs(claims, folder, settings):
            runs = one.by_arm()
            plans.append(make_plan(one.claim, runs, one.report(runs, with_fits=False)))
    return plans


def run_studies(
    claims: Sequence[Claim], out: Path, settings: StudySettings, executor: Executor | None = None
) -> list[ClaimReport]:
    """Test claims one after another, or resume an interrupted call; return their reports.

    Args:
        claims: the claims.
        out: folder or URL of all studies.
        settings: settings of the command.
        executor: where the runs are computed; None for this machine.
    """
    reports = []
    with mirrored_studies(out) as folder, _study_folder(folder):
        read_summaries(folder)  # a damaged report of another claim is refused before the training
        planned = claim_runs(claims, folder, settings)
        for one in planned:  # data that cannot be read is refused before the training, too
            if one.data.copies is not None:
                one.data.copies.write()
        for one in planned:
            reports.append(_test(one, executor))
            _write(reports[-1], one, folder, repeat_command(one.claim, one.settings, out))
            summary_page(read_summaries(folder)).write(folder / INDEX_FILE)
    progress.print_message(f"{folder / INDEX_FILE}: open it in a browser")
    return reports


@contextlib.contextmanager
def _study_folder(out: Path) -> Iterator[None]:
    """Hold the lock of a folder of studies; raise `InputError` if it is something else."""
    if not is_unused(out) and not (out / LOCK_FILE).exists():
        raise InputError(f"{out}: exists and holds no studies; give another --out")
    out.mkdir(parents=True, exist_ok=True)
    with file_lock(out / LOCK_FILE, f"{out}: in use by another study; wait for it, or give another --out"):
        yield


def claim_runs(claims: Sequence[Claim], out: Path, settings: StudySettings) -> list[ClaimRuns]:
    """Return claims with their protocols and data, all of them checked; write nothing."""
    planned = []
    labels: dict[str, str] = {}
    for claim in claims:
        first = labels.setdefault(claim.name, claim.label)
        if first != claim.label:
            raise InputError(
                f"{claim.label}: the claim in {first} has the same name; rename one of the files"
            )
        protocol = find_protocol(claim, settings.scale)
        check_other_scales(claim, settings.scale)
        if settings.seeds is not None:
            protocol = replace(protocol, seeds=settings.seeds)
        at_scale = claim_at(claim, settings.scale, has_tasks=bool(protocol.tasks))
        check_arms(at_scale, protocol)
        _say_what_is_left_out(claim, at_scale, settings.scale)
        data = find_data(out.resolve(), protocol, settings, tasks_to_finetune(claim, protocol))
        planned.append(ClaimRuns(at_scale, settings, protocol, data, claim_version(claim, settings.scale)))
    _say_what_is_not_used(planned, settings)
    return planned


def _say_what_is_not_used(planned: Sequence[ClaimRuns], settings: StudySettings) -> None:
    """Print for which claims the user's text or tasks are not used."""
    about_world = [one.claim.name for one in planned if settings.text is not None and one.data.text is None]
    if about_world:
        names = ", ".join(about_world)
        progress.print_message(f"{names}: tasks about the little world, so --text is not used")
    without_tasks = [
        one.claim.name for one in planned if settings.data is not None and one.data.copies is None
    ]
    if without_tasks:
        names = ", ".join(without_tasks)
        progress.print_message(f"{names}: no real tasks at this scale, so --data is not used")


def _say_what_is_left_out(claim: Claim, at_scale: Claim, scale: str) -> None:
    """Print which measures of a claim have no column at a scale, for want of tasks."""
    if names := [name for name in claim.columns if name not in at_scale.columns]:
        progress.print_message(f"{claim.name}: the scale {scale} has no tasks, so no {', '.join(names)}")


def _test(one: ClaimRuns, executor: Executor | None) -> ClaimReport:
    """Compute the runs of a claim that are not finished; return its report."""
    one.data.build(executor)
    if one.claim.finetuning and one.protocol.tasks:
        one.data.build_test_world(executor)
    measure_times(one.timings(), executor)
    runs, measures = one.by_arm(), claim_measures(one.claim)
    for arm_runs in runs.values():
        check_epochs(arm_runs[0])
    every = sorted((run for arm in runs.values() for run in arm), key=lambda run: run.seed)
    while remaining := [run for run in every if not run.is_finished(measures)]:
        # Arms that start from others have to wait for them.
        ready = [run for run in remaining if run.start is None or run.start.is_training_done]
        by_folder: dict[Path, list[StudyRun]] = {}
        for run in ready:
            by_folder.setdefault(run.model_folder, []).append(run)
        jobs = {folder: partial(_compute, together, measures) for folder, together in by_folder.items()}
        steps = sum(planned_steps_together(together, measures) for together in by_folder.values())
        widest = max(run.settings.model.hidden_size for run in ready)

        def steps_of(folder: Path, runs: Mapping[Path, Sequence[StudyRun]] = by_folder) -> int:
            return steps_done_together(runs[folder], measures)

        execute(f"{one.claim.name}, {counted(len(jobs), 'run')}", jobs, steps, widest, executor, steps_of)
    for run in every:  # an interrupted study has left some of a run that is finished now
        run.remove_finetuned_models()
    return one.report(runs)


def _compute(runs: Sequence[StudyRun], measures: Collection[str]) -> None:
    """Compute runs that share a pre-training one after another, because some also share fine-tuned models."""
    for run in runs:
        run.compute(measures)
    for run in runs:
        run.remove_finetuned_models()


def _write(report: ClaimReport, one: ClaimRuns, out: Path, command: str) -> None:
    """Write the report of a claim as JSON and as a page; studies of other texts have reports of their own."""
    folder, name = out / CLAIMS_FOLDER, f"{report.claim.name}.{report.scale}"
    if one.data.text is not None:
        name += f".{one.data.folder.name[:6]}"
    copies = one.data.copies
    if copies is not None:
        name += f".{copies.key(sorted(copies.folders))[:6]}"
    folder.mkdir(exist_ok=True)
    data = None if copies is None else str(copies.data)
    content = {
        **report.to_json(),
        "version": one.version,
        "protocol": protocol_version(one.protocol),
        "text": one.data.text,
        "data": data,
        "page": f"{name}.html",
    }
    if (folder / f"{name}.json").exists():
        stored = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        if stored["seeds"] > content["seeds"] and stored["version"] == one.version:
            if _has_more_seeds(stored, content):
                progress.print_message(f"{folder / name}.html: stays, with its {stored['seeds']} seeds")
                return
            progress.print_message(
                f"{folder / name}.html: replaced, because its {stored['seeds']} seeds are other runs, such "
                "as those of an earlier version"
            )
    with atomic_file(folder / f"{name}.json") as partial_file:
        partial_file.write_text(json_text(content, indent=2) + "\n", encoding="utf-8")
    text = one.data.text or "stories of the little world"
    tasks = "" if copies is None else copies.text
    claim_page(report, text, command, tasks).write(folder / f"{name}.html")


def _has_more_seeds(stored: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    """Return whether a stored report contains the runs of another one, measured in the same way."""
    runs = {arm["name"]: arm["runs"] for arm in stored["arms"]}
    # Reports of earlier versions have no protocol; the names of their runs are hashes of most of it.
    return stored.get("protocol") in (None, content["protocol"]) and all(
        runs.get(arm["name"], [])[: len(arm["runs"])] == arm["runs"] for arm in content["arms"]
    )


def repeat_command(claim: Claim, settings: StudySettings, out: Path) -> str:
    """Return the command that repeats a study."""
    place = storage_url(out) or str(out)
    words = ["albertine", "study", claim.label, "--scale", settings.scale, "--out", place]
    if settings.text is not None:
        words += ["--text", settings.text]
    if settings.data is not None:
        words += ["--data", str(settings.data)]
    if settings.seeds is not None:
        words += ["--seeds", str(settings.seeds)]
    return shlex.join(words)
