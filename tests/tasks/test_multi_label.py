"""Tests of multi-label classification: labels in tables, metrics, threshold, baseline, files, endpoints."""

import csv
import json
import random
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score
from sklearn.multiclass import OneVsRestClassifier

import albertine
from albertine.deploy.model_loading import load_served_model
from albertine.errors import InputError
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings
from albertine.inference.ensemble import evaluate_ensemble
from albertine.inference.evaluate import evaluate
from albertine.inference.predict import predict
from albertine.inference.settings import EnsembleSettings, EvaluateSettings, PredictSettings
from albertine.interop.load import load
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, SettingError
from albertine.settings.engine import EngineOptions
from albertine.tasks.baseline.baseline import predict_label_probabilities
from albertine.tasks.card import TaskCard, parse_card
from albertine.tasks.examples import MultiLabelExample
from albertine.tasks.metrics.multi_label import best_label_threshold, multi_label_metrics
from albertine.tasks.reading import load_examples
from albertine.tasks.registry import find_task
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.multi_label import MultiLabel
from albertine.text.tokenizer import load_tokenizer
from tests.task_fixtures import (
    random_words,
    save_untrained_model,
    with_train_settings,
    write_csv,
    write_jsonl,
)

LABELS = ("calm", "loud", "sweet")
SIGNALS = ("ka", "lo", "mi")


def read(file: Path, **columns: Any) -> list[tuple[str, ...] | None]:
    settings = DataSettings(**columns)
    examples = load_examples(find_task("multi-label"), str(file), "train", settings, require_labels=True)
    return [example.labels for example in examples if isinstance(example, MultiLabelExample)]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["loud|sweet", "loud", "rock, pop"], "the label loud|sweet seems to be several; "),
        (["loud|sweet", "loud", "rock, pop"], "--label-separator '|'"),
        (["loud", "sweet"], "every example has one label; --task classify learns to choose one of them"),
        (["loud", "sweet", ""], None),
        (["loud", "sweet; loud"], None),
    ],
)
def test_labels_that_are_no_sets_are_noticed(
    labels: list[str], message: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": f"song {n}", "label": labels[n % len(labels)]} for n in range(6)]
    data = str(write_csv(tmp_path / "a.csv", rows))
    task = find_task("multi-label")
    examples = load_examples(task, data, "train", DataSettings(), require_labels=True)
    capsys.readouterr()
    task.task_type.complete_card(TaskCard("multi-label", "multi-label"), examples, data)
    printed = capsys.readouterr().err
    assert message in printed if message else not printed


def test_labels_in_one_cell(tmp_path: Path) -> None:
    rows = [{"text": "x", "label": label} for label in ("b; a", "", "c", "a;a;", " ; ")]
    expected = [("b", "a"), (), ("c",), ("a",), ()]
    assert read(write_csv(tmp_path / "a.csv", rows)) == expected
    rows = [{**row, "label": row["label"].replace(";", "|")} for row in rows]
    assert read(write_csv(tmp_path / "b.csv", rows), label_separator="|") == expected
    lists = [{"text": "x", "label": label} for label in (["b", "a;b"], [], [1, 2.0], None, "a;b")]
    assert read(write_jsonl(tmp_path / "a.jsonl", lists)) == [
        ("b", "a;b"), (), ("1", "2"), (), ("a", "b")
    ]  # fmt: skip
    file = write_jsonl(tmp_path / "b.jsonl", [{"text": "x", "label": [["a"]]}])
    with pytest.raises(InputError, match="line 1: its label is list"):
        read(file)
    with pytest.raises(SettingError, match="label_separator"):
        DataSettings(label_separator=" ")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_labels_in_columns(suffix: str, tmp_path: Path) -> None:
    write = write_csv if suffix == ".csv" else write_jsonl
    values: list[tuple[Any, Any]] = [(1, 0), ("1", "0"), (True, False), (1.0, 0.0), (0, 0)]
    rows = [{"text": "x", "calm": first, "very,loud": second} for first, second in values]
    file = write(tmp_path / f"a{suffix}", rows)
    assert read(file, label="calm,very,loud") == [("calm",)] * 4 + [()]
    file = write(tmp_path / f"b{suffix}", [{"text": "x", "calm": 2, "loud": 0}])
    with pytest.raises(InputError, match=r"column calm holds .*2, expected 0 or 1"):
        read(file, label="calm,loud")
    with pytest.raises(InputError, match=r"no column lout \(did you mean loud\?\)"):
        read(file, label="calm,lout")


INDICATORS = st.integers(1, 4).flatmap(
    lambda labels: st.lists(
        st.tuples(st.lists(st.booleans(), min_size=labels, max_size=labels),
                  st.lists(st.integers(0, 5), min_size=labels, max_size=labels)),
        min_size=1, max_size=12,
    )
)  # fmt: skip


@pytest.mark.slow
@given(INDICATORS)
def test_metrics_and_threshold_match_scikit_learn(rows: list[tuple[list[bool], list[int]]]) -> None:
    truth = np.array([first for first, _ in rows])
    probabilities = np.array([second for _, second in rows]) / 5

    def scores(threshold: float) -> dict[str, float]:
        predicted = probabilities >= threshold
        metrics = multi_label_metrics(truth, predicted)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = {
                average: f1_score(truth.astype(int), predicted.astype(int), average=average, zero_division=0)
                if truth.shape[1] > 1
                else f1_score(truth[:, 0], predicted[:, 0], zero_division=0)
                for average in ("micro", "macro")
            }
        assert metrics["micro_f1"] == pytest.approx(expected["micro"])
        assert metrics["macro_f1"] == pytest.approx(expected["macro"])
        assert metrics["exact_match"] == pytest.approx(
            accuracy_score(truth.astype(int), predicted.astype(int))
        )
        return metrics

    best = best_label_threshold(truth, probabilities)
    candidates = [scores(threshold)["micro_f1"] for threshold in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.1)]
    assert 0 <= best <= 1
    if truth.any():
        assert scores(best)["micro_f1"] == pytest.approx(max(candidates))
    else:
        assert best == 0.5


