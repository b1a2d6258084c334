"""Tests of the fine-tuning benchmark: both sides do the same work, and both learn."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from albertine.bench.finetune import (
    FinetuneBenchRun,
    _finetune,
    _with_steps,
    show_finetuning,
    without_marks,
)
from albertine.bench.peer_finetuning import PeerFinetuning, _batches
from albertine.bench.settings import FinetuneBenchSettings
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.finetune.duration import with_measured_steps
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import FinetuneData, prepare_task
from albertine.finetune.settings import FinetuneTrainSettings
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.schema import SettingError
from albertine.tasks.sequences import TaskSample
from albertine.text.tokenizer import load_tokenizer
from albertine.train import duration
from albertine.train.distributed import Distributed

MODEL = ModelSettings(vocab_size=220, embedding_size=16, hidden_size=32, layers=2, heads=2, max_length=64)


@pytest.fixture
def checkpoint(tokenizer: Path, tmp_path: Path) -> Path:
    save_folder(
        Model(MODEL, HeadSettings("pretrain"), seed=1),
        tmp_path / "start",
        tokenizer=load_tokenizer(tokenizer),
    )
    return tmp_path / "start"


def test_neither_side_marks_the_tokens_of_pairs(tokenizer: Path, tmp_path: Path) -> None:
    """By default, `finetune` marks them for a model with rotary positions."""
    model = Model(replace(MODEL, rotary=True), HeadSettings("pretrain"), seed=1)
    save_folder(model, tmp_path / "start", tokenizer=load_tokenizer(tokenizer))
    rows = [{"text": f"{word} vu", "other": "ka", "label": word} for word in ("ka", "lo") * 4]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source, file = str(tmp_path / "start"), str(tmp_path / "a.jsonl")
    settings = FinetuneBenchSettings(task="classify", data=file, dev=file, text_pair="other", device="cpu")
    assert prepare_task(source, settings).model_settings.mark_matches
    unmarked = without_marks(Path(source), settings)
    assert not prepare_task(source, unmarked).model_settings.mark_matches
    with pytest.raises(InputError, match="transformers would be trained without marks"):
        without_marks(Path(source), replace(settings, mark_matches=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classify", "multi-label", "regress", "tag", "span", "choice"])
def test_both_sides_reach_the_same_metrics(kind: str, checkpoint: Path, tmp_path: Path) -> None:
    rows_by_kind: dict[str, list[dict[str, Any]]] = {
        "classify": [{"text": f"{word} vu", "label": word} for word in ("ka", "lo") * 20],
        "multi-label": [{"text": f"{word} vu", "label": [word]} for word in ("ka", "lo") * 20],
        "regress": [{"text": f"{word} vu", "label": float(word == "ka")} for word in ("ka", "lo") * 20],
        "tag": [{"text": f"{word} vu", "label": f"{word} B-X"} for word in ("ka", "lo") * 20],
        "span": [
            {"question": "ka", "context": f"mi {word}", "answers": [word]} for word in ("ka", "lo") * 20
        ],
        "choice": [
            {"options": ["mi", "ka"] if index % 2 else ["ka", "mi"], "label": index % 2}
            for index in range(40)
        ],
    }
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_by_kind[kind]))
    file = str(tmp_path / "a.jsonl")
    train = FinetuneTrainSettings(steps=60, batch_size=8, lr=1e-2, warmup=6, precision="fp32")
    settings = FinetuneBenchSettings(
        task=kind, data=file, dev=file, device="cpu", dropout=0.0, classifier_dropout=0.0, train=train
    )
    results = {
        side: _finetune(FinetuneBenchRun(side, str(checkpoint), settings, settings.train.seed))
        for side in ("ours", "peer")
    }
    ours, peer = results["ours"], results["peer"]
    assert ours.train_samples == peer.train_samples == 480
    assert ours.dev_samples == peer.dev_samples == 40
    name = {"regress": "rmse", "span": "f1", "multi-label": "micro_f1"}.get(kind, "accuracy")
    for result in (ours, peer):  # initial heads differ, so only the final metrics agree
        assert result.metrics[name] < 0.25 if kind == "regress" else result.metrics[name] > 0.9
    assert ours.train_seconds > 0
    assert peer.dev_seconds > 0


@pytest.mark.parametrize("kind", ["classify", "tag"])
def test_micro_batches_do_not_change_the_peer(
    kind: str, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": "ka " * index + "vu", "label": "A" if index % 3 else "B"} for index in range(12)]
    if kind == "tag":
        rows = [{**row, "label": " ".join([row["label"]] * len(row["text"].split()))} for row in rows]
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    train = FinetuneTrainSettings(steps=4, batch_size=6, lr=1e-3, warmup=1, precision="fp32")
    settings = FinetuneBenchSettings(
        task=kind, data=str(file), dev=str(file), device="cpu", dropout=0, classifier_dropout=0, train=train
    )
    prepared = prepare_task(str(checkpoint), settings)
    resolved_settings = with_task_defaults(
        settings, prepared.task.name, prepared.model_settings, prepared.num_samples, 64
    )
    samples = [sample for example in prepared.train for sample in example.samples]
    weights = []
    for max_tokens in (30, 10_000):
        train = replace(resolved_settings.train, micro_batch_tokens=max_tokens)
        settings = replace(resolved_settings, train=train)
        peer = PeerFinetuning(prepared, settings, torch.device("cpu"), torch.float32)
        assert (len(list(peer._micro_batches(samples))) > 1) is (max_tokens == 30)
        peer.train()
        weights.append(torch.cat([parameter.detach().flatten() for parameter in peer.model.parameters()]))
    torch.testing.assert_close(*weights, rtol=0, atol=2e-6)


def test_minutes_become_steps_of_both_sides(checkpoint: Path, tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": "ka lo " * (1 + i % 5), "label": i % 2}) + "\n" for i in range(40))
    (tmp_path / "a.jsonl").write_text(rows)
    file = str(tmp_path / "a.jsonl")
    train = FinetuneTrainSettings(minutes=0.05)
    settings = FinetuneBenchSettings(task="classify", data=file, dev=file, device="cpu", train=train)
    measured = _with_steps(settings, prepare_task(str(checkpoint), settings)).train
    assert measured.minutes is None
    assert measured.steps > 0
    assert measured.batch_size


def test_minutes_and_steps_are_refused(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "ka", "label": 0}\n{"text": "lo", "label": 1}\n' * 4)
    file = str(tmp_path / "a.jsonl")
    command = ["bench", "finetune", str(checkpoint), "--task", "classify", "--data", file, "--dev", file]
    lengths = ["--train.minutes", "0.05", "--train.steps", "5", "--train.optimizer", "adamw"]
    assert run_command(app, [*command, *lengths]) == 2
    assert "--train.minutes 0.05 and --train.steps 5: two lengths of the run" in capsys.readouterr().err


def test_minutes_have_one_evaluation(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`finetune` evaluates ten times or more, the benchmark once; dev takes as long as 20 steps."""
    row = json.dumps({"text": "ka lo", "label": 0}) + "\n" + json.dumps({"text": "ka lo", "label": 1}) + "\n"
    (tmp_path / "train.jsonl").write_text(row * 16)
    (tmp_path / "dev.jsonl").write_text(row * 320)
    train = FinetuneTrainSettings(minutes=0.1, batch_size=32)
    data, dev = str(tmp_path / "train.jsonl"), str(tmp_path / "dev.jsonl")
    settings = FinetuneBenchSettings(task="classify", data=data, dev=dev, device="cpu", train=train)
    prepared = prepare_task(str(checkpoint), settings)
    monkeypatch.setattr(duration, "seconds_per_token", lambda *_: 0.05 / sum(_tokens(prepared)))
    steps = _with_steps(settings, prepared).train.steps
    process = Distributed(0, 1, torch.device("cpu"))
    assert steps > with_measured_steps([], settings, prepared, process).train.steps > 0


