"""Tests of the fine-tuning benchmark: both sides do the same work, and both learn."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from albertine.bench import peer_finetuning
from albertine.bench.finetune import FinetuneBenchRun, _finetune, show_finetuning
from albertine.bench.peer_finetuning import PeerFinetuning, _batches
from albertine.bench.settings import FinetuneBenchSettings
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import prepare_task
from albertine.finetune.settings import FinetuneTrainSettings
from albertine.interop.huggingface import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings, ModelSettings
from albertine.tasks.sequences import TaskSample
from albertine.text.tokenizer import load_tokenizer

MODEL = ModelSettings(vocab_size=130, embedding_size=16, hidden_size=32, layers=2, heads=2, max_length=64)


@pytest.fixture
def checkpoint(tokenizer: Path, tmp_path: Path) -> Path:
    save_folder(
        Model(MODEL, HeadSettings("pretrain"), seed=1),
        tmp_path / "start",
        tokenizer=load_tokenizer(tokenizer),
    )
    return tmp_path / "start"


@pytest.mark.parametrize("kind", ["classify", "regress", "tag", "span", "choice"])
def test_both_sides_reach_the_same_metrics(kind: str, checkpoint: Path, tmp_path: Path) -> None:
    every: dict[str, list[dict[str, Any]]] = {
        "classify": [{"text": f"{one} vu", "label": one} for one in ("ka", "lo") * 20],
        "regress": [{"text": f"{one} vu", "label": float(one == "ka")} for one in ("ka", "lo") * 20],
        "tag": [{"text": f"{one} vu", "label": f"{one} B-X"} for one in ("ka", "lo") * 20],
        "span": [{"question": "ka", "context": f"mi {one}", "answers": [one]} for one in ("ka", "lo") * 20],
        "choice": [
            {"options": ["mi", "ka"] if at % 2 else ["ka", "mi"], "label": at % 2} for at in range(40)
        ],
    }
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in every[kind]))
    file = str(tmp_path / "a.jsonl")
    train = FinetuneTrainSettings(steps=60, batch_size=8, lr=1e-2, warmup=6, precision="fp32")
    settings = FinetuneBenchSettings(
        task=kind, data=file, dev=file, device="cpu", dropout=0.0, classifier_dropout=0.0, train=train
    )
    results = {
        side: _finetune(FinetuneBenchRun(side, str(checkpoint), settings)) for side in ("ours", "peer")
    }
    ours, theirs = results["ours"], results["peer"]
    assert ours.train_samples == theirs.train_samples == 480
    assert ours.dev_samples == theirs.dev_samples == 40
    name = {"regress": "rmse", "span": "f1"}.get(kind, "accuracy")
    for one in (ours, theirs):  # initial heads differ, so only the final metrics agree
        assert one.metrics[name] < 0.25 if kind == "regress" else one.metrics[name] > 0.9
    assert ours.train_seconds > 0
    assert theirs.dev_seconds > 0


@pytest.mark.parametrize("kind", ["classify", "tag"])
def test_micro_batches_do_not_change_the_peer(
    kind: str, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": "ka " * at + "vu", "label": "A" if at % 3 else "B"} for at in range(12)]
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
    samples = [one for example in prepared.train for one in example.samples]
    weights = []
    for budget in (30, 10_000):
        monkeypatch.setattr(
            peer_finetuning, "default_micro_batch_tokens", {torch.device("cpu"): budget}.__getitem__
        )
        peer = PeerFinetuning(prepared, resolved_settings, torch.device("cpu"), torch.float32)
        assert (len(list(peer._micro_batches(samples))) > 1) is (budget == 30)
        peer.train()
        weights.append(torch.cat([one.detach().flatten() for one in peer.model.parameters()]))
    torch.testing.assert_close(*weights, rtol=0, atol=2e-6)


def test_peer_uses_our_batches() -> None:
    from albertine.finetune.finetuning import Finetuning

    samples = [TaskSample((), (), at) for at in range(10)]
    theirs = [[one.target for one in batch] for batch in _batches(samples, 3, 4, 6)]
    ours = Finetuning.__new__(Finetuning)
    ours.samples, ours._batch_size, ours._seed, ours._samples_taken, ours._epoch = samples, 4, 3, 0, -1
    assert [[samples[at].target for at in ours._next_indices()] for _ in range(6)] == theirs


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
    found = {
        side: [_finetune(FinetuneBenchRun(side, str(checkpoint), replace(settings)))]
        for side in ("ours", "peer")
    }
    show_finetuning("classify", found, as_json=False)  # type: ignore[arg-type]  # both sides
    assert "ours / peer" in capsys.readouterr().out
    show_finetuning("classify", found, as_json=True)  # type: ignore[arg-type]
    assert set(json.loads(capsys.readouterr().out)) == {"task", "ours", "peer"}
