"""Tests of the report card: its scores, resuming, refusals, the page and the JSON."""

import json
import re
import shutil
import xml.etree.ElementTree as Tree
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.corpus import Corpus
from albertine.file_lock import file_lock
from albertine.finetune import run as run_module
from albertine.inference.evaluate import evaluate
from albertine.inference.settings import EvaluateSettings
from albertine.interop.load import load_checkpoint
from albertine.pretrain.assembly import build_trainer
from albertine.pretrain.settings import PretrainSettings
from albertine.report_card import finetune_runs, recipe, workspace
from albertine.report_card.card import ReportCard
from albertine.report_card.page import card_page
from albertine.report_card.recipe import TASK_RECIPES, compares_texts, optimizer_and_rate
from albertine.settings import HeadSettings, ModelSettings, build_settings
from albertine.tasks.card import TaskCard
from albertine.train import parallel_runs
from albertine.train.distributed import Distributed
from albertine.train.run_folder import read_run_settings
from tests.task_fixtures import save_untrained_model


def card_words(run: Path, out: Path, *words: str) -> list[str]:
    return ["report-card", str(run), "--out", str(out), "--device", "cpu", *words]


def all_parts(corpus: Corpus, tasks: Path) -> list[str]:
    return ["--corpus", str(corpus.folder), "--data", str(tasks)]


