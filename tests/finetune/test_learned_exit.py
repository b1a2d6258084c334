"""Fine-tuning with a learned exit: the expected loss, resuming, the files, and what the unit learns."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests.finetune.exit_fixtures import (
    exit_settings,
    finetune_error,
    saved_model,
    settings_of_type,
    step_losses,
)
from tests.task_fixtures import MODEL, reviews, with_train_settings

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.finetune.finetune import finetune
from albertine.finetune.finetuning import Finetuning
from albertine.finetune.learned_exit import ExitPrior, learned_exit_losses
from albertine.finetune.prepare import prepare_task
from albertine.finetune.settings import FinetuneSettings
from albertine.inference.finetuned_model import load_finetuned
from albertine.inference.pipeline import pipeline
from albertine.interop.load import load
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.settings.engine import EngineOptions
from albertine.settings.exit_rule import ExitRule, make_exit_rule
from albertine.tasks.sequences import strip_from_samples
from albertine.text.tokenizer import load_tokenizer
from albertine.train.distributed import init_distributed
from albertine.train.metrics_log import read_metrics

HEAD = HeadSettings("classify", labels=3, exits="shared", learned_exit=True)
TYPES = ["classify", "multi-label", "regress", "tag", "span", "choice"]


def learned_settings(
    settings: FinetuneSettings, exit_heads: str = "shared", **changes: Any
) -> FinetuneSettings:
    return exit_settings(settings, exit_heads, learned_exit=True, **changes)


@pytest.mark.parametrize("type_name", TYPES)
def test_the_loss_is_the_expected_one(
    type_name: str, deep_checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    """Each sample alone gives its losses at all steps, and the mean over samples is that of the batch."""
    data = prepare_task(str(deep_checkpoint), settings_of_type(finetune_settings, type_name, tmp_path))
    head = replace(data.task_type.head_settings, exits="shared", learned_exit=True, dropout=0.0)
    model = Model(replace(MODEL, layers=4), head, seed=1)
    samples, task_type = data.train_samples[:6], data.task_type
    prior = ExitPrior(0.2, 0.7)

    def losses_of(chosen: Any) -> tuple[list[Any], list[int]]:
        counts = [*task_type.target_counts(chosen), len(chosen)]
        strip, targets = strip_from_samples(chosen), task_type.targets(chosen)
        return learned_exit_losses(model, task_type, strip, targets, counts, prior), counts

    losses, counts = losses_of(samples)
    expected = np.zeros(len(losses))
    for sample in samples:
        strip, targets = strip_from_samples([sample]), task_type.targets([sample])
        with torch.no_grad():
            outputs, stop_logits = model.learned_exit_outputs(strip, targets)
        stops = [*torch.sigmoid(stop_logits[:, 0]).tolist(), 1.0]
        exits = [stop * math.prod(1 - one for one in stops[:step]) for step, stop in enumerate(stops)]
        geometric = [0.2 * 0.8**step for step in range(4)]
        expected[-1] += 0.7 * sum(
            p * math.log(p * sum(geometric) / q) for p, q in zip(exits, geometric, strict=True)
        )
        for probability, output in zip(exits, outputs, strict=True):
            objectives = task_type.objective_losses(output, targets, strip)
            for index, (one, count) in enumerate(
                zip(objectives, task_type.target_counts([sample]), strict=True)
            ):
                expected[index] += probability * float(one.loss) * count
    actual = [float(one.loss.detach()) for one in losses]
    assert actual == pytest.approx((expected / counts).tolist(), rel=1e-4)
    assert math.isnan(float(losses[-1].correct))
    unit = model.get_parameter("exit_unit.dense.weight")
    (gradient,) = torch.autograd.grad(losses[0].loss, [unit], retain_graph=True)
    assert gradient.any()  # the loss of the task alone reaches the unit
    total = sum([one.loss for one in losses], start=torch.zeros(()))
    gradients = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    assert all(one is not None for one in gradients)


@pytest.mark.parametrize("exit_heads", ["shared", "own"])
@pytest.mark.parametrize("type_name", TYPES)
def test_micro_batches_do_not_change_losses_and_gradients(
    type_name: str,
    exit_heads: str,
    deep_checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
) -> None:
    settings = replace(
        settings_of_type(finetune_settings, type_name, tmp_path), dropout=0.0, classifier_dropout=0.0
    )
    changes_of_run: list[dict[str, Any]] = [
        {},
        {"micro_batch_tokens": 32},
        {"recompute": True},
        {"precision": "bf16"},
    ]
    with init_distributed("cpu") as distributed:
        (whole, expected), (parts, gradients), (recomputed, _), (rounded, _) = (
            step_losses(
                deep_checkpoint,
                learned_settings(settings, exit_heads, **changes),
                tmp_path / str(number),
                distributed,
            )
            for number, changes in enumerate(changes_of_run)
        )
    assert parts == pytest.approx(whole, rel=1e-5)
    assert recomputed == pytest.approx(whole, rel=1e-5)
    assert rounded == pytest.approx(whole, rel=0.05)
    assert gradients["exit_unit.dense.weight"].any()
    for name, gradient in gradients.items():
        assert torch.allclose(gradient, expected[name], atol=1e-5), name


def test_a_unit_starts_at_the_prior(
    deep_checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    settings = learned_settings(finetune_settings, exit_prior=0.3, steps=1, warmup=0, lr=0.0)
    finetune(str(deep_checkpoint), tmp_path / "run", settings)
    unit = load(tmp_path / "run").exit_unit
    assert unit is not None
    assert torch.sigmoid(unit.out.bias).item() == pytest.approx(0.3)


@pytest.mark.parametrize("exit_heads", ["shared", "own"])
def test_resume_is_exact(
    exit_heads: str,
    deep_checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = learned_settings(replace(finetune_settings, dropout=0.1), exit_heads, steps=20, save_every=7)
    finetune(str(deep_checkpoint), tmp_path / "uninterrupted", settings)
    next_batch = Finetuning.next_batch

    def interrupted_next_batch(self: Finetuning, step: int) -> Any:
        if step == 16:
            raise KeyboardInterrupt
        return next_batch(self, step)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Finetuning, "next_batch", interrupted_next_batch)
        finetune(str(deep_checkpoint), tmp_path / "interrupted", settings)
    finetune(str(deep_checkpoint), tmp_path / "interrupted", settings)
    for name in ("model.safetensors", "exits.safetensors"):
        contents = [(tmp_path / run / name).read_bytes() for run in ("uninterrupted", "interrupted")]
        assert contents[0] == contents[1], name
    losses = [
        [(line["loss"], line["exit_loss"]) for line in read_metrics(tmp_path / run) if "exit_loss" in line]
        for run in ("uninterrupted", "interrupted")
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 20
    settings = with_train_settings(settings, exit_prior=0.2)
    with pytest.raises(InputError, match="exit_prior"):
        finetune(str(deep_checkpoint), tmp_path / "interrupted", settings)


@pytest.mark.slow
def test_the_unit_learns_to_stop_early(
    deep_checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = learned_settings(
        finetune_settings, steps=100, evaluate_every=50, optimizer="muon", lr=1e-2, exit_prior=0.6
    )
    run = tmp_path / "run"
    finetune(str(deep_checkpoint), run, settings)
    texts = [row["review"] for row in reviews(2, 60)]
    labels = [row["stars"] for row in reviews(2, 60)]
    mean_depths = []
    for quantile in (0.2, 0.5, 0.9, 1.0):
        classify = pipeline(run, device="cpu", precision="fp32", exit=f"learned:{quantile}")
        predictions = classify(texts)
        for prediction, text in zip(predictions[:5], texts[:5], strict=True):
            alone = classify(text)
            assert alone["depth"] == prediction["depth"]
            assert alone["probability"] == pytest.approx(prediction["probability"], abs=1e-5)
        correct = [one["label"] == label for one, label in zip(predictions, labels, strict=True)]
        assert sum(correct) / len(correct) > 0.9
        mean_depths.append(sum(one["depth"] for one in predictions) / len(predictions))
    assert mean_depths == sorted(mean_depths)
    assert mean_depths[0] < 2
    assert mean_depths[-1] == 4
    assert load_finetuned(
        run, EngineOptions("cpu"), exit_rule=make_exit_rule("learned")
    ).exit_rule == ExitRule(quantile=0.5)
    arguments = ["evaluate", str(run), "--data", str(settings.dev), "--exits", "all", "--json", "--quiet"]
    assert run_command(app, [*arguments, "--device", "cpu"]) == 0
    (curve,) = json.loads(capsys.readouterr().out)["exits"]
    points = {point["setting"]: point["mean_depth"] for point in curve["points"]}
    learned = [depth for setting, depth in points.items() if setting.startswith("--exit learned:")]
    assert len(learned) == 6
    assert learned == sorted(learned)
    assert points["--exit learned:0.5"] == mean_depths[1]


@pytest.mark.parametrize("exits", ["shared", "own"])
@pytest.mark.parametrize("kind", ["classify", "regress", "choice", "token", "span"])
def test_the_unit_is_saved(kind: Any, exits: Any, checkpoint: Path, tmp_path: Path) -> None:
    labels = 1 if kind in ("regress", "choice") else 2
    head = HeadSettings(kind, labels=labels, exits=exits, learned_exit=True)
    model = saved_model(tmp_path / "run", checkpoint, head)
    names = load_file(tmp_path / "run" / "exits.safetensors").keys()
    units = {f"exit_unit.{layer}.{part}" for layer in ("dense", "out") for part in ("weight", "bias")}
    assert {name for name in names if not name.startswith("exit_heads.")} == units
    assert any(name.startswith("exit_heads.") for name in names) == (exits == "own")
    loaded = load(tmp_path / "run")
    for name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter), name
    save_folder(loaded, tmp_path / "again")
    for name in ("exits.safetensors", "config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "run" / name).read_bytes()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("missing", r"exits\.safetensors: missing; get the file again"),
        ("empty", r"exits\.safetensors: damaged, or not a safetensors file"),
        ("nan", r"exits\.safetensors: tensor exit_unit\.out\.bias has values that are NaN"),
        ("shape", r"exits\.safetensors: tensor exit_unit\.out\.bias has shape \[5\], but .* \[1\]"),
        ("lost", r"exits\.safetensors: tensor exit_unit\.out\.bias is missing"),
        ("no unit", r"exits\.safetensors: tensor exit_unit\.dense\.weight is missing"),
        ("no heads", r"exits\.safetensors: tensor exit_heads\.0\.pooler\.dense\.weight is missing"),
        ("integers", r"exits\.safetensors: tensor exit_unit\.out\.bias is torch\.int64"),
        ("other", r"exits\.safetensors: unexpected tensor exit_unit\.second\.bias"),
    ],
)
def test_a_damaged_unit_is_refused(damage: str, message: str, checkpoint: Path, tmp_path: Path) -> None:
    saved_model(tmp_path, checkpoint, replace(HEAD, exits="own"))
    file, name = tmp_path / "exits.safetensors", "exit_unit.out.bias"
    tensors = load_file(file)
    file.unlink()
    match damage:
        case "empty":
            file.write_bytes(b"")
        case "nan":
            save_file(tensors | {name: torch.full((1,), torch.nan)}, file)
        case "shape":
            save_file(tensors | {name: torch.zeros(5)}, file)
        case "lost":
            save_file({other: tensor for other, tensor in tensors.items() if other != name}, file)
        case "no unit" | "no heads":
            prefix = "exit_unit." if damage == "no unit" else "exit_heads."
            kept = {other: one for other, one in tensors.items() if not other.startswith(prefix)}
            save_file(kept, file)
        case "integers":
            save_file(tensors | {name: torch.zeros(1).long()}, file)
        case "other":
            save_file(tensors | {"exit_unit.second.bias": torch.zeros(1)}, file)
    with pytest.raises(InputError, match=message):
        load(tmp_path)


def test_transformers_opens_the_folder_and_saves_it_without_the_unit(
    checkpoint: Path, tmp_path: Path
) -> None:
    saved_model(tmp_path / "run", checkpoint, HEAD)
    reopened, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "run", output_loading_info=True
    )
    assert not any(info.values()), info
    reopened.save_pretrained(tmp_path / "hf")
    model = load(tmp_path / "hf")
    assert model.head_settings == replace(HEAD, learned_exit=False)
    assert model.exit_unit is None


def test_a_new_unit_for_a_checkpoint_is_named(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (load(checkpoint, HEAD, seed=4) for _ in range(2))
    assert first.exit_unit is not None
    assert first.exit_unit.dense.weight.any()
    for name, parameter in first.named_parameters():
        assert torch.equal(second.get_parameter(name), parameter)
    save_folder(first, tmp_path / "run", tokenizer=load_tokenizer(checkpoint))
    other = load(tmp_path / "run", HeadSettings("classify", labels=2, exits="shared", learned_exit=True))
    assert other.exit_unit is not None  # new, like the layers of another head


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--train.learned-exit"], "--train.learned-exit: needs exits = true"),
        (["--train.exits", "--train.exit-prior", "0.2"], "--train.exit-prior 0.2: needs learned_exit = true"),
        (
            ["--train.exits", "--train.exit-prior-weight", "0"],
            "--train.exit-prior-weight 0: needs learned_exit = true",
        ),
        (
            ["--train.exits", "--train.learned-exit", "--train.exit-prior", "1"],
            "--train.exit-prior 1: must be at most 0.999",
        ),
    ],
)
def test_wrong_options(
    options: list[str],
    message: str,
    checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert message in finetune_error(checkpoint, tmp_path, options, capsys)


def test_a_model_of_one_layer_is_refused(
    tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model(replace(MODEL, layers=1), HeadSettings("pretrain"), seed=1)
    save_folder(model, tmp_path / "flat", tokenizer=load_tokenizer(tokenizer))
    options = ["--train.exits", "--train.learned-exit", "--quiet"]
    line = finetune_error(tmp_path / "flat", tmp_path, options, capsys)
    assert "learned_exit: needs at least 2 layers" in line
