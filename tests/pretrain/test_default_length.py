"""Tests of the length of a run that the user gives no length."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.pretrain import default_length
from albertine.pretrain.default_length import (
    describe_default_length,
    fitting_batch_tokens,
    with_default_length,
)
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import MODEL_PRESETS, SettingError
from albertine.train.run_folder import read_run_settings
from albertine.train.settings import PretrainTrainSettings

SETTINGS = PretrainSettings()


def corpus_of(tokens: int) -> Any:
    return SimpleNamespace(manifest=SimpleNamespace(tokens={"train": tokens}))


@pytest.mark.parametrize(
    ("tokens", "train", "steps", "batch_tokens"),
    [
        (10_000_000_000, {}, 20_000, 32_768),  # never more
        (100_000, {}, 977, 4_096),  # never smaller batches
        (1_000_000, {}, 4_883, 8_192),
        (1_000_000, {"steps": 30}, 30, 32_768),
        (1_000_000, {"steps": 30, "batch_tokens": 64}, 30, 64),
        (100_000, {"batch_tokens": 1_000}, 4_000, 1_000),
        (1_000_000, {"batch_tokens": 1_000}, 20_000, 1_000),  # never more steps
        (1_000_000_000, {"batch_tokens": 1_000_000}, 20_000, 1_000_000),
        (1, {}, 1, 4_096),
    ],
)
def test_steps_and_batches_fit_the_corpus(
    tokens: int, train: dict[str, Any], steps: int, batch_tokens: int
) -> None:
    settings = replace(SETTINGS, train=PretrainTrainSettings(**train))
    fitted = with_default_length(settings, corpus_of(tokens))
    assert (fitted.train.steps, fitted.train.batch_tokens) == (steps, batch_tokens)
    assert with_default_length(fitted, corpus_of(7)) == fitted


@pytest.mark.parametrize(
    ("train", "interval"),
    [
        ({"steps": 20_000, "batch_tokens": 32_768}, 500),
        ({"steps": 60, "batch_tokens": 2_048}, 32),  # trains on 65,536 tokens, then evaluates 8,192
        ({"steps": 60, "batch_tokens": 2_048, "evaluate_tokens": 256}, 1),
        ({"steps": 10, "batch_tokens": 256}, 10),  # only before the first step and after the last
        ({"steps": 60, "batch_tokens": 2_048, "evaluate_every": 3}, 3),
    ],
)
def test_a_short_run_evaluates_less_often(train: dict[str, Any], interval: int) -> None:
    assert PretrainTrainSettings(**train).evaluation_interval == interval


def test_a_part_of_the_text_is_a_smaller_corpus() -> None:
    half = replace(SETTINGS, objective=replace(SETTINGS.objective, pair="sop", text_fraction=0.5))
    assert with_default_length(half, corpus_of(200)) == replace(
        half, train=with_default_length(SETTINGS, corpus_of(100)).train
    )


def test_a_batch_holds_some_of_the_longest_samples() -> None:
    longer = replace(
        SETTINGS,
        model=replace(SETTINGS.model, max_length=1_500),
        objective=replace(SETTINGS.objective, max_length=1_500),
    )
    assert fitting_batch_tokens(longer, 1) == 16_384  # at least 8 x 1,500
    assert fitting_batch_tokens(SETTINGS, 1, world_size=16) == 8_192  # at least 16 x 512


def test_a_longer_warm_up_is_refused() -> None:
    settings = replace(SETTINGS, train=PretrainTrainSettings(warmup=6_000))
    with pytest.raises(InputError, match=r"--train.warmup 6000: longer than the 4,883 steps"):
        with_default_length(settings, corpus_of(1_000_000))


def test_the_message_counts_the_chosen_part_of_the_text() -> None:
    tenth = replace(SETTINGS, objective=replace(SETTINGS.objective, pair="sop", text_fraction=0.1))
    message = describe_default_length(with_default_length(tenth, corpus_of(1_000_000)), corpus_of(1_000_000))
    assert message.startswith(
        "977 steps of 4,096 tokens, which read the 100,000 tokens of the corpus 40.0 times"
    )


def test_a_wide_model_on_a_cpu_is_noticed() -> None:
    wide = replace(SETTINGS, model=MODEL_PRESETS["albertine-base"])
    corpus = corpus_of(1_000_000)
    hint = "on a CPU, --model albertine-tiny takes hours instead of days"
    assert hint in describe_default_length(with_default_length(wide, corpus), corpus, on_cpu=True)
    assert hint not in describe_default_length(with_default_length(wide, corpus), corpus)
    narrow = replace(SETTINGS, model=MODEL_PRESETS["albertine-tiny"])
    assert hint not in describe_default_length(with_default_length(narrow, corpus), corpus, on_cpu=True)


def test_a_batch_of_few_tokens_is_refused() -> None:
    with pytest.raises(SettingError, match="at least 8, or 0 for the default"):
        PretrainTrainSettings(batch_tokens=7)


@pytest.mark.slow
def test_the_command_says_what_it_has_chosen_and_resumes(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(default_length, "DEFAULT_EPOCHS", 2)
    command = ["pretrain", "--corpus", str(corpus.folder), "--out", str(tmp_path / "run"), "--device", "cpu"]
    command += ["--model.embedding-size", "8", "--model.hidden-size", "16", "--model.heads", "2"]
    command += ["--model.layers", "1", "--model.max-length", "64", "--objective.max-length", "64"]
    command += ["--train.batch-tokens", "8192", "--train.evaluate-tokens", "256"]
    assert run_command(app, command) == 0
    tokens = corpus.manifest.tokens["train"]
    steps = -(-2 * tokens // 8_192)
    message = capsys.readouterr().err.replace("\n", " ")
    assert f"{steps:,} steps of 8,192 tokens, which read the {tokens:,} tokens of the corpus 2" in message
    assert read_run_settings(tmp_path / "run").values["train"]["steps"] == steps
    assert run_command(app, command) == 0
    assert f"finished at step {steps:,} of {steps:,}; nothing to resume" in capsys.readouterr().err
    monkeypatch.setattr(default_length, "DEFAULT_EPOCHS", 3)  # a run that has begun keeps its length
    assert run_command(app, command) == 0
    assert f"finished at step {steps:,} of {steps:,}" in capsys.readouterr().err
