"""Tests of the written world: official layouts, read by independent libraries, and atomic writing."""

import csv
import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pandas
import pytest
from datasets import load_dataset

from albertine.corpus.build import build_corpus
from albertine.corpus.settings import CorpusSettings
from albertine.text.documents import detect_layout
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer
from albertine.world.settings import StorySettings, WorldSettings
from albertine.world.show import show_story
from albertine.world.write import write_world

from .conftest import SETTINGS

PARSES = ["sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse", "sentence2_parse"]
MNLI = ["index", "promptID", "pairID", "genre", *PARSES, "sentence1", "sentence2"]
STSB = [*["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2"]]
# The official columns of train and dev, and of test.
COLUMNS = {
    "SST-2": (["sentence", "label"], ["index", "sentence"]),
    "MRPC": (
        ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
        ["index", "#1 ID", "#2 ID", "#1 String", "#2 String"],
    ),
    "STS-B": ([*STSB, "score"], STSB),
    "QQP": (
        ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
        ["id", "question1", "question2"],
    ),
    "QNLI": (["index", "question", "sentence", "label"], ["index", "question", "sentence"]),
    "RTE": (["index", "sentence1", "sentence2", "label"], ["index", "sentence1", "sentence2"]),
    "WNLI": (["index", "sentence1", "sentence2", "label"], ["index", "sentence1", "sentence2"]),
}


def table(file: Path, header: int | None = 0) -> pandas.DataFrame:
    return pandas.read_csv(file, sep="\t", quoting=csv.QUOTE_NONE, header=header, keep_default_na=False)


@pytest.mark.parametrize("name", [*COLUMNS])
def test_columns_are_the_official_ones_of_glue(world: Path, name: str) -> None:
    for split, size, columns in (
        ("train", SETTINGS.train, COLUMNS[name][0]),
        ("dev", SETTINGS.dev, COLUMNS[name][0]),
        ("test", SETTINGS.test, COLUMNS[name][1]),
    ):
        rows = table(world / "glue" / name / f"{split}.tsv")
        assert list(rows.columns) == columns
        assert len(rows) == size
        assert not (rows == "").any().any()


def test_cola_has_a_header_only_in_its_test_file(world: Path) -> None:
    rows = table(world / "glue" / "CoLA" / "train.tsv", header=None)
    assert rows.shape == (SETTINGS.train, 4)
    assert set(rows[1]) == {0, 1}
    assert ((rows[2] == "*") == (rows[1] == 0)).all()
    assert list(table(world / "glue" / "CoLA" / "test.tsv").columns) == ["index", "sentence"]


def test_mnli_has_matched_and_mismatched_files(world: Path) -> None:
    folder = world / "glue" / "MNLI"
    assert list(table(folder / "train.tsv").columns) == [*MNLI, "label1", "gold_label"]
    for kind in ("matched", "mismatched"):
        dev = table(folder / f"dev_{kind}.tsv")
        assert list(dev.columns) == [*MNLI, *(f"label{n}" for n in range(1, 6)), "gold_label"]
        assert list(table(folder / f"test_{kind}.tsv").columns) == MNLI
    assert not {*table(folder / "train.tsv")["genre"]} & {*table(folder / "dev_mismatched.tsv")["genre"]}


@pytest.mark.parametrize("name", ["CoLA", "MNLI-m", "MNLI-mm", "QNLI", "STS-B", "WNLI"])
def test_every_test_file_has_a_gold_file(world: Path, name: str) -> None:
    gold = table(world / "glue" / "gold" / f"{name}.tsv")
    assert list(gold.columns) == ["index", "prediction"]
    assert list(gold["index"]) == list(range(SETTINGS.test))


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # from older versions of datasets
def test_the_datasets_library_reads_the_files(world: Path, tmp_path: Path) -> None:
    rows = load_dataset(
        "csv",
        data_files=str(world / "glue" / "QQP" / "dev.tsv"),
        sep="\t",
        quoting=csv.QUOTE_NONE,
        split="train",
        cache_dir=str(tmp_path),
    )
    assert rows.column_names == COLUMNS["QQP"][0]
    assert set(rows["is_duplicate"]) == {0, 1}
    races = load_dataset(
        "json", data_files=str(world / "race/dev/high/*.txt"), split="train", cache_dir=str(tmp_path)
    )
    assert {"answers", "options", "questions", "article", "id"} == set(races.column_names)


