"""Studies from end to end, with runs of seconds."""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from albertine import device
from albertine.checksums import json_checksum
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import Diverged, InputError, WorkError
from albertine.finetune.finetune import finetune
from albertine.finetune.results import FinetuneResults
from albertine.finetune.settings import FinetuneSettings
from albertine.inference.settings import EvaluateSettings
from albertine.study import equal_time, study_run
from albertine.study import study as studies
from albertine.study import tasks as study_tasks
from albertine.study.catalog import claims_for, find_claim
from albertine.study.claim import claim_version
from albertine.study.equal_time import MeasuredStep, StepTiming
from albertine.study.page import claim_page
from albertine.study.protocol import find_protocol, protocol_version
from albertine.study.report import claim_measures
from albertine.study.run_measurements import PartResult
from albertine.study.run_part import RunPart
from albertine.study.run_progress import planned_steps, steps_done
from albertine.study.settings import StudySettings
from albertine.study.study_run import StudyRun
from albertine.study.task_examples import WorldExamples
from albertine.study.tasks import FinetuningPlan, PlanRunner
from albertine.text.tokenizer import load_tokenizer
from albertine.train.metrics_log import METRICS_FILE
from albertine.train.parallel_runs import last_step

CLAIM = """
claim = "Order is <better>."
source = "a test"
columns = ["sop_accuracy", "average", "last_angle", "iterated_angle"]
[arms]
none = { objective.pair = "none" }
SOP = { objective.pair = "sop" }
[[expectations]]
measure = "sop_accuracy"
arm = "SOP"
than = "none"
margin = 5
[[expectations]]
measure = "last_angle"
arm = "SOP"
than = 0
margin = 1
[scales.smoke]
stories = 60
examples = 16
dev_examples = 8
vocab_size = 400
probe_tokens = 800
tasks = ["sst-2"]
finetune_steps = 2
pretrain.train.steps = 3
[published]
columns = ["SOP %"]
rows.SOP = [86.5]
"""


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a claim, and the studies of it with two seeds."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "order.toml").write_text(CLAIM)
    assert run_command(app, _words(folder, "--quiet")) == 0
    return folder


def _words(folder: Path, *options: str) -> list[str]:
    claim, out = str(folder / "order.toml"), str(folder / "studies")
    return ["study", claim, "--scale", "smoke", "--out", out, *options]


def _report(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "studies" / "claims" / "order.smoke.json").read_text())
    return content


@pytest.mark.slow
def test_report(studied: Path) -> None:
    report = _report(studied)
    assert (report["claim"], report["outcome"], report["seeds"]) == ("order", "undecided", 2)
    assert [arm["name"] for arm in report["arms"]] == ["none", "SOP"]
    for arm in report["arms"]:
        assert len(arm["values"]["sop_accuracy"]) == 2
        assert len(set(arm["runs"])) == 2
        assert all(0 <= value <= 100 for value in arm["values"]["average"])
        assert all(value > 0 for value in arm["values"]["flops"])
        assert all(0 < value < 180 for value in arm["values"]["iterated_angle"])
    assert report["verdicts"][1]["text"] == "last angle, degrees: SOP above 0 by 1 or more"
    assert report["verdicts"][1]["difference"]["mean"] > 1
    difference = report["verdicts"][0]["difference"]
    means = [sum(arm["values"]["sop_accuracy"]) / 2 for arm in report["arms"]]
    assert difference["mean"] == pytest.approx(means[1] - means[0])


@pytest.mark.slow
def test_pages(studied: Path) -> None:
    page = (studied / "studies" / "claims" / "order.smoke.html").read_text()
    for text in (
        "Order is &lt;better&gt;.",
        "86.5",
        "per evaluation, in fp32.",
        "objective.pair = &quot;sop&quot;",
        "<svg",
        "Undecided",
    ):
        assert text in page, text
    index = (studied / "studies" / "index.html").read_text()
    assert 'href="claims/order.smoke.html"' in index


@pytest.mark.slow
def test_evaluations_of_earlier_versions_are_named(studied: Path, tmp_path: Path) -> None:
    shutil.copytree(studied, tmp_path / "copy")
    folder = tmp_path / "copy"
    file = folder / "studies/runs" / _report(studied)["arms"][0]["runs"][0] / "results/probe-800.json"
    content = json.loads(file.read_text())
    assert content.pop("precision") == "fp32"
    del content["machines"]
    file.write_text(json.dumps(content))
    assert run_command(app, _words(folder, "--quiet")) == 0
    page = (folder / "studies" / "claims" / "order.smoke.html").read_text()
    assert "per evaluation, in fp32; some runs by an earlier version, in bf16 where" in page


