"""Tests of finding and copying the data of the tasks."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from albertine.errors import InputError
from albertine.report_card import task_data
from albertine.report_card.recipe import TASK_RECIPES
from albertine.report_card.task_data import copy_examples, find_sources
from tests.task_fixtures import write_jsonl


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_all_parts_of_a_folder_are_found(tasks: Path) -> None:
    sources = find_sources(tasks)
    assert not sources.missing
    assert sources.blimp == tasks / "blimp" / "data"
    assert {name: source.train.relative_to(tasks).as_posix() for name, source in sources.tasks.items()} == {
        "mnli": "glue/MNLI",
        "squad-1.1": "squad/xquad.en.json",
        "qqp": "pairs/qqp.train.jsonl",
        "sst-2": "glue/SST-2",
        "cola": "glue/CoLA",
    }


def test_tasks_may_be_directly_in_the_folder(tasks: Path) -> None:
    sources = find_sources(tasks / "glue")
    assert set(sources.tasks) == {"mnli", "sst-2", "cola"}
    assert sources.missing == {
        "BLiMP": "folder blimp with .jsonl files",
        "XQuAD": "xquad.en.json",
        "QQP": "QQP/train.tsv and dev.tsv, or qqp.train.jsonl and qqp.valid.jsonl",
    }


@pytest.mark.parametrize("folder", ["BLiMP", "blimp-master/data", "blimp_filtered"])
def test_names_of_the_folder_of_minimal_pairs(folder: str, tmp_path: Path) -> None:
    write_jsonl(tmp_path / folder / "a.jsonl", [{"sentence_good": "a", "sentence_bad": "b"}])
    assert find_sources(tmp_path).blimp == tmp_path / folder


def test_an_unreadable_folder_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_jsonl(tmp_path / "private" / "blimp" / "a.jsonl", [{"sentence_good": "a", "sentence_bad": "b"}])
    assert find_sources(tmp_path).blimp
    monkeypatch.setattr("os.access", lambda path, _: path.name != "private")
    assert not find_sources(tmp_path).blimp


@pytest.mark.parametrize("name", ["glue/SST-2/train.tsv", "qqp.train.jsonl", "xquad.en.json"])
def test_a_pipe_in_place_of_a_file_is_refused(name: str, tmp_path: Path) -> None:
    pipe = tmp_path / name
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe)
    with pytest.raises(InputError, match=f"{name}: a device, pipe or socket; expected a regular file"):
        find_sources(tmp_path)


def test_json_lines_with_numbers_have_the_labels_of_glue(tmp_path: Path) -> None:
    rows = [{"premise": "a", "hypothesis": "b", "label": number % 3} for number in range(6)]
    write_jsonl(tmp_path / "mnli.train.jsonl", rows)
    write_jsonl(tmp_path / "mnli.validation.jsonl", [*rows[:3], {**rows[0], "label": "neutral"}])
    copied = copy_examples(find_sources(tmp_path).tasks["mnli"], tmp_path / "copy")
    assert (copied.train_examples, copied.dev_examples) == (6, 4)
    labels = [row["label"] for row in read_rows(tmp_path / "copy" / "dev.jsonl")]
    assert labels == ["entailment", "neutral", "contradiction", "neutral"]


def test_invalid_rows_are_skipped_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "QQP"
    folder.mkdir()
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    for name in ("train", "dev"):  # GLUE's own file has rows with missing cells
        (folder / f"{name}.tsv").write_text(f"{header}0\t1\t2\ta\tb\t1\n3\t4\t5\tc\n6\t7\t8\td\te\t7\n")
    copied = copy_examples(find_sources(tmp_path).tasks["qqp"], tmp_path / "copy")
    assert copied.train_examples == 1
    assert "skipped rows: 4" in capsys.readouterr().err


def test_data_without_valid_rows_is_refused(tmp_path: Path) -> None:
    rows = [{"premise": "a", "hypothesis": "b", "label": 9}]
    for name in ("train", "valid"):
        write_jsonl(tmp_path / f"mnli.{name}.jsonl", rows)
    with pytest.raises(InputError, match=r"mnli\.train\.jsonl: too few labeled examples of mnli"):
        copy_examples(find_sources(tmp_path).tasks["mnli"], tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_file_larger_than_the_recipe_takes_is_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_data, "MAX_TRAIN_EXAMPLES", 5)
    monkeypatch.setattr(task_data, "MAX_DEV_EXAMPLES", 3)
    rows = [{"sentence": f"text {number}", "label": number % 2} for number in range(20)]
    for name in ("train", "valid"):
        write_jsonl(tmp_path / f"sst2.{name}.jsonl", rows)
    source = find_sources(tmp_path).tasks["sst-2"]
    copies = []
    for name in ("one", "two"):
        copy_examples(source, tmp_path / name)
        copies.append([(tmp_path / name / f"{split}.jsonl").read_bytes() for split in ("train", "dev")])
    assert copies[0] == copies[1]
    train = read_rows(tmp_path / "one" / "train.jsonl")
    assert len({row["text"] for row in train}) == 5
    assert all(row["label"] == str(int(row["text"].split()[1]) % 2) for row in train)


def test_recipes_are_of_tasks_with_the_metric_of_the_card() -> None:
    for recipe in TASK_RECIPES.values():
        assert recipe.steps(1) == 1
        assert recipe.steps(10_000) * recipe.batch_size >= 10_000 * recipe.epochs
