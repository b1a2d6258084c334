"""Exit rules in evaluation, prediction and pipelines: depths, messages, and wrong input."""

import json
import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.task_fixtures import MODEL, reviews, with_train_settings, write_csv

from albertine import progress
from albertine.cli import app
from albertine.command import run_command
from albertine.deploy.model_loading import load_served_model
from albertine.deploy.settings import ServeSettings
from albertine.export.export import export
from albertine.export.settings import ExportSettings
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings
from albertine.inference.ensemble_model import create_ensemble, write_ensemble
from albertine.inference.evaluate import evaluate
from albertine.inference.exit_curve import ExitCurve, cautious_point, measure_exits, recommended_point
from albertine.inference.exit_points import ExitPoint, measure_points
from albertine.inference.finetuned_model import load_finetuned
from albertine.inference.pipeline import Pipeline, pipeline
from albertine.inference.read_split import read_split
from albertine.inference.settings import EvaluateSettings
from albertine.inference.show_exit_curve import exit_advice
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings, ModelSettings, SettingError
from albertine.settings.engine import EngineOptions
from albertine.settings.exit_rule import ExitRule, make_exit_rule
from albertine.settings.model import HeadKind
from albertine.tasks.card import TaskCard
from albertine.tasks.metrics.intervals import Estimate, ratio_estimate
from albertine.text.tokenizer import load_tokenizer

DEEP = replace(MODEL, layers=5)
TEXTS = [row["review"] for row in reviews(3, 40)]


def save_random_model(
    folder: Path, checkpoint: Path, head: HeadSettings, card: TaskCard, model_settings: ModelSettings = DEEP
) -> Path:
    """Write a model with weights so large that its predictions differ; return its folder."""
    model, generator = Model(model_settings, head, seed=3), torch.Generator().manual_seed(2)
    model.label_names = card.labels
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.15)
    save_folder(model, folder, tokenizer=load_tokenizer(checkpoint))
    card.write(folder)
    return folder


