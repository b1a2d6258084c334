"""Tests of `albertine plan`: settings, arithmetic of data sheets, the paper's times, and this machine."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.plan import measurement
from albertine.plan.hardware import find_hardware, known_devices
from albertine.plan.plan import TrainingPlan, plan_training
from albertine.plan.settings import PlanSettings, parse_hardware, parse_tokens
from albertine.plan.workload import Stage, make_workload
from albertine.pretrain.setup import resolved_settings
from albertine.settings import MODEL_PRESETS, SettingError, build_settings, read_settings_file
from albertine.settings.sources import SettingsSource
from albertine.train.muon import NEWTON_SCHULZ_STEPS

RECIPES = Path(__file__).parents[2] / "recipes"


def settings(**values: Any) -> PlanSettings:
    return build_settings(PlanSettings, SettingsSource(values))


def plan(model: str, hardware: str, **values: Any) -> TrainingPlan:
    return plan_training(settings(model={"preset": model}, hardware=hardware, **values))


def test_more_tokens_to_predict_take_more_memory() -> None:
    few, many = (
        plan("albert-base", "8 x H100", tokens="1B", objective={"mlm_probability": probability})
        for probability in (0.15, 0.3)
    )
    assert many.memory.activations > 1.05 * few.memory.activations
    assert many.largest_micro_batch < few.largest_micro_batch


# The texts of settings.


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("10B", 10**10), ("300M", 3 * 10**8), ("1.5b", 1_500_000_000), ("4,000", 4000), ("2 K", 2000), ("7", 7)],
)
def test_tokens_are_parsed(text: str, tokens: int) -> None:
    assert parse_tokens(text) == tokens


@pytest.mark.parametrize(
    "text", ["", "B", "-1", "0", "1e9", "ten", "10 GB", "nan", "9999999T", "1.B", "1,5B", "4,00", "\u0663"]
)
def test_other_texts_are_no_tokens(text: str) -> None:
    with pytest.raises(SettingError, match="tokens"):
        parse_tokens(text)


@pytest.mark.parametrize(
    ("text", "count", "name"),
    [
        ("8 x H100", 8, "H100"),
        ("8xh100", 8, "H100"),
        ("8 H100", 8, "H100"),
        ("rtx-4090", 1, "RTX 4090"),
        ("2 * tpu v3 CORE", 2, "TPU v3 core"),
        ("RTX3090x8", 8, "RTX 3090"),
        ("RTX 4090 x 1,024", 1024, "RTX 4090"),
        ("L40Sx8", 8, "L40S"),
        ("RTX3090", 1, "RTX 3090"),
        ("1,024xH100", 1024, "H100"),
    ],
)
def test_hardware_is_found(text: str, count: int, name: str) -> None:
    hardware = find_hardware(text)
    assert hardware.device
    assert (hardware.count, hardware.device.name) == (count, name)


def test_this_machine_is_one_device() -> None:
    assert find_hardware("this").device is None
    with pytest.raises(InputError, match="leave the number out"):
        find_hardware("2 x this")


@pytest.mark.parametrize("text", ["0 x H100", "", "   "])
def test_other_texts_are_no_hardware(text: str) -> None:
    with pytest.raises(SettingError, match="hardware"):
        parse_hardware(text)


def test_every_device_has_a_plausible_data_sheet() -> None:
    for device in known_devices().values():
        assert device.source
        assert device.flops["fp32"] <= device.flops.get("bf16", device.flops["fp32"]) <= 3e15
        assert 1e10 < device.memory < 1e12 < device.memory * 1000
        assert device.network <= device.link * device.node_devices
        assert device.link <= device.bandwidth


def test_the_documentation_has_the_table() -> None:
    page = (RECIPES.parent / "docs" / "plan.md").read_text(encoding="utf-8")
    for device in known_devices().values():
        row = next(line for line in page.splitlines() if line.startswith(f"| {device.name} |"))
        cells = [cell.strip().replace(",", "") for cell in row.strip("|").split("|")][1:]
        bf16, fp32, memory, bandwidth, link, node_devices, network = (
            float("nan" if cell == "-" else cell) for cell in cells
        )
        assert device.flops.get("bf16", float("nan")) == pytest.approx(bf16 * 1e12, nan_ok=True)
        assert device.flops["fp32"] == pytest.approx(fp32 * 1e12)
        rates = (device.memory, device.bandwidth, device.link, device.network)
        assert rates == pytest.approx([value * 1e9 for value in (memory, bandwidth, link, network)])
        assert device.node_devices == node_devices


# The arithmetic of data sheets.


def test_a_plan_agrees_with_arithmetic_by_hand() -> None:
    """BERT-large on eight H100: counted from its widths, with nothing of the code's own counts."""
    vocab, hidden, layers, length, tokens = 30_000, 1024, 24, 512, 2**20
    layer = 12 * hidden**2 + 13 * hidden
    parameters = (vocab + 512 + 2) * hidden + 2 * hidden + layers * layer
    parameters += (hidden**2 + hidden) + (hidden**2 + hidden) + 2 * hidden + vocab + (2 * hidden + 2)
    forward = layers * (24 * hidden**2 + 4 * length * hidden)
    result = plan("bert-large", "8 x H100", tokens="1B", train={"batch_tokens": tokens, "optimizer": "adamw"})
    assert result.parameters == parameters
    assert result.workload.steps == 954
    assert result.memory.weights == 6 * parameters
    assert result.memory.gradients + result.memory.optimizer == 12 * parameters
    assert result.sent_bytes == pytest.approx(2 * 7 / 8 * 4 * parameters)
    assert result.step.communication == pytest.approx(result.sent_bytes / 450e9)
    assert result.step.update == pytest.approx(parameters * (28 + 16) / 3350e9)
    # The last layer is not complete for every token; the head of masked tokens costs about as much.
    products = 3 * forward * tokens / 8 / (989.4e12 * 0.445)
    assert products < result.step.passes < 1.6 * products
    assert result.training_seconds == pytest.approx(954 * result.step.total)