@pytest.mark.slow
def test_a_repeated_command_computes_nothing(studied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a run was computed again")

    before = _report(studied)
    monkeypatch.setattr(study_run, "pretrain", refuse)
    monkeypatch.setattr(study_run, "probe_measures", refuse)
    assert run_command(app, _words(studied, "--quiet")) == 0
    assert _report(studied) == before


@pytest.mark.long
@pytest.mark.slow
def test_an_incomplete_result_is_computed_again(
    studied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(studied, folder)
    before = _report(folder)
    none, sop = (folder / "studies/runs" / arm["runs"][0] / "results" for arm in before["arms"])
    (none / "training.json").write_text('{"values": {"flops": null}}')
    too_large = '{"values": {"sst-2": 1e308}}'
    for name, content in (("probe-800", "{}"), ("layers", "{}"), ("sst-2-2-16-8", too_large)):
        assert (sop / f"{name}.json").exists()
        (sop / f"{name}.json").write_text(content)
    assert run_command(app, _words(folder, "--print-plan", "--json")) == 0
    assert json.loads(capsys.readouterr().out)[0]["finished"] == 2
    assert run_command(app, _words(folder)) == 0
    after = _report(folder)
    for report in (before, after):
        del report["arms"][0]["values"]["seconds"]
    assert after == before


@pytest.mark.slow
def test_plan_of_finished_and_of_new_runs(
    studied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, _words(studied, "--print-plan", "--seeds", "3", "--json")) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert (plan["runs"], plan["finished"], plan["is_measured"]) == (6, 4, True)
    assert plan["flops"] > 0 < plan["seconds"]
    assert plan["finetuning_steps"] == 2 * 2  # of two runs, two steps on one task
    assert plan["detectable"][1]["difference"] is None  # three seeds decide nothing
    assert run_command(app, _words(studied, "--print-plan", "--seeds", "5", "--json")) == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert plan["detectable"][1]["difference"] >= 1  # at least the margin
    (tmp_path / "order.toml").write_text(CLAIM)
    assert run_command(app, _words(tmp_path, "--print-plan")) == 0
    output = " ".join(capsys.readouterr().out.split())  # lines are wrapped at the width of the terminal
    assert "order: 4 runs, 0 finished" in output
    assert run_command(app, _words(tmp_path, "--print-plan", "--cluster", "ray", "--json")) == 0
    line = "--cluster ray: not used; the time of the plan is that of this machine"
    assert line in " ".join(capsys.readouterr().err.split())
    assert "; evaluation and 8 steps of fine-tuning not included" in output
    assert "can detect nothing with 2 seeds; a verdict needs 5" in output
    assert not (tmp_path / "studies").exists()


@pytest.mark.slow
def test_the_machines_of_a_run_are_stored(studied: Path) -> None:
    here = device.machine_name(device.choose_device("auto")).rpartition(",")[0]  # runs share the threads
    for arm in _report(studied)["arms"]:
        for (machine,) in arm["machines"]:
            assert machine.rpartition(",")[0] == here
    assert "one known machine" not in (studied / "studies/claims/order.smoke.html").read_text()


def test_a_run_that_resumes_elsewhere_has_two_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data: Any = SimpleNamespace(corpus=tmp_path, store=tmp_path, is_built=False, corpus_checksum="")
    protocol = find_protocol(find_claim("table-5"), "minutes")
    run = StudyRun(data, protocol, "SOP", {"train": {"steps": 3}}, seed=0)
    run.folder.mkdir(parents=True)
    for machine, is_resumed, unfinished, expected in (
        ("other", True, "at step 1", ()),  # an earlier version has begun it
        ("first", False, None, ("first",)),
        ("other", True, None, ("first",)),  # it was finished, and only its result is missing
        ("second", True, "at step 2", ("first", "second")),
        ("first", True, "at step 2", ("first", "second")),
        ("second", False, None, ("second",)),
    ):
        monkeypatch.setattr(study_run, "machine_name", lambda _, machine=machine: machine)
        monkeypatch.setattr(study_run, "unfinished_run_progress", lambda _, text=unfinished: text)
        assert run._record_machine(is_resumed=is_resumed) == expected


def test_a_part_without_its_number_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the run would never be finished, and be computed for ever."""
    data: Any = SimpleNamespace(corpus=tmp_path, store=tmp_path, is_built=False, corpus_checksum="")
    run = StudyRun(data, find_protocol(find_claim("table-5"), "minutes"), "SOP", {"train": {"steps": 3}}, 0)
    part = RunPart("training", ("tokens_per_second",), PartResult)
    monkeypatch.setattr(StudyRun, "_parts", lambda *_: [part])
    with pytest.raises(WorkError, match="SOP, seed 0: training lacks a number after it was computed"):
        run.compute(["tokens_per_second"])


@pytest.mark.slow
def test_claims_share_their_runs(studied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = CLAIM.replace("none = {", '"no pairs" = {').replace('than = "none"', 'than = "no pairs"')
    (studied / "other.toml").write_text(other)
    words = ["study", str(studied / "other.toml"), "--scale", "smoke", "--out", str(studied / "studies")]
    assert run_command(app, [*words, "--print-plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["finished"] == 4


def test_arms_train_for_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deeper = 'SOP = { objective.pair = "sop", model.layers = 6 }'
    claim = CLAIM.replace('SOP = { objective.pair = "sop" }', deeper).replace("steps = 3", "steps = 30")
    (tmp_path / "order.toml").write_text('equal_time = "none"\n' + claim)
    monkeypatch.setattr(equal_time, "machine_kinds", lambda _: ["cpu"])
    monkeypatch.setattr(StepTiming, "is_measured", lambda *_: True)
    monkeypatch.setattr(
        StepTiming,
        "measured",
        lambda timing, _: MeasuredStep(0.1 * timing.settings.model.layers, "a CPU, 1 thread"),
    )
    claims = [find_claim(str(tmp_path / "order.toml"))]
    (plan,) = studies.plan_studies(claims, tmp_path / "out", StudySettings(scale="smoke"))
    (planned,) = studies.claim_runs(claims, tmp_path / "out", StudySettings(scale="smoke"))
    assert {arm: runs[0].settings.train.steps for arm, runs in planned.by_arm().items()} == {
        "none": 30,
        "SOP": 10,
    }
    assert plan.runs == 4
    report = planned.report(planned.by_arm())
    assert [arm["steps"] for arm in report.to_json()["arms"]] == [30, 10]
    page = claim_page(report, "stories", "albertine study order.toml").html()
    for settings in ('"none", train.steps = 30', '"sop", model.layers = 6, train.steps = 10'):
        assert settings.replace('"', "&quot;") in page
    assert "All arms train for the time of none" in page
    assert "which are measured first on a CPU, 1 thread." in page
    (tmp_path / "order.toml").write_text(
        'equal_time = "none"\n'
        + claim.replace("steps = 30", 'steps = 30\npretrain.curriculum.depth = "grow"')
    )
    assert run_command(app, _words(tmp_path)) == 2
    error = capsys.readouterr().err
    assert (
        'curriculum.depth: steps with equal time need a constant cost; give one value, such as "2"' in error
    )
    (tmp_path / "order.toml").write_text(
        'equal_time = "none"\n' + claim.replace("steps = 30", 'steps = 30\npretrain.curriculum.depth = "2"')
    )
    assert run_command(app, _words(tmp_path, "--print-plan")) == 0


@pytest.mark.slow
def test_steps_are_timed(studied: Path) -> None:
    claim = find_claim(str(studied / "order.toml"))
    (planned,) = studies.claim_runs([claim], studied / "studies", StudySettings(scale="smoke"))
    run = planned.by_arm()["SOP"][0]
    timing = StepTiming.of(run.data, run.values)
    assert equal_time.timed_on({"SOP": timing}) is None
    timing.measure()
    machine = equal_time.timed_on({"SOP": timing})
    assert machine == device.machine_name(device.choose_device("auto"))
    (file,) = (studied / "studies" / "timings").glob("*/*.json")
    content = json.loads(file.read_text())
    assert content["machine"] == machine
    assert content["seconds"] > 0 < content["measured_at"]
    timing.measure()
    assert json.loads(file.read_text()) == content  # not measured again
    file.write_text('{"seconds": 0}')
    with pytest.raises(InputError, match="seconds = 0; remove it and run the same command again"):
        timing.measured(file.parent.name)
    file.unlink()


def _timings(folder: Path, arms: str) -> dict[str, StepTiming]:
    """Return the timings of arms, each with another number of layers."""
    data: Any = SimpleNamespace(store=folder, corpus_checksum="corpus")
    values = {arm: {"train": {"steps": 30}, "model": {"layers": ord(arm)}} for arm in arms}
    return {arm: StepTiming(data, one, "fp32") for arm, one in values.items()}


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[int]]:
    """Return a function that moves a study to a machine, and returns the layers of the arms timed there."""

    def to(machine: str) -> list[int]:
        timed: list[int] = []

        def measure(timing: StepTiming) -> float:
            timed.append(timing.values["model"]["layers"])
            return 0.5 if machine == "slow" else 0.1

        monkeypatch.setattr(equal_time, "machine_name", lambda _: machine)
        monkeypatch.setattr(StepTiming, "_measure", measure)
        return timed

    return to


def test_all_arms_are_timed_on_one_kind_of_machine(tmp_path: Path, move: Callable[[str], list[int]]) -> None:
    timed = move("fast")
    equal_time.measure_times(_timings(tmp_path, "ab"))
    assert timed == [ord("a"), ord("b")]
    timed = move("slow")
    equal_time.measure_times(_timings(tmp_path, "ab"))  # the study has moved, and keeps its runs
    assert timed == []
    equal_time.measure_times(_timings(tmp_path, "abc"))
    assert timed == [ord("a"), ord("b"), ord("c")]
    assert equal_time.timed_on(_timings(tmp_path, "abc")) == "slow"
    assert equal_time.timed_on(_timings(tmp_path, "ab")) == "fast"
    timed = move("fast")
    equal_time.measure_times(_timings(tmp_path, "ad"))
    assert timed == [ord("d")]  # the other one is stored for this kind


def test_the_first_kind_of_machine_keeps_its_runs(tmp_path: Path, move: Callable[[str], list[int]]) -> None:
    """Its name is not the first in the alphabet."""
    move("slow")
    equal_time.measure_times(_timings(tmp_path, "ab"))
    timed = move("fast")
    equal_time.measure_times(_timings(tmp_path, "abc"))
    assert len(timed) == 3
    assert equal_time.timed_on(_timings(tmp_path, "ab")) == "slow"


def test_times_of_earlier_versions_keep_their_runs(tmp_path: Path, move: Callable[[str], list[int]]) -> None:
    timings = _timings(tmp_path, "ab")
    for timing, seconds in zip(timings.values(), (1, 2), strict=True):
        timing.folder.parent.mkdir(exist_ok=True)
        timing.folder.with_suffix(".json").write_text(json.dumps({"seconds": seconds}))
    timed = move("fast")
    equal_time.measure_times(timings)
    assert timed == []
    assert equal_time.timed_on(timings) is None
    assert equal_time.equal_time_steps(timings, "a") == {"a": 30, "b": 15}
    equal_time.measure_times(_timings(tmp_path, "abc"))
    assert len(timed) == 3


def test_times_of_several_machines_or_of_none_are_refused(
    tmp_path: Path, move: Callable[[str], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_two_nodes(_: str, jobs: Mapping[Path, Callable[[], None]], *__: Any, **___: Any) -> None:
        for name, job in zip(("slow", "fast"), jobs.values(), strict=True):
            move(name)
            job()

    monkeypatch.setattr(equal_time, "execute", lambda *_, **__: None)
    with pytest.raises(InputError, match="no time of a step of a after measuring; with --cluster, all nodes"):
        equal_time.measure_times(_timings(tmp_path, "ab"))
    monkeypatch.setattr(equal_time, "execute", on_two_nodes)
    with pytest.raises(InputError, match=r"different kinds of machines \(a on slow; b on fast\)"):
        equal_time.measure_times(_timings(tmp_path, "ab"))


@pytest.mark.slow
def test_runs_in_another_precision_are_other_runs(studied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study that moves to a machine with bf16 compares no arm in fp32 with one in bf16."""
    claim = find_claim(str(studied / "order.toml"))
    folders = {}
    for has_bf16, name in ((True, "bf16"), (False, "fp32")):
        monkeypatch.setattr(device, "has_fast_bf16", lambda _, has_bf16=has_bf16: has_bf16)
        (planned,) = studies.claim_runs([claim], studied / "studies", StudySettings(scale="smoke"))
        run = planned.by_arm()["SOP"][0]
        assert run.settings.train.precision == name
        folders[name] = {run.folder, StepTiming.of(run.data, run.values).folder}
    assert folders["bf16"].isdisjoint(folders["fp32"])


@pytest.mark.slow
def test_progress_counts_the_steps_of_fine_tuning(studied: Path) -> None:
    claim = find_claim(str(studied / "order.toml"))
    settings, measures = StudySettings(scale="smoke"), claim_measures(claim)

    def first_run(plan: FinetuningPlan | None) -> StudyRun:
        one_claim = replace(claim, finetuning={} if plan is None else {"SOP": plan})
        (planned,) = studies.claim_runs([one_claim], studied / "studies", settings)
        return planned.by_arm()["SOP"][0]

    assert steps_done(first_run(None), measures) == planned_steps(first_run(None), measures) == 3 + 2
    plan = FinetuningPlan(start="mnli", runs=2, rates=(1, 2))
    run = first_run(plan)
    assert planned_steps(run, measures) == 3 + 2 * (2 * 2 + 2)
    assert steps_done(run, measures) == 3
    for name in ("start-mnli-1.0-0", "sst-2-2.0-1", "rte-1.0-0"):  # the claim does not have the last one
        folder = run.finetuned_folder / name
        folder.mkdir(parents=True)
        (folder / METRICS_FILE).write_text('{"step": 1}\n{"step": 2}\n')
    assert steps_done(run, measures) == 3 + 2 * 2
    shutil.rmtree(run.finetuned_folder)


@pytest.mark.slow
def test_all_claims_of_a_scale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text("A text.\n\nAnother.\n")
    words = ["study", "--all", "--print-plan", "--json", "--text", str(tmp_path / "text.txt")]
    names = {}
    for scale in ("minutes", "gpu"):
        assert run_command(app, [*words, "--scale", scale, "--out", str(tmp_path / "out")]) == 0
        names[scale] = {plan["claim"] for plan in json.loads(capsys.readouterr().out)}
    assert "table-9" in names["minutes"] - names["gpu"]
    assert {"table-3", "table-5"} <= names["minutes"] & names["gpu"]


@pytest.mark.slow
def test_list_of_claims(studied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app, ["study", "--out", str(studied / "studies"), "--json"]) == 0
    rows = {row["claim"]: row["verdict"] for row in json.loads(capsys.readouterr().out)}
    assert rows["order"] == "undecided (smoke, 2 seeds)"
    assert rows["table-5"] == "not tested"
    assert run_command(app, ["study", "--out", str(studied / "studies")]) == 0
    assert "order (a test): undecided (smoke, 2 seeds)" in capsys.readouterr().out


@pytest.mark.slow
def test_reports_of_other_texts_and_of_other_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_run, "pretrain", _diverge)
    monkeypatch.setattr("albertine.study.execution.run_in_parallel", _run_here)
    (tmp_path / "text").mkdir()
    for number in range(60):
        (tmp_path / "text" / f"{number}.txt").write_text(f"The boat {number} is red. It is small.")
    untasked = CLAIM.replace('tasks = ["sst-2"]', "tasks = []").replace(
        "vocab_size = 400", "vocab_size = 200"
    )
    (tmp_path / "order.toml").write_text(untasked)
    assert run_command(app, _words(tmp_path, "--quiet")) == 0
    assert run_command(app, _words(tmp_path, "--quiet", "--text", str(tmp_path / "text"))) == 0
    (page,) = (tmp_path / "studies" / "claims").glob("order.smoke.??????.html")
    (tokenizer,) = (tmp_path / "studies" / "data").glob(f"{page.name.split('.')[2]}*/tokenizer")
    assert f"with a vocabulary of {len(load_tokenizer(tokenizer))} tokens" in page.read_text()
    one_document = str(tmp_path / "text" / "0.txt")
    assert run_command(app, _words(tmp_path, "--text", one_document)) == 2
    assert f"--text {one_document}: too few documents to hold some out" in capsys.readouterr().err
    assert run_command(app, ["study", "--out", str(tmp_path / "studies"), "--json"]) == 0
    rows = {row["claim"]: row["verdict"] for row in json.loads(capsys.readouterr().out)}
    expected = {"undecided (smoke, 2 seeds)", f"undecided (smoke, 2 seeds, {tmp_path / 'text'})"}
    assert set(rows["order"].split("; ")) == expected
    file = tmp_path / "studies" / "claims" / "order.smoke.json"
    report = json.loads(file.read_text()) | {"claim": "table-5"}
    file.with_name("table-5.smoke.json").write_text(json.dumps(report))
    assert run_command(app, ["study", "--out", str(tmp_path / "studies"), "--json"]) == 0
    rows = {row["claim"]: row["verdict"] for row in json.loads(capsys.readouterr().out)}
    assert rows["table-5"] == "undecided (smoke, 2 seeds, of another version of the claim)"
    claim = find_claim("table-5")
    report["version"] = claim_version(claim, "smoke")
    for protocol, note in (
        (protocol_version(find_protocol(claim, "smoke")), ""),
        ("0123456789abcdef", ", of another version of the protocol"),
        (None, ""),  # a report of an earlier version, which says nothing of it
    ):
        file.with_name("table-5.smoke.json").write_text(json.dumps(report | {"protocol": protocol}))
        assert run_command(app, ["study", "--out", str(tmp_path / "studies"), "--json"]) == 0
        rows = {row["claim"]: row["verdict"] for row in json.loads(capsys.readouterr().out)}
        assert rows["table-5"] == f"undecided (smoke, 2 seeds{note})"


@pytest.mark.slow
def test_a_report_with_more_seeds_stays_unless_its_runs_are_other_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study_run, "pretrain", _diverge)
    monkeypatch.setattr("albertine.study.execution.run_in_parallel", _run_here)
    (tmp_path / "order.toml").write_text(CLAIM.replace('tasks = ["sst-2"]', "tasks = []"))

    def seeds_after(*options: str) -> int:
        assert run_command(app, _words(tmp_path, *options)) == 0
        return int(_report(tmp_path)["seeds"])

    assert seeds_after("--seeds", "3") == 3
    assert seeds_after("--seeds", "2") == 3
    assert "order.smoke.html: stays, with its 3 seeds" in capsys.readouterr().err
    file = tmp_path / "studies" / "claims" / "order.smoke.json"
    report = json.loads(file.read_text())
    del report["protocol"]  # as in reports of earlier versions
    file.write_text(json.dumps(report))
    assert seeds_after("--seeds", "2") == 3
    monkeypatch.setattr("albertine.study.run_identity.RESULTS_VERSION", 1_000)
    assert seeds_after("--seeds", "2") == 2
    assert "replaced, because its 3 seeds are other runs" in capsys.readouterr().err
    assert seeds_after("--seeds", "3") == 3
    monkeypatch.setattr("albertine.study.protocol.RESULTS_VERSION", 1_000)  # the runs are the same
    assert seeds_after("--seeds", "2") == 2


