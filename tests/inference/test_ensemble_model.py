"""Tests of ensembles as models: their folder, and its use by evaluate, predict and pipelines."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from tests.interop.hub_server import COMMIT, run_script, serve_repository
from tests.task_fixtures import reviews, save_untrained_model, write_csv, write_squad

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError, WorkError
from albertine.inference.ensemble import EnsembleResult, evaluate_ensemble
from albertine.inference.ensemble_model import _location
from albertine.inference.evaluate import evaluate
from albertine.inference.finetuned_model import load_finetuned
from albertine.inference.pipeline import pipeline
from albertine.inference.predict import predict
from albertine.inference.settings import EnsembleSettings, EvaluateSettings, PredictSettings
from albertine.settings import HeadSettings
from albertine.settings.engine import EngineOptions
from albertine.tasks.card import TaskCard

CARD = TaskCard(
    "classify",
    "classify",
    ("blue", "green", "red"),
    ("accuracy", "macro_f1"),
    max_length=64,
    columns={"text": "review", "label": "stars"},
)


@pytest.fixture
def members(checkpoint: Path, tmp_path: Path) -> list[Path]:
    """Folders of two untrained models that classify reviews."""
    head = HeadSettings("classify", labels=3)
    return [
        save_untrained_model(tmp_path / "work" / "runs" / f"m{seed}", checkpoint, head, CARD, seed)
        for seed in (1, 2)
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "dev.csv", reviews(2, 60))


def save_ensemble(members: list[Path], data: Path, **options: Any) -> tuple[Path, EnsembleResult]:
    """Write an ensemble of all models, beside the folder of the models; return its folder and its result."""
    folder = members[0].parent.parent / "both"
    settings = EnsembleSettings(data=str(data), device="cpu", precision="fp32", selection="all")
    return folder, evaluate_ensemble(list(map(str, members)), settings, save=folder, **options)


def test_a_saved_ensemble_is_used_like_a_model(members: list[Path], data: Path, tmp_path: Path) -> None:
    folder, result = save_ensemble(members, data, out=tmp_path / "out.jsonl")
    assert sorted(file.name for file in folder.iterdir()) == ["ensemble.json", "task.json"]
    moved = (tmp_path / "work").rename(tmp_path / "moved") / "both"  # together with its members
    settings = {"data": str(data), "device": "cpu", "precision": "fp32"}
    (evaluation,) = evaluate(moved, EvaluateSettings(**settings))  # type: ignore[arg-type]
    assert evaluation.metrics == result.metrics
    assert predict(moved, PredictSettings(**settings), tmp_path / "again.jsonl") == 60  # type: ignore[arg-type]
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "out.jsonl").read_text()


def test_an_interrupted_call_is_repeated(members: list[Path], data: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    save_ensemble(members, data, out=out)
    expected = out.read_text()
    out.unlink()  # as if the call had been killed before it wrote the predictions
    save_ensemble(members, data, out=out)
    assert out.read_text() == expected
    with pytest.raises(InputError, match=r"out\.jsonl: exists already"):
        save_ensemble(members, data, out=out)
    with pytest.raises(InputError, match="both: exists already"):
        save_ensemble(members, data)


def test_another_ensemble_is_not_replaced(members: list[Path], data: Path, tmp_path: Path) -> None:
    folder, _ = save_ensemble(members, data)
    with pytest.raises(InputError, match="both: another ensemble"):
        save_ensemble(members[::-1], data, out=tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()
    (folder / "task.json").write_text("{}")
    with pytest.raises(InputError, match="both: another ensemble"):
        save_ensemble(members, data, out=tmp_path / "out.jsonl")


def test_truncated_rows_are_reported(
    members: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"review": "ka " * 200, "stars": "red", "mark": 0.0}, *reviews(3, 5)]
    data = write_csv(tmp_path / "long.csv", rows)
    save_ensemble(members, data, out=tmp_path / "out.jsonl")
    assert "1 of 6 examples truncated" in capsys.readouterr().err
    predictions = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert ["truncated_tokens" in prediction for prediction in predictions] == [True, *[False] * 5]


def test_rows_that_any_member_truncates_are_reported(
    members: list[Path], checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, card = HeadSettings("classify", labels=3), replace(CARD, max_length=16)
    members.append(save_untrained_model(members[0].parent / "short", checkpoint, head, card, 3))
    rows = [
        {"review": "ka " * 20, "stars": "red", "mark": 0.0},
        {"review": "ka", "stars": "red", "mark": 0.0},
    ]
    data = write_csv(tmp_path / "long.csv", rows)
    folder, _ = save_ensemble(members, data, out=tmp_path / "out.jsonl")
    assert "1 of 2 examples truncated" in capsys.readouterr().err
    settings = PredictSettings(data=str(data), device="cpu", precision="fp32")
    predict(folder, settings, tmp_path / "again.jsonl")
    assert "1 of 2 examples truncated" in capsys.readouterr().err
    assert (tmp_path / "out.jsonl").read_text() == (tmp_path / "again.jsonl").read_text()
    predictions = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert ["truncated_tokens" in prediction for prediction in predictions] == [True, False]
    both = pipeline(folder, device="cpu")
    assert both.max_length == 16
    assert both("ka " * 20)["truncated_tokens"] == predictions[0]["truncated_tokens"]


def test_skipped_rows_without_a_label_are_predicted(members: list[Path], tmp_path: Path) -> None:
    rows = [{**row, "stars": "" if index == 1 else row["stars"]} for index, row in enumerate(reviews(3, 5))]
    data = write_csv(tmp_path / "some.csv", rows)
    settings = EnsembleSettings(data=str(data), device="cpu", precision="fp32", on_error="skip")
    save = tmp_path / "work" / "both"
    evaluate_ensemble(list(map(str, members)), settings, tmp_path / "out.jsonl", save)
    predict(save, PredictSettings(data=str(data), device="cpu", precision="fp32"), tmp_path / "again.jsonl")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 5
    assert (tmp_path / "out.jsonl").read_text() == (tmp_path / "again.jsonl").read_text()


def test_models_with_other_numbers_of_options_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    members = [
        save_untrained_model(
            tmp_path / f"m{count}",
            checkpoint,
            HeadSettings("choice", 1, count),
            TaskCard("choice", "choice", num_options=count, max_length=64),
        )
        for count in (2, 3)
    ]
    data = write_csv(tmp_path / "a.csv", reviews(3, 5))
    with pytest.raises(InputError, match=r"m3: chooses between 3 options, .*m2 between 2"):
        evaluate_ensemble(members, EnsembleSettings(data=str(data), device="cpu"))


def test_members_are_averaged_by_weight(members: list[Path], data: Path) -> None:
    folder, _ = save_ensemble(members, data)
    file = folder / "ensemble.json"
    content = json.loads(file.read_text())
    assert content == {
        "format": 1,
        "members": [{"folder": f"../runs/m{seed}", "weight": 1.0} for seed in (1, 2)],
    }
    content["members"][0]["weight"] = 3
    file.write_text(json.dumps(content))
    first, second, ensemble = (
        pipeline(one, device="cpu", precision="fp32")("ka lo")["probabilities"] for one in (*members, folder)
    )
    for label in CARD.labels:
        assert ensemble[label] == pytest.approx(0.75 * first[label] + 0.25 * second[label], abs=2e-6)


def test_the_threshold_of_the_ensemble_is_saved(checkpoint: Path, tmp_path: Path) -> None:
    card = TaskCard("squad-2.0", "span", allows_no_answer=True, max_length=64)
    head = HeadSettings("span", answerable=True)
    models = [
        save_untrained_model(tmp_path / "work" / "runs" / f"m{seed}", checkpoint, head, card, seed)
        for seed in (1, 2)
    ]
    data = write_squad(tmp_path / "dev-v2.0.json")
    folder, result = save_ensemble(models, data)
    assert json.loads((folder / "task.json").read_text())["no_answer_threshold"] != 0
    settings = EvaluateSettings(data=str(data), device="cpu", precision="fp32")
    assert evaluate(folder, settings)[0].metrics == result.metrics


def test_output_that_is_not_finite_is_refused(members: list[Path], data: Path, tmp_path: Path) -> None:
    tensors = safetensors.torch.load_file(members[0] / "model.safetensors")
    tensors["albert.embeddings.LayerNorm.weight"].fill_(3e38)
    safetensors.torch.save_file(tensors, members[0] / "model.safetensors", {"format": "pt"})
    out = tmp_path / "out.jsonl"
    with pytest.raises(WorkError, match="not finite"):
        predict(members[0], PredictSettings(data=str(data), device="cpu"), out)
    assert not out.exists()


def test_a_missing_member_is_named(
    members: list[Path], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = save_ensemble(members, data)
    members[1].rename(members[1].with_name("elsewhere"))
    capsys.readouterr()
    assert run_command(app, ["predict", str(folder), "--data", str(data), "--device", "cpu"]) == 2
    assert capsys.readouterr().err == (
        f"albertine: {folder / 'ensemble.json'}: its member {members[1]} is missing; "
        "move it back, or correct its path there\n"
    )


def test_members_that_no_longer_fit_are_refused(members: list[Path], data: Path, checkpoint: Path) -> None:
    folder, _ = save_ensemble(members, data)
    shutil.rmtree(members[1])
    card = replace(CARD, labels=("x", "y"))
    save_untrained_model(members[1], checkpoint, HeadSettings("classify"), card)
    with pytest.raises(InputError, match="m2: has another task type or other labels than"):
        pipeline(folder, device="cpu")
    shutil.rmtree(members[0])
    save_untrained_model(members[0], checkpoint, HeadSettings("classify"), card)
    with pytest.raises(InputError, match=r"both: its member .*m1 has another task type or other labels"):
        pipeline(folder, device="cpu")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ('{"format": 2, "members": []}', "format 2, written by a newer version of Albertine"),
        ('{"format": 1, "members": []}', "not an ensemble .no members."),
        ('{"format": 1, "members": [{"weight": 1}]}', "needs either a folder, a URL or a hub name"),
        ('{"format": 1, "members": [{"folder": "../m1", "weight": 0}]}', "must be a positive number"),
        ('{"format": 1, "members": [{"folder": "../m1"}]}', "not an ensemble .*weight"),
        ('{"format": 1, "members": [{"folder": "m", "weight": 1' + "0" * 400 + "}]}", "not an ensemble"),
    ],
)
def test_an_invalid_file_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "ensemble.json").write_text(content)
    with pytest.raises(InputError, match=message):
        pipeline(tmp_path, device="cpu")


def test_an_ensemble_is_refused_as_a_single_model(members: list[Path], data: Path, tmp_path: Path) -> None:
    folder, _ = save_ensemble(members, data)
    message = "both: an ensemble, where one model is expected; name a member"
    settings = EnsembleSettings(data=str(data), device="cpu")
    uses: list[Callable[[], object]] = [
        lambda: albertine.load(folder),
        lambda: albertine.load_tokenizer(folder),
        lambda: evaluate_ensemble([folder, members[0]], settings),
    ]
    for use in uses:
        with pytest.raises(InputError, match=message):
            use()
    for command, *others in (["info"], ["report"], ["convert", str(tmp_path / "converted")]):
        assert run_command(app, [command, str(folder), *others]) == 2


HUB_SCRIPT = """
import json, sys
from pathlib import Path
from albertine.inference.ensemble import evaluate_ensemble
from albertine.inference.ensemble_model import load_ensemble
from albertine.inference.settings import EnsembleSettings
other, data, out = sys.argv[1:]
settings = EnsembleSettings(data=data, device="cpu", selection="all")
evaluate_ensemble(["someone/small@main", other], settings, save=out)
print(json.loads((Path(out) / "ensemble.json").read_text())["members"][0])
file = Path(out) / "ensemble.json"
for name in ("someone/small", "someone/small@main"):  # earlier versions wrote the second
    file.write_text(file.read_text().replace('"someone/small"', f'"{name}"'))
    print([member.source for member in load_ensemble(Path(out)).members][0])
