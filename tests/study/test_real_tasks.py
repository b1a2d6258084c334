"""Tests of studies that fine-tune on the user's tasks."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.finetune.paper_defaults import scaled_learning_rate, task_defaults
from albertine.inference.settings import EnsembleSettings, EvaluateSettings
from albertine.study.catalog import claims_for, find_claim
from albertine.study.settings import ScaleName, StudySettings
from albertine.study.study import claim_runs, repeat_command
from albertine.study.task_examples import ExampleSettings, find_copies
from albertine.study.tasks import _settings
from albertine.tasks import task_sources
from tests.task_fixtures import world, write_jsonl

__all__ = ["world"]

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
    "mrpc": ("sentence1", "sentence2"),
    "stsb": ("sentence1", "sentence2"),
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


def write_dream(folder: Path) -> None:
    """Write dialogues with a question each, in the layout of DREAM."""
    folder.mkdir()
    for part, count in (("train", 40), ("dev", 12)):
        dialogues = [
            [
                [f"M: {part} {number}"],
                [{"question": "Who?", "choice": ["A man.", "A dog.", "A cat."], "answer": "A man."}],
                str(number),
            ]
            for number in range(count)
        ]
        (folder / f"{part}.json").write_text(json.dumps(dialogues))


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
    copies = {
        folder.name.rpartition("-")[0]: folder for folder in (tmp_path / "studies/data/tasks").iterdir()
    }
    assert copies.keys() == {"mnli", "qqp", "sst-2"}
    train, choices, dev = (texts(copies["mnli"] / f"{name}.jsonl") for name in ("train", "choices", "dev"))
    assert (len(train), len(choices), len(dev)) == (18, 2, 8)
    assert not train & choices
    assert not (train | choices) & dev
    assert run_command(app, _words(tmp_path, text, data)) == 0  # from the stored results
    assert capsys.readouterr().out == printed
    other = write_tasks(tmp_path / "other", "mnli", "qqp", "sst2", word="two")
    assert run_command(app, _words(tmp_path, text, other)) == 0
    (run,) = (tmp_path / "studies" / "runs").iterdir()  # the pre-training is shared, the scores are not
    assert len(list((run / "results").glob("mnli-*.json"))) == 4
    pages = list((tmp_path / "studies" / "claims").glob("three.evening.*.html"))
    assert len(pages) == 2
    assert any(f"Tasks from {data}" in page.read_text() for page in pages)
    assert "mnli 18, 2 and 8" in pages[0].read_text()
    index = (tmp_path / "studies" / "index.html").read_text()
    assert f"{text}, {other}" in index.replace("<wbr/>", "")


def test_a_task_that_is_not_there_is_named(tmp_path: Path) -> None:
    data = write_tasks(tmp_path / "data", "rte")
    message = (
        r"has no mrpc \(MRPC/train\.tsv and dev\.tsv, or mrpc\.train\.jsonl and mrpc\.valid\.jsonl\); put"
    )
    with pytest.raises(InputError, match=message):
        find_copies(tmp_path, data, ["rte", "mrpc"], (10, 10))
    (data / "rte.valid.jsonl").unlink()
    with pytest.raises(InputError, match="has no rte"):
        find_copies(tmp_path, data, ["rte"], (10, 10))
    with pytest.raises(InputError, match="--data nowhere: no such folder"):
        find_copies(tmp_path, Path("nowhere"), ["rte"], (10, 10))


def test_copies_depend_on_the_content_of_their_task_alone(tmp_path: Path) -> None:
    data = write_tasks(tmp_path / "data", "rte", "mrpc")

    def folder(folder: Path, tasks: list[str], counts: tuple[int, int] = (20, 10)) -> Path:
        return find_copies(tmp_path, folder, tasks, counts).folders["rte"]

    first = folder(data, ["rte"])
    (data / "rte.train.jsonl").touch()
    moved = write_tasks(tmp_path / "moved", "rte")
    assert first == folder(data, ["rte", "mrpc"]) == folder(moved, ["rte"])
    assert first != folder(data, ["rte"], (20, 11))
    with (data / "rte.valid.jsonl").open("a") as file:
        file.write("\n")
    assert first != folder(data, ["rte"])


def test_examples_that_choose_a_model_do_not_score_it(tmp_path: Path) -> None:
    copies = find_copies(tmp_path, write_tasks(tmp_path / "data", "rte"), ["rte"], (20, 10))
    with_choice, without = (copies.settings("rte", with_choice=choice) for choice in (True, False))
    files = [with_choice.training["data"], with_choice.training["dev"], with_choice.score.data]
    assert [Path(str(file)).name for file in files] == ["train.jsonl", "choices.jsonl", "dev.jsonl"]
    assert with_choice.choice.data == with_choice.training["dev"]
    assert without.training["dev"] == without.score.data == with_choice.score.data
    assert with_choice.score.text_pair == "text_pair"


@pytest.mark.parametrize("task", task_sources._FINDERS)
def test_official_files_of_every_task_are_copied(task: str, world: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    if task == "squad-1.1":
        data.mkdir()
        shutil.copyfile(world / "squad" / "train-v1.1.json", data / "xquad.en.json")
    elif task == "wnli":  # the little world has none
        (data / "WNLI").mkdir(parents=True)
        rows = "".join(f"{number}\tone {number}\ttwo\t{number % 2}\n" for number in range(30))
        for part in ("train", "dev"):
            (data / "WNLI" / f"{part}.tsv").write_text(f"index\tsentence1\tsentence2\tlabel\n{rows}")
    elif task == "race":
        shutil.copytree(world / "race", data / "race")
    elif task == "dream":
        write_dream(data)
    else:
        shutil.copytree(world / "glue", data / "glue")
    copies = find_copies(tmp_path / "store", data, [task], (20, 10))
    copies.write()
    parts = {file.name: len(file.read_text().splitlines()) for file in copies.folders[task].iterdir()}
    assert parts["train.jsonl"] >= 8
    assert 1 <= parts["choices.jsonl"] <= 4
    assert 1 <= parts["dev.jsonl"] <= 10
    assert f"{task} {parts['train.jsonl']}, {parts['choices.jsonl']} and {parts['dev.jsonl']}" in copies.text


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"sentence1": "a", "sentence2": "b", "label": 0}] * 30, "all examples have the same text"),
        ([{"sentence1": str(n), "sentence2": "b", "label": 0} for n in range(30)], "have the same label"),
        ([{"sentence1": str(n), "label": n % 2} for n in range(30)], "no column sentence2"),
        ([{"sentence1": "a", "sentence2": "b", "label": 7}] * 30, "too few labeled examples of rte"),
    ],
)
def test_unusable_examples_are_one_line_about_the_folder(
    rows: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    for part in ("train", "valid"):
        write_jsonl(tmp_path / f"rte.{part}.jsonl", rows)
    copies = find_copies(tmp_path / "store", tmp_path, ["rte"], (30, 10))
    with pytest.raises(InputError, match=message) as error:
        copies.write()
    assert str(error.value).startswith(f"--data {tmp_path}: rte: ")
    assert "--dev" not in str(error.value)
    assert not list((tmp_path / "store").rglob("*.jsonl"))


def test_a_plan_that_changes_the_optimizer_has_its_rate() -> None:
    examples = ExampleSettings({"data": "."}, EnsembleSettings(), EvaluateSettings(), max_examples=8000)

    def rate(changes: dict[str, Any], factor: float = 1.0) -> float | None:
        return _settings("rte", examples, 5, 0, 312, changes, rate=factor).train.lr

    muon, adamw = rate({}), rate({"train": {"optimizer": "adamw"}})
    assert muon is not None
    assert adamw is not None
    assert adamw == scaled_learning_rate(task_defaults("rte"), 312, 32, "adamw") < muon / 5
    assert rate({}, 2.0) == 2 * muon
    assert rate({"train": {"lr": 0.5}}) == 0.5
    assert rate({"train": {"lr": 0.0}}) == 0.0
    many = replace(examples, max_examples=400_000)
    sizes = [_settings("mnli", one, 5, 0, 312).train.batch_size for one in (examples, many)]
    assert sizes == [32, 128]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"--data": None},
            "--data is missing: a folder with mnli (MNLI/train.tsv and dev_matched.tsv, or mnli.train.jsonl",
        ),
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


def test_a_task_that_the_little_world_lacks_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "three.toml").write_text(
        CLAIM.replace('tasks = ["mnli", "qqp"]', 'tasks = ["mnli", "dream"]').replace("evening", "minutes")
    )
    assert run_command(app, ["study", str(tmp_path / "three.toml"), "--out", str(tmp_path / "studies")]) == 2
    assert "tasks: dream: not a task of the little world" in capsys.readouterr().err


def test_claims_with_real_tasks_need_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tasks(tmp_path / "glue", "rte", "stsb", "mrpc", "mnli", "qqp")
    write_dream(tmp_path / "dream")

    def names(data: Path | None) -> set[str]:
        return {claim.name for claim in claims_for(StudySettings(scale="evening", data=data))}

    questions = {"table-10-dream", "co-matching-dream"}
    assert names(tmp_path / "dream") - names(None) == questions
    printed = capsys.readouterr().err
    assert f"table-10-glue: left out, because {tmp_path / 'dream'} has no sst-2 (SST-2/train.tsv" in printed
    assert names(tmp_path / "glue") - names(None) == {"table-9-glue"}
    assert "co-matching-dream: left out" in capsys.readouterr().err
    with pytest.raises(InputError, match="--data nowhere: no such folder"):
        names(Path("nowhere"))


def test_claims_that_use_no_text_or_tasks_are_named_in_one_line(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dream(tmp_path / "dream")

    def printed(scale: ScaleName, *names: str) -> list[str]:
        settings = StudySettings(scale=scale, text=str(text), data=tmp_path / "dream")
        claim_runs([find_claim(name) for name in names], tmp_path / "out", settings)
        return capsys.readouterr().err.splitlines()

    (unused,) = printed("evening", "table-3", "table-4", "table-10-dream")
    assert unused == "table-3, table-4: no real tasks at this scale, so --data is not used"
    about_world, _ = printed("minutes", "table-5", "table-2", "table-3")
    assert about_world == "table-5, table-2: tasks about the little world, so --text is not used"


def test_the_command_of_the_page_names_the_data(tmp_path: Path) -> None:
    settings = StudySettings(scale="evening", text="my text", data=Path("my data"))
    command = repeat_command(find_claim("table-9-glue"), settings, tmp_path)
    assert command.endswith("--text 'my text' --data 'my data'")


def test_scores_and_models_depend_on_the_examples_of_the_start(text: Path, tmp_path: Path) -> None:
    (tmp_path / "three.toml").write_text(CLAIM)
    claim = find_claim(str(tmp_path / "three.toml"))
    data = write_tasks(tmp_path / "data", "mnli", "qqp", "sst2")
    settings = StudySettings(scale="evening", text=str(text), data=data)

    def folders() -> dict[str, list[Path]]:
        (planned,) = claim_runs([claim], tmp_path / "out", settings)
        return {
            arm: [run.finetuned_folder, Path(run._task_part("qqp").name)]
            for arm, (run,) in planned.by_arm().items()
        }

    before = folders()
    with (data / "sst2.train.jsonl").open("a") as file:
        file.write("\n")
    after = folders()
    assert before["ensemble"] == after["ensemble"]
    assert not set(before["single"]) & set(after["single"])