def test_a_plan_needs_claims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app, ["study", "--print-plan", "--out", str(tmp_path)]) == 2
    assert "--print-plan: no claims; name some, or give --all" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--scale smoke", "--text a.txt", "--data tasks", "--seeds 2"])
def test_the_list_of_claims_takes_no_settings(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, ["study", *option.split(), "--out", str(tmp_path)]) == 2
    assert f"{option.split()[0]}: no claims; name some, or give --all" in capsys.readouterr().err


def _diverge(run: Path, _: Any) -> None:
    (run / "checkpoints" / "step-1").mkdir(parents=True)
    raise Diverged("the loss is not finite")


def _run_here(_activity: str, jobs: dict[Path, Any], *_: object) -> None:
    for job in jobs.values():
        job()


@pytest.mark.slow
def test_a_failed_run_is_a_result(
    studied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "order.toml").write_text(CLAIM)
    monkeypatch.setattr(study_run, "pretrain", _diverge)
    monkeypatch.setattr("albertine.study.execution.run_in_parallel", _run_here)
    assert run_command(app, _words(tmp_path)) == 0
    assert "failed" in capsys.readouterr().out
    report = _report(tmp_path)
    assert report["arms"][0]["failures"] == {"0": "the loss is not finite", "1": "the loss is not finite"}
    assert report["verdicts"][0]["reason"] == "no seed has this measure in both arms"
    assert not list(tmp_path.rglob("checkpoints"))  # of the runs that failed
    assert "the loss is not finite" in (tmp_path / "studies" / "claims" / "order.smoke.html").read_text()