def _tokens(prepared: FinetuneData) -> list[int]:
    return [sample.num_tokens for sample in prepared.train_samples]


def test_both_sides_use_the_same_batches() -> None:
    from albertine.finetune.finetuning import Finetuning

    samples = [TaskSample((), (), index) for index in range(10)]
    peer_batches = [[sample.target for sample in batch] for batch in _batches(samples, 3, 4, 6)]
    finetuning = Finetuning.__new__(Finetuning)
    (
        finetuning.samples,
        finetuning._batch_size,
        finetuning._seed,
        finetuning._samples_taken,
        finetuning._epoch,
    ) = samples, 4, 3, 0, -1
    assert [[samples[index].target for index in finetuning._next_indices()] for _ in range(6)] == peer_batches


def test_table_shows_both_sides(checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "ka", "label": 1}\n{"text": "lo", "label": 0}\n')
    file = str(tmp_path / "a.jsonl")
    settings = FinetuneBenchSettings(
        task="classify",
        data=file,
        dev=file,
        device="cpu",
        train=FinetuneTrainSettings(steps=2, batch_size=2, lr=1e-3),
    )
    results = {
        side: [_finetune(FinetuneBenchRun(side, str(checkpoint), settings, settings.train.seed))]
        for side in ("ours", "peer")
    }
    show_finetuning("classify", results, as_json=False)  # type: ignore[arg-type]  # both sides
    assert "ours / peer" in capsys.readouterr().out
    show_finetuning("classify", results, as_json=True)  # type: ignore[arg-type]
    assert set(json.loads(capsys.readouterr().out)) == {"task", "ours", "peer"}


@pytest.mark.parametrize("option", ["patience", "evaluate-every", "keep-checkpoints"])
def test_settings_without_effect_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "finetune", "none", "--task", "classify", "--data", "x.csv", f"--train.{option}", "3"]
    assert run_command(app, words) == 2
    assert f"--train.{option}: bench finetune runs one process" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layer_decay", 0.9),
        ("freeze_embeddings", True),
        ("class_weights", "balanced"),
    ],
)
def test_what_the_peer_cannot_do_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=r"metric = .*compared by the task's"):
        FinetuneBenchSettings(task="classify", data="x.csv", metric="macro_f1")
    train = replace(FinetuneBenchSettings(task="classify", data="x.csv").train, **{name: value})
    with pytest.raises(SettingError, match=f"train.{name} = .*one learning rate, and without class weights"):
        FinetuneBenchSettings(task="classify", data="x.csv", train=train)