def rows_of(seed: int, count: int) -> list[dict[str, Any]]:
    """Return texts in which each label has a word of its own."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        labels = [label for label in LABELS if rng.random() < 0.4]
        words = [SIGNALS[LABELS.index(label)] for label in labels for _ in range(2)]
        words += random_words(rng, rng.randint(1, 3))
        rows.append({"text": " ".join(words), "label": ";".join(labels)})
    return rows


def examples_of(seed: int, count: int) -> list[MultiLabelExample]:
    return [
        MultiLabelExample("", str(index), (row["text"],), labels=tuple(filter(None, row["label"].split(";"))))
        for index, row in enumerate(rows_of(seed, count))
    ]


@pytest.mark.parametrize("balanced", [False, True])
def test_baseline_is_one_logistic_regression_per_label(balanced: bool) -> None:
    from sklearn.linear_model import LogisticRegression

    from albertine.tasks.baseline.features import TextFeatures

    train, dev = examples_of(1, 80), examples_of(2, 40)
    features = TextFeatures(train, 1 << 20)

    def dense(examples: list[MultiLabelExample]) -> np.ndarray[Any, Any]:
        rows = features.rows(examples)
        return np.stack([rows.dot(column) for column in np.eye(rows.width)], axis=1)[:, :-1]

    truth = np.array([[label in (example.labels or ()) for label in LABELS] for example in train]).astype(int)
    one = LogisticRegression(C=10, tol=1e-8, max_iter=10_000, class_weight="balanced" if balanced else None)
    model = OneVsRestClassifier(one).fit(dense(train), truth)
    labels, probabilities = predict_label_probabilities(train, dev, balanced=balanced)
    assert labels == list(LABELS)
    np.testing.assert_allclose(probabilities, model.predict_proba(dense(dev)), atol=1e-3)
    labels, probabilities = predict_label_probabilities([replace(train[0], labels=())], dev[:1])
    assert (labels, probabilities.shape) == ([], (1, 0))
    labels, probabilities = predict_label_probabilities([replace(train[0], labels=("a",))], dev[:1])
    assert labels == ["a"]
    assert probabilities[0, 0] > 0.5


def test_the_baseline_has_the_best_threshold_on_dev(tokenizer: Path) -> None:
    train, dev = examples_of(1, 80), examples_of(2, 40)
    _, probabilities = predict_label_probabilities(train, dev)
    truth = np.array([[label in (example.labels or ()) for label in LABELS] for example in dev])
    best = max(
        float(
            2
            * (truth & (probabilities >= threshold)).sum()
            / (truth.sum() + (probabilities >= threshold).sum())
        )
        for threshold in probabilities.ravel()
    )
    task_type = MultiLabel(load_tokenizer(tokenizer), LABELS, 20, 0.0, 0.5)
    metrics = task_type.compute_metrics(dev, MultiLabel.baseline_predictions(train, dev))
    assert metrics["micro_f1"] == pytest.approx(best)


@pytest.fixture(scope="module")
def tuned(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with dev.csv and, in `run`, a model with exits that predicts the labels."""
    folder = tmp_path_factory.mktemp("multi-label")
    settings = FinetuneSettings(
        task="multi-label",
        data=str(write_csv(folder / "train.csv", rows_of(3, 200))),
        dev=str(write_csv(folder / "dev.csv", rows_of(4, 60))),
        device="cpu",
    )
    settings = with_train_settings(
        settings, steps=120, batch_size=16, lr=2e-2, warmup=10, optimizer="muon", precision="fp32",
        evaluate_every=40, exits=True,
    )  # fmt: skip
    results = finetune(str(checkpoint), folder / "run", settings)
    assert results.best.metrics["micro_f1"] > 0.9
    assert results.baseline is not None
    assert set(results.baseline.metrics) == {"micro_f1", "macro_f1", "exact_match"}
    return folder