def test_muon_orthogonalizes_and_keeps_one_moment() -> None:
    adamw, muon = (plan("bert-base", "H100", train={"optimizer": name}) for name in ("adamw", "muon"))
    matrices = 12 * 12 * 768**2 + 2 * 768**2  # of the layers, the pooler and the head
    assert adamw.memory.optimizer - muon.memory.optimizer == 4 * matrices
    square = 2 * 3 * 768**3  # three products
    wide = 2 * (2 * 768**2 * 3072 + 768**3)
    flops = NEWTON_SCHULZ_STEPS * (12 * (4 * square + 2 * wide) + 2 * square)
    traffic = matrices * (56 + 16) + (muon.parameters - matrices) * (28 + 16)
    assert muon.step.update == pytest.approx(flops / (989.4e12 * 0.445) + traffic / 3350e9)


def test_more_devices_take_less_time_and_send_more() -> None:
    train = {"batch_tokens": 2**22, "micro_batch_tokens": 2**16}  # so large that nothing waits for Python
    one, eight, many = (plan("bert-base", f"{count} x H100", train=train) for count in (1, 8, 64))
    assert one.step.communication == 0
    assert one.step.passes == pytest.approx(8 * eight.step.passes)
    assert 0 < eight.step.communication_share < many.step.communication_share < 1
    assert many.step.communication > eight.step.communication * 450 / 400  # the network is slower


def test_sharing_parameters_saves_communication_and_no_passes() -> None:
    albert, bert = plan("albert-large", "8 x H100"), plan("bert-large", "8 x H100")
    assert bert.sent_bytes / albert.sent_bytes == pytest.approx(bert.parameters / albert.parameters)
    assert bert.parameters > 15 * albert.parameters
    assert albert.step.passes == pytest.approx(bert.step.passes, rel=0.2)