@pytest.mark.slow
def test_a_fine_tuning_that_fails_is_a_result(
    studied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(studied, tmp_path, dirs_exist_ok=True)
    for result in tmp_path.glob("studies/runs/*/results/sst-2-*.json"):
        result.unlink()

    def diverge(*_: object) -> float:
        raise Diverged("the loss is not finite")

    monkeypatch.setattr(study_run, "finetuned_score", diverge)
    monkeypatch.setattr("albertine.study.execution.run_in_parallel", _run_here)
    assert run_command(app, _words(tmp_path, "--quiet")) == 0
    arm = _report(tmp_path)["arms"][0]
    assert arm["failures"]["0"] == "fine-tuning on sst-2: the loss is not finite"
    assert arm["values"]["average"] == [None, None]
    assert arm["values"]["sop_accuracy"][0] >= 0
    monkeypatch.setattr(study_run, "finetuned_score", None)  # a failed fine-tuning is not repeated
    assert run_command(app, _words(tmp_path, "--quiet")) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--all", "table-5"], "--all: claims are named too"),
        (["table-5", "--scale", "hour"], "--scale hour: must be one of smoke, minutes, evening, gpu"),
        (["table-5", "--scale", "evening"], "--text is missing; the scale is for "),
        (["table-5", "--seeds", "0"], "--seeds 0: must be at least 1"),
        (["nothing.toml"], "nothing.toml: No such file or directory"),
    ],
)
def test_wrong_input(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, ["study", *words, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "runs").exists()


def test_a_folder_of_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "photo.jpg").touch()
    (tmp_path / "order.toml").write_text(CLAIM)
    assert run_command(app, _words(tmp_path)) == 2
    assert "studies: exists and holds no studies; give another --out" in capsys.readouterr().err