def test_tuned_model(tuned: Path, tmp_path: Path) -> None:
    card = parse_card(tuned / "run" / "task.json")
    assert card.labels == LABELS
    assert 0 < card.label_threshold < 1
    (result,) = evaluate(tuned / "run", EvaluateSettings(data=str(tuned / "dev.csv"), device="cpu"))
    settings = PredictSettings(data=str(tuned / "dev.csv"), device="cpu", keep="label")
    assert predict(tuned / "run", settings, tmp_path / "a.csv") == 60
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()))
    truth, predicted = (
        np.array([[label in row[column].split(";") for label in LABELS] for row in rows]).astype(int)
        for column in ("label", "labels")
    )
    assert result.metrics["micro_f1"] == pytest.approx(f1_score(truth, predicted, average="micro"))
    assert result.metrics["macro_f1"] == pytest.approx(f1_score(truth, predicted, average="macro"))
    assert result.metrics["exact_match"] == pytest.approx(accuracy_score(truth, predicted))
    probabilities = json.loads(rows[0]["probabilities"])
    assert [label for label, one in probabilities.items() if one >= card.label_threshold] == (
        rows[0]["labels"].split(";") if rows[0]["labels"] else []
    )
    for rule in ("confidence:0.9", "patience:1"):
        exits = EvaluateSettings(data=str(tuned / "dev.csv"), device="cpu", exit=rule)
        (with_exits,) = evaluate(tuned / "run", exits)
        assert with_exits.mean_depth is not None
        assert with_exits.metrics["micro_f1"] > 0.5
    new = str(write_csv(tmp_path / "new.csv", [{"text": "ka ka", "label": "new"}]))
    with pytest.raises(InputError, match="label new is not one of the model's: calm, loud, sweet"):
        evaluate(tuned / "run", EvaluateSettings(data=new, device="cpu"))


