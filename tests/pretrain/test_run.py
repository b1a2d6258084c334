"""Tests of a pre-training run: its files, its losses, the doctor, and the settings that it refuses."""

import json
import math
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import transformers

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.batches import BatchLoader
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import ObjectiveSettings
from albertine.errors import InputError, WorkError
from albertine.model.losses import ObjectiveLoss
from albertine.pretrain.curriculum import CurriculumSettings, growing_depth
from albertine.pretrain.plateau import PlateauDetector
from albertine.pretrain.pretraining import Pretraining
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import check_causal_fraction, resolved_settings
from albertine.pretrain.unigram_baseline import TokenFrequencies
from albertine.settings import MODEL_PRESETS, HeadSettings, ModelSettings, SettingsSource, build_settings
from albertine.settings.model import MAX_LAYERS
from albertine.train.metrics_log import read_metrics
from albertine.train.run_folder import read_run_settings
from albertine.train.schedule import LearningRateSchedule
from albertine.train.settings import PretrainTrainSettings
from albertine.train.step_metrics import StepMetrics
from tests.conftest import ForkServer

from .conftest import MODEL, read_untimed_metrics, weight_bytes, with_train
from .test_resume import interrupted_run


def losses(run: Path) -> list[float]:
    return [line["loss"] for line in read_untimed_metrics(run) if "loss" in line]


def test_run_folder_holds_model_settings_and_metrics(
    settings: PretrainSettings, tmp_path: Path, draw_curves: None
) -> None:
    scores = pretrain(tmp_path / "run", settings)
    from_pretrained: Any = transformers.AlbertForPreTraining.from_pretrained
    reference, loading_info = from_pretrained(tmp_path / "run", output_loading_info=True)
    assert not loading_info["missing_keys"]
    assert not loading_info["unexpected_keys"]
    ids = torch.tensor([[2, 10, 11, 12, 3, 20, 21, 3]])
    actual = albertine.load(tmp_path / "run")(albertine.Strip.from_padded(ids)).masked.logits
    expected = reference(input_ids=ids).prediction_logits[0]
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "run").vocab_size == 220
    stored_settings = build_settings(PretrainSettings, read_run_settings(tmp_path / "run"))
    assert stored_settings.train.lr == settings.train.lr
    assert stored_settings.train.warmup is not None
    lines = read_metrics(tmp_path / "run")
    assert [line["step"] for line in lines if "loss" in line] == list(range(1, 13))
    last = next(line for line in lines if line["step"] == 12 and "held_out_loss" in line)
    assert {name: last[f"held_out_{name}"] for name in scores} == scores
    assert lines[-2]["tokens"] == sum(batch.strip.tokens.numel() for batch in first_batches(settings, 12))
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run" / "curve.svg").read_text().startswith("<?xml")


def first_batches(settings: PretrainSettings, count: int) -> list[Any]:
    assert settings.corpus
    dataset = PretrainDataset(Corpus(settings.corpus), settings.objective)
    return list(islice(BatchLoader(dataset, settings.train.batch_tokens), count))


