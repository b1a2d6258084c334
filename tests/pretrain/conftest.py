"""Fixtures of pre-training tests: the settings of a run of less than a second, and a small corpus."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import ModelSettings
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer
from albertine.train.metrics_log import read_metrics
from albertine.train.settings import PretrainTrainSettings
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

MODEL = ModelSettings(vocab_size=220, embedding_size=16, hidden_size=32, layers=2, heads=2, max_length=64)
TIMING_KEYS = ("seconds", "tokens_per_second", "utilization", "peak_memory")


@pytest.fixture(scope="session")
def world_corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Build a corpus of the little world, from which a model can learn."""
    folder = tmp_path_factory.mktemp("world-corpus")
    write_world(folder / "world", WorldSettings(stories=1500, extra=0, other=0, train=0, workers=1))
    text = [str(folder / "world" / "text")]
    build_tokenizer(text, folder / "tokenizer", TokenizerSettings(vocab_size=700))
    build_corpus(text, folder / "tokenizer", folder / "corpus", CorpusSettings(workers=1, held_out=0.05))
    return Corpus(folder / "corpus")


@pytest.fixture
def settings(corpus: Corpus) -> PretrainSettings:
    train = PretrainTrainSettings(
        steps=12,
        batch_tokens=256,
        save_every=3,
        evaluate_every=4,
        evaluate_tokens=256,
        precision="fp32",
        lr=2e-3,
    )
    return PretrainSettings(
        corpus=corpus.folder,
        device="cpu",
        model=MODEL,
        objective=ObjectiveSettings(max_length=32),
        train=train,
    )


def with_train(settings: PretrainSettings, **changes: Any) -> PretrainSettings:
    return replace(settings, train=replace(settings.train, **changes))


def read_untimed_metrics(run: Path) -> list[dict[str, Any]]:
    """Return the metrics of a run, without timings and memory."""
    lines = read_metrics(run)
    return [{key: value for key, value in line.items() if key not in TIMING_KEYS} for line in lines]


def weight_bytes(run: Path) -> bytes:
    return (run / "model.safetensors").read_bytes()