@pytest.mark.parametrize("split", ["train", "dev"])
def test_squad_files(world: Path, split: str) -> None:
    old = json.loads((world / "squad" / f"{split}-v1.1.json").read_text())
    new = json.loads((world / "squad" / f"{split}-v2.0.json").read_text())
    assert (old["version"], new["version"]) == ("1.1", "v2.0")
    names: list[str] = []
    impossible = 0
    for entry in new["data"]:
        (paragraph,) = entry["paragraphs"]
        for question in paragraph["qas"]:
            names.append(question["id"])
            impossible += question["is_impossible"]
            assert bool(question["answers"]) is not question["is_impossible"]
            assert ("plausible_answers" in question) is question["is_impossible"]
            for answer in question["answers"] + question.get("plausible_answers", []):
                start = answer["answer_start"]
                assert paragraph["context"][start : start + len(answer["text"])] == answer["text"]
    assert len(names) == len(set(names))
    assert 0.1 < impossible / len(names) < 0.6
    questions = [question for entry in old["data"] for question in entry["paragraphs"][0]["qas"]]
    assert len(questions) == (SETTINGS.train if split == "train" else SETTINGS.dev)
    assert all(set(question) == {"id", "question", "answers"} for question in questions)
    assert {question["id"] for question in questions} <= set(names)


def test_race_files(world: Path) -> None:
    for split, size in (("train", SETTINGS.train), ("dev", SETTINGS.dev), ("test", SETTINGS.test)):
        for level in ("middle", "high"):
            num_questions = 0
            for file in (world / "race" / split / level).glob("*.txt"):
                article = json.loads(file.read_text())
                assert article["id"] == f"{level}{file.name}"
                assert len(article["answers"]) == len(article["options"]) == len(article["questions"])
                assert all(len(options) == 4 for options in article["options"])
                assert set(article["answers"]) <= set("ABCD")
                num_questions += len(article["questions"])
            assert num_questions == size


def test_the_text_builds_a_corpus(world: Path, tmp_path: Path) -> None:
    """The corpus built from the text has one document per story."""
    for folder, count in (
        ("text", SETTINGS.stories),
        ("text-extra", SETTINGS.extra),
        ("text-other", SETTINGS.other),
    ):
        text = (world / folder / "00000.txt").read_text()
        assert text.count("\n\n") == count
        assert detect_layout(text, "en") == "lines"
    build_tokenizer([str(world / "text")], tmp_path / "tokenizer", TokenizerSettings(vocab_size=600))
    settings = CorpusSettings(workers=1)
    manifest = build_corpus([str(world / "text")], tmp_path / "tokenizer", tmp_path / "corpus", settings)
    assert sum(shard.documents for shard in manifest.shards) == SETTINGS.stories


def test_the_readme_lists_all_tasks(world: Path) -> None:
    text = (world / "README.md").read_text()
    assert f"--seed {SETTINGS.seed}" in text
    for name in (
        "CoLA",
        "SST-2",
        "MRPC",
        "STS-B",
        "QQP",
        "MNLI",
        "QNLI",
        "RTE",
        "WNLI",
        "SQuAD",
        "RACE high",
    ):
        row = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        score = float(row.split("|")[-2])
        assert score < 90
    assert re.search(rf"`text/` \| .* \| {SETTINGS.stories} \|", text)
    for folder in ("text*", "glue", "squad", "race"):
        assert f"- `{folder}/`: " in text
    assert "*Guessing*" in text
    assert "*Bag of words*" in text


def test_the_same_tasks_in_another_spelling_give_the_same_description(tmp_path: Path) -> None:
    settings = WorldSettings(stories=0, extra=0, other=0, tasks=" WNLI,wnli ", train=10, dev=5, test=5)
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder, tasks in zip(folders, (settings.tasks, "wnli"), strict=True):
        write_world(folder, replace(settings, tasks=tasks, workers=1))
    assert contents(folders[0]) == contents(folders[1])
    assert json.loads((folders[0] / "world.json").read_text())["settings"]["tasks"] == "wnli"
    text = (folders[0] / "README.md").read_text()
    assert "--tasks wnli --train" in text
    assert "## Text" not in text


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.slow
def test_files_do_not_depend_on_the_number_of_processes(world: Path, tmp_path: Path) -> None:
    settings = WorldSettings(stories=300, extra=60, other=60, train=150, dev=60, test=60, seed=4, workers=2)
    write_world(tmp_path / "again", settings)
    assert contents(tmp_path / "again") == contents(world)


