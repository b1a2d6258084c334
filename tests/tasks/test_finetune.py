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

from albertine.errors import InputError
from albertine.interop.load import load
from albertine.tasks import run as running
from albertine.tasks.evaluate import evaluate
from albertine.tasks.finetune import finetune
from albertine.tasks.settings import EvaluateSettings, FinetuneSettings, Grid, ReadingTask, SweepSettings
from albertine.tasks.view import show_outcomes
from albertine.tasks.work import Tuning
from albertine.train.journal import read_journal
from tests.tasks.conftest import COLOURS, reviews, with_train, words, write_csv, write_jsonl


def best_of(run: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((run / "results.json").read_text())["median"]
    return found


def test_a_run_learns_and_its_folder_is_the_best_model(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
) -> None:
    asked = with_train(asked, steps=100, optimizer="muon", lr=2e-2)
    task, (outcome,) = finetune(str(checkpoint), tmp_path / "run", asked)
    assert task == "classify"
    assert outcome.scores["accuracy"] == 1.0
    assert best_of(tmp_path / "run") == outcome.scores
    (found,) = evaluate(
        [str(tmp_path / "run")], EvaluateSettings(data=asked.dev, device="cpu", precision="fp32"), frozenset()
    )
    assert found.scores == outcome.scores
    assert load(tmp_path / "run").labels == tuple(sorted(COLOURS))


@pytest.mark.parametrize("kind", ["regress", "tag", "span", "choice"])
def test_every_kind_learns(kind: str, checkpoint: Path, asked: FinetuneSettings, tmp_path: Path) -> None:
    def rows(seed: int, count: int) -> list[dict[str, Any]]:
        draw = random.Random(seed)
        made: list[dict[str, Any]] = []
        for _ in range(count):
            some = words(draw, 5)
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
        settings = replace(asked, task=kind, label="mark")
    else:
        settings = replace(
            asked,
            task=kind,
            text="text",
            label="label",
            data=str(write_jsonl(tmp_path / "train.jsonl", rows(1, 300))),
            dev=str(write_jsonl(tmp_path / "dev.jsonl", rows(2, 50))),
        )
    settings = with_train(settings, steps=350, evaluate_every=50, optimizer="muon", lr=1e-2)
    _, (outcome,) = finetune(str(checkpoint), tmp_path / "run", settings)
    name = {"regress": "pearson", "tag": "f1", "span": "exact", "choice": "accuracy"}[kind]
    assert outcome.scores[name] > 0.85
    (found,) = evaluate(
        [str(tmp_path / "run")],
        EvaluateSettings(data=settings.dev, device="cpu", precision="fp32"),
        frozenset(),
    )
    assert found.scores == pytest.approx(outcome.scores)


def test_broken_off_a_run_goes_on_to_the_same_weights(
    checkpoint: Path,
    asked: FinetuneSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = with_train(asked, save_every=7, optimizer="muon")
    asked = replace(asked, dropout=0.1)
    finetune(str(checkpoint), tmp_path / "whole", asked)

    class Pulled(Exception):  # noqa: N818
        pass

    taken = Tuning.share
    for stop in (11, 40):

        def share(self: Tuning, step: int, stop: int = stop) -> Any:
            if step == stop:
                raise Pulled
            return taken(self, step)

        with monkeypatch.context() as patch, pytest.raises(Pulled):
            patch.setattr(Tuning, "share", share)
            finetune(str(checkpoint), tmp_path / "run", asked)
    assert "freshly drawn" in capsys.readouterr().err
    finetune(str(checkpoint), tmp_path / "run", asked)
    assert "freshly drawn" not in capsys.readouterr().err
    assert best_of(tmp_path / "run") == best_of(tmp_path / "whole")
    for name in ("model.safetensors", "task.json", "config.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    losses = [
        [line["label_loss"] for line in read_journal(tmp_path / run) if "label_loss" in line]
        for run in ("run", "whole")
    ]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 60


def test_a_finished_run_stays_as_it_is(checkpoint: Path, asked: FinetuneSettings, tmp_path: Path) -> None:
    first = finetune(str(checkpoint), tmp_path / "run", asked)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("step-*/*")}
    assert finetune(str(checkpoint), tmp_path / "run", asked) == first
    assert before == {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("step-*/*")}


def test_other_settings_or_examples_are_refused(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train(asked, steps=4, warmup=1))
    with pytest.raises(InputError, match=r"a run with train.steps = 4, not 5"):
        finetune(str(checkpoint), tmp_path / "run", with_train(asked, steps=5, warmup=1))
    Path(asked.data or "").write_text(Path(asked.data or "").read_text().replace("ka ka ka", "ka ka lo"))
    with pytest.raises(InputError, match="the examples are not those that the run began with"):
        finetune(str(checkpoint), tmp_path / "run", with_train(asked, steps=4, warmup=1))


def test_it_ends_early_when_it_gets_no_better(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = with_train(asked, steps=600, evaluate_every=10, patience=3)
    _, (outcome,) = finetune(str(checkpoint), tmp_path / "run", asked)
    last = max(line["step"] for line in read_journal(tmp_path / "run"))
    assert last == outcome.step + 30 < 600
    assert f"no better than at step {outcome.step:,} for long enough" in capsys.readouterr().err
    assert finetune(str(checkpoint), tmp_path / "run", asked)[1] == [outcome]  # and stays ended


def test_seeds_are_runs_of_their_own_and_the_median_is_told(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = with_train(replace(asked, seeds=3), steps=10, evaluate_every=10, lr=1e-3)
    _, outcomes = finetune(str(checkpoint), tmp_path / "run", asked)
    assert [one.name for one in outcomes] == ["seed-0", "seed-1", "seed-2"]
    weights = {(tmp_path / "run" / one.name / "model.safetensors").read_bytes() for one in outcomes}
    assert len(weights) == 3
    scores = sorted(one.scores["accuracy"] for one in outcomes)
    assert best_of(tmp_path / "run")["accuracy"] == scores[1]
    show_outcomes(tmp_path / "run", "classify", outcomes, as_json=False)
    told = " ".join(capsys.readouterr().out.split())
    assert f"median accuracy {100 * scores[1]:.1f}, macro_f1" in told
    assert "\u2026" not in told  # nothing is cut
    best = max(outcomes, key=lambda one: one.scores["accuracy"]).name
    assert (tmp_path / "run/model.safetensors").read_bytes() == (
        tmp_path / "run" / best / "model.safetensors"
    ).read_bytes()


def test_a_sweep_tries_all_and_keeps_the_best(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
) -> None:
    grid = Grid(lr="1e-6, 1x", batch="8, 1x", dropout="0")
    settings = SweepSettings(**{**vars(with_train(asked, steps=40)), "grid": grid})
    _, outcomes = finetune(str(checkpoint), tmp_path / "run", settings, sweep=True)
    assert {(one.lr, one.batch, one.steps) for one in outcomes} == {
        (1e-6, 8, 80),
        (1e-6, 16, 40),
        (3e-3, 8, 80),
        (3e-3, 16, 40),
    }
    found = json.loads((tmp_path / "run/results.json").read_text())
    assert found["best"].startswith("lr-0.003")
    assert len(found["runs"]) == 4
    with pytest.raises(InputError, match="must be numbers"):
        Grid(lr="fast")
    for key, text in (("lr", "nan"), ("lr", "-1e-5"), ("batch", "0"), ("batch", "0x"), ("dropout", "5")):
        with pytest.raises(InputError, match=f'{key} = "{text}": each must be'):
            Grid(**{key: text})


def test_a_run_that_collapses_starts_again_more_gently(
    checkpoint: Path,
    asked: FinetuneSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(running, "_LEAST_STEPS", 10)
    _, (outcome,) = finetune(str(checkpoint), tmp_path / "run", with_train(asked, lr=3.0, clip=0.0, warmup=1))
    told = capsys.readouterr().err
    assert "collapsed, every answer is" in told
    assert "starting again at 0.5 of the rate, with 2 times the warm-up" in told
    assert outcome.restarts == 2
    assert outcome.lr == 0.75
    capsys.readouterr()
    # What it had learned of itself is not forgotten with the process.
    assert finetune(str(checkpoint), tmp_path / "run", with_train(asked, lr=3.0, clip=0.0, warmup=1))[1] == [
        outcome
    ]


def test_lower_layers_may_move_less_or_not_at_all(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
) -> None:
    before = dict(load(checkpoint, "classify").named_parameters())
    finetune(
        str(checkpoint), tmp_path / "frozen", with_train(asked, steps=5, warmup=1, freeze_embeddings=True)
    )
    after = dict(load(tmp_path / "frozen/trainer/step-00000005").named_parameters())
    moved = {name for name in after if name in before and not torch.equal(before[name], after[name])}
    assert not any(name.startswith("encoder.embedding.") for name in moved)
    assert any(name.startswith("encoder.ffn.") for name in moved)
    sizes = []
    for decay in (1.0, 0.1):
        settings = with_train(asked, steps=1, warmup=0, layer_decay=decay, weight_decay=0.0, evaluate_every=1)
        finetune(str(checkpoint), tmp_path / f"{decay}", settings)
        newest = next((tmp_path / f"{decay}" / "trainer").glob("step-00000001"))
        found = dict(load(newest).named_parameters())
        sizes.append(
            [float((found[name] - before[name]).detach().abs().max()) for name in (
                "encoder.embedding.tokens.weight", "encoder.ffn.0.up.weight"
            )]
        )  # fmt: skip
    assert sizes[1][0] == pytest.approx(sizes[0][0] * 0.1**3, rel=0.01)  # two layers and the head above it
    assert sizes[1][1] == pytest.approx(sizes[0][1] * 0.1, rel=0.01)


def test_a_run_starts_from_another_tasks(checkpoint: Path, asked: FinetuneSettings, tmp_path: Path) -> None:
    finetune(str(checkpoint), tmp_path / "first", asked)
    second = with_train(
        replace(asked, task="regress", label="mark", init_from=str(tmp_path / "first")), steps=2, warmup=1
    )
    finetune(None, tmp_path / "second", second)
    with pytest.raises(InputError, match="two models to start from"):
        finetune(str(checkpoint), tmp_path / "third", second)


def test_fresh_weights_are_those_of_nobody(checkpoint: Path, asked: FinetuneSettings, tmp_path: Path) -> None:
    finetune(
        str(checkpoint), tmp_path / "run", with_train(replace(asked, fresh=True), steps=1, warmup=0, lr=0.0)
    )
    before, after = (dict(load(one).named_parameters()) for one in (checkpoint, tmp_path / "run"))
    name = "encoder.ffn.0.up.weight"
    assert before[name].shape == after[name].shape
    assert not torch.equal(before[name], after[name])


def test_a_part_is_held_out_where_there_is_no_dev(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train(replace(asked, dev=None), steps=2, warmup=1))
    assert "20 of 200 examples held out to measure on" in capsys.readouterr().err


def test_it_opens_in_transformers_with_the_same_scores(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
) -> None:
    from albertine.tasks.pipeline import pipeline

    finetune(str(checkpoint), tmp_path / "run", asked)
    texts = [row["review"] for row in reviews(5, 20)]
    theirs = transformers.pipeline(
        "text-classification", model=str(tmp_path / "run"), device="cpu", top_k=None
    )
    ours = pipeline(tmp_path / "run", device="cpu", precision="fp32")
    told: Any = theirs(texts)
    for mine, other in zip(ours(texts), told, strict=True):
        expected = {one["label"]: one["score"] for one in other}
        assert mine["probabilities"] == pytest.approx(expected, abs=1e-5)


def test_what_transformers_tuned_is_evaluated_here(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
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
        task="classify", data=asked.dev, text="review", label="stars", device="cpu", precision="fp32"
    )
    (found,) = evaluate([str(tmp_path / "theirs")], settings, frozenset({"text", "label"}))
    assert found.scores["accuracy"] == pytest.approx(sum(right) / 60, abs=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": None}, "--task is missing: cola, sst-2"),
        ({"data": None}, "--data is missing"),
        ({"data": "nowhere.csv"}, "nowhere.csv: no such file or folder"),
        ({"text": "body"}, "no column body; it has review, stars, mark"),
        ({"task": "cola"}, "no column text"),
        ({"label": "review"}, "labels in 260 examples; name the right column with --label"),
        ({"reading": ReadingTask(max_length=100)}, "the model takes 64 pieces"),
    ],
)
def test_what_cannot_be_is_refused(
    changes: dict[str, Any], message: str, checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
) -> None:
    if changes.get("task") == "cola":
        changes = {**changes, "text": "text"}
    with pytest.raises(InputError, match=message):
        finetune(str(checkpoint), tmp_path / "run", replace(asked, **changes))
    assert not (tmp_path / "run").exists()


def test_a_folder_of_something_else_is_refused(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "summer.jpg").write_bytes(b"sea")
    with pytest.raises(InputError, match="exists already and is no run"):
        finetune(str(checkpoint), tmp_path / "photos", asked)


def test_several_runs_do_not_go_into_the_folder_of_one(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train(asked, steps=2, warmup=1))
    before = (tmp_path / "run/model.safetensors").read_bytes()
    with pytest.raises(InputError, match="is a run; several of them need a folder of their own"):
        finetune(str(checkpoint), tmp_path / "run", with_train(replace(asked, seeds=2), steps=2, warmup=1))
    assert (tmp_path / "run/model.safetensors").read_bytes() == before


def test_a_run_measured_on_other_examples_is_refused(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train(asked, steps=2, warmup=1))
    other = write_csv(tmp_path / "other.csv", reviews(7, 30))
    with pytest.raises(InputError, match="not those that the run began with"):
        finetune(
            str(checkpoint), tmp_path / "run", with_train(replace(asked, dev=str(other)), steps=2, warmup=1)
        )


def test_a_rare_label_may_be_held_out(checkpoint: Path, asked: FinetuneSettings, tmp_path: Path) -> None:
    rows = [*reviews(1, 30), {"review": "vu", "stars": "rare", "mark": 0}]
    data = str(write_csv(tmp_path / "rare.csv", rows))
    for seed in range(4):
        settings = with_train(replace(asked, data=data, dev=None, held_out=0.5), steps=1, warmup=0, seed=seed)
        finetune(str(checkpoint), tmp_path / f"run-{seed}", settings)
        assert "rare" in load(tmp_path / f"run-{seed}").labels


def test_killed_while_it_starts_anew_it_does_not_go_on_with_what_collapsed(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "_LEAST_STEPS", 10)
    asked = with_train(asked, lr=3.0, clip=0.0, warmup=1)
    _, whole = finetune(str(checkpoint), tmp_path / "whole", asked)

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
            patch.setattr("albertine.tasks.run.rmtree", rmtree)
            finetune(str(checkpoint), tmp_path / "run", asked)
    assert finetune(str(checkpoint), tmp_path / "run", asked)[1] == whole


def test_a_model_to_start_from_is_needed(asked: FinetuneSettings, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="MODEL is missing"):
        finetune(None, tmp_path / "run", asked)
    with pytest.raises(InputError, match="albert-base: a preset"):
        finetune("albert-base", tmp_path / "run", asked)


def test_losses_are_means_over_examples_however_a_step_is_cut(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
) -> None:
    asked = replace(asked, classifier_dropout=0.0)
    for name, at_once in (("one", 10_000), ("many", 64)):
        finetune(str(checkpoint), tmp_path / name, with_train(asked, steps=6, warmup=1, at_once=at_once))
    losses = [
        [line["label_loss"] for line in read_journal(tmp_path / run) if "label_loss" in line]
        for run in ("one", "many")
    ]
    assert all(math.isclose(a, b, rel_tol=1e-4) for a, b in zip(*losses, strict=True))


def test_labels_in_a_card_and_a_config_agree(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path
) -> None:
    finetune(str(checkpoint), tmp_path / "run", with_train(asked, steps=2, warmup=1))
    config = json.loads((tmp_path / "run/config.json").read_text())
    card = json.loads((tmp_path / "run/task.json").read_text())
    assert [config["id2label"][str(at)] for at in range(3)] == card["labels"] == sorted(COLOURS)