def test_training_matches_a_transformers_loop(settings: PretrainSettings, tmp_path: Path) -> None:
    """Fifty steps with the same weights, batches and AdamW."""
    settings = with_train(settings, steps=50, optimizer="adamw", lr=5e-3, weight_decay=0.01, save_every=None)
    initial_model = albertine.Model(replace(MODEL, max_length=64), seed=5)
    albertine.save(initial_model, tmp_path / "start")
    pretrain(tmp_path / "run", replace(settings, init_from=str(tmp_path / "start")))
    reference: Any = transformers.AlbertForPreTraining.from_pretrained(
        tmp_path / "start", attn_implementation="eager"
    )
    reference.train()
    vectors = [parameter for parameter in reference.parameters() if parameter.dim() == 1]
    matrices = [parameter for parameter in reference.parameters() if parameter.dim() > 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.0)
    schedule = LearningRateSchedule.from_settings(settings.train)
    run_losses = losses(tmp_path / "run")
    for step, batch in enumerate(first_batches(settings, 50)):
        ids, mask, types = batch.strip.to_padded()
        labels = torch.full_like(batch.strip.tokens, -100)
        labels[batch.targets.masked.indices] = batch.targets.masked.labels
        out = reference(
            input_ids=ids,
            attention_mask=mask,
            token_type_ids=types,
            labels=batch.strip.pad(labels, -100),
            sentence_order_label=batch.targets.pair_labels,
        )
        assert abs(out.loss.item() - run_losses[step]) < 1e-3, step
        optimizer.zero_grad()
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(reference.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = schedule.lr_at(step)
        optimizer.step()
    assert run_losses[-1] < run_losses[0] - 0.3


def test_micro_batches_do_not_change_the_loss(settings: PretrainSettings, tmp_path: Path) -> None:
    pretrain(tmp_path / "one-pass", settings)
    pretrain(tmp_path / "accumulated", with_train(settings, micro_batch_tokens=40))
    assert losses(tmp_path / "one-pass") == pytest.approx(losses(tmp_path / "accumulated"), abs=1e-5)


def test_sharding_over_one_process_is_reported(
    settings: PretrainSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretrain(tmp_path / "run", with_train(settings, steps=1, shard=True))
    message = "--train.shard: has no effect with one process; start several with torchrun"
    assert capsys.readouterr().err.replace("\n", " ").count(message) == 1


def test_the_cost_of_halting_is_part_of_the_loss(settings: PretrainSettings, tmp_path: Path) -> None:
    settings = replace(settings, model=replace(MODEL, depth_rule="halting", halting_cost=0.1))
    pretrain(tmp_path / "one-pass", settings)
    pretrain(tmp_path / "accumulated", with_train(settings, micro_batch_tokens=40))
    assert losses(tmp_path / "one-pass") == pytest.approx(losses(tmp_path / "accumulated"), abs=1e-5)
    for line in read_untimed_metrics(tmp_path / "one-pass"):
        if "loss" in line:
            assert line["loss"] == pytest.approx(line["mlm_loss"] + line["pair_loss"] + line["halting_loss"])
            assert 0.1 < line["halting_loss"] <= 0.3  # 0.1 for each of at most two steps, and the remainder
    model = albertine.load(tmp_path / "one-pass")
    assert model.encoder.halting is not None
    assert model.encoder.halting.unit.bias.item() != 0


def test_causal_samples_have_a_loss_of_their_own(settings: PretrainSettings, tmp_path: Path) -> None:
    settings = replace(settings, objective=replace(settings.objective, causal_fraction=0.5))
    pretrain(tmp_path / "one-pass", settings)
    pretrain(tmp_path / "accumulated", with_train(settings, micro_batch_tokens=40))
    assert losses(tmp_path / "one-pass") == pytest.approx(losses(tmp_path / "accumulated"), abs=1e-5)
    lines = read_untimed_metrics(tmp_path / "one-pass")
    assert all(line["next_loss"] > 1 and 0 <= line["next_accuracy"] < 1 for line in lines if "loss" in line)
    for line in lines:
        if "loss" in line:
            assert line["loss"] == pytest.approx(line["mlm_loss"] + line["next_loss"] + line["pair_loss"])
    assert all("held_out_next_loss" in line for line in lines if "held_out_loss" in line)
    assert albertine.load(tmp_path / "one-pass").head_settings.next_tokens
    pretrain(tmp_path / "plain", settings=replace(settings, objective=ObjectiveSettings(max_length=32)))
    assert not albertine.load(tmp_path / "plain").head_settings.next_tokens


def test_a_run_says_that_it_does_not_continue_to_train_next_tokens(
    settings: PretrainSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    causal = replace(settings, objective=replace(settings.objective, causal_fraction=0.5))
    pretrain(tmp_path / "start", causal)
    for continued, is_told in ((causal, False), (settings, True)):
        capsys.readouterr()
        pretrain(tmp_path / str(is_told), replace(continued, init_from=str(tmp_path / "start")))
        assert ("it also predicts next tokens" in capsys.readouterr().err) == is_told


def test_held_out_losses_of_masked_tokens_do_not_depend_on_causal_samples(
    settings: PretrainSettings, tmp_path: Path
) -> None:
    """The first evaluation is before any training, so that both models are equal."""
    first_losses = []
    for fraction in (0.0, 0.5):
        run = tmp_path / str(fraction)
        pretrain(run, replace(settings, objective=replace(settings.objective, causal_fraction=fraction)))
        line = next(line for line in read_untimed_metrics(run) if "held_out_mlm_loss" in line)
        first_losses.append((line["held_out_mlm_loss"], line["held_out_pair_loss"]))
    assert first_losses[0] == pytest.approx(first_losses[1], abs=1e-5)


@pytest.mark.parametrize(
    ("model", "fraction", "message"),
    [
        ({}, 0.1, "a step of 8 samples is too small to have masked and causal ones"),
        ({"mark_matches": True}, 0.5, "not for a model with mark_matches"),
    ],
)
def test_causal_samples_that_cannot_be_are_refused(
    model: dict[str, Any], fraction: float, message: str, settings: PretrainSettings, tmp_path: Path
) -> None:
    objective = replace(settings.objective, causal_fraction=fraction)
    with pytest.raises(InputError, match=message):
        pretrain(tmp_path / "run", replace(settings, model=replace(MODEL, **model), objective=objective))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("samples", "fraction"), [(5, 0.8), (5, 0.2), (10, 0.9)])
def test_a_step_with_one_sample_of_a_kind_is_large_enough(
    samples: int, fraction: float, settings: PretrainSettings
) -> None:
    settings = replace(settings, objective=replace(settings.objective, causal_fraction=fraction))
    length = settings.longest_sample()
    check_causal_fraction(with_train(settings, batch_tokens=samples * length))
    with pytest.raises(InputError, match=f"a step of {samples - 1} samples is too small"):
        check_causal_fraction(with_train(settings, batch_tokens=(samples - 1) * length))


def test_samples_that_repeat_need_larger_steps(settings: PretrainSettings, tmp_path: Path) -> None:
    """Where the pattern of causal samples jumps, a step of one causal sample could have none."""
    objective = replace(settings.objective, causal_fraction=0.2, distinct_epochs=1)
    with pytest.raises(InputError, match="a step of 8 samples is too small"):
        pretrain(tmp_path / "run", replace(settings, objective=objective))


def test_a_length_in_minutes_is_measured_with_smaller_steps(
    settings: PretrainSettings, tmp_path: Path
) -> None:
    """A fraction of 0.1 needs ten samples in a step of the run, not in one of the trial."""
    settings = replace(settings, objective=replace(settings.objective, causal_fraction=0.1))
    settings = with_train(settings, steps=0, minutes=0.01, batch_tokens=1024, micro_batch_tokens=64)
    pretrain(tmp_path / "run", settings)
    assert (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("batch_tokens", [1024, 4096])
def test_loss_falls_below_the_unigram_baseline(
    batch_tokens: int,
    settings: PretrainSettings,
    world_corpus: Corpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Runs have the default learning rate and warm-up, and see equally many tokens."""
    steps = 300 if batch_tokens == 1024 else 75
    settings = with_train(
        settings, steps=steps, batch_tokens=batch_tokens, save_every=None, lr=None, evaluate_every=steps
    )
    model = replace(MODEL, vocab_size=len(world_corpus.tokenizer))
    pretrain(tmp_path / "run", replace(settings, corpus=world_corpus.folder, model=model))
    lines = read_untimed_metrics(tmp_path / "run")
    last_losses = [line["mlm_loss"] for line in lines if line["step"] > steps - 30 and "mlm_loss" in line]
    assert sum(last_losses) / len(last_losses) < lines[0]["mlm_unigram_loss"] - 0.1
    assert "is still at the" not in capsys.readouterr().err


@pytest.mark.parametrize("pair", ["nsp", "none"])
def test_other_objectives(pair: Literal["nsp", "none"], settings: PretrainSettings, tmp_path: Path) -> None:
    objective = replace(settings.objective, pair=pair)
    scores = pretrain(tmp_path / "run", replace(settings, objective=objective))
    assert ("pair_accuracy" in scores) == (pair == "nsp")
    pair_bias = dict(albertine.load(tmp_path / "run").named_parameters())["head.pair.bias"]
    assert bool(pair_bias.any()) == (pair == "nsp")  # the initial bias is 0


def test_deeper_run_from_a_shallow_checkpoint(settings: PretrainSettings, tmp_path: Path) -> None:
    pretrain(tmp_path / "shallow", settings)
    deeper = replace(settings, init_from=str(tmp_path / "shallow"), model=replace(MODEL, layers=5))
    pretrain(tmp_path / "deep", with_train(deeper, lr=0.0))
    deep, shallow = albertine.load(tmp_path / "deep"), albertine.load(tmp_path / "shallow")
    assert deep.settings.layers == 5
    deep_parameters = dict(deep.named_parameters())
    for name, parameter in shallow.named_parameters():
        assert torch.equal(parameter, deep_parameters[name]), name


@pytest.mark.parametrize(
    "model",
    [MODEL_PRESETS["demo"], ModelSettings(hidden_size=64, heads=2), ModelSettings(max_length=128)],
    ids=["preset", "hidden_size", "max_length"],
)
def test_model_settings_unlike_the_checkpoint_raise(
    model: ModelSettings, settings: PretrainSettings, tmp_path: Path
) -> None:
    albertine.save(albertine.Model(MODEL), tmp_path / "start")
    settings = replace(settings, init_from=str(tmp_path / "start"), model=model)
    with pytest.raises(InputError, match="the checkpoint of --init-from has"):
        pretrain(tmp_path / "run", settings)


@pytest.mark.parametrize("command", [["pretrain", "--out", "run"], ["plan"]])
def test_one_option_of_the_model_is_compared_with_the_checkpoint(
    command: list[str],
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The other values are those of the checkpoint, not defaults such as 12 heads."""
    monkeypatch.chdir(tmp_path)
    albertine.save(albertine.Model(MODEL), Path("start"))
    words = [*command, "--init-from", "start", "--corpus", str(settings.corpus)]
    assert run_command(app, [*words, "--model.hidden-size", "32", "--print-settings"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["model"]["heads"] == MODEL.heads
    assert run_command(app, [*words, "--model.hidden-size", "64"]) == 2
    message = "model.hidden_size = 64: the checkpoint of --init-from has 32; remove the setting"
    assert message in capsys.readouterr().err


def test_a_new_mlm_head_gets_the_unigram_start(
    settings: PretrainSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkpoint without an MLM head starts with the loss of the token frequencies."""
    initial_model = albertine.Model(MODEL, HeadSettings("classify"))
    albertine.save(initial_model, tmp_path / "classifier")
    settings = replace(with_train(settings, lr=0.0, steps=2), init_from=str(tmp_path / "classifier"))
    pretrain(tmp_path / "run", settings)
    pretrain(tmp_path / "without", replace(settings, unigram_start=False))
    biases = [
        dict(albertine.load(tmp_path / run).named_parameters())["head.masked.bias"]
        for run in ("run", "without")
    ]
    assert settings.corpus
    frequencies = torch.tensor(TokenFrequencies.from_corpus(Corpus(settings.corpus)).log_probabilities)
    assert torch.equal(biases[0][: len(frequencies)], frequencies.float())
    assert not biases[1].any()
    capsys.readouterr()
    again = replace(settings, init_from=str(tmp_path / "without")).with_explicit_keys({"unigram_start"})
    pretrain(tmp_path / "again", again)
    assert "without: has an MLM head, whose bias the run takes; no unigram start" in capsys.readouterr().err
    assert not dict(albertine.load(tmp_path / "again").named_parameters())["head.masked.bias"].any()


def test_a_damaged_tokenizer_of_the_checkpoint_is_refused(settings: PretrainSettings, tmp_path: Path) -> None:
    """It is not taken for a checkpoint without a tokenizer, whose vocabulary is that of the corpus."""
    albertine.save(albertine.Model(MODEL), tmp_path / "start")
    (tmp_path / "start" / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        pretrain(tmp_path / "run", replace(settings, init_from=str(tmp_path / "start")))


def test_every_batch_has_masked_tokens(settings: PretrainSettings, tmp_path: Path) -> None:
    """One token of a sample of eight is masked, even if all its words have several."""
    objective = ObjectiveSettings(pair="none", max_length=8)
    small = with_train(replace(settings, objective=objective), batch_tokens=8, steps=60, save_every=None)
    pretrain(tmp_path / "run", small)
    assert 0.0 not in losses(tmp_path / "run")


def test_init_from_a_transformers_checkpoint(settings: PretrainSettings, tmp_path: Path) -> None:
    config = transformers.AlbertConfig(
        vocab_size=220,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    transformers.AlbertForPreTraining(config).save_pretrained(tmp_path / "transformers")
    pretrain(tmp_path / "run", replace(settings, init_from=str(tmp_path / "transformers")))
    assert albertine.load(tmp_path / "run").settings.effective_ffn_size == 64


def test_checkpoints_have_the_current_depth(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = replace(settings, curriculum=CurriculumSettings(depth="1, 2 from 0.5"))
    pretrain(tmp_path / "run", with_train(growing, keep_checkpoints=9))
    depths = {
        folder.name: json.loads((folder / "config.json").read_text())["num_hidden_layers"]
        for folder in (tmp_path / "run" / "checkpoints").glob("step-*")
    }
    assert depths["step-00000006"] == 1
    assert depths["step-00000009"] == 2
    assert json.loads((tmp_path / "run" / "config.json").read_text())["num_hidden_layers"] == 2


# Default and invalid settings.


def test_vocab_size_defaults_to_the_corpus(settings: PretrainSettings, corpus: Corpus) -> None:
    settings = replace(settings, model=MODEL_PRESETS["demo"], objective=ObjectiveSettings())
    resolved = resolved_settings(settings, corpus, None)
    assert resolved.model.vocab_size == len(corpus.tokenizer)
    assert resolved.objective.max_length == 128
    padded = replace(settings, model=replace(settings.model, vocab_size=256))
    assert resolved_settings(padded, corpus, None).model.vocab_size == 256


@pytest.mark.parametrize(
    ("layers", "stages"),
    [
        (1, "1"),
        (2, "1, 2 from 0.64"),
        (3, "1, 2 from 0.68, 3 from 0.84"),
        (4, "1, 2 from 0.42, 4 from 0.85"),
        (12, "1, 2 from 0.55, 6 from 0.81, 12 from 0.93"),
    ],
)
def test_growing_depth_has_stages_of_similar_time(layers: int, stages: str) -> None:
    assert growing_depth(layers, 1000) == stages
    assert CurriculumSettings(depth=stages).stages("depth") is not None


def test_growing_depth_follows_the_layers_of_the_model(settings: PretrainSettings, corpus: Corpus) -> None:
    growing = replace(settings, curriculum=CurriculumSettings(depth="grow"))
    for layers, steps in ((2, 1000), (12, 50), (24, 50), (MAX_LAYERS, 50), (12, 10)):
        deep = with_train(replace(growing, model=replace(MODEL, layers=layers)), steps=steps)
        resolved = resolved_settings(deep, corpus, None)
        assert resolved.depth_at(steps - 1) == layers
        assert resolved.depth_at(0) == (1 if steps >= 50 else layers)
    with pytest.raises(InputError, match="depth can only grow where"):
        resolved_settings(replace(growing, model=replace(MODEL, share="none")), corpus, None)
    with pytest.raises(InputError, match="depth can only grow where"):
        replace(
            settings, model=replace(MODEL, share="none"), curriculum=CurriculumSettings(depth="1, 2 from 0.5")
        )


def test_depth_grows_with_a_preset_of_the_family_where_it_can(
    settings: PretrainSettings, corpus: Corpus
) -> None:
    def resolved(values: dict[str, Any], init: ModelSettings | None = None) -> PretrainSettings:
        model = {"preset": "albertine-tiny", **values.pop("model", {})}
        source = SettingsSource(
            {"corpus": str(corpus.folder), "device": "cpu", "model": model, **values}, "x"
        )
        return resolved_settings(build_settings(PretrainSettings, source), corpus, init)

    growing = resolved({})
    assert growing.curriculum.depth == "1, 2 from 0.47, 3 from 0.69, 6 from 0.88"
    assert growing.objective.mlm_probability == 0.3
    assert resolved({"model": {"layers": 12}}).depth_at(19_999) == 12
    assert resolved({"model": {"share": "none"}}).curriculum.depth is None
    assert resolved({}, growing.model).curriculum.depth is None
    explicit = resolved({"curriculum": {"depth": "6"}, "objective": {"mlm_probability": 0.15}})
    assert explicit.curriculum.depth == "6"
    assert explicit.objective.mlm_probability == 0.15


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model": replace(MODEL, vocab_size=100)},
            "vocab_size = 100: the vocabulary of .* has 220 tokens",
        ),
        ({"objective": ObjectiveSettings(max_length=100)}, "reduce --objective.max-length, or raise --model"),
        (
            {"curriculum": CurriculumSettings(length="32, 128 from 0.5")},
            "samples of 128 tokens: the model takes at most 64; reduce --curriculum.length",
        ),
        (
            {"curriculum": CurriculumSettings(depth="1, 3 from 0.5")},
            "the model has only 2 layers; raise --model.layers",
        ),
        ({"model": replace(MODEL, segments=1)}, "model.segments = 1: pairs need two"),
        (
            {"model": replace(MODEL, hidden_size=1_000_000, heads=2)},
            "the model has .* parameters, which take .* GB here; this machine has .* GB; choose smaller",
        ),
        ({"model": replace(MODEL, vocab_size=100_000_000, embedding_size=10_000)}, "choose smaller sizes"),
        ({"corpus": None}, "--corpus is missing"),
        (
            {"train": PretrainTrainSettings(batch_tokens=50), "objective": ObjectiveSettings(max_length=64)},
            "must hold a sample",
        ),
        ({"corpus": Path("/nowhere")}, "/nowhere: no such folder; name the folder of a corpus"),
        ({"init_from": "/nowhere/at/all"}, "no such folder; a model is a folder"),
        ({"device": "cuda"}, "torch sees no GPU here"),
    ],
)
def test_invalid_settings_raise_before_anything_is_written(
    change: dict[str, Any], message: str, settings: PretrainSettings, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        pretrain(tmp_path / "run", replace(settings, **change))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "text", ["", "x", "16, 32", "16, 32 from 1", "16, 32 from 0", "16, 32 from 0.5, 8 from 0.2", "4", "16.5"]
)
def test_invalid_curriculum_raises(text: str) -> None:
    with pytest.raises(InputError, match="length"):
        CurriculumSettings(length=text)


def test_curriculum_error_shows_an_example() -> None:
    with pytest.raises(InputError, match=r'as in "0.3, 0.15 from 0.5"'):
        CurriculumSettings(mlm_probability="-1")


def test_stages_start_at_their_fraction_of_the_run() -> None:
    stages = CurriculumSettings(mlm_probability="0.3, 0.2 from 0.25, 0.15 from 0.5").stages("mlm_probability")
    assert stages is not None
    assert [stages.value_at(step, 8) for step in range(8)] == [0.3, 0.3, 0.2, 0.2, 0.15, 0.15, 0.15, 0.15]


# The doctor.


def scale_losses(monkeypatch: pytest.MonkeyPatch, steps: Iterable[int], factor: float) -> None:
    """Multiply the losses of some steps, counted from 0, but not if a rollback repeats the step."""
    original, remaining_steps = Pretraining.compute_losses, set(steps)

    def compute_losses(self: Pretraining, model: Any, micro_batch: Any, step: int) -> Any:
        losses = original(self, model, micro_batch, step)
        if step not in remaining_steps:
            return losses
        remaining_steps.discard(step)
        return [ObjectiveLoss(objective.loss * factor, objective.correct) for objective in losses]

    monkeypatch.setattr(Pretraining, "compute_losses", compute_losses)


def test_nonfinite_step_is_skipped(
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scale_losses(monkeypatch, range(5, 7), math.nan)
    pretrain(tmp_path / "run", settings)
    assert "not finite; the step is skipped" in capsys.readouterr().err
    assert [line["step"] for line in read_untimed_metrics(tmp_path / "run") if line.get("skipped")] == [6, 7]
    assert all(parameter.isfinite().all() for parameter in albertine.load(tmp_path / "run").parameters())


def test_several_nonfinite_steps_cause_a_rollback(
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scale_losses(monkeypatch, range(5, 10), math.nan)
    pretrain(tmp_path / "run", settings)
    output = capsys.readouterr().err
    assert "the loss diverged at step 10 (it was nan); rolled back to step 4, continuing at 0.5 of" in output
    lines = [line for line in read_untimed_metrics(tmp_path / "run") if "loss" in line]
    assert [line["step"] for line in lines] == list(range(1, 13))
    rates = {line["step"]: line["lr"] for line in lines}
    assert rates[12] == pytest.approx(LearningRateSchedule.from_settings(settings.train).lr_at(11) / 2)


def test_lasting_high_loss_causes_a_rollback(
    settings: PretrainSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scale_losses(monkeypatch, range(70, 95), 3.0)
    pretrain(tmp_path / "run", with_train(settings, steps=110, save_every=10, evaluate_every=100))
    assert "step 60: the loss diverged at step 90" in capsys.readouterr().err
    events = [line for line in read_untimed_metrics(tmp_path / "run") if "event" in line]
    assert [(line["step"], line["event_type"]) for line in events] == [(60, "rollback"), (110, "diagnosis")]
    assert [line["step"] for line in read_untimed_metrics(tmp_path / "run") if "loss" in line] == list(
        range(1, 111)
    )


def test_run_stops_after_the_last_rollback(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Pretraining.compute_losses

    def compute_losses(self: Pretraining, model: Any, micro_batch: Any, step: int) -> Any:
        losses, factor = original(self, model, micro_batch, step), math.nan if step > 16 else 1
        return [ObjectiveLoss(objective.loss * factor, objective.correct) for objective in losses]

    monkeypatch.setattr(Pretraining, "compute_losses", compute_losses)
    settings = with_train(settings, steps=60)
    with pytest.raises(WorkError, match="after 3 rollbacks, each at half the rate; lower"):
        pretrain(tmp_path / "run", settings)
    assert all(parameter.isfinite().all() for parameter in albertine.load(tmp_path / "run").parameters())


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [{"lr": 10.0, "warmup": 0}, {"lr": 10.0, "optimizer": "adamw", "warmup": 300}],
    ids=["early", "gradual"],
)
def test_too_high_learning_rate_ends_with_advice(
    change: dict[str, Any], settings: PretrainSettings, tmp_path: Path
) -> None:
    settings = with_train(settings, steps=300, save_every=None, evaluate_every=None, **change)
    with pytest.raises(WorkError, match=r"diverged at step .*, after 3 rollbacks, .*; lower --train\.lr"):
        pretrain(tmp_path / "run", settings)
    events = [line["event_type"] for line in read_untimed_metrics(tmp_path / "run") if "event" in line]
    assert events == ["rollback"] * 3
    assert all(torch.isfinite(one).all() for one in albertine.load(tmp_path / "run").parameters())


@pytest.mark.parametrize(
    ("loss", "place"),
    [
        (567.0, "is above the unigram baseline (5.348)"),
        (5.3, "is still at the unigram baseline (5.348)"),
        (4.95, "is still at the no-context baseline (4.952)"),
        (4.8, None),
    ],
)
def test_plateau_message_names_the_place_of_the_loss(
    loss: float, place: str | None, settings: PretrainSettings
) -> None:
    detector = PlateauDetector(with_train(settings, steps=400), 5.348, 0.0)
    metrics = StepMetrics(400, 1, 1.0, loss, {"mlm": loss}, {}, 1.0, 1.0, 1.0, 0.1, 0)
    assert (place or "") in (detector.diagnose(metrics) or "")
    assert (detector.diagnose(metrics) is None) == (place is None)


@pytest.mark.parametrize(("loss", "is_reported"), [(10.0, True), (5.3, True), (5.2, False)])
def test_a_short_run_at_the_unigram_baseline_is_reported(
    loss: float, is_reported: bool, settings: PretrainSettings
) -> None:
    detector = PlateauDetector(with_train(settings, steps=50), 5.348, 0.0)
    metrics = StepMetrics(50, 1, 1.0, loss, {"mlm": loss}, {}, 1.0, 1.0, 1.0, 0.1, 0)
    assert detector.diagnose(replace(metrics, step=49)) is None
    message = detector.diagnose(metrics) or ""
    assert ("50 steps are not enough to learn more than token frequencies" in message) == is_reported


def test_unusual_settings_are_those_of_any_stage(settings: PretrainSettings) -> None:
    unusual = replace(
        settings, curriculum=CurriculumSettings(mlm_probability="0.15, 0.5 from 0.5, 0.2 from 0.9")
    )
    detector = PlateauDetector(replace(unusual, local_start=False), 5.348, 0.0)
    causes = "; ".join(detector._unusual_settings())
    assert "masking is unusual: 50% of the tokens" in causes
    assert "no local start" in causes
    rotary = replace(unusual.model, rotary=True)
    detector = PlateauDetector(replace(unusual, local_start=False, model=rotary), 5.348, 0.0)
    assert "no local start" not in "; ".join(detector._unusual_settings())


@pytest.mark.slow
def test_plateau_is_reported(
    settings: PretrainSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck = with_train(settings, steps=400, batch_tokens=128, lr=1e-9, warmup=0)
    stuck = with_train(stuck, save_every=None, evaluate_every=400)
    pretrain(tmp_path / "run", replace(stuck, objective=replace(settings.objective, mlm_probability=0.6)))
    messages = [line for line in capsys.readouterr().err.splitlines() if "is still at the" in line]
    assert [line.partition(":")[0] for line in messages] == ["step 300", "step 400"]
    for cause in (
        "the learning rate is low: --train.lr 1e-09",
        "the batch is small",
        "the warm-up is short",
        "60% of the",
    ):
        assert cause in messages[0]


# The command line.


@pytest.mark.slow
def test_resume_uses_the_settings_of_the_run(
    settings: PretrainSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fork_server: ForkServer
) -> None:
    pretrain(tmp_path / "uninterrupted", settings)
    interrupted_run(settings, tmp_path / "run", monkeypatch)
    assert fork_server.run("pretrain", "--out", str(tmp_path / "run"), "--resume", "--quiet") == ([0], "")
    assert weight_bytes(tmp_path / "run") == weight_bytes(tmp_path / "uninterrupted")
    exit_codes, output = fork_server.run("pretrain", "--out", str(tmp_path / "none"), "--resume")
    assert exit_codes == [2]
    assert "no run (it has no settings.toml)" in output
    (tmp_path / "classifier" / "checkpoints" / "step-00000001").mkdir(parents=True)
    (tmp_path / "classifier" / "checkpoints" / "run.lock").touch()
    (tmp_path / "classifier" / "settings.toml").write_text('task = "classify"\n')
    for options in (["--resume"], ["--corpus", str(settings.corpus)]):
        exit_codes, output = fork_server.run("pretrain", "--out", str(tmp_path / "classifier"), *options)
        assert exit_codes == [2]
        assert "classifier: a run of another command (its settings have task); name another" in output
    assert run_command(app, ["pretrain", "--plot", str(tmp_path / "run")]) == 0  # the server draws nothing
    assert (tmp_path / "run" / "curve.svg").exists()
