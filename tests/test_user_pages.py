"""Tests that every command of the pages for users runs, in the order of the page and with small sizes."""

import csv
import random
import shutil
import sys
from pathlib import Path

import pytest

from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world
from tests.doc_pages import ROOT, free_port, run_page

pytestmark = [pytest.mark.slow, pytest.mark.long]  # whole workflows

_LABELS = {"good": "joy warm kind bright", "bad": "cold dull rude broken"}


def write_reviews(path: Path, seed: int, count: int, *, labeled: bool = True) -> None:
    """Write rows whose label follows from one of their words."""
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["review", "stars"] if labeled else ["review"])
        for number in range(count):
            label = rng.choice(sorted(_LABELS))
            words = f"visit {seed}-{number}: a {rng.choice(_LABELS[label].split())} day in the mill"
            writer.writerow([words, label] if labeled else [words])


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with text of the little world."""
    folder = tmp_path_factory.mktemp("stories")
    write_world(folder / "world", WorldSettings(stories=600, extra=0, other=0, train=0, workers=1))
    return folder / "world" / "text"


def write_published_model(folder: Path, stories: Path) -> None:
    """Write a small masked LM of `transformers` with a tokenizer, in place of a published one."""
    import torch
    from transformers import AlbertConfig, AlbertForMaskedLM

    build_tokenizer([str(stories)], folder, TokenizerSettings(vocab_size=800, allow_smaller=True))
    torch.manual_seed(0)
    config = AlbertConfig(
        vocab_size=800,
        embedding_size=32,
        hidden_size=64,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=128,
    )
    AlbertForMaskedLM(config).save_pretrained(folder)


def test_own_language(stories: Path, tmp_path: Path) -> None:
    write_published_model(tmp_path / "base", stories)
    shutil.copytree(stories, tmp_path / "my-text")
    write_reviews(tmp_path / "reviews.csv", 0, 200)
    write_reviews(tmp_path / "dev.csv", 2, 100)
    write_reviews(tmp_path / "new.csv", 1, 5, labeled=False)
    replacements = {
        "--vocab-size 8000": "--vocab-size 800",
        "--held-out 0.01": "--held-out 0.05",
        "albert/albert-base-v2": "base",
        "--out runs/adapted --train.minutes 60": "--out runs/adapted --train.steps 5",
        "--model albertine-tiny --train.minutes 60": "--model demo --train.steps 20",
        "albertine finetune": "albertine finetune --train.steps 60 --train.batch-size 8 --train.lr 4e-3",
        "--seeds 3": "--seeds 2",
    }
    run_page("own-language.md", tmp_path, replacements)
    assert len((tmp_path / "answers-int8.csv").read_text(encoding="utf-8").splitlines()) == 6
    assert (tmp_path / "runs" / "first-card" / "report-card.html").exists()


def test_student(tmp_path: Path) -> None:
    replacements = {
        "python examples/": f"{sys.executable} {ROOT}/examples/",
        "--hidden 768 --layers 12": "--hidden 64 --layers 2",
        "--scale minutes": "--scale smoke",
        "--compare --out my-demo": "--compare --out my-demo --hidden-size 128 --stories 600 --examples 100 "
        "--pretraining-steps 10 --finetuning-steps 5",
        "--stories 12000": "--stories 600",
        "--vocab-size 1700": "--vocab-size 800",
        "--train.steps 300": "--train.steps 20",
    }
    run_page("student.md", tmp_path, replacements)
    assert (tmp_path / "studies" / "index.html").exists()
    assert (tmp_path / "my-demo" / "report.html").exists()
    assert (tmp_path / "comparison.html").exists()


def test_engineer(stories: Path, tmp_path: Path) -> None:
    write_published_model(tmp_path / "base", stories)
    for seed, (name, count) in enumerate({"train": 200, "dev": 100, "new": 5}.items()):
        write_reviews(tmp_path / f"{name}.csv", seed, count, labeled=name != "new")
    replacements = {
        "albert/albert-base-v2": "base",
        "--train.exits": "--train.exits --train.steps 60 --train.batch-size 8 --train.lr 4e-3",
        "8000": free_port(),
        "--seconds 3": "--seconds 0.2",
    }
    run_page("engineer.md", tmp_path, replacements)
    assert len((tmp_path / "answers.csv").read_text(encoding="utf-8").splitlines()) == 6
    assert (tmp_path / "exits.svg").exists()
