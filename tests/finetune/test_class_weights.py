"""Class weights: their values, and the weighted mean over a step however it is divided."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from tests.finetune.exit_fixtures import exit_settings, finetune_error, step_losses
from tests.task_fixtures import with_train_settings, write_jsonl

from albertine.errors import InputError
from albertine.finetune.class_weights import balanced_class_weights
from albertine.finetune.finetuning import Finetuning
from albertine.finetune.prepare import FinetuneData, build_model, prepare_task
from albertine.finetune.settings import FinetuneSettings
from albertine.tasks.sequences import strip_from_samples
from albertine.train.distributed import Distributed, init_distributed


def unbalanced_settings(settings: FinetuneSettings, type_name: str, folder: Path) -> FinetuneSettings:
    """Return settings for examples in which one label is rare."""
    rng = random.Random(3)
    rows: list[dict[str, Any]] = []
    for label in ["a"] * 20 + ["b"] * 3 + ["c"]:
        words = rng.choices(["ka", "lo", "mi"], k=rng.randint(1, 9))
        if type_name == "tag":
            rows.append({"text": words, "label": rng.choices(["O", "B-X"], [9, 1], k=len(words))})
        elif type_name == "multi-label":
            rows.append({"text": " ".join(words), "label": ["all", label] if len(words) > 2 else ["all"]})
        else:
            rows.append({"text": " ".join(words), "label": label})
    data = str(write_jsonl(folder / "unbalanced.jsonl", rows))
    settings = replace(settings, task=type_name, data=data, dev=data, text="text", label="label")
    settings = replace(settings, dropout=0.0, classifier_dropout=0.0)
    return with_train_settings(settings, class_weights="balanced", batch_size=24)


@pytest.mark.parametrize("type_name", ["classify", "tag"])
def test_weights_are_those_of_scikit_learn(
    type_name: str, checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    data = prepare_task(str(checkpoint), unbalanced_settings(finetune_settings, type_name, tmp_path))
    weights = balanced_class_weights(data.task_type, data.train_samples).weights
    targets = known_targets(data).numpy()
    assert np.bincount(targets).max() > 3 * np.bincount(targets).min()
    expected = compute_class_weight("balanced", classes=np.unique(targets), y=targets)
    assert weights.tolist() == pytest.approx(expected.tolist())


def test_each_of_several_labels_weighs_as_much_as_its_absence(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    data = prepare_task(str(checkpoint), unbalanced_settings(finetune_settings, "multi-label", tmp_path))
    weights = balanced_class_weights(data.task_type, data.train_samples).weights
    targets = data.task_type.targets(data.train_samples).long()
    assert data.card.labels == ("a", "all", "b", "c")
    for label, column in enumerate(targets.T.numpy()):
        classes = np.unique(column)
        expected = compute_class_weight("balanced", classes=classes, y=column)
        assert weights[label, classes].tolist() == pytest.approx(expected.tolist())
    assert weights[1].tolist() == [1, 1]  # each example has it


def expected_loss(data: FinetuneData, weights: torch.Tensor) -> float:
    """Return the weighted mean over all training samples, target by target."""
    model = build_model(data, data.task_type.head_settings, 0.0, 0, random_weights=False).eval()
    total = total_weight = 0.0
    for sample in data.train_samples:
        with torch.no_grad():
            output = model(strip_from_samples([sample]))
        logits = output.logits.double().log_softmax(1)
        targets = data.task_type.targets([sample])
        if data.card.task == "multi-label":
            probabilities = output.logits.double().sigmoid()[0]
            for label, target in enumerate(targets[0].long().tolist()):
                probability = probabilities[label] if target else 1 - probabilities[label]
                total -= float(weights[label, target] * probability.log())
                total_weight += float(weights[label, target])
            continue
        for row, target in zip(logits, targets.tolist(), strict=True):
            if target >= 0:
                total -= float(weights[target] * row[target])
                total_weight += float(weights[target])
    return total / total_weight


@pytest.mark.parametrize("type_name", ["classify", "multi-label", "tag"])
def test_loss_is_the_weighted_mean_over_the_step(
    type_name: str, checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    settings = unbalanced_settings(finetune_settings, type_name, tmp_path)
    with init_distributed("cpu") as distributed:
        (whole, expected), (parts, gradients), (unweighted, _) = (
            step_losses(checkpoint, one, tmp_path / str(number), distributed)
            for number, one in enumerate(
                (
                    settings,
                    with_train_settings(settings, micro_batch_tokens=16),
                    with_train_settings(settings, class_weights="none"),
                )
            )
        )
        with_exits = [
            step_losses(checkpoint, exit_settings(settings, **changes), tmp_path / name, distributed)[0]
            for name, changes in (
                ("exits", {}),
                ("exit-parts", {"micro_batch_tokens": 16}),
                ("exits-unweighted", {"class_weights": "none"}),
            )
        ]
    assert with_exits[0] == pytest.approx(with_exits[1], rel=1e-5)
    assert with_exits[0] != pytest.approx(with_exits[2], rel=1e-3)
    assert parts == pytest.approx(whole, rel=1e-5)
    assert whole != pytest.approx(unweighted, rel=1e-3)
    for name, gradient in gradients.items():
        assert torch.allclose(gradient, expected[name], atol=1e-5), name
    data = prepare_task(str(checkpoint), settings)
    weights = balanced_class_weights(data.task_type, data.train_samples).weights
    counts = balanced_class_weights(data.task_type, data.train_samples).target_counts
    (total_weight,) = counts(data.task_type.targets(data.train_samples))
    assert whole[0] / total_weight == pytest.approx(expected_loss(data, weights), rel=1e-4)


def known_targets(data: FinetuneData) -> torch.Tensor:
    targets: torch.Tensor = data.task_type.targets(data.train_samples)
    return targets[targets >= 0]


def test_processes_divide_the_sum_of_weights(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    """Target counts and weighted losses of the parts of two processes add up to those of one."""
    settings = unbalanced_settings(finetune_settings, "classify", tmp_path)
    data = prepare_task(str(checkpoint), settings)
    model = build_model(data, data.task_type.head_settings, 0.0, 0, random_weights=False).eval()
    weights = balanced_class_weights(data.task_type, data.train_samples)

    def sums(rank: int, world_size: int) -> tuple[float, float]:
        distributed = Distributed(rank, world_size, torch.device("cpu"))
        finetuning = Finetuning(
            data.train,
            data.dev,
            data.task_type,
            data.card,
            data.tokenizer,
            data.model_settings,
            batch_size=24,
            seed=0,
            distributed=distributed,
            micro_batch_tokens=32,
            collapse_check_step=None,
            class_weights=weights,
        )
        total = weight = 0.0
        for micro_batch in finetuning.next_batch(0).micro_batches:
            micro: Any = micro_batch
            (count,) = micro.target_counts
            with torch.no_grad():
                total += float(finetuning.compute_losses(model, micro, 0)[0].loss) * count
            weight += count
        return total, weight

    one = sums(0, 1)
    two = [sums(rank, 2) for rank in range(2)]
    assert one[1] == pytest.approx(24)
    assert [sum(parts) for parts in zip(*two, strict=True)] == pytest.approx(one, rel=1e-5)


def test_types_without_class_weights_refuse_them(
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    weights = ["--train.class-weights", "balanced"]
    settings = replace(finetune_settings, task="regress")
    with pytest.raises(InputError, match=r"class-weights: --task regress is .*: classify, multi-label, tag$"):
        prepare_task(str(checkpoint), with_train_settings(settings, class_weights="balanced"))
    line = finetune_error(checkpoint, tmp_path, [*weights, "--train.exits", "--train.learned-exit"], capsys)
    assert 'does not fit train.class_weights = "balanced", which must be none with learned_exit' in line
