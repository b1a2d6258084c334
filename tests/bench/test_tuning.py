"""Both sides of the benchmark of fine-tuning do the same work, and both learn."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from albertine.bench import tuning_peer
from albertine.bench.finetune import Leg, _perform, show
from albertine.bench.settings import FinetuneBench
from albertine.bench.tuning_peer import TuningPeer, _batches
from albertine.interop.huggingface import save_folder
from albertine.model.network import Model
from albertine.settings import HeadSettings, ModelSettings
from albertine.tasks.kinds.kind import Sample
from albertine.tasks.prepare import prepare
from albertine.tasks.settings import TuneSettings
from albertine.tasks.table14 import settled
from albertine.text.tokenizer import load_tokenizer

MODEL = ModelSettings(vocab_size=130, embedding_size=16, hidden_size=32, layers=2, heads=2, max_length=64)


@pytest.fixture
def start(tokenizer: Path, tmp_path: Path) -> Path:
    save_folder(
        Model(MODEL, HeadSettings("pretrain"), seed=1),
        tmp_path / "start",
        tokenizer=load_tokenizer(tokenizer),
    )
    return tmp_path / "start"


@pytest.mark.parametrize("kind", ["classify", "regress", "tag", "span", "choice"])
def test_both_sides_come_to_the_same(kind: str, start: Path, tmp_path: Path) -> None:
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
    train = TuneSettings(steps=60, batch=8, lr=1e-2, warmup=6, precision="fp32")
    settings = FinetuneBench(
        task=kind, data=file, dev=file, device="cpu", dropout=0.0, classifier_dropout=0.0, train=train
    )
    results = {side: _perform(Leg(side, str(start), settings)) for side in ("ours", "peer")}
    ours, theirs = results["ours"], results["peer"]
    assert ours.samples == theirs.samples == 480
    assert ours.dev_samples == theirs.dev_samples == 40
    name = {"regress": "rmse", "span": "f1"}.get(kind, "accuracy")
    for one in (ours, theirs):  # heads are drawn otherwise, so the ways differ; where they end does not
        assert one.scores[name] < 0.25 if kind == "regress" else one.scores[name] > 0.9
    assert ours.train_seconds > 0
    assert theirs.dev_seconds > 0


@pytest.mark.parametrize("kind", ["classify", "tag"])
def test_pieces_make_no_difference_to_the_peer(
    kind: str, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"text": "ka " * at + "vu", "label": "A" if at % 3 else "B"} for at in range(12)]
    if kind == "tag":
        rows = [{**row, "label": " ".join([row["label"]] * len(row["text"].split()))} for row in rows]
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    train = TuneSettings(steps=4, batch=6, lr=1e-3, warmup=1, precision="fp32")
    settings = FinetuneBench(
        task=kind, data=str(file), dev=str(file), device="cpu", dropout=0, classifier_dropout=0, train=train
    )
    prepared = prepare(str(start), settings)
    asked = settled(settings, prepared.task.name, prepared.network, prepared.samples, 64)
    samples = [one for sheet in prepared.train for one in sheet.samples]
    weights = []
    for budget in (30, 10_000):
        monkeypatch.setattr(tuning_peer, "at_once_on", {torch.device("cpu"): budget}.__getitem__)
        peer = TuningPeer(prepared, asked, torch.device("cpu"), torch.float32)
        assert (len(list(peer._pieces(samples))) > 1) is (budget == 30)
        peer.train()
        weights.append(torch.cat([one.detach().flatten() for one in peer.network.parameters()]))
    torch.testing.assert_close(*weights, rtol=0, atol=2e-6)


def test_the_peer_takes_the_batches_that_we_take() -> None:
    from albertine.tasks.work import Tuning

    samples = [Sample((), (), at) for at in range(10)]
    theirs = [[one.target for one in batch] for batch in _batches(samples, 3, 4, 6)]
    ours = Tuning.__new__(Tuning)
    ours.samples, ours._batch, ours._seed, ours._place, ours._epoch = samples, 4, 3, 0, -1
    assert [[samples[at].target for at in ours._next()] for _ in range(6)] == theirs


def test_the_table_shows_both(start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "ka", "label": 1}\n{"text": "lo", "label": 0}\n')
    file = str(tmp_path / "a.jsonl")
    settings = FinetuneBench(
        task="classify", data=file, dev=file, device="cpu", train=TuneSettings(steps=2, batch=2, lr=1e-3)
    )
    found = {side: [_perform(Leg(side, str(start), replace(settings)))] for side in ("ours", "peer")}
    show("classify", found, as_json=False)  # type: ignore[arg-type]  # both sides
    assert "times as fast" in capsys.readouterr().out
    show("classify", found, as_json=True)  # type: ignore[arg-type]
    assert set(json.loads(capsys.readouterr().out)) == {"task", "ours", "peer"}