def test_the_largest_micro_batch_fits_and_one_more_example_does_not() -> None:
    result = plan("albert-xlarge", "8 x H100", train={"batch_tokens": 2**22})
    per_token = result.memory.activations / result.micro_batch_tokens
    fixed = result.memory.total - result.memory.activations
    usable = 0.9 * 80e9
    assert fixed + per_token * result.largest_micro_batch <= usable
    assert fixed + per_token * (result.largest_micro_batch + 512) > usable
    assert result.largest_micro_batch_recomputed > 3 * result.largest_micro_batch
    assert result.micro_batches * result.micro_batch_tokens >= 2**22 / 8


def test_recomputation_saves_memory_and_takes_time() -> None:
    kept, recomputed = (
        plan("albert-large", "A100", train={"recompute": value}) for value in ("false", "true")
    )
    assert recomputed.memory.activations < kept.memory.activations / 3
    assert 1.15 < recomputed.step.passes / kept.step.passes < 4 / 3


def test_sharding_saves_the_state_of_the_optimizer() -> None:
    whole, sharded = (plan("bert-large", "8 x A100", train={"shard": value}) for value in ("false", "true"))
    assert sharded.memory.optimizer == pytest.approx(whole.memory.optimizer / 8, rel=1e-6)


def test_sharding_holds_two_layers_beside_the_shards() -> None:
    layer, train = 12 * 1024**2 + 13 * 1024, {"shard": "true", "optimizer": "adamw", "precision": "bf16"}
    bert = plan("bert-large", "2 x A100", train=train)
    held = bert.parameters - 22 * layer
    assert bert.memory.weights == bert.parameters * 2 + held * 6
    assert bert.memory.gradients == bert.parameters * 2 + held * 4
    # Layers are gathered twice in bf16, the rest once in fp32, and all gradients are sent in fp32.
    other = bert.parameters - 24 * layer
    sent = 2 * 2 * 24 * layer + 4 * other + 4 * bert.parameters
    assert bert.sent_bytes == pytest.approx(bert.micro_batches * sent / 2)
    albert = plan("albert-large", "2 x A100", train=train)  # one layer, in use during the whole pass
    assert albert.memory.weights == albert.parameters * (2 + 6)


def test_fewer_layers_and_short_samples_cost_less() -> None:
    constant = plan("albert-base", "H100", train={"steps": "10000"})
    short = plan("albert-base", "H100", train={"steps": "10000"}, curriculum={"length": "128, 512 from 0.9"})
    growing = plan("albert-base", "H100", train={"steps": "10000"}, curriculum={"depth": "6, 12 from 0.5"})
    saved = constant.workload.flops_per_token - short.workload.flops_per_token
    assert saved == pytest.approx(0.9 * 3 * 12 * 4 * (512 - 128) * 768, rel=0.01)
    saved = constant.workload.flops_per_token - growing.workload.flops_per_token
    assert saved == pytest.approx(0.5 * 3 * 6 * (24 * 768**2 + 4 * 512 * 768), rel=0.01)
    assert growing.seconds < short.seconds < constant.seconds


def test_price_counts_every_device() -> None:
    result = plan("albert-base", "4 x A100", tokens="1B", price="2.5")
    assert result.cost == pytest.approx(2.5 * 4 * result.seconds / 3600)


def test_the_model_is_that_of_the_checkpoint_to_start_from(tmp_path: Path) -> None:
    albertine.save(albertine.create("demo"), tmp_path / "demo")
    result = plan_training(settings(init_from=str(tmp_path / "demo"), hardware="L4", finetune="rte"))
    assert result.workload.model.hidden_size == MODEL_PRESETS["demo"].hidden_size
    assert result.workload.unit_tokens == 128
    deeper = settings(init_from=str(tmp_path / "demo"), hardware="L4", model={"layers": 6})
    assert plan_training(deeper).workload.model == replace(MODEL_PRESETS["demo"], layers=6)


