"""Claims: those of the package are valid at every scale, and wrong files are refused in one line."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest

from albertine.errors import InputError
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import SettingsSource, build_settings
from albertine.study.catalog import claim_names, find_claim
from albertine.study.claim import claim_version, merged
from albertine.study.claim_file import parse_claim
from albertine.study.page import _arm_settings
from albertine.study.protocol import (
    arm_values,
    check_arms,
    check_other_scales,
    find_protocol,
    scale_names,
    shortest_training,
)
from albertine.study.settings import ScaleName, StudySettings
from albertine.study.study import claim_runs, plan_studies
from tests.study.test_real_tasks import COLUMNS, write_dream, write_tasks

CLAIM = """
claim = "Order is better."
source = "a test"
columns = ["sop_accuracy"]
[arms]
NSP = { objective.pair = "nsp" }
SOP = { objective.pair = "sop" }
[[expectations]]
measure = "sop_accuracy"
arm = "SOP"
than = "NSP"
margin = 5
"""
MEASURE = 'measure = "sop_accuracy"'
HALTING = 'model.depth_rule = "halting"'


def test_scales_of_the_command_are_those_of_the_file() -> None:
    assert get_args(ScaleName) == scale_names()


@pytest.mark.parametrize("scale", scale_names())
@pytest.mark.parametrize("name", claim_names())
def test_claims_of_the_package_are_valid(name: str, scale: str, tmp_path: Path) -> None:
    claim = find_claim(name)
    assert claim.expectations or claim.recurrence
    (tmp_path / "text.txt").write_text("A text.\n\nAnother.\n")
    data = write_tasks(tmp_path / "data", *COLUMNS)
    write_dream(data / "dream")
    settings = StudySettings(scale=scale, text=str(tmp_path / "text.txt"), data=data)  # type: ignore[arg-type]
    if claim.only_scales and scale not in claim.only_scales:
        with pytest.raises(
            InputError,
            match=f"its arms and tasks are meant for the scale {' or '.join(claim.only_scales)}",
        ):
            plan_studies([claim], tmp_path / "out", settings)
        return
    (plan,) = plan_studies([claim], tmp_path / "out", settings)
    different_arms = len({str(settings) for settings in claim.arms.values()})
    assert plan.runs >= different_arms * (claim.seeds or (2 if scale == "smoke" else 5))
    assert plan.detectable or claim.recurrence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CLAIM + 'only_scales = ["minuts"]\n', "minuts: unknown scale (did you mean minutes?)"),
        (CLAIM + 'only_scales = ["minutes"]\n', "c: expects nothing at the scale smoke; change only_scales"),
        (CLAIM + "[scales.smoke.deviations]\nsop_acuracy = 1\n", "sop_acuracy: unknown"),
        (CLAIM + "[scales.smoke.deviations]\nsop_accuracy = -1\n", "deviations.sop_accuracy = -1"),
        (CLAIM + "[pretrain]\ntrain.minutes = 1\n", "train.minutes"),
        (CLAIM.replace('"nsp"', '"sop"'), "c: arms NSP and SOP: the same settings at this scale"),
        (
            CLAIM.replace('measure = "sop_accuracy"', 'measure = "mean_steps"'),
            "model.depth_rule must be halting",
        ),
        (
            CLAIM + "[pretrain]\nmodel.segments = 1\n",
            "c: arm SOP: for the measure sop_accuracy, model.segments must be 2",
        ),
        (
            CLAIM.replace(MEASURE, 'measure = "iterated_angle"') + '[pretrain]\nmodel.share = "none"\n',
            "c: arm SOP: for the measure iterated_angle, all layers must share their weights",
        ),
    ],
)
def test_what_a_scale_cannot_use_is_refused(text: str, message: str) -> None:
    claim = parse_claim(text, "c", "c.toml")
    with pytest.raises(InputError) as error:
        check_arms(claim, find_protocol(claim, "smoke"))
    assert message in str(error.value)


def test_an_arm_that_starts_from_another_has_its_model() -> None:
    halting = CLAIM.replace(MEASURE, 'measure = "mean_steps"').replace('objective.pair = "nsp"', HALTING)
    halting = halting.replace('{ objective.pair = "sop" }', "{ train.steps = 4 }\n[starts]\nSOP = 'NSP'")
    claim = parse_claim(halting, "c", "c.toml")
    check_arms(claim, find_protocol(claim, "smoke"))
    claim = parse_claim(halting.replace(HALTING, "train.steps = 5"), "c", "c.toml")
    with pytest.raises(InputError, match=r"arm SOP: for the measure mean_steps, model\.depth_rule must be"):
        check_arms(claim, find_protocol(claim, "smoke"))


@pytest.mark.parametrize("plans", ["NSP = {}", "NSP = { rates = [1] }\nSOP = { rates = [1.0] }"])
def test_plans_that_do_the_same_do_not_make_arms_different(plans: str) -> None:
    text = CLAIM.replace('"nsp"', '"sop"') + f'[finetuning]\n{plans}\n[scales.smoke]\ntasks = ["mnli"]\n'
    claim = parse_claim(text, "c", "c.toml")
    with pytest.raises(InputError, match="arms NSP and SOP: the same settings"):
        check_arms(claim, find_protocol(claim, "smoke"))


def test_a_scale_that_tests_less_has_a_sentence_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("A text.\n\nAnother.\n")
    settings = StudySettings(scale="evening", text=str(tmp_path / "text.txt"))
    (plan,) = plan_studies([find_claim("table-5")], tmp_path / "out", settings)
    assert "tasks" in find_claim("table-5").claim
    assert "tasks" not in plan.claim.claim
    assert "table-5: the scale evening has no tasks, so no average" in capsys.readouterr().err


def test_claims_of_tables_come_first_and_by_number() -> None:
    names = claim_names()
    assert names[:3] == ["table-2", "table-3", "table-4"]
    assert names.index("table-9") < names.index("table-10") < names.index("albertine")


def test_a_plan_knows_what_seeds_can_detect_before_any_run(tmp_path: Path) -> None:
    (plan,) = plan_studies([find_claim("local-start")], tmp_path / "out", StudySettings(scale="minutes"))
    (detectable,) = plan.detectable
    assert detectable.difference == pytest.approx(0.083, abs=0.01)
    assert not detectable.is_measured


def test_another_scale_leaves_the_version_of_a_claim_the_same() -> None:
    claim = find_claim("table-4")
    without_gpu = replace(claim, scales={"evening": claim.scales["evening"]})
    assert claim_version(claim, "minutes") == claim_version(without_gpu, "minutes")
    assert claim_version(claim, "gpu") != claim_version(without_gpu, "gpu")
    of_evening = find_claim("table-2")
    expectations = [one for one in of_evening.expectations if "evening" not in one.only_scales]
    changed = replace(of_evening, expectations=tuple(expectations), note="Another note.")
    assert claim_version(of_evening, "minutes") == claim_version(changed, "minutes")
    assert claim_version(of_evening, "evening") != claim_version(changed, "evening")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "[", "c.toml: not valid TOML"),
        ('source = "a test"', "", "c.toml: no field source"),
        ('source = "a test"', "source = 5", "c.toml: source is 5, expected text"),
        ("", "[other]", "c.toml: unknown field 'other'"),
        ('claim = "', 'sed = 3\nclaim = "', "c.toml: unknown field 'sed' (did you mean seeds?)"),
        ("", "[finetuning]\nSOP = { run = 2 }", "unknown field 'run' (did you mean runs?)"),
        ('["sop_accuracy"]', '["sop"]', "c.toml: sop: unknown measure; known: parameters"),
        ('["sop_accuracy"]', '["sop_acuracy"]', "(did you mean sop_accuracy?)"),
        ('than = "NSP"', 'than = "NPS"', "c.toml: expectations: NPS: no such arm (did you mean NSP?)"),
        ("margin = 5", "margin = -5", "margin = -5: must not be negative"),
        ("claim =", 'name = "x"\nclaim =', "c.toml: name: not a key of a claim"),
        ("margin = 5", "", "c.toml: an item of expectations: no field margin"),
        ('SOP = { objective.pair = "sop" }', "SOP = 5", "c.toml: arms.SOP: expected a table of settings"),
        ('NSP = { objective.pair = "nsp" }', '"\\u001b" = {}', "c.toml: arms: '\\x1b': use up to 40 letters"),
        ("[arms]", 'equal_time = "x"\n[arms]', "c.toml: equal_time: x: no such arm"),
        ("", "[recurrence]\nabove = 0", "c.toml: recurrence: no field below"),
        (
            "",
            "[recurrence]\nabove = 1\nbelow = 0",
            "above = 1, below = 0: must be an interval",
        ),
        ("", '[recurrence]\nabove = "0"\nbelow = 1', "c.toml: recurrence: above is text, expected a number"),
        ("", "[finetuning]\nSPO = {}", "c.toml: finetuning: SPO: no such arm (did you mean SOP?)"),
        (
            "",
            "[finetuning]\nSOP = { rates = [0.5, 0] }",
            "finetuning.SOP: rates: must be factors of the learning rate above 0",
        ),
        ("", "[finetuning]\nSOP = { rates = [] }", "finetuning.SOP: rates: must be factors"),
        ("", "[finetuning]\nSOP = { rates = [1, 1.0] }", "finetuning.SOP: rates: a factor twice; remove one"),
        ("", "[finetuning]\nSOP = { runs = 0 }", "finetuning.SOP: runs = 0: must be 1 to 100"),
        (
            "",
            "[finetuning]\nSOP = { ensemble = true }",
            "finetuning.SOP: runs = 1: must be 2 to 100 for an ensemble",
        ),
        ("", '[finetuning]\nSOP = { start = "wsc" }', "finetuning.SOP: start = wsc: known: mnli, sst-2"),
        ("", '[starts]\nSOP = "NPS"', "c.toml: starts: NPS: no such arm (did you mean NSP?)"),
        ("", '[starts]\nx = "NSP"', "c.toml: starts: x: no such arm"),
        (
            "",
            '[starts]\nSOP = "NSP"\nNSP = "SOP"',
            "c.toml: starts: SOP -> NSP -> SOP: an arm cannot",
        ),
        (
            "[arms]",
            'equal_time = "SOP"\nstarts = { SOP = "NSP" }\n[arms]',
            "c.toml: equal_time and starts: the time of an arm would",
        ),
        (
            "[arms]",
            'starts = { SOP = "NSP" }\n[recurrence]\nabove = 0\nbelow = 1\n[arms]',
            "c.toml: recurrence and starts: the tokens of an arm would lack those of its start",
        ),
        ('than = "NSP"', 'than = "SOP"', "c.toml: expectations: SOP: compared with itself; name another arm"),
        (
            "",
            CLAIM[CLAIM.index("[[expect") :].replace("margin = 5", "margin = 6"),
            "SOP %: SOP above NSP by 5 or more: another one is about the same; remove one",
        ),
        ("", "[scales]\nsmoke = 5", "c.toml: scales.smoke: expected a table"),
        ("", "[scales]\nsmoke.claim = 5", "c.toml: scales.smoke.claim: expected a sentence"),
        ("[arms]", "seeds = 0\n[arms]", "c.toml: seeds = 0: must be 1 to 100"),
        (
            "",
            '[published]\ncolumns = ["a"]\nrows.SOP = [1, 2]',
            "published.rows.SOP: 2 numbers for 1 column",
        ),
    ],
)
def test_wrong_claims(old: str, new: str, message: str) -> None:
    text = CLAIM.replace(old, new, 1) if old else CLAIM + new
    with pytest.raises(InputError) as error:
        parse_claim(text, "c", "c.toml")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("[scales.small]", "small: unknown scale; known: smoke, minutes, evening, gpu"),
        ("[scales.smoke]\nseeds = 0", "seeds = 0: must be 1 to 100"),
        ("[scales.smoke]\nstories = 19", "scales.smoke.stories = 19: must be 20 to 10,000,000"),
        ("[scales.smoke]\ndev_examples = 0", "scales.smoke.dev_examples = 0: must be 1 to 1,000,000"),
        ('[scales.smoke]\ntasks = ["mnli"]\nexamples = 1', "scales.smoke.examples = 1: must be 2 to"),
        ('[scales.smoke]\ntasks = ["mnli"]\nfinetune_steps = 0', "finetune_steps = 0: must be 1 to"),
        ("[scales.smoke]\nprobe_tokens = -5", "probe_tokens = -5: must be 64 to 1,000,000,000"),
        ('[scales.smoke]\ntext = "own"', "scales.smoke.text: a claim cannot change it"),
        ("[scales.smoke.arms]\nSOB = {}", "c: scales.smoke.arms: SOB: no such arm (did you mean SOP?)"),
        ("[scales.smoke.arms]\nSOP = 5", "c: scales.smoke.arms.SOP: expected a table of settings"),
        ("[pretrain]\ntrain.seed = 5", "arm NSP: train.seed: a study sets it for all runs; remove it"),
        (
            "[pretrain]\nobjective.max_length = 512",
            "arm NSP: samples of 512 tokens, but model.max_length = 64",
        ),
        (
            '[[expectations]]\nmeasure = "mnli"\narm = "SOP"\nthan = "NSP"\nmargin = 1',
            "c: an expectation is about mnli",
        ),
        ('[scales.smoke]\nstories = "x"', "scales.smoke: stories is text, expected an integer"),
        ('[scales.smoke]\ntasks = ["x"]', "tasks: x: known: mnli, sst-2, rte"),
        ('[scales.smoke]\ntasks = ["mnli", "rte", "mnli"]', "c: tasks: mnli: named twice; remove one"),
        (
            "[finetuning.SOP.settings]\ntrain.seed = 5",
            "c: finetuning.SOP.settings: train.seed: fixed by the study; remove it",
        ),
        (
            '[finetuning.SOP]\nrates = [1, 900]\nsettings.train.lr = 0.1\n[scales.smoke]\ntasks = ["rte"]',
            "c: finetuning.SOP.settings: train.lr = 90.0: must be at most 10",
        ),
        (
            '[finetuning.SOP.settings]\ntrain.rate = 5\n[scales.smoke]\ntasks = ["rte"]',
            "c: finetuning.SOP.settings: train.rate = 5: unknown setting",
        ),
        (
            '[finetuning.SOP.settings]\nco_matching = true\n[scales.smoke]\ntasks = ["race", "rte"]',
            "c: --co-matching: --task rte is classification, which has no options to match",
        ),
        (
            '[finetuning.SOP]\nstart = "race"\n[scales.smoke]\ntasks = ["rte"]',
            "c: finetuning.SOP: start = race: not in the world of this claim; add it to tasks",
        ),
        (
            "[pretrain]\nmodel.vocab_size = 600",
            "arm NSP: model.vocab_size = 600: less than vocab_size, the 700",
        ),
        ("[pretrain]\ntrain.step = 5", "train.step = 5: unknown setting (did you mean train.steps?)"),
        ("[pretrain]\nmodel.heads = 3", "arm NSP: "),
        (
            '[recurrence]\nabove = 0\nbelow = 1\n[pretrain]\nmodel.share = "ffn"',
            "c: the recurrence exponent needs layers that are shared whole; use model.share = all",
        ),
        (
            "[recurrence]\nabove = 0\nbelow = 1",
            "c: recurrence: 0 sizes without those",
        ),
        (
            '[recurrence]\nabove = 0\nbelow = 1\n[pretrain]\ncurriculum.depth = "1, 2 from 0.5"',
            "c: curriculum.depth: the recurrence exponent needs a constant number",
        ),
    ],
)
def test_wrong_protocols(changes: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        claim = parse_claim(CLAIM + changes, "c", "c.toml")
        check_arms(claim, find_protocol(claim, "smoke"))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("[scales.evening]\nstorys = 5", "c: scales.evening: unknown field 'storys' (did you mean stories?)"),
        ("[scales.gpu]\nseeds = 0", "c: scales.gpu.seeds = 0: must be 1 to 100"),
        (
            "[scales.gpu.arms]\nSOP.model.vocab_size = 100",
            "c, arm SOP at the scale gpu: model.vocab_size = 100: less than vocab_size, the 30,000 tokens",
        ),
        (
            "[scales.gpu.arms]\nSOP.train.step = 5",
            "c, arm SOP at the scale gpu: train.step = 5: unknown setting (did you mean train.steps?)",
        ),
        ("[finetuning]\nSOP = { runs = 3 }", "c: finetuning: the claim has no tasks at any scale; name some"),
    ],
)
def test_mistakes_at_other_scales_are_found_at_the_first_one(changes: str, message: str) -> None:
    claim = parse_claim(CLAIM + changes, "c", "c.toml")
    with pytest.raises(InputError) as error:
        check_other_scales(claim, "smoke")
    assert message in str(error.value)


def test_a_claim_about_tasks_needs_them_only_at_the_scale_that_runs() -> None:
    about_tasks = CLAIM.replace("sop_accuracy", "mnli")
    scales = '[scales.minutes]\ntasks = ["mnli"]\n[scales.smoke]\nstories = 500\n[scales.gpu]\nseeds = 3\n'
    claim = parse_claim(about_tasks + scales, "c", "c.toml")
    assert find_protocol(claim, "minutes").tasks == ("mnli",)
    check_other_scales(claim, "minutes")
    with pytest.raises(InputError, match="an expectation is about mnli"):
        find_protocol(claim, "smoke")


def test_arms_override_the_claim_and_the_scale() -> None:
    changes = (
        '[pretrain]\ntrain.steps = 7\nobjective.pair = "none"\n'
        "[scales.smoke]\nseeds = 3\npretrain.train.lr = 0.5\narms.SOP.train.batch_tokens = 96"
    )
    claim = parse_claim(CLAIM + changes, "c", "c.toml")
    protocol = find_protocol(claim, "smoke")
    values = arm_values(claim, protocol, "SOP")
    assert protocol.seeds == 3
    assert (values["train"]["steps"], values["train"]["lr"]) == (7, 0.5)
    assert values["objective"]["pair"] == "sop"
    assert values["model"]["layers"] == 2  # of the scale
    assert values["train"]["batch_tokens"] == 96  # of the arm at this scale
    assert arm_values(claim, protocol, "NSP")["train"]["batch_tokens"] != 96


@pytest.mark.parametrize("scale", ["minutes", "evening"])
def test_the_parts_of_the_presets_have_equal_computation(scale: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("A text.\n\nAnother.\n")
    settings = StudySettings(scale=scale, text=str(tmp_path / "text.txt"))  # type: ignore[arg-type]
    (runs,) = claim_runs([find_claim("preset-parts")], tmp_path / "out", settings)
    flops = {arm: of_arm[0].flops for arm, of_arm in runs.by_arm().items()}
    assert flops == {
        arm: pytest.approx(flops["local start"], rel=0.02) for arm in flops
    }  # the vocabulary is not built


def test_merged_tables() -> None:
    assert merged({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": 4}) == {"a": {"b": 3, "c": 2}, "d": 4}
    assert merged({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}


def test_unknown_claim(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"table-55: unknown claim \(did you mean table-5\?\)"):
        find_claim("table-55")
    with pytest.raises(OSError, match="No such file"):
        find_claim(str(tmp_path / "missing.toml"))
    with pytest.raises(InputError, match=r"neither a claim nor a \.toml file; to give several texts"):
        find_claim(str(tmp_path))
    (tmp_path / "table-5.toml").write_text(CLAIM)
    with pytest.raises(InputError, match="the package has a claim of this name; rename the file"):
        find_claim(str(tmp_path / "table-5.toml"))
    (tmp_path / "latin.toml").write_bytes(b"claim = '\xe4'")
    with pytest.raises(InputError, match="byte 9 is not UTF-8"):
        find_claim(str(tmp_path / "latin.toml"))


def test_arms_have_to_fit_their_starts() -> None:
    text = CLAIM.replace('SOP = { objective.pair = "sop" }', "SOP = { model.hidden_size = 64 }")
    claim = parse_claim(text + '[starts]\nSOP = "NSP"', "c", "c.toml")
    with pytest.raises(InputError, match=r"c, arm SOP, which starts from NSP: model.hidden_size = 64: the"):
        check_arms(claim, find_protocol(claim, "smoke"))


@pytest.mark.parametrize(("scale", "steps"), [("minutes", 740), ("evening", 4600)])
def test_the_page_has_the_settings_of_the_scale(scale: str, steps: int) -> None:
    claim = find_claim("preset-parts")
    report = SimpleNamespace(claim=claim, protocol=find_protocol(claim, scale))
    assert _arm_settings(report, "growing") == f'curriculum.depth = "grow", train.steps = {steps}'  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "equal_time", "message"),
    [
        ("", "", "the same settings at this scale; change one, or remove it"),
        ("train.save_every = 5, ", "", "the same runs, because what differs changes no"),
        (
            "train.save_minutes = 5, ",
            "",
            "the same runs, because what differs changes no",
        ),
        ("train.precision = 'fp32', ", "", "the same runs"),
        ("train.steps = 5, ", "equal_time = 'other'\n", "the same runs"),
        ("train.steps = 5, ", "", None),
        ("train.lr = 0.005, ", "equal_time = 'other'\n", None),
    ],
)
def test_arms_that_would_share_their_runs_are_refused(
    settings: str, equal_time: str, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("albertine.study.protocol.precision_name", lambda *_: "fp32")
    arms = f'[arms]\nother = {{ {settings}objective.pair = "sop" }}'
    claim = parse_claim(equal_time + CLAIM.replace("[arms]", arms), "c", "c.toml")
    if message is None:
        check_arms(claim, find_protocol(claim, "smoke"))
        return
    with pytest.raises(InputError) as error:
        check_arms(claim, find_protocol(claim, "smoke"))
    assert str(error.value).startswith(f"c: arms other and SOP: {message}")


def test_arms_with_samples_of_other_lengths_are_evaluated_on_the_same_ones(tmp_path: Path) -> None:
    settings, text = (
        StudySettings(scale="smoke"),
        CLAIM.replace('"sop" }', '"sop", objective.max_length = 32 }'),
    )
    for claim, names in (
        (parse_claim(text, "c", "c.toml"), {"NSP": "probe-4000-32", "SOP": "probe-4000"}),
        (parse_claim(CLAIM, "c", "c.toml"), {"NSP": "probe-4000", "SOP": "probe-4000"}),
    ):
        (planned,) = claim_runs([claim], tmp_path / "out", settings)
        runs = {arm: runs[0] for arm, runs in planned.by_arm().items()}
        for arm, run in runs.items():
            assert [part.name for part in run._parts(["mask_loss"])] == ["training", names[arm]]
        assert len({run.probe_length for run in runs.values()}) == 1


@pytest.mark.parametrize("scale", scale_names())
def test_arms_of_the_package_are_evaluated_with_the_length_of_their_training(scale: str) -> None:
    for claim in map(find_claim, claim_names()):
        if not claim.only_scales or scale in claim.only_scales:
            protocol = find_protocol(claim, scale)
            for arm in claim.arms:
                source = SettingsSource(arm_values(claim, protocol, arm), arm)
                length = build_settings(PretrainSettings, source).longest_sample()
                assert length == shortest_training(claim, protocol), (claim.name, arm)


def test_steps_of_an_arm_with_equal_time_are_refused() -> None:
    text = (
        CLAIM.replace("[arms]", 'equal_time = "NSP"\n[arms]') + "[scales.smoke.arms]\nARM.train.steps = 5\n"
    )
    for arm, is_refused in (("NSP", False), ("SOP", True)):
        claim = parse_claim(text.replace("ARM", arm), "c", "c.toml")
        protocol = find_protocol(claim, "smoke")
        if not is_refused:
            check_arms(claim, protocol)
            continue
        with pytest.raises(InputError, match=r"arm SOP: train\.steps: its steps follow from equal_time"):
            check_arms(claim, protocol)


def test_a_plan_counts_shared_pretraining_once(tmp_path: Path) -> None:
    claims, settings = [find_claim("table-10")], StudySettings(scale="minutes", seeds=2)
    (plan,) = plan_studies(claims, tmp_path / "out", settings)
    (planned,) = claim_runs(claims, tmp_path / "out", settings)
    runs = planned.by_arm()["ensemble"]
    assert plan.runs == 2
    assert plan.flops == pytest.approx(sum(run.flops for run in runs))
    # Five models per task and pre-training, of which one arm scores the median, and one the ensemble.
    assert plan.finetuning_steps == 2 * 5 * 2 * runs[0].protocol.finetune_steps


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    files = [tmp_path / folder / "order.toml" for folder in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text(CLAIM)
    claims = [find_claim(str(file)) for file in files]
    with pytest.raises(InputError, match=r"b/order\.toml: the claim in .*a/order\.toml has the same name"):
        claim_runs(claims, tmp_path / "out", StudySettings(scale="smoke"))
    assert len(claim_runs(claims[:1] * 2, tmp_path / "out", StudySettings(scale="smoke"))) == 2