@pytest.fixture(scope="session")
def classifier(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    labels = ("blue", "green", "red")
    card = TaskCard("classify", "classify", labels, ("accuracy",), max_length=64, columns={"text": "review"})
    head = HeadSettings("classify", labels=3, exits="shared")
    return save_random_model(tmp_path_factory.mktemp("exits") / "classifier", checkpoint, head, card)


@pytest.fixture(scope="session")
def regressor(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    card = TaskCard("regress", "regress", (), ("pearson", "spearman"), max_length=64, target_scale=4.0)
    head = HeadSettings("regress", labels=1, exits="own")
    return save_random_model(tmp_path_factory.mktemp("exits") / "regressor", checkpoint, head, card)


def depths(predictions: Sequence[dict[str, Any]]) -> list[float]:
    return [prediction["depth"] for prediction in predictions]


@pytest.mark.parametrize("rule", ["patience:1", "patience:2", "confidence:0.52"])
def test_a_batch_has_the_labels_and_depths_of_single_texts(rule: str, classifier: Path) -> None:
    classify = pipeline(classifier, device="cpu", precision="fp32", exit=rule)
    together = classify(TEXTS)
    alone = [classify(text) for text in TEXTS]
    assert [one["label"] for one in together] == [one["label"] for one in alone]
    assert depths(together) == depths(alone)
    assert min(depths(together)) < max(depths(together)) <= 5
    for one, other in zip(together, alone, strict=True):
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)


@hypothesis_settings(deadline=None, max_examples=25)
@given(
    st.lists(st.text("kalomiren .", max_size=60), min_size=1, max_size=12),
    st.sampled_from(["patience:1", "patience:3", "confidence:0.6"]),
)
def test_any_texts_exit_as_they_do_alone(classifier: Path, texts: list[str], rule: str) -> None:
    loaded = load_finetuned(classifier, EngineOptions("cpu", "fp32"), exit_rule=make_exit_rule(rule))
    classify = Pipeline(loaded)
    near_ties = 0
    for together, text in zip(classify(texts), texts, strict=True):
        alone = classify(text)
        if (together["label"], together["depth"]) == (alone["label"], alone["depth"]):
            assert together["probability"] == pytest.approx(alone["probability"], abs=1e-5)
        else:  # sums in another order exchanged two probabilities, at some step
            assert any(is_near_tie(classifier, text, depth) for depth in range(1, DEEP.layers + 1))
            near_ties += 1
    assert near_ties <= 1


def is_near_tie(folder: Path, text: str, depth: int) -> bool:
    """Return whether two labels are nearly tied after a step of depth, or one is nearly at 0.6."""
    prediction = pipeline(folder, device="cpu", precision="fp32", depth=depth)(text)
    *_, second, first = sorted(prediction["probabilities"].values())
    return bool(first - second < 1e-4 or abs(first - 0.6) < 1e-4)


@pytest.mark.parametrize(("kind", "rule"), [("classify", "learned:0.53"), ("regress", "learned:0.83")])
def test_a_learned_exit(
    kind: HeadKind, rule: str, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a pipeline, a server, an ensemble, `evaluate` and `predict`."""
    labels = ("blue", "green", "red") if kind == "classify" else ()
    metrics = ("accuracy",) if labels else ("pearson", "spearman")
    card = TaskCard(kind, kind, labels, metrics, max_length=64, columns={"text": "review"})
    head = HeadSettings(kind, labels=max(1, len(labels)), exits="shared", learned_exit=True)
    model = save_random_model(tmp_path / "model", checkpoint, head, card)
    predict = pipeline(model, device="cpu", precision="fp32", exit=rule)
    together, alone = predict(TEXTS), [predict(text) for text in TEXTS]
    assert depths(together) == depths(alone)
    assert min(depths(together)) < max(depths(together)) <= 5
    name = "probability" if kind == "classify" else "value"
    assert [one[name] for one in together] == pytest.approx([one[name] for one in alone], abs=1e-5)
    served = load_served_model(str(model), EngineOptions("cpu", "fp32"), make_exit_rule(rule))
    endpoint = served.endpoints["/predict"]
    results = endpoint.process_batch([endpoint.parse_item({"text": text})[0] for text in TEXTS])
    assert [result.output for result in results] == together
    members = [load_finetuned(model, EngineOptions("cpu")) for _ in range(2)]
    write_ensemble(create_ensemble("both", card, members, [1.0, 1.0]), tmp_path / "both")
    both = pipeline(tmp_path / "both", device="cpu", precision="fp32", exit=rule)
    assert depths(both(TEXTS)) == depths(together)
    data = write_csv(tmp_path / "dev.csv", reviews(3, 40))
    common = [str(model), "--data", str(data), "--text", "review", "--device", "cpu", "--precision", "fp32"]
    common += ["--exit", rule]
    out, label = tmp_path / "out.jsonl", "stars" if kind == "classify" else "mark"
    assert run_command(app, ["predict", *common, "--out", str(out)]) == 0
    assert depths([json.loads(line) for line in out.read_text().splitlines()]) == depths(together)
    capsys.readouterr()
    assert run_command(app, ["evaluate", *common, "--label", label, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["mean_depth"] == pytest.approx(fmean(depths(together)))


def test_without_a_rule_predictions_have_no_depth(classifier: Path) -> None:
    prediction = pipeline(classifier, device="cpu", precision="fp32")("ka lo")
    assert "depth" not in prediction
    full = pipeline(classifier, device="cpu", precision="fp32", depth=5)("ka lo")
    assert full == {**prediction, "depth": 5}


def test_threads_may_share_a_pipeline(classifier: Path) -> None:
    classify = pipeline(classifier, device="cpu", precision="fp32", exit="patience:1")
    expected = classify(TEXTS)
    results: list[Any] = [None] * 4

    def run(index: int) -> None:
        results[index] = classify(TEXTS)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_numbers_have_a_tolerance(regressor: Path) -> None:
    mean_depths = [
        fmean(depths(pipeline(regressor, device="cpu", precision="fp32", exit=rule)(TEXTS)))
        for rule in ("patience:1:0", "patience:1", "patience:1:5", "patience:1:1e9")
    ]
    assert mean_depths == sorted(mean_depths, reverse=True)
    assert mean_depths[0] > mean_depths[-1] == 2
    rule = load_finetuned(regressor, EngineOptions("cpu"), exit_rule=ExitRule(patience=1)).exit_rule
    assert rule is not None
    assert rule.tolerance == pytest.approx(0.05 * 4.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--exit", "patience"],
            "--exit patience: must be patience:K or patience:K:T with K from 1 to 1,000 and T at least 0,",
        ),
        (["--exit", "patience:0"], "--exit patience:0: must be"),
        (["--exit", "patience:1.5"], "--exit patience:1.5: must be"),
        (["--exit", "patience:2:-1"], "--exit patience:2:-1: must be"),
        (["--exit", "patience:2:nan"], "--exit patience:2:nan: must be"),
        (["--exit", "confidence:1.01"], "--exit confidence:1.01: must be"),
        (["--exit", "confidence:nan"], "--exit confidence:nan: must be"),
        (["--exit", "confidence:"], "--exit confidence:: must be"),
        (["--exit", "learned"], "has no exit unit, which --exit learned needs; finetune --train.exits"),
        (["--exit", "learned:"], "--exit learned:: must be"),
        (["--exit", "learned:0"], "--exit learned:0: must be"),
        (["--exit", "learned:1.1"], "--exit learned:1.1: must be"),
        (["--exit", "learned:nan"], "--exit learned:nan: must be"),
        (["--exit", "learned:0.5:1"], "--exit learned:0.5:1: must be"),
        (["--depth", "0"], "--depth 0: must be at least 1"),
        (["--depth", "1001"], "--depth 1001: must be at most 1,000"),
        (["--exit", "patience:2:0.1"], "--exit: a tolerance is for numbers, but the task is classify"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "predict", "serve"])
def test_a_wrong_rule_is_one_line(
    command: str,
    options: list[str],
    message: str,
    classifier: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = write_csv(tmp_path / "dev.csv", reviews(2, 5))
    arguments = [command, str(classifier), *options]
    arguments += ["--port", "0"] if command == "serve" else ["--data", str(data)]
    assert run_command(app, arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_rules_that_do_not_fit_the_model(
    regressor: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = TaskCard("regress", "regress", (), ("pearson",), max_length=64)
    unknown_scale = save_random_model(tmp_path / "old", checkpoint, HeadSettings("regress", labels=1), card)
    card = TaskCard("classify", "classify", ("a", "b"), ("accuracy",), max_length=64)
    head = HeadSettings("classify")
    halting = save_random_model(
        tmp_path / "halting", checkpoint, head, card, replace(DEEP, depth_rule="halting")
    )
    unshared = save_random_model(
        tmp_path / "unshared", checkpoint, head, card, replace(DEEP, share="none", always_project=True)
    )
    data = write_csv(tmp_path / "dev.csv", reviews(2, 5))
    for source, options, message in (
        (regressor, ["--exit", "confidence:0.5"], "a predicted number has no probability; use patience"),
        (unknown_scale, ["--exit", "patience:2"], "no target_scale; give the largest change of a number"),
        (halting, ["--exit", "patience:2"], "exits: need depth_rule = fixed; with halting"),
        (unshared, ["--depth", "6"], "depth 6: more than the 5 layers of this model"),
        (unshared, ["--depth", "6", "--exit", "patience:1"], "depth 6: more than the 5 layers"),
        (
            checkpoint,
            ["--task", "blimp", "--exit", "patience:1"],
            "--exit and --exits are for fine-tuned models",
        ),
    ):
        arguments = ["evaluate", str(source), "--data", str(data), "--text", "review", "--quiet"]
        assert run_command(app, [*arguments, *options]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
    assert run_command(app, ["serve", str(checkpoint), "--port", "0", "--depth", "1", "--quiet"]) == 2
    assert "pre-trained; --exit and --depth are for fine-tuned models" in capsys.readouterr().err


def test_evaluate_and_predict_report_the_mean_depth(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.set_quiet(False)
    data = write_csv(tmp_path / "dev.csv", reviews(2, 30))
    common = ["--data", str(data), "--text", "review", "--label", "stars", "--device", "cpu"]
    common += ["--exit", "patience:1", "--depth", "4"]
    out = tmp_path / "out.jsonl"
    assert run_command(app, ["predict", str(classifier), *common[:4], *common[6:], "--out", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    mean_depth = fmean(depths(rows))
    assert 2 <= mean_depth < 4
    assert f"dev.csv: mean depth {mean_depth:.2f} steps" in capsys.readouterr().err.replace("\n", "")
    assert run_command(app, ["evaluate", str(classifier), *common, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["mean_depth"] == pytest.approx(mean_depth)
    assert run_command(app, ["evaluate", str(classifier), *common]) == 0
    assert f"{mean_depth:.2f}" in capsys.readouterr().out
    assert run_command(app, ["evaluate", str(classifier), *common[:-4], "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["mean_depth"] is None


def test_messages_about_what_to_expect(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.set_quiet(False)
    card = TaskCard("classify", "classify", ("a", "b", "c"), ("accuracy",), max_length=64)
    model = save_random_model(tmp_path / "model", checkpoint, HeadSettings("classify", labels=3), card)
    capsys.readouterr()
    classify = pipeline(model, device="cpu", exit="patience:1")
    assert "fine-tuned without exits, so its early predictions are less" in capsys.readouterr().err
    assert max(depths(classify(TEXTS))) <= 5
    deeper = pipeline(model, device="cpu", depth=7)
    assert capsys.readouterr().err == ""
    assert depths(deeper(TEXTS[:3])) == [7.0] * 3
    message = capsys.readouterr().err
    assert "depth 7: more than the 5 steps that were trained, and the states have not converged" in message
    deeper(TEXTS[:3])
    assert capsys.readouterr().err == ""  # once


def test_converged_states_give_no_warning(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.set_quiet(False)
    card = TaskCard("classify", "classify", ("a", "b", "c"), ("accuracy",), max_length=64)
    model = save_random_model(tmp_path / "model", checkpoint, HeadSettings("classify", labels=3), card)
    loaded = load_finetuned(model, EngineOptions("cpu", "fp32"), exit_rule=ExitRule(depth=200))
    capsys.readouterr()
    with torch.no_grad():  # each step returns its normalized input
        for name, parameter in loaded.engine.model.named_parameters():  # type: ignore[attr-defined]
            if name.startswith(("encoder.attention.0.out", "encoder.ffn.0.down")):
                parameter.zero_()
    Pipeline(loaded)(TEXTS[:3])
    assert capsys.readouterr().err == ""


def test_an_ensemble_averages_depths(classifier: Path, checkpoint: Path, tmp_path: Path) -> None:
    card = load_finetuned(classifier, EngineOptions("cpu")).card
    other = save_random_model(
        tmp_path / "other", checkpoint, HeadSettings("classify", labels=3), card, replace(DEEP, layers=3)
    )
    members = [load_finetuned(source, EngineOptions("cpu")) for source in (classifier, other)]
    write_ensemble(create_ensemble("both", card, members, [1.0, 1.0]), tmp_path / "both")
    both, first, second = (
        depths(pipeline(source, device="cpu", precision="fp32", exit="patience:1")(TEXTS))
        for source in (tmp_path / "both", classifier, other)
    )
    assert both == [(a + b) / 2 for a, b in zip(first, second, strict=True)]


def test_a_server_reports_depths(classifier: Path) -> None:
    settings = ServeSettings(exit="patience:1", depth=4)
    model = load_served_model(
        str(classifier), EngineOptions("cpu", "fp32"), make_exit_rule(settings.exit, settings.depth)
    )
    endpoint = model.endpoints["/predict"]
    items = [endpoint.parse_item({"text": text})[0] for text in TEXTS]
    results = endpoint.process_batch(items)
    expected = pipeline(classifier, device="cpu", precision="fp32", exit="patience:1", depth=4)(TEXTS)
    assert [result.output for result in results] == expected


def test_settings_in_python() -> None:
    assert make_exit_rule(None) is None
    assert make_exit_rule("confidence:1e-3", 7) == ExitRule(confidence=1e-3, depth=7)
    assert make_exit_rule("patience:3:0.5") == ExitRule(patience=3, tolerance=0.5)
    with pytest.raises(SettingError, match="depth = 0: must be between 1 and 1,000"):
        pipeline("missing", depth=0)


@pytest.fixture
def deep(tokenizer: Path, tmp_path: Path) -> Path:
    """A checkpoint of five layers with random weights."""
    model = Model(DEEP, HeadSettings("pretrain"), seed=1)
    save_folder(model, tmp_path / "deep", tokenizer=load_tokenizer(tokenizer))
    return tmp_path / "deep"


@pytest.mark.slow
def test_easy_questions_take_less_depth(
    deep: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    settings = with_train_settings(
        finetune_settings, steps=100, evaluate_every=50, optimizer="muon", lr=1e-2, exits=True
    )
    finetune(str(deep), tmp_path / "run", settings)
    full, early = (
        evaluate(
            tmp_path / "run",
            EvaluateSettings(data=settings.dev, device="cpu", precision="fp32", exit=exit_rule, depth=depth),
        )[0]
        for exit_rule, depth in ((None, 5), ("patience:1", None))
    )
    assert full.mean_depth == 5
    assert early.mean_depth is not None
    assert early.mean_depth < 2.5
    assert early.primary_metric >= full.primary_metric - 0.05


def undecidable_reviews(seed: int, count: int) -> list[dict[str, Any]]:
    """Return rows with the signals of all labels, and one of the labels at random."""
    rng = random.Random(seed)
    rows = []
    for row in reviews(seed, count):
        signals = rng.sample(("ka", "lo", "mi"), 3)
        rows.append({**row, "review": " ".join([*signals, *row["review"].split()[3:]])})
    return rows


@pytest.mark.slow
def test_hard_rows_take_more_depth_than_easy_ones_beside_them(
    deep: Path, finetune_settings: FinetuneSettings, tmp_path: Path
) -> None:
    rows = [*reviews(1, 200), *undecidable_reviews(2, 200)]
    random.Random(0).shuffle(rows)
    settings = with_train_settings(
        replace(finetune_settings, data=str(write_csv(tmp_path / "rows.csv", rows))),
        steps=150,
        evaluate_every=150,
        optimizer="muon",
        lr=1e-2,
        exits=True,
    )
    finetune(str(deep), tmp_path / "run", settings)
    pairs = zip(reviews(5, 30), undecidable_reviews(6, 30), strict=True)
    texts = [row["review"] for pair in pairs for row in pair]
    judge = pipeline(tmp_path / "run", device="cpu", precision="fp32", exit="confidence:0.9")
    together = depths(judge(texts))  # one strip
    easy, hard = together[::2], together[1::2]
    assert fmean(easy) <= DEEP.layers / 3
    assert fmean(hard) >= 0.9 * DEEP.layers
    assert together == [depths(judge([text]))[0] for text in texts]


@pytest.fixture(scope="session")
def curve_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("curve") / "dev.csv", reviews(2, 30))


@pytest.mark.slow
def test_the_curve_of_a_model(
    classifier: Path, curve_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["evaluate", str(classifier), "--data", str(curve_data), "--text", "review", "--label", "stars"]
    common += ["--device", "cpu", "--precision", "fp32"]
    picture = tmp_path / "new" / "curve.svg"
    options = ["--exits", "all", "--picture", str(picture), "--tolerance", "3", "--json"]
    assert run_command(app, [*common, *options]) == 0
    (curve,) = json.loads(capsys.readouterr().out)["exits"]
    points = {point["setting"]: point for point in curve["points"]}
    assert list(points)[:6] == [
        "full depth",
        *(f"--depth {depth}" for depth in range(1, 5)),
        "--exit patience:1",
    ]
    assert "--exit confidence:0.99" in points
    for setting, point in points.items():
        arguments = [] if setting == "full depth" else setting.split()
        assert run_command(app, [*common, *arguments, "--json"]) == 0
        (result,) = json.loads(capsys.readouterr().out)["results"]
        assert point["score"]["value"] == pytest.approx(result["primary_metric"])
        assert point["mean_depth"] == pytest.approx(result["mean_depth"] or 5)
        for name in ("score", "difference", "flops", "time"):
            assert point[name]["low"] <= point[name]["value"] <= point[name]["high"]
        difference = point["score"]["value"] - points["full depth"]["score"]["value"]
        assert point["difference"]["value"] == pytest.approx(difference)
    recommended, cautious = points[curve["recommended"]], points[curve["cautious"]]
    assert recommended["difference"]["value"] >= -0.03
    assert cautious["difference"]["low"] >= -0.03
    for point in points.values():
        if point["difference"]["value"] >= -0.03:
            assert recommended["flops"]["value"] <= point["flops"]["value"]
    for name in ("flops", "time"):
        assert points["full depth"][name] == {"value": 1, "low": 1, "high": 1}
    assert 1 / 5 < points["--depth 2"]["flops"]["value"] < 2 / 5  # the last step is a cheap one
    assert picture.read_text().lstrip().startswith("<?xml")
    assert run_command(app, [*common, *options]) == 2
    assert "curve.svg: exists already" in capsys.readouterr().err
    assert run_command(app, [*common, "--exits", "all"]) == 0
    assert "recommended, within 0.5 points of full depth: " in capsys.readouterr().out


def test_a_recommendation_that_chance_explains_says_so() -> None:
    def point(setting: str, difference: Estimate, flops: float) -> ExitPoint:
        cost = Estimate(flops, flops, flops)
        return ExitPoint(setting, Estimate(0.9, 0.8, 1), difference, 1.0, cost, cost, 1.0)

    full = point("full depth", Estimate(0, 0, 0), 1)
    early = point("--depth 2", Estimate(-0.002, -0.021, 0.02), 0.5)
    curve = ExitCurve("model", "sst-2", "dev", 60, 0.5, "--depth 2", "full depth", (full, early))
    assert exit_advice(curve).splitlines() == [
        "recommended, within 0.5 points of full depth: --depth 2",
        "with 60 examples, the interval of its difference reaches -2.10 points; within 0.5 points with the "
        "whole interval: full depth",
    ]
    assert "interval" not in exit_advice(replace(curve, cautious="--depth 2"))


def test_a_setting_that_hardly_differs_has_the_interval_of_no_error(
    classifier: Path, curve_data: Path
) -> None:
    model = load_finetuned(classifier, EngineOptions("cpu", "fp32"))
    examples = list(
        read_split(
            model,
            "dev",
            EvaluateSettings(data=str(curve_data), text="review", label="stars"),
            require_labels=True,
        )
    )
    points = measure_points(model, examples, {"never": ExitRule(patience=5), "early": ExitRule(depth=1)})
    full, never, early = points
    assert (never.score, never.mean_depth) == (full.score, 5)
    assert never.difference == Estimate(0.0, -3 / len(examples), 3 / len(examples))
    assert never.flops.value > 1
    assert early.mean_depth == 1
    assert early.difference.low <= -3 / len(examples) + early.difference.value


@pytest.mark.slow
def test_the_flops_of_an_export_are_those_of_all_tokens(
    classifier: Path, curve_data: Path, tmp_path: Path
) -> None:
    """Its graphs compute the last step of all tokens, where torch computes [CLS] alone."""
    export(classifier, tmp_path / "out", ExportSettings(to="onnx", exits=True))
    settings = EvaluateSettings(data=str(curve_data), text="review", label="stars", device="cpu", exits="all")
    (of_torch,), (of_export,) = (measure_exits([model], settings) for model in (classifier, tmp_path / "out"))
    depth_2, same = (
        next(point for point in curve.points if point.setting == "--depth 2")
        for curve in (of_torch, of_export)
    )
    assert (same.score.value, same.mean_depth) == (depth_2.score.value, depth_2.mean_depth)
    assert same.flops.value == pytest.approx(2 / 5, abs=0.02)
    assert depth_2.flops.value < same.flops.value - 0.02


def test_one_example_has_no_curve(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_csv(tmp_path / "one.csv", reviews(2, 1))
    common = ["evaluate", str(classifier), "--data", str(data), "--text", "review", "--label", "stars"]
    assert run_command(app, [*common, "--exits", "all"]) == 2
    assert "exits are compared on two examples at least" in capsys.readouterr().err


def test_the_interval_of_a_ratio_covers_the_true_one_in_most_samples() -> None:
    generator, covered = torch.Generator().manual_seed(1), 0
    for _ in range(400):
        full = 1 + torch.rand(10, generator=generator)
        part = full * (0.6 + 0.1 * torch.randn(10, generator=generator))
        estimate = ratio_estimate(part.tolist(), full.tolist())
        assert estimate.value == pytest.approx(float(part.sum() / full.sum()), rel=1e-5)
        covered += estimate.low <= 0.6 <= estimate.high
    assert 0.92 < covered / 400 < 0.98


def test_the_curve_of_numbers_has_no_confidence(regressor: Path, curve_data: Path) -> None:
    settings = EvaluateSettings(data=str(curve_data), text="review", label="mark", device="cpu", exits="all")
    (curve,) = measure_exits([regressor], settings)
    names = [point.setting for point in curve.points]
    assert names[-1] == "--exit patience:3"
    assert len(names) == 1 + 4 + 3


def test_the_cheapest_setting_within_the_tolerance_is_recommended() -> None:
    def point(setting: str, difference: float, low: float, flops: float) -> ExitPoint:
        cost = Estimate(flops, flops, flops)
        score = Estimate(0.9 + difference, 0.0, 1.0)
        return ExitPoint(setting, score, Estimate(difference, low, 0.1), 1.0, cost, cost, 1.0)

    points = [
        point("full depth", 0, 0, 1),
        point("a", -0.004, -0.004, 0.5),
        point("b", -0.003, -0.01, 0.5),
        point("c", -0.1, -0.2, 0.1),
    ]
    assert [recommended_point(points, tolerance).setting for tolerance in (0, 0.5, 10.1)] == [
        "full depth",
        "b",
        "c",
    ]
    rounded = [points[0], point("d", 0.895 - 0.9, 0.8, 0.2)]  # a little more than 0.5 points
    assert recommended_point(rounded, 0.5).setting == "d"
    chosen = [cautious_point(points, tolerance).setting for tolerance in (0, 0.5, 1.1, 21)]
    assert chosen == ["full depth", "a", "b", "c"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--exits", "some"], "--exits some: must be one of all"),
        (["--exits", "all", "--exit", "patience:1"], "must not be set with exits = all"),
        (["--exits", "all", "--depth", "2"], "must not be set with exits = all"),
        (["--picture", "curve.svg"], "--picture curve.svg: needs exits = all"),
        (
            ["--exits", "all", "--picture", "curve.png"],
            "--picture curve.png: must be a file that ends in .svg",
        ),
        (["--exits", "all", "--tolerance", "-1"], "--tolerance -1"),
        (["--exits", "all", "--task", "blimp"], "--exit and --exits are for fine-tuned models"),
    ],
)
def test_wrong_options_of_the_curve(
    options: list[str],
    message: str,
    classifier: Path,
    curve_data: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_command(app, ["evaluate", str(classifier), "--data", str(curve_data), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