def test_minutes_give_the_steps_that_fit() -> None:
    evaluated = {"evaluate_every": 100, "evaluate_tokens": 200_000}
    five = plan("albertine-tiny", "H100", train={"minutes": 5.0, **evaluated}, curriculum={"depth": "grow"})
    assert five.seconds == pytest.approx(300, rel=0.01)
    assert 0 < five.evaluation_seconds < five.training_seconds
    steps = five.workload.steps
    train = {"steps": steps, "batch_tokens": five.workload.step_tokens, **evaluated}
    again = plan("albertine-tiny", "H100", train=train, curriculum={"depth": "grow"})
    assert again.seconds == pytest.approx(five.seconds, rel=0.01)


def test_few_minutes_have_small_batches_and_few_evaluations() -> None:
    """As in pre-training for some minutes, a run takes small batches if it has few steps."""
    short, long = (plan("albert-base", "L4", train={"minutes": minutes}) for minutes in (5.0, 100_000.0))
    assert (short.workload.step_tokens, long.workload.step_tokens) == (4_096, 32_768)
    assert short.seconds == pytest.approx(300, rel=0.02)
    tokens = short.workload.tokens
    assert short.workload.evaluated_tokens == pytest.approx(tokens / 20, rel=0.05)
    many = plan("albert-base", "L4", train={"minutes": 0.2})
    assert many.workload.evaluated_tokens <= 8_192 * (2 + many.workload.tokens / 160_000)


def test_a_corpus_gives_vocabulary_and_length(corpus: Corpus) -> None:
    planned = plan("demo", "L4", corpus=str(corpus.folder)).workload
    run = resolved_settings(settings(model={"preset": "demo"}), corpus, None)
    assert planned.model == run.model
    assert planned.model.vocab_size < MODEL_PRESETS["demo"].vocab_size
    assert (planned.steps, planned.step_tokens) == (run.train.steps, run.train.batch_tokens)
    assert plan("demo", "L4", corpus=str(corpus.folder), tokens="1B").workload.tokens >= 10**9


def test_the_settings_of_a_run_are_planned_without_its_corpus() -> None:
    model = {"preset": "demo", "vocab_size": 1_000}
    planned = settings(
        model=model, corpus="missing", hardware="L4", train={"steps": 9, "batch_tokens": 4_096}
    )
    assert plan_training(planned).workload.tokens == 9 * 4_096


# What does not fit.