def test_a_damaged_report_is_refused_before_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "order.toml").write_text(CLAIM)
    other = tmp_path / "studies" / "claims" / "other.smoke.json"
    other.parent.mkdir(parents=True)
    (tmp_path / "studies" / "study.lock").touch()
    other.write_text("{}")
    assert run_command(app, _words(tmp_path)) == 2
    message = f"{other}: no field claim; remove it and run the study again"
    assert message in capsys.readouterr().err
    assert not (tmp_path / "studies" / "data").exists()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("part", range(4))
def test_all_claims_run(part: int, tmp_path: Path) -> None:
    names = [claim.name for claim in claims_for(StudySettings(scale="smoke"))][part::4]
    words = ["study", *names, "--scale", "smoke", "--out", str(tmp_path / "studies"), "--quiet"]
    assert run_command(app, [*words, "--seeds", "1"]) == 0
    reports = [json.loads(file.read_text()) for file in (tmp_path / "studies" / "claims").glob("*.json")]
    assert len(reports) == len(names) > 4
    for report in reports:
        assert not any(arm["failures"] for arm in report["arms"]), report["claim"]


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_arms_that_start_from_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim = (
        CLAIM.replace('none = { objective.pair = "none" }', "shallow = { model.layers = 1 }")
        .replace('SOP = { objective.pair = "sop" }', "deep = { model.layers = 4 }")
        .replace("SOP", "deep")
        .replace('"none"', '"shallow"')
        .replace(', "average"', "")
        .replace('tasks = ["sst-2"]\n', "")
    )
    (tmp_path / "order.toml").write_text('starts = { deep = "shallow" }\n' + claim)
    assert run_command(app, _words(tmp_path, "--quiet", "--seeds", "1", "--json")) == 0
    (report,) = json.loads(capsys.readouterr().out)
    shallow, deep = (arm["values"] for arm in report["arms"])
    assert deep["flops"][0] > 3 * shallow["flops"][0]
    assert deep["seconds"][0] > shallow["seconds"][0]
    (run,) = (
        json.loads(file.read_text())
        for file in (tmp_path / "studies/runs").glob("*/run.json")
        if json.loads(file.read_text())["arm"] == "deep"
    )
    assert run["settings"]["init_from"][""] == report["arms"][0]["runs"][0]
    assert run["settings"]["objective"]["seed"] != 0  # other samples than its start
    page = next((tmp_path / "studies/claims").glob("*.html")).read_text()
    assert "starts from shallow" in page
    # The results of a start that are lost are computed again, and nothing else.
    start = tmp_path / "studies/runs" / report["arms"][0]["runs"][0]
    shutil.rmtree(start)
    words = _words(tmp_path, "--quiet", "--seeds", "1", "--json")
    assert run_command(app, [*words, "--print-plan"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["finished"] == 0
    assert not start.exists()
    assert run_command(app, words) == 0
    assert (start / "results/training.json").exists()


def test_arms_without_samples_that_come_again_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = CLAIM.replace('none = { objective.pair = "none" }', "none = { objective.distinct_epochs = 1 }")
    (tmp_path / "order.toml").write_text(claim)
    assert run_command(app, _words(tmp_path, "--quiet")) == 2
    message = capsys.readouterr().err
    assert "arm none: train.steps gives 0." in message
    assert "give less text, or more steps" in message


@pytest.mark.slow
def test_a_failed_start_fails_its_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "order.toml").write_text('starts = { SOP = "none" }\n' + CLAIM)

    monkeypatch.setattr(study_run, "pretrain", _diverge)
    monkeypatch.setattr("albertine.study.execution.run_in_parallel", _run_here)
    assert run_command(app, _words(tmp_path, "--quiet", "--seeds", "1")) == 0
    failures = [arm["failures"] for arm in _report(tmp_path)["arms"]]
    assert failures == [
        {"0": "the loss is not finite"},
        {"0": "none, seed 0, the run that it starts from, has failed"},
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_arms_may_differ_in_their_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claim = CLAIM.replace('none = { objective.pair = "none" }', "none = {}").replace(
        'SOP = { objective.pair = "sop" }', "SOP = {}"
    )
    plan = "finetuning.SOP.settings = { co_matching = true, train.lr = 0.002 }\n"
    claim = claim.replace("[arms]", f"{plan}[arms]").replace('"sst-2"', '"race"')
    (tmp_path / "order.toml").write_text(claim)
    assert run_command(app, _words(tmp_path, "--quiet", "--seeds", "1", "--json")) == 0
    ((first, second),) = (report["arms"] for report in json.loads(capsys.readouterr().out))
    assert first["runs"] == second["runs"]
    (results,) = (tmp_path / "studies/runs").glob("*/results")
    assert len(list(results.glob("race-*.json"))) == 2
    assert list((tmp_path / "studies/data").glob("*/world/race"))
    (page,) = (tmp_path / "studies/claims").glob("*.html")
    assert "finetuning.settings.co_matching = true" in page.read_text()


def test_plans_of_earlier_versions_keep_their_hash() -> None:
    assert (
        FinetuningPlan(start="mnli", runs=5).hash
        == json_checksum({"start": "mnli", "runs": 5, "ensemble": False})[:8]
    )
    assert FinetuningPlan(settings={"co_matching": True}).hash != FinetuningPlan().hash
    assert FinetuningPlan(rates=(1, 2)).hash == FinetuningPlan(rates=(1.0, 2.0)).hash
    assert FinetuningPlan(rates=(1, 2)).hash != FinetuningPlan().hash == FinetuningPlan(rates=(1,)).hash


def test_the_rate_with_the_best_median_on_dev_is_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_dev = {0.0005: iter([0.9, 0.2, 0.3]), 0.001: iter([0.5, 0.6, 0.5]), 0.002: iter([0.4, 0.5, 0.4])}
    rates: dict[Path, float] = {}

    def fake_finetune(model: Path, out: Path, settings: FinetuneSettings) -> SimpleNamespace:
        assert (model, settings.data) == (tmp_path / "model", str(tmp_path / "world"))
        assert settings.train.lr is not None
        rates[out] = settings.train.lr
        if settings.train.lr == 0.004:
            raise Diverged("the loss is not finite")
        return SimpleNamespace(median_metrics={"accuracy": next(on_dev[settings.train.lr])})

    def fake_evaluate(model: Path, settings: EvaluateSettings) -> list[SimpleNamespace]:
        assert settings.data == str(tmp_path / "test-world")
        return [SimpleNamespace(metrics={"accuracy": rates[model]})]

    monkeypatch.setattr(study_tasks, "finetune", fake_finetune)
    monkeypatch.setattr(study_tasks, "evaluate", fake_evaluate)
    plan = FinetuningPlan(runs=3, rates=(0.5, 1, 4, 2))
    worlds = WorldExamples(tmp_path / "world", tmp_path / "test-world")
    runner = PlanRunner(plan, worlds, tmp_path / "tasks", steps=5, seed=0, width=32)
    assert runner.score(tmp_path / "model", "sst-2") == 0.001
    assert len(rates) == 10  # in a folder of its own each; of the rate that diverges, one
    all_diverge = replace(runner, plan=FinetuningPlan(rates=(4,)))
    with pytest.raises(Diverged, match="not finite"):
        all_diverge.score(tmp_path / "model", "sst-2")


@pytest.mark.slow
def test_an_ensemble_and_a_single_model_share_the_fine_tuned_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = "[finetuning]\nnone = { runs = 2 }\nSOP = { runs = 2, ensemble = true }\n"
    claim = CLAIM.replace('{ objective.pair = "none" }', "{}").replace('{ objective.pair = "sop" }', "{}")
    claim = claim.replace('claim = "', 'pretrain.objective.pair = "sop"\nclaim = "')
    (tmp_path / "order.toml").write_text(claim.replace("[arms]", plans + "[arms]"))
    steps_before: list[int] = []

    def counting_finetune(model: Path, out: Path, settings: FinetuneSettings) -> FinetuneResults:
        steps_before.append(last_step(out))
        return finetune(model, out, settings)

    def run_here(_: str, jobs: Mapping[Path, Callable[[], object]], *__: object) -> None:
        for job in jobs.values():
            job()

    monkeypatch.setattr(study_tasks, "finetune", counting_finetune)
    monkeypatch.setattr(studies, "execute", run_here)
    assert run_command(app, _words(tmp_path, "--quiet", "--seeds", "1")) == 0, capsys.readouterr().err
    assert steps_before == [0, 0, 2, 2]  # trained for one arm, found by the other
    runs = tmp_path / "studies" / "runs"
    assert len(list(runs.glob("*/results/sst-2-*.json"))) == 2
    assert not list(runs.glob("*/tasks/*"))  # the scores are enough
    (tasks,) = runs.glob("*/tasks")
    for plan in (FinetuningPlan(runs=2), FinetuningPlan(runs=2, ensemble=True)):
        (tasks / f"{plan.hash}-2-16-8").mkdir()  # of an interrupted study
    assert run_command(app, _words(tmp_path, "--quiet", "--seeds", "1")) == 0
    assert not list(tasks.iterdir())


@pytest.mark.slow
def test_plans_of_fine_tuning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plans = (
        'finetuning.none = { start = "mnli", runs = 2 }\n'
        "finetuning.SOP = { runs = 2, ensemble = true }\n"
        '[pretrain]\nobjective.pair = "sop"\n'
    )
    claim = CLAIM.replace('none = { objective.pair = "none" }', "none = {}").replace(
        'SOP = { objective.pair = "sop" }', "SOP = {}"
    )
    (tmp_path / "order.toml").write_text(claim.replace("[arms]", plans + "[arms]"))
    words = _words(tmp_path, "--quiet", "--seeds", "1", "--json")
    assert run_command(app, words) == 0
    printed = capsys.readouterr().out
    (report,) = json.loads(printed)
    first, second = report["arms"]
    assert first["runs"] == second["runs"]  # the pre-training is shared
    assert all(0 <= arm["values"]["average"][0] <= 100 for arm in report["arms"])
    store = tmp_path / "studies"
    assert len(list((store / "runs").iterdir())) == 1
    (results,) = (store / "runs").glob("*/results")
    assert len(list(results.glob("sst-2-*.json"))) == 2
    assert not list((store / "runs").glob("*/tasks/*"))  # the scores are enough
    (test_world,) = (store / "data").glob("*/test-world")
    assert not (test_world / "race").exists()  # only where a claim names it
    (world,) = (store / "data").glob("*/world")
    dev_files = [folder / "glue/SST-2/dev.tsv" for folder in (world, test_world)]
    assert dev_files[0].read_text() != dev_files[1].read_text()
    assert run_command(app, words) == 0
    assert capsys.readouterr().out == printed