@pytest.fixture(scope="module")
def card_folder(run: Path, corpus: Corpus, tasks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a complete report card."""
    out = tmp_path_factory.mktemp("cards") / "card"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel_runs, "_MIN_WIDTH_FOR_WHOLE_DEVICE", 0)
        assert run_command(app, card_words(run, out, *all_parts(corpus, tasks), "--quiet")) == 0
    return out


@pytest.fixture
def card(card_folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((card_folder / "report-card.json").read_text())
    return values


def forbid_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*arguments: object, **options: object) -> None:
        raise AssertionError("a finished run trains again")

    monkeypatch.setattr(finetune_runs, "finetune_run", train)
    monkeypatch.setattr(workspace, "probe", train)
    monkeypatch.setattr(workspace, "evaluate_minimal_pairs", train)


def test_the_card_has_all_parts(card: dict[str, Any]) -> None:
    assert [task["task"] for task in card["tasks"]] == ["sst-2", "mnli", "qqp", "cola", "squad-1.1"]
    assert (
        0 <= card["held_out"]["mask_token_accuracy"]["low"] <= card["held_out"]["order_accuracy"]["high"] <= 1
    )
    assert {one["name"] for one in card["blimp"]["phenomena"]} == {"agreement", "islands"}
    assert card["blimp"]["overall"]["num_pairs"] == 6
    assert not card["skipped_parts"]
    for task in card["tasks"]:
        assert len(task["pretrained"]) == len(task["untrained"]) == card["seeds"] == 1
        assert (task["tf_idf"] is None) == (task["task"] == "squad-1.1")
    gains = [task["score"] - task["untrained_score"] for task in card["tasks"]]
    assert card["mean_gain"] == pytest.approx(sum(gains) / 5)


def test_a_gain_that_rounds_to_zero_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReportCard, "mean_gain", -0.0004)
    page = card_page(ReportCard("model", 1000, None, None, [], {}, {}, 1))
    assert "Pre-training gains 0.0 points" in page.summary
    assert ("points gained by pre-training", "+0.0") in page.key_figures


@pytest.mark.parametrize("start", ["pre-trained", "untrained"])
@pytest.mark.parametrize("task", ["mnli", "cola", "squad-1.1"])
def test_a_score_is_that_of_the_finetuned_model(
    card_folder: Path, card: dict[str, Any], task: str, start: str
) -> None:
    model = card_folder / "runs" / task / start / "seed-0"
    assert not (model / "checkpoints").exists()
    data = str(card_folder / "data" / task / "dev.jsonl")
    (result,) = evaluate([str(model)], EvaluateSettings(data=data, device="cpu"))
    (scores,) = (one for one in card["tasks"] if one["task"] == task)
    score = scores["pretrained" if start == "pre-trained" else "untrained"]
    assert score == [pytest.approx(result.metrics[TASK_RECIPES[task].metric])]


def test_the_untrained_network_is_that_of_a_run_before_its_first_step(
    card_folder: Path, run: Path, corpus: Corpus, tmp_path: Path
) -> None:
    settings = build_settings(PretrainSettings, read_run_settings(run, PretrainSettings))
    trainer = build_trainer(tmp_path / "new", settings, corpus, None, Distributed(0, 1, torch.device("cpu")))
    expected = dict(trainer.model.named_parameters())
    untrained = load_checkpoint(card_folder / "untrained" / "seed-0", HeadSettings("pretrain"))
    encoder = {name: value for name, value in untrained.named_parameters() if name.startswith("encoder.")}
    assert encoder
    for name, value in encoder.items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=0)
    trained = dict(load_checkpoint(run).named_parameters())
    assert any(not torch.equal(value, trained[name]) for name, value in encoder.items())


def test_a_run_without_local_start_is_compared_with_the_same(
    run: Path, tasks: Path, tmp_path: Path, one_process: None
) -> None:
    published = tmp_path / "published"
    shutil.copytree(run, published)
    settings = (published / "settings.toml").read_text()
    (published / "settings.toml").write_text(settings.replace("local_start = true", "local_start = false"))
    data = tmp_path / "data"
    (data / "glue").mkdir(parents=True)
    shutil.copytree(tasks / "glue" / "SST-2", data / "glue" / "SST-2")
    out = tmp_path / "card"
    assert run_command(app, card_words(published, out, "--data", str(data), "--quiet")) == 0
    positions = "encoder.embedding.positions.weight"
    untrained = dict(load_checkpoint(out / "untrained" / "seed-0").named_parameters())[positions]
    assert untrained.ne(0).all()  # the local start has zeros beside its sinusoids


def test_the_same_command_computes_nothing_again(
    run: Path,
    card_folder: Path,
    corpus: Corpus,
    tasks: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    forbid_training(monkeypatch)
    before = (card_folder / "report-card.json").read_bytes()
    words = card_words(run, card_folder, *all_parts(corpus, tasks))
    assert run_command(app, words) == 0
    table = capsys.readouterr().out
    for text in ("loss on [MASK] tokens", "BLiMP", "islands", "XQuAD", "Matthews", "not pre-trained"):
        assert text in table, text
    assert run_command(app, [*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(before)
    assert (card_folder / "report-card.json").read_bytes() == before


def test_an_interrupted_card_resumes(
    run: Path, tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_process: None
) -> None:
    data, out = tmp_path / "data", tmp_path / "card"
    shutil.copytree(tasks / "glue", data / "glue")
    original, calls = run_module.finetune_run, []

    def interrupted(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments[0])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(finetune_runs, "finetune_run", interrupted)
    words = card_words(run, out, "--data", str(data), "--quiet")
    assert run_command(app, words) == 130
    assert not (out / "report-card.html").exists()
    assert run_command(app, words) == 0
    assert len(calls) == 7  # six runs, of which one began twice
    assert len({str(call) for call in calls}) == 6


def test_data_that_comes_later_is_added(
    run: Path,
    tasks: Path,
    corpus: Corpus,
    tmp_path: Path,
    one_process: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, out = tmp_path / "data", tmp_path / "card"
    shutil.copytree(tasks / "glue" / "CoLA", data / "CoLA")
    words = card_words(run, out, "--data", str(data))
    assert run_command(app, words) == 0
    messages = capsys.readouterr().err
    assert "skipped: Held-out text (no --corpus is given)" in messages
    assert f"skipped: QQP ({data} has no QQP/train.tsv and dev.tsv, or qqp.train.jsonl" in messages
    page = (out / "report-card.html").read_text()
    assert "Skipped" in page
    assert "Minimal pairs" not in page
    first_result = (out / "results" / "cola" / "pre-trained" / "seed-0.json").stat().st_mtime_ns
    shutil.copytree(tasks / "glue" / "SST-2", data / "SST-2")
    assert run_command(app, [*words, "--corpus", str(corpus.folder), "--seeds", "2", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert [task["task"] for task in card["tasks"]] == ["sst-2", "cola"]
    assert len(card["tasks"][0]["pretrained"]) == 2
    assert card["held_out"]
    assert (out / "results" / "cola" / "pre-trained" / "seed-0.json").stat().st_mtime_ns == first_result


def test_the_page_is_well_formed_and_self_contained(card_folder: Path, card: dict[str, Any]) -> None:
    content = (card_folder / "report-card.html").read_text(encoding="utf-8")
    Tree.fromstring(content[content.index("<body>") : content.index("</html>")].replace("&nbsp;", " "))
    assert not re.search(r'(src|href)="?http|@import|url\(', content)
    texts = ("Report card of my-run", "without pre-training", "95% interval", "Recipe", "all phenomena")
    for text in (
        *texts,
        "Muon, a peak learning rate of 0.002",
        "On MNLI and QQP, the head compares",
        "marked on MNLI, QQP, XQuAD",
    ):
        assert text in content, text
    for task in card["tasks"]:
        assert f"{100 * task['score']:.1f}" in content


@pytest.mark.parametrize("change", ["model", "network", "tokenizer", "corpus", "data set of CoLA", "recipe"])
def test_a_card_of_something_else_is_refused(
    change: str,
    run: Path,
    card_folder: Path,
    corpus: Corpus,
    tasks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    forbid_training(monkeypatch)
    model, corpus_folder = run, corpus.folder
    if change == "model":
        model = card_folder / "untrained" / "seed-0"
    elif change == "network":
        model = shutil.copytree(run, tmp_path / "run")
        config = json.loads((model / "config.json").read_text())
        for settings in (config, config["albertine"]["model"]):
            settings |= {name: 7 for name in ("num_hidden_layers", "layers") if name in settings}
        (model / "config.json").write_text(json.dumps(config))
    elif change == "tokenizer":
        model = shutil.copytree(run, tmp_path / "run")
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        tokenizer["model"]["vocab"][-1][0] += "x"
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    elif change == "data set of CoLA":
        tasks = shutil.copytree(tasks, tmp_path / "tasks")
        (file,) = tasks.rglob("CoLA/dev.tsv")
        file.write_bytes(file.read_bytes() + file.read_bytes().splitlines(keepends=True)[-1])
    elif change == "corpus":
        corpus_folder = tmp_path / "corpus"
        shutil.copytree(corpus.folder, corpus_folder)
        manifest = json.loads((corpus_folder / "manifest.json").read_text())
        del manifest["sha256"]
        (corpus_folder / "manifest.json").write_text(json.dumps(manifest))
    else:
        monkeypatch.setattr(recipe, "RECIPE_VERSION", 0)
    words = card_words(model, card_folder, "--corpus", str(corpus_folder), "--data", str(tasks))
    assert run_command(app, words) == 2
    assert f"a report card with another {change}; give another --out" in capsys.readouterr().err


def test_wrong_input_is_refused_before_anything_is_written(
    run: Path, corpus: Corpus, tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"x")
    card = TaskCard("classify", "classify", ("a", "b"))
    judge = save_untrained_model(tmp_path / "judge", run, HeadSettings("classify"), card)
    out = tmp_path / "card"
    for words, message in (
        (card_words(run, out), "nothing to report: no --corpus is given; no --data is given"),
        (card_words(run, out, "--data", str(tmp_path / "empty")), "nothing to report: no --corpus is given;"),
        (card_words(run, out, "--data", str(tmp_path / "nowhere")), "nowhere: No such file or directory"),
        (card_words(run, out, "--data", str(tmp_path / "photos" / "one.jpg")), "one.jpg: Not a directory"),
        (card_words(judge, out, "--data", str(tasks)), "judge: its head is classify; only a pre-trained"),
        (card_words(tmp_path / "none", out, "--data", str(tasks)), "none: no such folder"),
        (
            card_words(run, tmp_path / "photos", "--data", str(tasks)),
            "photos: exists and is not a report card",
        ),
        (["report-card", str(run), "--data", str(tasks)], "--out is missing"),
    ):
        assert run_command(app, words) == 2, words
        assert message in capsys.readouterr().err
        assert not out.exists()


def test_a_folder_left_by_a_killed_start_is_used(
    run: Path, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "card"
    out.mkdir()
    (out / "report-card.lock").touch()
    (out / ".inputs.json.0123abcd.partial").touch()
    assert run_command(app, card_words(run, out, "--corpus", str(corpus.folder))) == 0
    assert not list(out.glob("*.partial"))
    assert "exists" not in capsys.readouterr().err


def test_a_second_command_in_the_same_folder_is_refused(
    run: Path, card_folder: Path, tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with file_lock(card_folder / "report-card.lock", "busy"):
        assert run_command(app, card_words(run, card_folder, "--data", str(tasks))) == 2
    assert "in use by another report card" in capsys.readouterr().err


@pytest.mark.slow
def test_small_models_train_side_by_side_to_the_same_scores(
    run: Path, corpus: Corpus, tasks: Path, card: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "card"
    assert run_command(app, card_words(run, out, *all_parts(corpus, tasks), "--quiet")) == 0
    assert json.loads((out / "report-card.json").read_text())["tasks"] == card["tasks"]


@pytest.mark.slow
def test_a_run_that_collapses_takes_all_its_steps(
    run: Path, tmp_path: Path, one_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels that do not depend on the text: all predictions are the same, as they should be."""
    task_recipe = replace(TASK_RECIPES["cola"], epochs=101, batch_size=20)
    monkeypatch.setitem(TASK_RECIPES, "cola", task_recipe)
    (tmp_path / "data" / "CoLA").mkdir(parents=True)
    for name, count in (("train", 20), ("dev", 40)):
        rows = "".join(f"x\t{int(number % 5 > 0)}\t\tThe cat sat.\n" for number in range(count))
        (tmp_path / "data" / "CoLA" / f"{name}.tsv").write_text(rows)
    out = tmp_path / "card"
    words = card_words(run, out, "--data", str(tmp_path / "data"), "--json", "--quiet")
    assert run_command(app, words) == 0
    lines = (out / "runs" / "cola" / "pre-trained" / "seed-0" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines if "held_out_loss" in line] == [0, 101]
    assert not any("collapsed" in line for line in lines)
    (task,) = json.loads((out / "report-card.json").read_text())["tasks"]
    assert task["pretrained"] == [0.0]


def test_narrow_models_take_muon_and_the_rate_of_others_falls_with_the_width() -> None:
    assert [optimizer_and_rate(width) for width in (128, 767, 768, 1024, 4096)] == [
        ("muon", 2e-3),
        ("muon", 2e-3),
        ("adamw", 5e-5),
        ("adamw", 2.81e-5),
        ("adamw", 1.76e-6),
    ]


def test_texts_are_compared_where_segments_tell_them_apart() -> None:
    pairs = [recipe.task for recipe in TASK_RECIPES.values() if compares_texts(recipe, ModelSettings())]
    assert pairs == ["mnli", "qqp"]
    assert not any(compares_texts(recipe, ModelSettings(segments=1)) for recipe in TASK_RECIPES.values())
