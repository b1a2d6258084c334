"""Tests of the benchmark of exits: its runs, its tables, and exits in padded batches."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from tests.task_fixtures import random_words, write_jsonl

from albertine.bench.exits_picture import draw_exit_bench
from albertine.bench.exits_result import DepthScores, ExitBenchPoint, ExitBenchResult
from albertine.bench.padded_exits import time_padded_exits
from albertine.cli import app
from albertine.command import run_command
from albertine.engines.torch_engine import TorchEngine
from albertine.errors import InputError
from albertine.interop.save_checkpoint import save_folder
from albertine.model.exits import forward_with_exits
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.paired_statistics import PairedDifference
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.exit_rule import ExitRule
from albertine.tasks.metrics.intervals import Estimate
from albertine.text.tokenizer import load_tokenizer

MODEL = ModelSettings(vocab_size=220, embedding_size=16, hidden_size=32, layers=4, heads=2, max_length=64)


@pytest.fixture
def arguments(tokenizer: Path, tmp_path: Path) -> list[str]:
    """Return the arguments of a small benchmark."""
    model = Model(MODEL, HeadSettings("pretrain"), seed=1)
    save_folder(model, tmp_path / "start", tokenizer=load_tokenizer(tokenizer))
    rng = random.Random(1)
    rows = [
        {"text": " ".join([label, *random_words(rng, 3)]), "label": label}
        for label in rng.choices(["ka", "lo"], k=50)
    ]
    file = str(write_jsonl(tmp_path / "rows.jsonl", rows))
    options = {
        "task": "classify",
        "data": file,
        "dev": file,
        "text": "text",
        "label": "label",
        "device": "cpu",
        "seeds": "2",
        "train.steps": "12",
        "train.batch-size": "8",
        "train.lr": "5e-3",
        "examples-at-a-time": "16",
    }
    named = [argument for name, value in options.items() for argument in (f"--{name}", value)]
    return ["bench", "exits", str(tmp_path / "start"), "--out", str(tmp_path / "bench"), *named]


def num_curves(picture: Path) -> int:
    """Return the number of lines and groups of points in a picture, those of the legend included."""
    ids = [one.get("id", "") for one in ElementTree.parse(picture).getroot().iter()]
    return sum(one.startswith(("line2d_", "LineCollection_")) for one in ids)


@pytest.mark.parametrize("seeds", [1, 2])
def test_the_picture_has_what_was_measured(seeds: int, tmp_path: Path) -> None:
    infinite = math.inf if seeds == 1 else 0.01

    def point(setting: str, depth: float, score: float, padded: float | None) -> ExitBenchPoint:
        difference = PairedDifference(score - 0.8, -infinite, infinite, 0.0, seeds)
        share = Estimate(depth / 4, depth / 4 - 0.01, depth / 4 + 0.01)
        return ExitBenchPoint(setting, score, difference, depth, share, share, padded)

    points = (
        point("full depth", 4, 0.8, 1.2),
        point("--depth 2", 2, 0.7, None),
        point("--exit patience:1", 2.5, 0.78, 0.9),
        point("--exit confidence:0.9", 2.2, 0.79, 0.8),
    )
    by_depth = {depth: DepthScores(0.1 * depth, 0.2, None if depth == 3 else 0.6) for depth in range(1, 5)}
    gain = PairedDifference(0.0, -infinite, infinite, 0.0, seeds)
    result = ExitBenchResult("sst-2", seeds, 100, 32, 4, "--exit patience:1", points, by_depth, gain)
    draw_exit_bench(result, tmp_path / "curve.svg")
    assert num_curves(tmp_path / "curve.svg") > 8
    everything = num_curves(tmp_path / "curve.svg")
    draw_exit_bench(replace(result, score_by_depth={}), tmp_path / "curve.svg")
    assert num_curves(tmp_path / "curve.svg") < everything
    without_padded = tuple(replace(one, padded_time=None) for one in points)
    draw_exit_bench(replace(result, points=without_padded), tmp_path / "curve.svg")
    assert num_curves(tmp_path / "curve.svg") < everything
    draw_exit_bench(replace(result, points=points[:1]), tmp_path / "curve.svg")


@pytest.mark.slow
def test_all_kinds_are_measured_and_a_second_call_trains_nothing(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, [*arguments, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    points = {point["setting"]: point for point in result["points"]}
    full = points["full depth"]
    assert (full["mean_depth"], full["flops"]["value"], full["time"]["value"]) == (4, 1, 1)
    assert full["padded_time"] > 0
    assert points["--depth 2"]["padded_time"] is None
    assert points["nothing exits"]["score"] == full["score"]
    assert points["nothing exits"]["flops"]["value"] > 1
    for point in points.values():
        assert point["time"]["low"] <= point["time"]["value"] <= point["time"]["high"]
    recommended = points[result["recommended"]]
    assert recommended["difference"]["mean"] >= -0.005
    assert list(result["score_by_depth"]) == ["1", "2", "3", "4"]
    assert all(score is not None for scores in result["score_by_depth"].values() for score in scores.values())
    assert full["difference"] == {"mean": 0, "low": 0, "high": 0, "deviation": 0, "seeds": 2}
    models = list((tmp_path / "bench" / "runs").glob("*/model.safetensors"))
    assert len(models) == 2 * 5  # with exits, without, and three shallower ones, for each seed
    times = [file.stat().st_mtime_ns for file in models]
    (tmp_path / "bench" / "curve.svg").unlink()
    assert run_command(app, arguments) == 0
    assert (tmp_path / "bench" / "curve.svg").exists()
    out = capsys.readouterr().out
    assert out.startswith("classify: 50 examples, 16 at a time, 2 seeds\n")
    assert f"recommended: {result['recommended']}" in out
    assert times == [file.stat().st_mtime_ns for file in models]
    position = arguments.index("--seeds") + 1
    fewer_seeds = [*arguments[:position], "1", *arguments[position + 1 :]]
    assert run_command(app, fewer_seeds) == 0
    assert "16 at a time, 1 seed\n" in capsys.readouterr().out
    assert times == [file.stat().st_mtime_ns for file in models]
    assert run_command(app, [*arguments, "--tolerance", "1"]) == 2
    assert "a benchmark with other settings" in capsys.readouterr().err
    settings = (tmp_path / "bench" / "bench.toml").read_text()
    assert 'optimizer = "muon"' in settings  # so that a later default does not mix with these runs
    (tmp_path / "bench" / "results" / "exits-0.json").write_text("{}")
    assert run_command(app, arguments) == 2
    assert "exits-0.json: no field task" in capsys.readouterr().err


@pytest.mark.slow
def test_only_models_with_exits_have_own_heads_and_an_exit_unit(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--train.exits", "--exit-heads", "own", "--train.learned-exit", "--train.exit-prior", "0.3"]
    assert run_command(app, [*arguments, *options, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    settings = {point["setting"] for point in result["points"]}
    assert {"--exit learned:0.5", "--exit patience:1", "nothing exits"} <= settings
    with_files = {file.parent.name for file in (tmp_path / "bench" / "runs").glob("*/exits.safetensors")}
    assert with_files == {"exits-0", "exits-1"}


def test_results_of_other_examples_are_refused(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        raise InputError("the measurement starts")

    monkeypatch.setattr("albertine.bench.exits._ExitBenchmark.results_of_seed", stop)
    for _ in range(2):
        assert run_command(app, arguments) == 2
        assert "the measurement starts" in capsys.readouterr().err
    rows = (tmp_path / "rows.jsonl").read_text()
    (tmp_path / "rows.jsonl").write_text(rows.replace('"label": "ka"', '"label": "lo"', 1))
    assert run_command(app, arguments) == 2
    assert "a benchmark of other examples than --data or --dev has now" in capsys.readouterr().err
    (tmp_path / "rows.jsonl").write_text(rows)
    results = tmp_path / "bench" / "results"
    (results / "inputs.json").rename(results / "model.json")  # as earlier versions named it
    assert run_command(app, arguments) == 2
    assert "a benchmark of an earlier version of Albertine; give another --out" in capsys.readouterr().err


def test_wrong_calls_give_one_line(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, [*arguments, "--exit-heads", "own"]) == 2
    assert "needs train.exits" in capsys.readouterr().err
    no_task = ["bench", "exits", str(tmp_path / "start"), "--out", str(tmp_path / "bench")]
    assert run_command(app, no_task) == 2
    assert "--task is missing" in capsys.readouterr().err
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "notes.txt").touch()
    assert run_command(app, arguments) == 2
    assert "exists and is not a benchmark" in capsys.readouterr().err
    save_folder(Model(replace(MODEL, layers=1), HeadSettings("pretrain")), tmp_path / "one")
    assert run_command(app, ["bench", "exits", str(tmp_path / "one"), "--out", str(tmp_path / "new")]) == 2
    assert "has one layer" in capsys.readouterr().err


@pytest.mark.parametrize("matching", [False, True])
@pytest.mark.parametrize("rule", [None, ExitRule(patience=1), ExitRule(patience=2), ExitRule(confidence=0.4)])
def test_padded_batches_predict_the_same(rule: ExitRule | None, matching: bool) -> None:
    head = HeadSettings("classify", labels=3, exits="own", matching=matching)
    model = Model(MODEL, head, seed=3).eval()
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    lengths = (5, 2, 9, 4, 7)
    strip = Strip.from_sequences(
        [list(range(3, 3 + length)) for length in lengths],
        [[2 * place // length for place in range(length)] for length in lengths],
    )
    seconds, labels = time_padded_exits(TorchEngine(model, torch.device("cpu")), [strip], rule)
    assert seconds > 0
    with torch.no_grad():
        logits = model(strip).logits if rule is None else forward_with_exits(model, strip, rule).output.logits
    assert labels == logits.argmax(1).tolist()
