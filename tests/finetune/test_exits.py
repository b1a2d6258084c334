"""Fine-tuning with exits: the loss over all steps of depth, resuming, the files, and transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

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
from tests.task_fixtures import MODEL, reviews

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.finetune.finetune import finetune
from albertine.finetune.finetuning import Finetuning
from albertine.finetune.settings import FinetuneSettings
from albertine.inference.finetuned_model import load_finetuned
from albertine.interop.load import load
from albertine.interop.save_checkpoint import save_folder
from albertine.model.losses import ObjectiveLoss, mean_over_depths
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.settings.engine import EngineOptions
from albertine.settings.exit_rule import ExitRule
from albertine.tasks.card import parse_card
from albertine.text.tokenizer import load_tokenizer
from albertine.train.distributed import init_distributed
from albertine.train.metrics_log import read_metrics

STRIP = Strip.from_sequences([[2, 9, 8, 3], [2, 7, 3], [2, 12, 11, 10, 3]])


@pytest.mark.parametrize("exit_heads", ["shared", "own"])
@pytest.mark.parametrize("type_name", ["classify", "multi-label", "regress", "tag", "span", "choice"])
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
    with init_distributed("cpu") as distributed:
        (whole, expected), (parts, gradients), (last, _) = (
            step_losses(deep_checkpoint, one, tmp_path / str(number), distributed)
            for number, one in enumerate(
                (
                    exit_settings(settings, exit_heads),
                    exit_settings(settings, exit_heads, micro_batch_tokens=32),
                    settings,
                )
            )
        )
    assert parts == pytest.approx(whole, rel=1e-5)
    assert whole != last  # losses of all steps differ from the last one's
    assert any(name.startswith("exit_heads.2.") for name in gradients) == (exit_heads == "own")
    for name, gradient in gradients.items():
        assert torch.allclose(gradient, expected[name], atol=1e-5), name


def test_losses_are_weighted_by_depth() -> None:
    def losses(*values: float) -> list[ObjectiveLoss]:
        return [ObjectiveLoss(torch.tensor(value), torch.tensor(value)) for value in values]

    losses_by_depth = [losses(3.0, 0.0), losses(6.0, 0.0), losses(9.0, 6.0)]
    first, second = mean_over_depths(losses_by_depth, [1, 2, 5])
    assert first.loss == pytest.approx(3 * 1 / 8 + 6 * 2 / 8 + 9 * 5 / 8)
    assert float(second.loss) == pytest.approx(6.0 * 5 / 8)
    assert float(second.correct) == 6.0  # the last step's


@pytest.mark.slow
@pytest.mark.parametrize(("label", "exit_heads"), [("stars", "shared"), ("stars", "own"), ("mark", "own")])
def test_resume_is_exact(
    label: str,
    exit_heads: str,
    deep_checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = "classify" if label == "stars" else "regress"
    settings = exit_settings(
        replace(finetune_settings, task=task, label=label, dropout=0.1), exit_heads, steps=20, save_every=7
    )
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
    names = ["model.safetensors", *(["exits.safetensors"] if exit_heads == "own" else [])]
    for name in names:
        contents = [(tmp_path / run / name).read_bytes() for run in ("uninterrupted", "interrupted")]
        assert contents[0] == contents[1], name
    assert (tmp_path / "interrupted" / "exits.safetensors").exists() == (exit_heads == "own")
    losses = [
        [line["loss"] for line in read_metrics(tmp_path / run) if "loss" in line and "lr" in line]
        for run in ("uninterrupted", "interrupted")
    ]
    assert losses[0] == losses[1]
    if task == "regress":  # every head predicts numbers in their original unit
        card = parse_card(tmp_path / "interrupted" / "task.json")
        assert card.target_scale is not None
        assert 1.0 < card.target_scale < 1.5  # of -1, 0.5 and 2
        rule = load_finetuned(
            tmp_path / "interrupted", EngineOptions("cpu"), exit_rule=ExitRule(patience=1)
        ).exit_rule
        assert rule is not None
        assert rule.tolerance == pytest.approx(0.05 * card.target_scale)


# With AdamW, this network learns two or three of the three labels, depending on the seed and on rounding, at
# all depths alike. A step that does not learn is at chance, 0.33.
@pytest.mark.slow
@pytest.mark.parametrize(("optimizer", "minimum"), [("muon", 0.9), ("adamw", 0.5)])
def test_every_step_learns(
    optimizer: str, minimum: float, deep_checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    settings = exit_settings(
        finetune_settings, "own", steps=100, evaluate_every=50, optimizer=optimizer, lr=1e-2
    )
    finetune(str(deep_checkpoint), tmp_path / "run", settings)
    for step in range(1, 5):
        arguments = ["evaluate", str(tmp_path / "run"), "--data", str(settings.dev), "--json", "--quiet"]
        assert run_command(app, [*arguments, "--depth", str(step), "--device", "cpu"]) == 0
    model = load(tmp_path / "run")
    assert model.head_settings.exits == "own"
    rows = reviews(2, 60)
    tokenizer = load_tokenizer(tmp_path / "run")
    strip = Strip.from_sequences([tokenizer.encode(row["review"]) for row in rows])
    labels = torch.tensor([model.label_names.index(row["stars"]) for row in rows])
    correct = [
        (model(strip, depth=step).logits.argmax(1) == labels).float().mean().item() for step in range(1, 5)
    ]
    assert min(correct) > minimum, correct
    assert max(correct) - min(correct) < 0.25, correct


@pytest.mark.parametrize("exit_heads", ["shared", "own"])
def test_transformers_opens_the_folder_with_the_last_head(
    exit_heads: str, deep_checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(
        str(deep_checkpoint),
        tmp_path / "run",
        exit_settings(finetune_settings, exit_heads, steps=6, evaluate_every=6),
    )
    reopened, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "run", output_loading_info=True
    )
    assert not any(info.values()), info
    input_ids, attention_mask, segments = STRIP.to_padded()
    with torch.no_grad():
        expected = reopened.eval()(input_ids, attention_mask, segments).logits
        assert torch.allclose(load(tmp_path / "run")(STRIP).logits, expected, atol=1e-5)


@pytest.mark.parametrize(
    "head",
    [
        HeadSettings("classify", labels=3, exits="own"),
        HeadSettings("token", labels=3, exits="own"),
        HeadSettings("span", answerable=True, exits="own"),
    ],
    ids=lambda head: head.kind,
)
def test_own_heads_are_saved(head: HeadSettings, checkpoint: Path, tmp_path: Path) -> None:
    model = saved_model(tmp_path / "run", checkpoint, head)
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
        ("nan", r"exits\.safetensors: tensor exit_heads\.0\.out\.bias has values that are NaN"),
        ("shape", r"exits\.safetensors: tensor exit_heads\.0\.out\.bias has shape \[5\], but .* \[3\]"),
        ("lost", r"exits\.safetensors: tensor exit_heads\.0\.out\.bias is missing"),
        ("no tensors", r"exits\.safetensors: tensor exit_heads\.0\.pooler\.dense\.weight is missing"),
        ("integers", r"exits\.safetensors: tensor exit_heads\.0\.out\.bias is torch\.int64"),
        ("other", r"exits\.safetensors: unexpected tensor albert\.embeddings\.LayerNorm\.bias"),
    ],
)
def test_a_damaged_file_of_exits_is_refused(
    damage: str, message: str, checkpoint: Path, tmp_path: Path
) -> None:
    saved_model(tmp_path, checkpoint, HeadSettings("classify", labels=3, exits="own"))
    file, name = tmp_path / "exits.safetensors", "exit_heads.0.out.bias"
    tensors = load_file(file)
    file.unlink()
    match damage:
        case "empty":
            file.write_bytes(b"")
        case "nan":
            save_file(tensors | {name: torch.full((3,), torch.nan)}, file)
        case "shape":
            save_file(tensors | {name: torch.zeros(5)}, file)
        case "lost":
            save_file({other: tensor for other, tensor in tensors.items() if other != name}, file)
        case "no tensors":
            save_file({}, file)
        case "integers":
            save_file(tensors | {name: torch.zeros(3).long()}, file)
        case "other":
            save_file(tensors | {"albert.embeddings.LayerNorm.bias": torch.zeros(16)}, file)
    with pytest.raises(InputError, match=message):
        load(tmp_path)


def test_a_folder_that_transformers_saved_has_the_last_head_at_every_step(
    checkpoint: Path, tmp_path: Path
) -> None:
    saved_model(tmp_path / "run", checkpoint, HeadSettings("classify", labels=3, exits="own"))
    transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "run").save_pretrained(
        tmp_path / "hf"
    )
    model = load(tmp_path / "hf")
    assert model.head_settings.exits == "own"
    assert torch.equal(model.get_parameter("exit_heads.0.out.weight"), model.get_parameter("head.out.weight"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--exit-heads", "own"], "--exit-heads own: needs train.exits = true"),
        (["--train.exits", "--exit-heads", "some"], "--exit-heads some: must be one of shared, own"),
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


def test_exits_of_another_depth_rule_are_refused(
    tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model(replace(MODEL, depth_rule="halting"), HeadSettings("pretrain"), seed=1)
    save_folder(model, tmp_path / "halting", tokenizer=load_tokenizer(tokenizer))
    line = finetune_error(tmp_path / "halting", tmp_path, ["--train.exits", "--quiet"], capsys)
    assert "exits: need depth_rule = fixed; with halting" in line
