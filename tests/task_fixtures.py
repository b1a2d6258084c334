"""An untrained small checkpoint, and small data sets that it can learn in a hundred steps."""

import csv
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings, ModelSettings
from albertine.tasks.card import TaskCard
from albertine.text.tokenizer import load_tokenizer
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world
from tests.conftest import SYLLABLES

MODEL = ModelSettings(vocab_size=220, embedding_size=16, hidden_size=32, layers=2, heads=2, max_length=64)
LABELS = ("red", "green", "blue")


@pytest.fixture(scope="session")
def checkpoint(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an untrained checkpoint with the head of pre-training."""
    folder = tmp_path_factory.mktemp("checkpoint") / "start"
    save_folder(Model(MODEL, HeadSettings("pretrain"), seed=1), folder, tokenizer=load_tokenizer(tokenizer))
    return folder


def finetune_words(checkpoint: Path, data: Path, out: Path, options: Mapping[str, str]) -> list[str]:
    """Return the command that fine-tunes on train.jsonl of a folder; options without value are left out."""
    files = {"data": str(data / "train.jsonl"), "dev": str(data / "dev.jsonl"), "out": str(out)}
    values = {name: value for name, value in {**files, **options}.items() if value}
    words = [word for name, value in values.items() for word in (f"--{name}", value)]
    return ["finetune", str(checkpoint), *words, "--device", "cpu"]


def save_untrained_model(
    folder: Path, checkpoint: Path, head: HeadSettings, card: TaskCard, seed: int = 3
) -> Path:
    """Write an untrained model with the head and the card of a task; return its folder."""
    model = Model(MODEL, head, seed=seed)
    model.label_names = card.labels
    save_folder(model, folder, tokenizer=load_tokenizer(checkpoint))
    card.write(folder)
    return folder


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small little world, with its tasks in their official layouts."""
    folder = tmp_path_factory.mktemp("world") / "w"
    settings = WorldSettings(
        stories=5, extra=0, other=0, train=30, dev=20, test=20, workers=1, baselines=False
    )
    write_world(folder, settings)
    return folder


def random_words(rng: random.Random, count: int) -> list[str]:
    return ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 3))) for _ in range(count)]


def reviews(seed: int, count: int) -> list[dict[str, Any]]:
    """Return rows of texts whose first syllable determines the label (`stars`) and the number (`mark`)."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        label = rng.randrange(3)
        signal = ("ka", "lo", "mi")[label]
        text = " ".join([signal] * 3 + random_words(rng, rng.randint(1, 6)))
        rows.append({"review": text, "stars": LABELS[label], "mark": 1.5 * label - 1})
    return rows


def write_csv(file: Path, rows: list[dict[str, Any]]) -> Path:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file


def write_jsonl(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return file


def write_squad(file: Path) -> Path:
    """Write a file of SQuAD 2.0 with short passages; return the file. The ids are "0" to "5"."""
    paragraphs = []
    for index, name in enumerate(("Ida", "Tom", "Ann")):
        answers = [{"text": name, "answer_start": 0}]
        questions = [
            {"id": f"{2 * index}", "question": "Who ran?", "answers": answers},
            {"id": f"{2 * index + 1}", "question": "Who sang?", "answers": [], "is_impossible": True},
        ]
        paragraphs.append({"context": f"{name} ran home.", "qas": questions})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return file


@pytest.fixture
def finetune_settings(tmp_path: Path) -> FinetuneSettings:
    """Settings of a short fine-tuning run on reviews."""
    return FinetuneSettings(
        task="classify",
        data=str(write_csv(tmp_path / "train.csv", reviews(1, 200))),
        dev=str(write_csv(tmp_path / "dev.csv", reviews(2, 60))),
        text="review",
        label="stars",
        device="cpu",
        train=FinetuneTrainSettings(
            steps=60,
            batch_size=16,
            optimizer="adamw",
            lr=3e-3,
            warmup=6,
            precision="fp32",
            evaluate_every=20,
        ),
    )


def with_train_settings(settings: FinetuneSettings, **changes: Any) -> FinetuneSettings:
    return replace(settings, train=replace(settings.train, **changes))