@pytest.mark.parametrize(
    ("model", "hardware", "values", "message"),
    [
        ("bert-xlarge", "8 x T4", {}, "8 x T4: cannot hold this model: .* --train.shard"),
        ("albert-base", "V100", {"train": {"precision": "bf16"}}, "V100 has no fast bf16; use fp32"),
        (
            "albert-base",
            "H1000",
            {},
            r"unknown device \(did you mean H100\?\); write COUNT x DEVICE, as in 8 x",
        ),
        ("albert-base", "8xh1000", {}, r"unknown device \(did you mean H100\?\)"),
        ("albert-base", "4096 x H100", {}, "raise it to at least 2097152"),
        (
            "albert-base",
            "64 x A100",
            {"finetune": "rte"},
            "64 devices for the 32 examples of a step; use fewer",
        ),
        ("albert-base", "L4", {"train": {"micro_batch_tokens": 10**6}}, "does not fit into the memory"),
        ("albert-base", "H100", {"objective": {"max_length": 1024}}, "takes at most 512"),
        ("albert-base", "H100", {"curriculum": {"depth": "6, 13 from 0.5"}}, "the model has only 12 layers"),
        ("albert-base", "H100", {"train": {"minutes": 5.0, "steps": 10}}, "two lengths of the run"),
        ("albert-base", "H100", {"train": {"minutes": 5.0}, "finetune": "mnli"}, "must be left out"),
        ("albert-base", "H100", {"train": {"minutes": 5.0}, "tokens": "1B"}, "left out with minutes"),
        ("bert-base", "H100", {"curriculum": {"depth": "grow"}}, "depth can only grow where layers have"),
        ("albert-base", "H100", {"finetune": "mnl"}, r"--finetune mnl: unknown \(did you mean mnli"),
        (
            "albert-base",
            "H100",
            {"finetune": "mnli", "example_tokens": 600},
            "at most the maximum length, 512",
        ),
        ("albert-base", "H100", {"finetune": "mnli", "tokens": "1B"}, "tokens"),
        ("albert-base", "H100", {"examples": 100}, "needs finetune = TASK"),
    ],
)
def test_wrong_input_gives_a_message(model: str, hardware: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(model, hardware, **values)


# Fine-tuning.


def test_finetuning_has_the_settings_of_table_14() -> None:
    result = plan("albert-xlarge", "A100", finetune="squad-2.0")
    workload = result.workload
    assert (workload.steps, workload.step_tokens) == (8144, 48 * 512)
    assert workload.train.optimizer == "bert-adam"
    assert workload.tokens == 8144 * 48 * 512
    assert plan("albert-tiny", "A100", finetune="rte").workload.train.optimizer == "muon"


def test_multiple_choice_has_a_sequence_for_each_option() -> None:
    assert plan("albert-base", "A100", finetune="race").workload.step_tokens == 32 * 4 * 512


def test_short_and_few_examples_take_less_time() -> None:
    full = plan("albert-base", "A100", finetune="mnli")
    short = plan("albert-base", "A100", finetune="mnli", example_tokens=64)
    few = plan("albert-base", "A100", finetune="mnli", example_tokens=64, examples=1000)
    assert short.workload.tokens == full.workload.tokens / 8
    assert few.seconds < short.seconds < full.seconds / 6


def test_every_device_needs_an_example_of_each_step() -> None:
    assert plan("albert-base", "H100", finetune="cola", example_tokens=11).workload.batch_size == 16
    assert plan("albert-base", "8xH100", finetune="classify", example_tokens=40).micro_batches == 1
    with pytest.raises(InputError, match="17 devices for the 16 examples of a step"):
        plan("albert-base", "17xH100", finetune="cola", example_tokens=500)


def test_fine_tuning_with_exits_runs_the_head_after_each_layer() -> None:
    published, with_exits = (
        plan("albert-base", "A100", finetune="mnli", train={"exits": exits}).workload.flops_per_token
        for exits in (False, True)
    )
    head = 2 * 768**2 + 2 * 768 * 3  # pooler and classifier, for one token of 512
    assert with_exits - published == pytest.approx(3 * 11 * head / 512)


# Waiting for Python: docs/records/first-gpu.md.


@pytest.mark.parametrize(
    ("model", "tokens", "milliseconds"),
    [
        ("albert-base", 18_496, 39.3),
        ("albertine-base", 18_496, 45.1),
        ("albertine-base", 65_536, 116.9),
        ("albertine-tiny", 32_000, 22.2),
        ("albertine-tiny", 128_000, 34.3),
    ],
)
def test_passes_on_an_h100_take_as_long_as_measured(model: str, tokens: int, milliseconds: float) -> None:
    train = {"steps": 100, "batch_tokens": tokens, "micro_batch_tokens": tokens}
    depth = str(MODEL_PRESETS[model].layers)
    result = plan(model, "H100", train=train, objective={"max_length": 128}, curriculum={"depth": depth})
    assert 1000 * result.step.passes == pytest.approx(milliseconds, rel=0.15)


def test_the_run_on_an_h100_takes_as_long_as_measured() -> None:
    train = {"steps": 2_054, "batch_tokens": 65_536, "micro_batch_tokens": 65_536}
    result = plan("albertine-base", "H100", train=train, objective={"max_length": 128})
    assert result.training_seconds == pytest.approx(133, rel=0.15)


def test_more_micro_batches_and_recomputation_start_more_operations() -> None:
    def passes(**train: Any) -> float:
        values = {"batch_tokens": 8_192, "micro_batch_tokens": 8_192, **train}
        return plan("albert-base", "H100", train=values).step.passes

    assert passes(micro_batch_tokens=4_096) == pytest.approx(2 * passes(), rel=0.05)
    assert passes(recompute=True) == pytest.approx(4 / 3 * passes(), rel=0.05)


# The paper.

_SPEEDS = {  # Table 2: data throughput relative to BERT-large
    "bert-base": 4.7, "bert-large": 1.0,
    "albert-base": 5.6, "albert-large": 1.7, "albert-xlarge": 0.6, "albert-xxlarge": 0.3,
}  # fmt: skip
# Table 6 counts TPUs, not cores: with 512 cores, ALBERT-xxlarge would need more than their peak rate.
_TPUS = "1024 x TPU v3 core"


def paper_plan(model: str, hardware: str = _TPUS, **values: Any) -> TrainingPlan:
    recipe = read_settings_file(RECIPES / "paper" / f"{model}.toml")
    return plan_training(
        build_settings(PlanSettings, recipe, SettingsSource({"hardware": hardware, **values}))
    )


@pytest.mark.parametrize("model", _SPEEDS)
def test_speeds_of_table_2_are_within_a_factor_of_one_and_a_half(model: str) -> None:
    speed = paper_plan("bert-large").step.total / paper_plan(model).step.total
    assert 1 / 1.5 <= speed / _SPEEDS[model] <= 1.5


@pytest.mark.parametrize(
    ("model", "steps", "hours"), [("bert-large", 400_000, 34), ("albert-xxlarge", 125_000, 32)]
)
def test_hours_of_table_6_are_within_a_factor_of_one_and_a_half(model: str, steps: int, hours: float) -> None:
    planned = paper_plan(model, train={"steps": str(steps)}).training_seconds / 3600
    assert 1 / 1.5 <= planned / hours <= 1.5


def test_512_cores_cannot_have_trained_xxlarge_in_32_hours() -> None:
    workload = make_workload(
        build_settings(PlanSettings, read_settings_file(RECIPES / "paper" / "albert-xxlarge.toml"))
    )
    rate = workload.tokens * workload.flops_per_token / (32 * 3600)
    assert 512 * 61.5e12 < rate < 1024 * 61.5e12


# This machine.


def test_this_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "_SECONDS", 0.3)
    values = {"train": {"batch_tokens": "4096", "precision": "fp32"}, "objective": {"max_length": "64"}}
    one, two = (plan("demo", "this", tokens=tokens, device="cpu", **values) for tokens in ("8192", "16384"))
    assert "measured here" in one.basis
    assert one.step.passes > one.step.update > 0
    assert one.step.drawing > 0
    assert one.step.communication == 0
    assert (one.workload.steps, two.workload.steps) == (2, 4)
    assert one.device_memory > 1e9