def test_exit_rules_judge_the_labels_that_are_predicted(tuned: Path, tmp_path: Path) -> None:
    """With a threshold of 0, all labels are predicted, also those that are improbable."""
    shutil.copytree(tuned / "run", tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    card = parse_card(tmp_path / "run" / "task.json")
    replace(card, label_threshold=0.0).write(tmp_path / "run")
    texts = [row["text"] for row in csv.DictReader((tuned / "dev.csv").read_text().splitlines())]
    fitted, permissive = (
        albertine.pipeline(run / "run", device="cpu", precision="fp32", exit="confidence:0.6")(texts)
        for run in (tuned, tmp_path)
    )
    assert min(one["depth"] for one in fitted) == 1  # all labels are probable or improbable
    early = [one for one in permissive if one["depth"] == 1]
    assert all(min(one["probabilities"].values()) >= 0.6 for one in early)
    assert len(early) < len(texts)


def test_labels_are_written_with_the_separator_of_the_training_data(tuned: Path, tmp_path: Path) -> None:
    shutil.copytree(tuned / "run", tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    card = parse_card(tmp_path / "run" / "task.json")
    replace(card, columns={"label_separator": "/"}, label_threshold=0.0).write(tmp_path / "run")
    predict(tmp_path / "run", PredictSettings(data=str(tuned / "dev.csv"), device="cpu"), tmp_path / "a.csv")
    rows = list(csv.DictReader((tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0]["labels"] == "/".join(LABELS)


def test_transformers_reads_it_and_is_read(tuned: Path, tmp_path: Path) -> None:
    config = json.loads((tuned / "run" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    peer: Any = transformers.AutoModelForSequenceClassification.from_pretrained(tuned / "run").eval()
    ids = [2, 9, 8, 7, 3]
    model = load(tuned / "run").eval()
    targets = torch.tensor([[1.0, 0.0, 1.0]])
    with torch.no_grad():
        expected = peer(torch.tensor([ids]), labels=targets)
        output = model(Strip.from_sequences([ids]), targets)
    assert torch.allclose(output.logits, expected.logits, atol=1e-5)
    assert float(output.loss) == pytest.approx(float(expected.loss), rel=1e-5)
    # A folder that transformers saved, without anything of ours.
    peer.save_pretrained(tmp_path / "peer")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "peer" / name).write_bytes((tuned / "run" / name).read_bytes())
    config = json.loads((tmp_path / "peer" / "config.json").read_text())
    config.pop("albertine", None)
    (tmp_path / "peer" / "config.json").write_text(json.dumps(config))
    ours = albertine.pipeline(tmp_path / "peer", device="cpu", precision="fp32")
    own = albertine.pipeline(tuned / "run", device="cpu", precision="fp32")
    probabilities = ours("ka ka lo lo")["probabilities"]
    assert list(probabilities) == list(LABELS)
    assert probabilities == pytest.approx(own("ka ka lo lo")["probabilities"], abs=1e-5)


def test_ensemble_fits_its_own_threshold(tuned: Path, tmp_path: Path) -> None:
    card = parse_card(tuned / "run" / "task.json")
    settings = EnsembleSettings(data=str(tuned / "dev.csv"), device="cpu", selection="all")
    other = save_untrained_model(
        tmp_path / "other", tuned / "run", HeadSettings("multi-label", labels=3), card
    )
    result = evaluate_ensemble([str(tuned / "run"), str(other)], settings, save=tmp_path / "both")
    (evaluated,) = evaluate(tmp_path / "both", EvaluateSettings(data=str(tuned / "dev.csv"), device="cpu"))
    assert evaluated.metrics == pytest.approx(result.metrics)
    assert parse_card(tmp_path / "both" / "task.json").label_threshold != card.label_threshold


def test_pipeline_and_endpoint(tuned: Path) -> None:
    pipeline = albertine.pipeline(tuned / "run", device="cpu")
    assert pipeline("ka ka ka")["labels"] == ["calm"]
    texts = [row["text"] for row in rows_of(3, 20)]
    predicted = [prediction["labels"] for prediction in pipeline(texts)]
    assert predicted == [pipeline(text)["labels"] for text in texts]
    expected = [row["label"].split(";") if row["label"] else [] for row in rows_of(3, 20)]
    assert sum(one == other for one, other in zip(predicted, expected, strict=True)) >= 18
    served = load_served_model(str(tuned / "run"), EngineOptions("cpu", "fp32"))
    (endpoint,) = served.endpoints.values()
    assert (endpoint.type_name, endpoint.classifies) == ("multi-label", True)
    assert served.classifier is endpoint
    (result,) = endpoint.process_batch([endpoint.parse_item({"text": "ka ka ka"})[0]])
    assert result.output["labels"] == ["calm"]
    assert endpoint.process_logits is not None


def test_card_checks_the_threshold(checkpoint: Path, tmp_path: Path) -> None:
    card = TaskCard("multi-label", "multi-label", LABELS, label_threshold=1.5, max_length=64)
    folder = save_untrained_model(tmp_path / "m", checkpoint, HeadSettings("multi-label", labels=3), card)
    with pytest.raises(InputError, match=r"label_threshold = 1.5: must be a probability"):
        albertine.pipeline(folder, device="cpu")


def test_wrong_labels_are_errors(checkpoint: Path, tmp_path: Path) -> None:
    rows = [{"text": "x", "label": ""}, {"text": "y", "label": ";"}]
    settings = FinetuneSettings(
        task="multi-label", data=str(write_csv(tmp_path / "a.csv", rows)), device="cpu"
    )
    with pytest.raises(InputError, match="no example has a label; name the right column with --label"):
        finetune(str(checkpoint), tmp_path / "out", settings)
    rows = [{"text": f"x {number}", "label": f"label {number}"} for number in range(1001)]
    settings = replace(settings, data=str(write_csv(tmp_path / "b.csv", rows)))
    with pytest.raises(InputError, match="1,001 labels, such as label 0; at most 1,000"):
        finetune(str(checkpoint), tmp_path / "out", settings)
