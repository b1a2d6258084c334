"""Checkpoints, settings and first steps of runs with exits, for tests."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.task_fixtures import MODEL, random_words, reviews, with_train_settings, write_csv, write_jsonl

from albertine.cli import app
from albertine.command import run_command
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import prepare_task
from albertine.finetune.run import build_trainer
from albertine.finetune.settings import FinetuneSettings
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.text.tokenizer import load_tokenizer
from albertine.train.distributed import Distributed


@pytest.fixture
def deep_checkpoint(tokenizer: Path, tmp_path: Path) -> Path:
    """Folder of an untrained checkpoint of four steps."""
    model = Model(replace(MODEL, layers=4), HeadSettings("pretrain"), seed=1)
    save_folder(model, tmp_path / "deep", tokenizer=load_tokenizer(tokenizer))
    return tmp_path / "deep"


def finetune_error(
    checkpoint: Path, folder: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> str:
    """Return the line that a refused call of `albertine finetune` prints."""
    data = write_csv(folder / "train.csv", reviews(1, 40))
    arguments = ["finetune", str(checkpoint), "--task", "classify", "--data", str(data)]
    arguments += ["--text", "review", "--label", "stars", "--out", str(folder / "run"), *options]
    assert run_command(app, arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def exit_settings(settings: FinetuneSettings, exit_heads: Any = "shared", **changes: Any) -> FinetuneSettings:
    settings = with_train_settings(settings, exits=True, **changes)
    return replace(settings, exit_heads=exit_heads)


def settings_of_type(settings: FinetuneSettings, type_name: str, folder: Path) -> FinetuneSettings:
    """Return settings for a few examples of a task type."""
    rng = random.Random(1)
    rows: list[dict[str, Any]] = []
    for _ in range(24):
        words = random_words(rng, rng.randint(2, 7))
        text = " ".join(words)
        match type_name:
            case "tag":
                tags = [rng.choice(["O", "B-X"]) for _ in words]
                rows.append({"text": words, "label": tags})
            case "span":
                found = {"text": [words[1]], "answer_start": [text.index(words[1])]}
                answers = found if rng.random() < 0.7 else {"text": [], "answer_start": []}
                rows.append({"question": "ka", "context": text, "answers": answers})
            case "choice":
                rows.append({"context": text, "options": words[:2], "label": rng.randrange(2)})
            case "multi-label":
                rows.append({"text": text, "label": [label for label in "abc" if rng.random() < 0.5]})
            case "regress":
                rows.append({"text": text, "label": 3.0 * len(words)})
            case _:
                rows.append({"text": text, "label": rng.choice("ab")})
    data = str(write_jsonl(folder / f"{type_name}.jsonl", rows))
    return replace(settings, task=type_name, text="text", label="label", data=data, dev=data)


def step_losses(
    checkpoint: Path, settings: FinetuneSettings, run: Path, distributed: Distributed
) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Return the losses of the first step of a run without dropout, and the gradients."""
    data = prepare_task(str(checkpoint), settings)
    settings = with_task_defaults(
        settings, data.task.name, data.model_settings, data.num_samples, data.card.max_length
    )
    trainer = build_trainer(run, settings, data, distributed)
    batch = trainer._next_batch()
    sums = trainer._accumulate_gradients(batch, trainer._reduce_totals(batch).target_counts)
    gradients = {name: one.grad for name, one in trainer.model.named_parameters() if one.grad is not None}
    return sums[0].tolist(), gradients


def saved_model(folder: Path, tokenizer: Path, head: HeadSettings) -> Model:
    model = Model(replace(MODEL, layers=3), head, seed=1)
    with torch.no_grad():
        for number, parameter in enumerate(model.exit_heads.parameters()):
            parameter.add_(0.1 * (number + 1))
    save_folder(model, folder, tokenizer=load_tokenizer(tokenizer))
    (folder / "task.json").write_text("{}")
    return model