"""


def test_a_member_of_the_hub_may_be_named_with_a_revision(
    members: list[Path], data: Path, tmp_path: Path
) -> None:
    with serve_repository(members[0], tmp_path / "home") as environment:
        output = run_script(environment, HUB_SCRIPT, str(members[1]), str(data), str(tmp_path / "both"))
    entry = {"hub": "someone/small", "revision": COMMIT, "weight": 1.0}
    assert output.splitlines()[-3:] == [str(entry), "someone/small", "someone/small"]


def test_a_member_far_away_is_named_by_its_absolute_path(members: list[Path]) -> None:
    member = replace(load_finetuned(members[0], EngineOptions("cpu")), folder=Path("/a/runs/m1"))
    assert _location(member, Path("/b/both")) == {"folder": "/a/runs/m1"}
    assert _location(member, Path("/a/both")) == {"folder": "../runs/m1"}
    on_hub = replace(member, source="owner/name", folder=Path("/cache/snapshots/4f2c"))
    assert _location(on_hub, Path("/a/both")) == {"hub": "owner/name", "revision": "4f2c"}
    assert _location(replace(on_hub, source="owner/name@v2"), Path("/a/both")) == {
        "hub": "owner/name",
        "revision": "4f2c",
    }
    stored = replace(on_hub, source="s3://bucket/run")
    assert _location(stored, Path("/a/both")) == {"url": "s3://bucket/run"}
