"""A run learns, keeps the best, goes on where it was broken off, and starts again when it collapses."""

import json
import math
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.task_fixtures import COLOURS, random_words, reviews, with_train_settings, write_csv, write_jsonl

from albertine.errors import InputError
from albertine.finetune import run as running
from albertine.finetune.finetune import finetune
from albertine.finetune.finetuning import Finetuning
from albertine.finetune.results_table import show_finetune_results
from albertine.finetune.settings import FinetuneSettings, SweepGrid, SweepSettings
from albertine.inference.evaluate import evaluate
from albertine.inference.settings import EvaluateSettings
from albertine.interop.load import load
from albertine.tasks.settings import SequenceSettings
from albertine.train.metrics_log import read_metrics


def median_metrics_of(run: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((run / "results.json").read_text())["median"]
    return found


def test_run_folder_is_the_best_checkpoint(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune_settings = with_train_settings(finetune_settings, steps=100, optimizer="muon", lr=2e-2)
    results = finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    (outcome,) = results.runs
    assert results.task == "classify"
    assert outcome.metrics["accuracy"] == 1.0
    assert median_metrics_of(tmp_path / "run") == outcome.metrics
    (found,) = evaluate(
        [str(tmp_path / "run")],
        EvaluateSettings(data=finetune_settings.dev, device="cpu", precision="fp32"),
    )
    assert found.metrics == outcome.metrics
    assert load(tmp_path / "run").label_names == tuple(sorted(COLOURS))


@pytest.mark.parametrize("kind", ["regress", "tag", "span", "choice"])
def test_every_task_type_learns(
    kind: str, checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    def rows(seed: int, count: int) -> list[dict[str, Any]]:
        draw = random.Random(seed)
        made: list[dict[str, Any]] = []
        for _ in range(count):
            some = random_words(draw, 5)
            at = draw.randrange(5)
            match kind:
                case "tag":
                    tags = ["B-X" if place == at else "O" for place in range(5)]
                    some[at] = "."
                    made.append({"text": some, "label": tags})
                case "span":
                    some[at] = "."
                    start = len(" ".join([*some[:at], ""]))
                    answers = {"text": ["."], "answer_start": [start]}
                    made.append({"question": "ka", "context": " ".join(some), "answers": answers})
                case "choice":
                    options = ["mi", "lo", "vu"]
                    draw.shuffle(options)
                    made.append({"context": "ka", "options": options, "label": options.index("lo")})
        return made

    if kind == "regress":
        settings = replace(finetune_settings, task=kind, label="mark")
    else:
        settings = replace(
            finetune_settings,
            task=kind,
            text="text",
            label="label",
            data=str(write_jsonl(tmp_path / "train.jsonl", rows(1, 300))),
            dev=str(write_jsonl(tmp_path / "dev.jsonl", rows(2, 50))),
        )
    settings = with_train_settings(settings, steps=350, evaluate_every=50, optimizer="muon", lr=1e-2)
    (outcome,) = finetune(str(checkpoint), tmp_path / "run", settings).runs
    name = {"regress": "pearson", "tag": "f1", "span": "exact", "choice": "accuracy"}[kind]
    assert outcome.metrics[name] > 0.85
    (found,) = evaluate(
        [str(tmp_path / "run")],
        EvaluateSettings(data=settings.dev, device="cpu", precision="fp32"),
    )
    assert found.metrics == pytest.approx(outcome.metrics)


def test_resume_is_exact(
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    finetune_settings = with_train_settings(finetune_settings, save_every=7, optimizer="muon")
    finetune_settings = replace(finetune_settings, dropout=0.1)
    finetune(str(checkpoint), tmp_path / "whole", finetune_settings)

    class Pulled(Exception):  # noqa: N818
        pass

    next_batch = Finetuning.next_batch
    for stop in (11, 40):

        def interrupted_next_batch(self: Finetuning, step: int, stop: int = stop) -> Any:
            if step == stop:
                raise Pulled
            return next_batch(self, step)

        with monkeypatch.context() as patch, pytest.raises(Pulled):
            patch.setattr(Finetuning, "next_batch", interrupted_next_batch)
            finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    assert "newly initialized" in capsys.readouterr().err
    finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    assert "newly initialized" not in capsys.readouterr().err
    assert median_metrics_of(tmp_path / "run") == median_metrics_of(tmp_path / "whole")
    for name in ("model.safetensors", "task.json", "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    losses = [
        [line["label_loss"] for line in read_metrics(tmp_path / run) if "label_loss" in line]
        for run in ("run", "whole")
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 60


def test_finished_run_is_not_rewritten(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    first = finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("step-*/*")}
    assert finetune(str(checkpoint), tmp_path / "run", finetune_settings) == first
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("step-*/*")}


def test_resume_with_changed_settings_or_data(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=4, warmup=1))
    with pytest.raises(InputError, match=r"a run with train.steps = 4, not 5"):
        finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=5, warmup=1))
    Path(finetune_settings.data or "").write_text(
        Path(finetune_settings.data or "").read_text().replace("ka ka ka", "ka ka lo")
    )
    with pytest.raises(InputError, match="the examples differ from those that the run started with"):
        finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=4, warmup=1))