def test_a_curriculum_is_measured_stage_by_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "_SECONDS", 0.3)
    workload = make_workload(
        settings(
            model={"preset": "demo"},
            curriculum={"depth": "1, 4 from 0.5", "length": "32, 128 from 0.5"},
            train={"optimizer": "adamw", "exits": "true"},
        )
    )
    assert [(stage.length, stage.depths[-1]) for stage in workload.stages] == [(32, 1), (128, 4)]
    measured = measurement.measure_step(workload, torch.device("cpu"), "fp32", 1024)
    assert len(measured.token_seconds) == 2
    assert 0 < measured.token_seconds[0] < measured.token_seconds[1]


def test_a_slow_model_is_measured_with_fewer_layers() -> None:
    workload = make_workload(settings(model={"preset": "albert-xxlarge"}))
    stage = workload.stages[0]
    trial = measurement._make_trial(workload, stage, 4096, stage_flops=stage.flops * stage.length)
    assert trial.sequences == 1
    assert 1 <= trial.depths[-1] < 12
    fast = measurement._make_trial(workload, stage, 4096, stage_flops=1e20)
    assert (fast.sequences, fast.depths) == (8, (12,))
    assert isinstance(stage, Stage)
    assert fast.flops == stage.flops


# The command.


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = run_command(app, ["plan", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_command_fits_one_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = run(
        capsys, "--model", "albert-xlarge", "--tokens", "10B", "--hardware", "8 x H100", "--price", "2"
    )
    assert status == 0
    assert len(out.splitlines()) <= 30
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80
    for word in ("8 x H100", "as measured", "NVIDIA H100 data", "largest micro-batch", "share of the step"):
        assert word in out


def test_the_examples_of_a_fine_tuning_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--model", "albert-base", "--hardware", "T4", "--finetune", "mnli")
    for options, expected in (
        ((), "392,702 of 512"),
        (("--examples", "900", "--example-tokens", "40"), "900 of 40"),
    ):
        assert f"examples {expected} tokens" in re.sub(" +", " ", run(capsys, *words, *options)[1])


def test_json_has_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys, "--config", str(RECIPES / "paper" / "albert-large.toml"), "--hardware", "64 x A100", "--json"
    )
    content = json.loads(out)
    assert status == 0
    assert content["steps"] == 125_000
    assert content["devices"] == 64
    assert content["is_measured"] is False
    assert content["cost"] is None
    assert content["step_seconds"]["total"] == pytest.approx(
        sum(content["step_seconds"][part] for part in ("passes", "update", "communication", "drawing"))
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--hardware", "8 x Z80"),
        ("--tokens", "many"),
        ("--model", "bert-xlarge", "--hardware", "T4"),
        ("--price", "-1"),
        ("--efficiency", "2"),
        ("--finetune", "blimp"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, error = run(capsys, *words)
    assert (status, out) == (2, "")
    assert len(error.splitlines()) == 1


def test_every_preset_can_be_planned() -> None:
    for name in MODEL_PRESETS:
        assert plan(name, "H200").seconds > 0


def test_causal_samples_are_evaluated_twice_and_need_memory_for_half_of_the_tokens() -> None:
    masked, few, many = (
        plan("albertine-base", "H100", tokens="1B", objective={"causal_fraction": fraction})
        for fraction in (0.0, 0.25, 0.75)
    )
    assert few.workload.evaluated_tokens == many.workload.evaluated_tokens
    assert few.workload.evaluated_tokens == 2 * masked.workload.evaluated_tokens
    largest = [one.largest_micro_batch for one in (masked, few, many)]
    assert largest[0] > largest[1] == largest[2]


def test_micro_batches_have_samples_of_one_kind() -> None:
    """A step of 64 samples of 128 tokens, 16 or 32 of them causal, in micro-batches of 16 samples."""
    train = {"batch_tokens": 64 * 128, "micro_batch_tokens": 16 * 128}
    masked, few, odd = (
        plan(
            "albertine-base",
            "H100",
            tokens="1B",
            train=train,
            objective={"causal_fraction": fraction, "max_length": 128},
        )
        for fraction in (0.0, 0.25, 0.3)
    )
    assert [one.micro_batches for one in (masked, few, odd)] == [4, 4, 5]
    assert {one.micro_batch_tokens for one in (masked, few)} == {16 * 128}


def test_a_step_too_small_for_causal_samples_is_refused_as_in_training() -> None:
    with pytest.raises(InputError, match="a step of 4 samples is too small to have masked and causal ones"):
        plan(
            "albertine-base",
            "H100",
            tokens="1B",
            train={"batch_tokens": 4 * 128},
            objective={"causal_fraction": 0.1, "max_length": 128},
        )


def test_the_first_and_the_last_step_are_evaluated() -> None:
    train = {"steps": 100, "evaluate_every": 40, "evaluate_tokens": 1_000}
    workload = make_workload(settings(model={"preset": "albert-tiny"}, train=train))
    assert workload.evaluated_tokens == 4_000  # at steps 0, 40, 80 and 100


def test_the_efficiency_is_given_or_measured_or_assumed() -> None:
    plans = [plan("albert-base", name, tokens="1B") for name in ("H100", "A100")]
    assert "44% of the peak rate, as measured" in plans[0].basis
    assert "50% of the peak rate, an assumption" in plans[1].basis
    given = plan("albert-base", "H100", tokens="1B", efficiency="0.4")
    assert "40% of the peak rate, as given" in given.basis
    assert given.step.passes > plans[0].step.passes