@pytest.mark.slow
def test_more_training_examples_keep_dev_and_test(world: Path, tmp_path: Path) -> None:
    settings = WorldSettings(
        stories=0, extra=0, other=0, train=170, dev=60, test=60, seed=4, workers=1, baselines=False
    )
    write_world(tmp_path / "more", settings)
    old, new = contents(world), contents(tmp_path / "more")
    for name, content in new.items():
        if "train" not in name and name not in ("README.md", "world.json"):
            assert content == old[name], name


# --- the command line


def run_world_command(*words: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "albertine", "world", *words], capture_output=True, text=True, check=False
    )


def test_world_write_command(tmp_path: Path) -> None:
    out = tmp_path / "w"
    process = run_world_command(
        "write", str(out), "--stories", "20", "--extra", "0", "--other", "5", "--train", "0", "--json"
    )
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout)
    assert [text["stories"] for text in report["texts"]] == [20, 5]
    assert report["tasks"] == []
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "text", "text-other", "world.json"]
    text = (out / "README.md").read_text()
    assert "`text*/`" in text
    assert not any(word in text for word in ("`glue/`", "`squad/`", "`race/`", "Guessing", "splits"))


@pytest.mark.slow
def test_the_smallest_world(tmp_path: Path) -> None:
    few = ("--stories", "1", "--extra", "1", "--other", "1", "--train", "1", "--dev", "1", "--test", "1")
    process = run_world_command("write", str(tmp_path / "w"), *few, "--json")
    assert process.returncode == 0, process.stderr
    assert "Warning" not in process.stderr
    report = json.loads(process.stdout)
    assert [task["name"] for task in report["tasks"]][-1] == "RACE high"
    assert all(0 <= abs(task["bag_of_words_score"]) <= 1 for task in report["tasks"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("write", "{taken}"), "exists already"),
        (("write", "{new}", "--stories", "-1"), "stories"),
        (("write", "{new}", "--train", "many"), "train"),
        (("show", "0", "--genre", "opera"), "genre"),
    ],
)
def test_wrong_input_is_a_one_line_error(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file").write_text("content")
    process = run_world_command(*(word.format(taken=taken, new=tmp_path / "new") for word in words))
    assert process.returncode == 2
    assert message in process.stderr
    assert "Traceback" not in process.stderr
    assert not (tmp_path / "new").exists()


def test_world_show_command() -> None:
    process = run_world_command("show", "7", "--genre", "mystery")
    assert process.returncode == 0
    assert "What happened:" in process.stdout
    assert "Hidden:" in process.stdout
    report = json.loads(run_world_command("show", "7", "--genre", "mystery", "--json").stdout)
    assert set(report) == {"title", "genre", "sentences", "log"}


@pytest.mark.parametrize(
    ("genre", "folder"), [("any", "text"), ("report", "text-extra"), ("manual", "text-other")]
)
def test_world_show_shows_the_stories_of_the_files(
    genre: Literal["any", "report", "manual"], folder: str, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_story(3, StorySettings(genre=genre, seed=SETTINGS.seed), as_json=True)
    documents = (world / folder / "00000.txt").read_text().split("\n\n")
    assert json.loads(capsys.readouterr().out)["sentences"] == documents[3].split("\n")


@pytest.mark.slow
@pytest.mark.parametrize(("shutdown_signal", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_write_leaves_no_files(
    tmp_path: Path, shutdown_signal: signal.Signals, status: int
) -> None:
    command = [
        sys.executable,
        "-m",
        "albertine",
        "world",
        "write",
        str(tmp_path / "w"),
        "--stories",
        "2000000",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        for _ in range(200):
            if list(tmp_path.glob(".w.*.partial/text/*")) or list(tmp_path.glob(".w.*.partial/glue/*")):
                break
            time.sleep(0.1)
        process.send_signal(shutdown_signal)
        assert process.wait(30) == status
    assert list(tmp_path.iterdir()) == []