def test_patience(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finetune_settings = with_train_settings(finetune_settings, steps=600, evaluate_every=10, patience=3)
    (outcome,) = finetune(str(checkpoint), tmp_path / "run", finetune_settings).runs
    last = max(line["step"] for line in read_metrics(tmp_path / "run"))
    assert last == outcome.best_step + 30 < 600
    assert (
        f"no better evaluation since step {outcome.best_step:,}; the run stops early"
        in capsys.readouterr().err
    )
    assert finetune(str(checkpoint), tmp_path / "run", finetune_settings).runs == (
        outcome,
    )  # and stays ended


def test_seeds_report_the_median(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finetune_settings = with_train_settings(
        replace(finetune_settings, seeds=3), steps=10, evaluate_every=10, lr=1e-3
    )
    results = finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    outcomes = results.runs
    assert [one.run_name for one in outcomes] == ["seed-0", "seed-1", "seed-2"]
    weights = {(tmp_path / "run" / one.run_name / "model.safetensors").read_bytes() for one in outcomes}
    assert len(weights) == 3
    scores = sorted(one.metrics["accuracy"] for one in outcomes)
    assert median_metrics_of(tmp_path / "run")["accuracy"] == scores[1]
    show_finetune_results(tmp_path / "run", results, as_json=False)
    told = " ".join(capsys.readouterr().out.split())
    assert f"median accuracy {100 * scores[1]:.1f}, macro_f1" in told
    assert "\u2026" not in told  # nothing is cut
    best = max(outcomes, key=lambda one: one.metrics["accuracy"]).run_name
    assert (tmp_path / "run/model.safetensors").read_bytes() == (
        tmp_path / "run" / best / "model.safetensors"
    ).read_bytes()


def test_sweep(checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path) -> None:
    grid = SweepGrid(lr="1e-6, 1x", batch_size="8, 1x", dropout="0")
    settings = SweepSettings(**{**vars(with_train_settings(finetune_settings, steps=40)), "grid": grid})
    results = finetune(str(checkpoint), tmp_path / "run", settings, sweep=True)
    outcomes = results.runs
    assert {(one.lr, one.batch_size, one.steps) for one in outcomes} == {
        (1e-6, 8, 80),
        (1e-6, 16, 40),
        (3e-3, 8, 80),
        (3e-3, 16, 40),
    }
    found = json.loads((tmp_path / "run/results.json").read_text())
    assert found["best_run"].startswith("lr-0.003")
    assert len(found["runs"]) == 4
    with pytest.raises(InputError, match="must be numbers"):
        SweepGrid(lr="fast")
    for key, text in (
        ("lr", "nan"),
        ("lr", "-1e-5"),
        ("batch_size", "0"),
        ("batch_size", "0x"),
        ("dropout", "5"),
    ):
        with pytest.raises(InputError, match=f'{key} = "{text}": each must be'):
            SweepGrid(**{key: text})


def test_collapsed_run_restarts_with_lower_rate(
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(running, "_MIN_STEPS_BEFORE_CHECK", 10)
    (outcome,) = finetune(
        str(checkpoint),
        tmp_path / "run",
        with_train_settings(finetune_settings, lr=3.0, max_gradient_norm=0.0, warmup=1),
    ).runs
    told = capsys.readouterr().err
    assert "collapsed, every prediction is" in told
    assert "restarting at 0.5 of the learning rate, with 2 times the warm-up" in told
    assert outcome.restarts == 2
    assert outcome.lr == 0.75
    capsys.readouterr()
    # What it had learned of itself is not forgotten with the process.
    assert finetune(
        str(checkpoint),
        tmp_path / "run",
        with_train_settings(finetune_settings, lr=3.0, max_gradient_norm=0.0, warmup=1),
    ).runs == (outcome,)


def test_layer_decay_and_frozen_embeddings(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    before = dict(load(checkpoint, "classify").named_parameters())
    finetune(
        str(checkpoint),
        tmp_path / "frozen",
        with_train_settings(finetune_settings, steps=5, warmup=1, freeze_embeddings=True),
    )
    after = dict(load(tmp_path / "frozen/checkpoints/step-00000005").named_parameters())
    moved = {name for name in after if name in before and not torch.equal(before[name], after[name])}
    assert not any(name.startswith("encoder.embedding.") for name in moved)
    assert any(name.startswith("encoder.ffn.") for name in moved)
    sizes = []
    for decay in (1.0, 0.1):
        settings = with_train_settings(
            finetune_settings, steps=1, warmup=0, layer_decay=decay, weight_decay=0.0, evaluate_every=1
        )
        finetune(str(checkpoint), tmp_path / f"{decay}", settings)
        newest = next((tmp_path / f"{decay}" / "checkpoints").glob("step-00000001"))
        found = dict(load(newest).named_parameters())
        sizes.append(
            [float((found[name] - before[name]).detach().abs().max()) for name in (
                "encoder.embedding.tokens.weight", "encoder.ffn.0.up.weight"
            )]
        )  # fmt: skip
    assert sizes[1][0] == pytest.approx(sizes[0][0] * 0.1**3, rel=0.01)  # two layers and the head above it
    assert sizes[1][1] == pytest.approx(sizes[0][1] * 0.1, rel=0.01)


def test_init_from(checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path) -> None:
    finetune(str(checkpoint), tmp_path / "first", finetune_settings)
    second = with_train_settings(
        replace(finetune_settings, task="regress", label="mark", init_from=str(tmp_path / "first")),
        steps=2,
        warmup=1,
    )
    finetune(None, tmp_path / "second", second)
    with pytest.raises(InputError, match="two models to start from"):
        finetune(str(checkpoint), tmp_path / "third", second)


def test_random_weights(checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path) -> None:
    finetune(
        str(checkpoint),
        tmp_path / "run",
        with_train_settings(replace(finetune_settings, random_weights=True), steps=1, warmup=0, lr=0.0),
    )
    before, after = (dict(load(one).named_parameters()) for one in (checkpoint, tmp_path / "run"))
    name = "encoder.ffn.0.up.weight"
    assert before[name].shape == after[name].shape
    assert not torch.equal(before[name], after[name])


def test_held_out_split_without_dev(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finetune(
        str(checkpoint),
        tmp_path / "run",
        with_train_settings(replace(finetune_settings, dev=None), steps=2, warmup=1),
    )
    assert "20 of 200 examples held out for evaluation" in capsys.readouterr().err


def test_transformers_gives_same_probabilities(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    from albertine.inference.pipeline import pipeline

    finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    texts = [row["review"] for row in reviews(5, 20)]
    theirs = transformers.pipeline(
        "text-classification", model=str(tmp_path / "run"), device="cpu", top_k=None
    )
    ours = pipeline(tmp_path / "run", device="cpu", precision="fp32")
    told: Any = theirs(texts)
    for mine, other in zip(ours(texts), told, strict=True):
        expected = {one["label"]: one["score"] for one in other}
        assert mine["probabilities"] == pytest.approx(expected, abs=1e-5)


def test_evaluate_a_transformers_model(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    names = dict(enumerate(sorted(COLOURS)))
    model = AutoModelForSequenceClassification.from_pretrained(
        str(checkpoint), num_labels=3, id2label=names, label2id={name: at for at, name in names.items()}
    )
    tokenizer = AutoTokenizer.from_pretrained(str(checkpoint))
    rows = reviews(2, 60)
    with torch.no_grad():
        inputs = tokenizer([row["review"] for row in rows], padding=True, return_tensors="pt")
        right = [
            names[int(at)] == row["stars"]
            for at, row in zip(model(**inputs).logits.argmax(1), rows, strict=True)
        ]
    model.save_pretrained(tmp_path / "theirs")
    tokenizer.save_pretrained(tmp_path / "theirs")
    settings = EvaluateSettings(
        task="classify",
        data=finetune_settings.dev,
        text="review",
        label="stars",
        device="cpu",
        precision="fp32",
    )
    (found,) = evaluate([str(tmp_path / "theirs")], settings)
    assert found.metrics["accuracy"] == pytest.approx(sum(right) / 60, abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": None}, "--task is missing: cola, sst-2"),
        ({"data": None}, "--data is missing"),
        ({"data": "nowhere.csv"}, "nowhere.csv: no such file or folder"),
        ({"text": "body"}, "no column body; it has review, stars, mark"),
        ({"task": "cola"}, "no column text"),
        ({"label": "review"}, "labels in 260 examples; name the right column with --label"),
        ({"sequence": SequenceSettings(max_length=100)}, "the model takes at most 64 tokens"),
    ],
)
def test_finetune_errors(
    changes: dict[str, Any],
    message: str,
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
) -> None:
    if changes.get("task") == "cola":
        changes = {**changes, "text": "text"}
    with pytest.raises(InputError, match=message):
        finetune(str(checkpoint), tmp_path / "run", replace(finetune_settings, **changes))
    assert not (tmp_path / "run").exists()


def test_foreign_output_folder(checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "summer.jpg").write_bytes(b"sea")
    with pytest.raises(InputError, match="exists already and is no run"):
        finetune(str(checkpoint), tmp_path / "photos", finetune_settings)


def test_several_runs_need_their_own_folder(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=2, warmup=1))
    before = (tmp_path / "run/model.safetensors").read_bytes()
    with pytest.raises(InputError, match="is a single run; name another --out for several runs"):
        finetune(
            str(checkpoint),
            tmp_path / "run",
            with_train_settings(replace(finetune_settings, seeds=2), steps=2, warmup=1),
        )
    assert (tmp_path / "run/model.safetensors").read_bytes() == before


def test_resume_with_changed_dev_data(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=2, warmup=1))
    other = write_csv(tmp_path / "other.csv", reviews(7, 30))
    with pytest.raises(InputError, match="differ from those that the run started with"):
        finetune(
            str(checkpoint),
            tmp_path / "run",
            with_train_settings(replace(finetune_settings, dev=str(other)), steps=2, warmup=1),
        )


def test_label_only_in_held_out_split(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    rows = [*reviews(1, 30), {"review": "vu", "stars": "rare", "mark": 0}]
    data = str(write_csv(tmp_path / "rare.csv", rows))
    for seed in range(4):
        settings = with_train_settings(
            replace(finetune_settings, data=data, dev=None, held_out=0.5), steps=1, warmup=0, seed=seed
        )
        finetune(str(checkpoint), tmp_path / f"run-{seed}", settings)
        assert "rare" in load(tmp_path / f"run-{seed}").label_names


def test_kill_during_restart_discards_collapsed_run(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_MIN_STEPS_BEFORE_CHECK", 10)
    finetune_settings = with_train_settings(finetune_settings, lr=3.0, max_gradient_norm=0.0, warmup=1)
    whole = finetune(str(checkpoint), tmp_path / "whole", finetune_settings)

    class Killed(BaseException):
        pass

    for moment in range(2):
        calls = 0

        def rmtree(folder: Path, moment: int = moment) -> None:
            nonlocal calls
            calls += 1
            if calls > moment:
                raise Killed
            shutil.rmtree(folder)

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(running, "rmtree", rmtree)
            finetune(str(checkpoint), tmp_path / "run", finetune_settings)
    assert finetune(str(checkpoint), tmp_path / "run", finetune_settings) == whole


def test_model_is_required(finetune_settings: FinetuneSettings, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="MODEL is missing"):
        finetune(None, tmp_path / "run", finetune_settings)
    with pytest.raises(InputError, match="albert-base: a preset"):
        finetune("albert-base", tmp_path / "run", finetune_settings)


def test_losses_do_not_depend_on_micro_batches(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune_settings = replace(finetune_settings, classifier_dropout=0.0)
    for name, micro_batch_tokens in (("one", 10_000), ("many", 64)):
        finetune(
            str(checkpoint),
            tmp_path / name,
            with_train_settings(finetune_settings, steps=6, warmup=1, micro_batch_tokens=micro_batch_tokens),
        )
    losses = [
        [line["label_loss"] for line in read_metrics(tmp_path / run) if "label_loss" in line]
        for run in ("one", "many")
    ]
    assert all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(*losses, strict=True))


def test_task_json_and_config_labels_agree(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train_settings(finetune_settings, steps=2, warmup=1))
    config = json.loads((tmp_path / "run/config.json").read_text())
    card = json.loads((tmp_path / "run/task.json").read_text())
    assert [config["id2label"][str(at)] for at in range(3)] == card["labels"] == sorted(COLOURS)
