"""Tests of studies that fine-tune on the user's tasks."""

import json
from pathlib import Path
from typing import Any

import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.study.catalog import claims_for, find_claim
from albertine.study.settings import StudySettings
from albertine.study.study import repeat_command
from albertine.study.task_examples import find_copies
from tests.task_fixtures import write_jsonl

CLAIM = """
claim = "Three models are better than one."
source = "a test"
columns = ["mnli", "qqp", "average"]
arms.single = {}
arms.ensemble = {}
[finetuning]
single = { runs = 2, start = "sst-2" }
ensemble = { runs = 2, ensemble = true }
[[expectations]]
measure = "mnli"
arm = "ensemble"
than = "single"
margin = 1
[scales.evening]
tasks = ["mnli", "qqp"]
vocab_size = 200
seeds = 1
examples = 20
dev_examples = 8
finetune_steps = 2
[scales.evening.pretrain]
model = { embedding_size = 16, hidden_size = 32, heads = 4, layers = 2, max_length = 64 }
objective.max_length = 32
train = { steps = 2, batch_tokens = 256 }
"""
COLUMNS = {
    "mnli": ("premise", "hypothesis"),
    "qqp": ("question1", "question2"),
    "sst2": ("sentence",),
    "rte": ("sentence1", "sentence2"),
}


def write_tasks(folder: Path, *names: str, word: str = "one") -> Path:
    """Write tasks as JSON lines."""
    folder.mkdir()
    for name in names:
        for part, count in (("train", 40), ("valid", 12)):
            rows = [
                dict.fromkeys(COLUMNS[name], f"{word} {part} {number}") | {"label": number % 2}
                for number in range(count)
            ]
            write_jsonl(folder / f"{name}.{part}.jsonl", rows)
    return folder


def texts(file: Path) -> set[str]:
    return {json.loads(line)["text"] for line in file.read_text().splitlines()}


def _words(folder: Path, text: Path, data: Path) -> list[str]:
    words = ["study", str(folder / "three.toml"), "--scale", "evening", "--out", str(folder / "studies")]
    return [*words, "--text", str(text), "--data", str(data), "--quiet", "--json"]


@pytest.mark.slow
def test_models_are_chosen_and_scored_on_different_examples(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "three.toml").write_text(CLAIM)
    data = write_tasks(tmp_path / "data", "mnli", "qqp", "sst2")
    assert run_command(app, _words(tmp_path, text, data)) == 0
    printed = capsys.readouterr().out
    (report,) = json.loads(printed)
    assert all(0 <= arm["values"]["average"][0] <= 100 for arm in report["arms"])
    (copies,) = (tmp_path / "studies" / "data").glob("tasks-*")
    assert {folder.name for folder in copies.iterdir()} == {"mnli", "qqp", "sst-2"}
    train, choices, dev = (texts(copies / "mnli" / f"{name}.jsonl") for name in ("train", "choices", "dev"))
    assert (len(train), len(choices), len(dev)) == (18, 2, 8)
    assert not train & choices
    assert not (train | choices) & dev
    assert run_command(app, _words(tmp_path, text, data)) == 0  # from the stored results
    assert capsys.readouterr().out == printed
    other = write_tasks(tmp_path / "other", "mnli", "qqp", "sst2", word="two")
    assert run_command(app, _words(tmp_path, text, other)) == 0
    (run,) = (tmp_path / "studies" / "runs").iterdir()  # the pre-training is shared, the scores are not
    assert len(list((run / "results").glob("mnli-*.json"))) == 4
    assert len(list((tmp_path / "studies" / "claims").glob("three.evening.*.html"))) == 2


def test_a_task_that_is_not_there_is_named(tmp_path: Path) -> None:
    data = write_tasks(tmp_path / "data", "rte")
    with pytest.raises(
        InputError, match=r"has no mrpc \(MRPC/train\.tsv or mrpc\.train\.jsonl\); put it there"
    ):
        find_copies(tmp_path, data, ["rte", "mrpc"], (10, 10))
    with pytest.raises(InputError, match="--data nowhere: no such folder"):
        find_copies(tmp_path, Path("nowhere"), ["rte"], (10, 10))


def test_changed_data_has_other_copies(tmp_path: Path) -> None:
    data = write_tasks(tmp_path / "data", "rte")
    keys = {find_copies(tmp_path, data, ["rte"], counts).key for counts in ((10, 10), (10, 20))}
    with (data / "rte.valid.jsonl").open("a") as file:
        file.write("\n")
    assert len({*keys, find_copies(tmp_path, data, ["rte"], (10, 10)).key}) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--data": None}, "--data is missing: a folder with mnli, qqp, sst-2"),
        ({"--data": "nowhere"}, "--data nowhere: no such folder"),
    ],
)
def test_data_that_is_missing(
    changes: dict[str, Any], message: str, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "three.toml").write_text(CLAIM)
    words = _words(tmp_path, text, tmp_path)
    for option, value in changes.items():
        position = words.index(option)
        words[position : position + 2] = [] if value is None else [option, value]
    assert run_command(app, words) == 2
    assert message in capsys.readouterr().err


def test_a_task_of_the_little_world_alone_is_refused(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "three.toml").write_text(CLAIM.replace('tasks = ["mnli", "qqp"]', 'tasks = ["mnli", "race"]'))
    assert run_command(app, _words(tmp_path, text, tmp_path)) == 2
    assert "tasks: race: only of the little world" in capsys.readouterr().err


def test_claims_with_real_tasks_need_them() -> None:
    without, with_data = (
        {claim.name for claim in claims_for(StudySettings(scale="evening", data=data))}
        for data in (None, Path("data"))
    )
    assert with_data - without == {"table-9-glue", "table-10-glue"}


def test_the_command_of_the_page_names_the_data(tmp_path: Path) -> None:
    settings = StudySettings(scale="evening", text="my text", data=Path("my data"))
    command = repeat_command(find_claim("table-9-glue"), settings, tmp_path)
    assert command.endswith("--text 'my text' --data 'my data'")
