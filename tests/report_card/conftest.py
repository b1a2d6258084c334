"""Fixtures of report cards: a short pre-training run, and a small folder of tasks and minimal pairs."""

import json
import shutil
from pathlib import Path

import pytest

from albertine.corpus.corpus import Corpus
from albertine.corpus.settings import ObjectiveSettings
from albertine.pretrain import run as pretrain_run
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import ModelSettings
from albertine.train import parallel_runs
from albertine.train.settings import PretrainTrainSettings
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world
from tests.task_fixtures import write_jsonl

MODEL = ModelSettings(vocab_size=220, embedding_size=16, hidden_size=32, layers=2, heads=2, max_length=64)


@pytest.fixture(scope="session")
def run(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a short pre-training run."""
    train = PretrainTrainSettings(
        steps=6, batch_tokens=256, evaluate_every=6, evaluate_tokens=256, precision="fp32"
    )
    settings = PretrainSettings(
        corpus=corpus.folder,
        device="cpu",
        model=MODEL,
        objective=ObjectiveSettings(max_length=32),
        train=train,
    )
    folder = tmp_path_factory.mktemp("report-card") / "my-run"
    pretrain_run.pretrain(folder, settings)
    return folder


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of all tasks, in several of the layouts in which people download them."""
    folder = tmp_path_factory.mktemp("tasks")
    world = folder / "world"
    settings = WorldSettings(
        tasks="sst-2,cola,mnli,qqp,squad",
        stories=5,
        extra=0,
        other=0,
        train=40,
        dev=24,
        test=1,
        workers=1,
        baselines=False,
    )
    write_world(world, settings)
    data = folder / "data"
    data.mkdir()
    (world / "glue").rename(data / "glue")
    _write_json_lines(data / "glue" / "QQP", data / "pairs" / "qqp")
    (data / "squad").mkdir()
    questions = json.loads((world / "squad" / "dev-v2.0.json").read_text())
    for article in questions["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = [entry for entry in paragraph["qas"] if entry["answers"]]
    (data / "squad" / "xquad.en.json").write_text(json.dumps(questions))
    for phenomenon in ("agreement", "islands"):
        rows = [
            {
                "sentence_good": f"The {noun} is here.",
                "sentence_bad": f"The {noun} are here.",
                "UID": f"{phenomenon}_1",
                "linguistics_term": phenomenon,
            }
            for noun in ("cat", "dog", "tree")
        ]
        write_jsonl(data / "blimp" / "data" / f"{phenomenon}_1.jsonl", rows)
    shutil.rmtree(world)
    return data


def _write_json_lines(folder: Path, stem: Path) -> None:
    """Replace a folder of GLUE by files of JSON lines, with the columns of the hub."""
    stem.parent.mkdir()
    for split, name in (("train", "train"), ("dev", "valid")):
        header, *lines = (folder / f"{split}.tsv").read_text().splitlines()
        records = [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
        rows = [
            {
                "question1": record["question1"],
                "question2": record["question2"],
                "label": int(record["is_duplicate"]),
                "idx": number,
            }
            for number, record in enumerate(records)
        ]
        write_jsonl(stem.with_name(f"{stem.name}.{name}.jsonl"), rows)
    shutil.rmtree(folder)


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train all runs in this process, one by one, as for wide models."""
    monkeypatch.setattr(parallel_runs, "_MIN_WIDTH_FOR_WHOLE_DEVICE", 0)
