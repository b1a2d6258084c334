"""Tests of pre-training with exits: the mean over depths, its gradient, and the loss at each depth."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.model.model import Model
from albertine.pretrain.curriculum import CurriculumSettings
from albertine.pretrain.plateau import PlateauDetector
from albertine.pretrain.pretraining import Pretraining, PretrainMicroBatch
from albertine.pretrain.probe import probe
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.pretrain.setup import PRETRAIN_HEAD, resolved_settings
from albertine.settings import settings_to_toml
from albertine.settings.model import DepthRule
from albertine.train.distributed import init_distributed

from .conftest import MODEL, read_untimed_metrics, with_train


@pytest.fixture
def exit_settings(settings: PretrainSettings) -> PretrainSettings:
    return with_train(replace(settings, model=replace(MODEL, layers=4)), exits=True)


def test_depths_of_the_loss(exit_settings: PretrainSettings) -> None:
    expected = {
        1: (1,),
        4: (1, 2, 3, 4),
        6: (1, 2, 3, 4, 5, 6),
        8: (1, 2, 4, 5, 6, 8),
        12: (2, 4, 6, 8, 10, 12),
    }
    for layers, depths in expected.items():
        settings = replace(exit_settings, model=replace(MODEL, layers=layers))
        assert settings.exit_depths_at(0) == depths
        assert with_train(settings, exits=False).exit_depths_at(0) == (layers,)
    growing = replace(
        exit_settings,
        model=replace(MODEL, layers=12),
        curriculum=CurriculumSettings(depth="1, 3 from 0.25, 12 from 0.5"),
    )
    assert [growing.exit_depths_at(step) for step in (0, 3, 6)] == [(1,), (1, 2, 3), (2, 4, 6, 8, 10, 12)]


@pytest.mark.parametrize("layers", [3, 9])
@pytest.mark.parametrize("pair", ["sop", "none"])
def test_the_loss_is_a_weighted_mean_over_depths(
    layers: int, pair: Literal["sop", "nsp", "none"], exit_settings: PretrainSettings, corpus: Corpus
) -> None:
    """One pass gives the losses and the gradients of one pass for each depth."""
    settings = replace(
        exit_settings,
        model=replace(MODEL, layers=layers),
        objective=replace(exit_settings.objective, pair=pair),
    )
    model = Model(settings.model, PRETRAIN_HEAD, seed=1)
    with init_distributed("cpu") as distributed:
        pretraining = Pretraining(corpus, settings, distributed, PlateauDetector(settings, 5.0, 0.0), 4096)
        (micro_batch,) = pretraining.next_batch(0).micro_batches
    assert isinstance(micro_batch, PretrainMicroBatch)
    losses = [one.loss for one in pretraining.compute_losses(model, micro_batch, 0)]
    depths = settings.exit_depths_at(0)
    outputs = [model(micro_batch.batch.strip, micro_batch.batch.targets, depth=depth) for depth in depths]
    expected = [
        sum(depth / sum(depths) * loss for depth, loss in zip(depths, one, strict=True))
        for one in ([out.masked.loss for out in outputs], [out.pair_loss for out in outputs])
    ]
    expected = expected[: len(losses)]
    assert torch.allclose(torch.stack(losses), torch.stack(expected), atol=1e-5)
    parameters = list(model.parameters())
    actual_gradients, expected_gradients = (
        torch.autograd.grad(
            sum(one, start=torch.zeros(())), parameters, allow_unused=True, materialize_grads=True
        )
        for one in (losses, expected)
    )
    for actual, gradient in zip(actual_gradients, expected_gradients, strict=True):
        assert torch.allclose(actual, gradient, atol=1e-5, rtol=1e-3)


@pytest.mark.slow
def test_micro_batches_and_recomputation_do_not_change_the_loss(
    exit_settings: PretrainSettings, tmp_path: Path
) -> None:
    exit_settings = replace(exit_settings, curriculum=CurriculumSettings(depth="1, 4 from 0.5"))
    runs = []
    changes_of_run: dict[str, dict[str, Any]] = {
        "one-pass": {},
        "accumulated": {"micro_batch_tokens": 40},
        "recomputed": {"recompute": True},
    }
    for name, changes in changes_of_run.items():
        pretrain(tmp_path / name, with_train(exit_settings, **changes))
        runs.append([line["loss"] for line in read_untimed_metrics(tmp_path / name) if "loss" in line])
    assert runs[1] == pytest.approx(runs[0], abs=1e-5)
    assert runs[2] == pytest.approx(runs[0], abs=1e-5)


@pytest.mark.slow
def test_early_steps_learn(exit_settings: PretrainSettings, corpus: Corpus, tmp_path: Path) -> None:
    """With exits, the loss after one step of depth is far lower, and that after all steps is similar."""
    losses = {}
    for exits in (True, False):
        run = tmp_path / f"exits-{exits}"
        pretrain(run, with_train(exit_settings, exits=exits, steps=60, batch_tokens=1024, lr=1e-2))
        for depth in (1, None):
            settings = ProbeSettings(
                corpus=corpus.folder, device="cpu", tokens=2000, max_length=32, depth=depth
            )
            losses[exits, depth] = probe(str(run), settings, with_nsp=False).mlm_loss.value
    assert losses[True, 1] < losses[False, 1] - 0.02
    assert losses[True, None] == pytest.approx(losses[False, None], abs=0.3)


def test_the_probe_at_a_depth_is_that_of_a_model_with_so_many_layers(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model(replace(MODEL, layers=4), PRETRAIN_HEAD, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5)
    albertine.save(model, tmp_path / "deep", tokenizer=corpus.tokenizer)
    shallow = Model(replace(MODEL, layers=2), PRETRAIN_HEAD, seed=None)
    shallow.load_state_dict(model.state_dict())
    albertine.save(shallow, tmp_path / "shallow", tokenizer=corpus.tokenizer)
    settings = ProbeSettings(corpus=corpus.folder, device="cpu", tokens=500, max_length=32)
    expected = probe(str(tmp_path / "shallow"), settings, with_nsp=False)
    assert (
        probe(str(tmp_path / "deep"), replace(settings, depth=2), with_nsp=False).mlm_loss
        == expected.mlm_loss
    )
    assert probe(str(tmp_path / "deep"), settings, with_nsp=False).mlm_loss != expected.mlm_loss
    unshared = Model(replace(MODEL, share="none", always_project=True), PRETRAIN_HEAD, seed=1)
    albertine.save(unshared, tmp_path / "unshared", tokenizer=corpus.tokenizer)
    for command in (["probe", "--corpus", str(corpus.folder)], ["fill-mask", "ka [MASK]"]):
        arguments = [command[0], str(tmp_path / "unshared"), *command[1:], "--depth", "3", "--device", "cpu"]
        assert run_command(app, arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "depth 3: more than the 2 layers of this model" in line


@pytest.mark.parametrize("depth_rule", ["halting", "equilibrium"])
def test_depth_rules_without_exits_are_refused(
    depth_rule: DepthRule,
    exit_settings: PretrainSettings,
    corpus: Corpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = f"exits: need depth_rule = fixed; with {depth_rule}, an output is of several steps"
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(settings_to_toml(exit_settings))
    arguments = ["pretrain", "--config", str(recipe), "--out", str(tmp_path / "run")]
    assert run_command(app, [*arguments, "--model.depth-rule", depth_rule]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    with pytest.raises(InputError, match=message):  # also if the checkpoint to start from has the rule
        resolved_settings(exit_settings, corpus, replace(MODEL, depth_rule=depth_rule))
