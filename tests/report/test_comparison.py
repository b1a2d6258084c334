"""Tests of the comparison of runs: scores, differences over seeds, settings that differ, and refusals."""

import json
import statistics
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.settings import ObjectiveSettings
from albertine.errors import InputError
from albertine.finetune.run import FinetuneResult
from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.pretrain.settings import PretrainSettings
from albertine.report.compared_runs import compare_runs
from albertine.report.comparison_page import comparison_page, score_table
from albertine.report.comparison_table import show_comparison
from albertine.report.curves import PlottedRun, pretraining_charts
from albertine.report.run_comparison import RunComparison
from albertine.settings import Settings, settings_to_toml
from albertine.train.settings import PretrainTrainSettings

STUDENT_4 = 2.776445  # 97.5% quantile of Student's t distribution with 4 degrees of freedom


def write_run(folder: Path, settings: Settings, evaluations: dict[int, dict[str, float]]) -> Path:
    """Write the settings and the metrics log of a run."""
    folder.mkdir(parents=True)
    (folder / "settings.toml").write_text(settings_to_toml(settings))
    lines: list[dict[str, Any]] = []
    for step in range(1, max(evaluations) + 1):
        lines.append({"step": step, "tokens": 100 * step, "seconds": 2.0 * step, "loss": 3.0 / step})
        if step in evaluations:
            lines.append(
                {"step": step, **{f"held_out_{key}": value for key, value in evaluations[step].items()}}
            )
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def write_pretraining(folder: Path, loss: float, **changes: Any) -> Path:
    settings = PretrainSettings(train=PretrainTrainSettings(steps=4, lr=changes.pop("lr", 0.01)), **changes)
    return write_run(folder, settings, {2: {"mlm_loss": 9.0}, 4: {"mlm_loss": loss, "mlm_accuracy": 0.25}})


def write_finetuning(folder: Path, accuracies: dict[int, float], task: str = "classify") -> Path:
    """Write the folder of runs with several seeds."""
    for seed, accuracy in accuracies.items():
        settings = FinetuneSettings(task=task, train=FinetuneTrainSettings(steps=4, seed=seed))
        write_run(
            folder / f"seed-{seed}", settings, {4: {"loss": 1.0, "accuracy": accuracy, "macro_f1": 0.5}}
        )
    runs = [
        FinetuneResult(
            f"seed-{seed}", 1e-3, 16, 0.0, seed, 4, 4, {"accuracy": accuracy, "macro_f1": 0.5}, 0, 1.0, None
        )
        for seed, accuracy in accuracies.items()
    ]
    results = {
        "task": task,
        "median": runs[0].metrics,
        "best_run": runs[-1].run_name,
        "runs": [asdict(run) for run in runs],
    }
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def test_scores_of_pretraining_are_the_last_ones(tmp_path: Path) -> None:
    comparison = compare_runs(
        [write_pretraining(tmp_path / "a", 4.5), write_pretraining(tmp_path / "b", 4.25, lr=0.02)]
    )
    assert comparison.score_names == ["mlm_loss", "mlm_accuracy"]
    assert [run.scores["mlm_loss"] for run in comparison.runs] == [(4.5,), (4.25,)]
    assert comparison.differing_settings == {"train.lr": (0.01, 0.02)}
    assert comparison.warnings == ["one seed for each: a small difference can be chance"]
    header, rows = score_table(comparison)
    assert header == ["run", "loss on masked tokens", "masked tokens correct", "steps", "tokens", "time"]
    assert rows[1][1:3] == ["4.250", "25.0"]
    assert rows[1][3:] == ["4", "400", "8 s"]


def test_other_samples_are_reported(tmp_path: Path) -> None:
    comparison = compare_runs(
        [write_pretraining(tmp_path / "a", 4.5), write_pretraining(tmp_path / "b", 4.25, corpus="other")]
    )
    assert "not of the same samples, because the runs differ in corpus" in comparison.warnings[0]
    assert "albertine probe" in comparison.warnings[0]


def test_the_number_of_samples_is_compared(tmp_path: Path) -> None:
    """By default, a longer run is evaluated more seldom, on more samples."""

    def warnings(name: str, **changes: Any) -> list[str]:
        runs = []
        for steps in (2_000, 4_000):
            settings = PretrainSettings(
                train=PretrainTrainSettings(steps=steps, lr=0.01, batch_tokens=32_768, **changes)
            )
            scores = {1: {"mlm_loss": 4.0}}
            runs.append(write_run(tmp_path / name / str(steps), settings, scores))
        return compare_runs(runs).warnings

    assert "differ in the number of samples (160, 320; see --train.evaluate-tokens)" in warnings("a")[0]
    assert len(warnings("b", evaluate_tokens=20_000)) == 1
    assert len(warnings("c", evaluate_every=100)) == 1


def test_settings_of_the_training_text_do_not_change_the_samples(tmp_path: Path) -> None:
    runs = [
        write_pretraining(tmp_path / str(fraction), 4.0, objective=ObjectiveSettings(text_fraction=fraction))
        for fraction in (0.5, 1.0)
    ]
    assert len(compare_runs(runs).warnings) == 1


def test_differences_are_paired_over_the_seeds(tmp_path: Path) -> None:
    first = {0: 0.70, 1: 0.80, 2: 0.75, 3: 0.60, 4: 0.65}
    second = {4: 0.70, 3: 0.63, 2: 0.76, 1: 0.86, 0: 0.73, 5: 0.99}
    comparison = compare_runs(
        [write_finetuning(tmp_path / "a", first), write_finetuning(tmp_path / "b", second)]
    )
    differences = [second[seed] - first[seed] for seed in first]
    half = STUDENT_4 * statistics.stdev(differences) / 5**0.5
    difference = comparison.difference(comparison.runs[1])
    assert difference is not None
    assert difference.seeds == 5
    assert difference.mean == pytest.approx(statistics.fmean(differences))
    assert (difference.low, difference.high) == pytest.approx(
        (difference.mean - half, difference.mean + half), abs=1e-6
    )
    assert comparison.difference(comparison.runs[0]) is None
    assert comparison.differing_settings == {}
    assert comparison.warnings == []
    _, rows = score_table(comparison)
    assert rows[0][1] == "70.0 (60.0 to 80.0, 5 seeds)"
    assert rows[0][-1] == ""
    assert rows[1][-1].startswith("+3.6 (95%: ")


def test_other_metrics_have_no_difference_and_a_warning(tmp_path: Path) -> None:
    folders = [write_finetuning(tmp_path / name, {1: 0.6, 2: 0.7}) for name in "abc"]
    for folder, metric in ((folders[1], "accuracy"), (folders[2], "macro_f1")):
        set_paths(folder, metric=metric)
    same = compare_runs(folders[:2])  # accuracy is the metric of the task
    assert same.difference(same.runs[1]) is not None
    assert same.warnings == []
    other = compare_runs([folders[0], folders[2]])
    assert other.difference(other.runs[1]) is None
    assert "selected their best models by different metrics" in other.warnings[0]
    assert "(that of the task, macro_f1)" in other.warnings[0]


def test_names_of_runs_without_a_common_folder_are_whole(tmp_path: Path) -> None:
    run = compare_runs([write_finetuning(tmp_path / name, {1: 0.6}) for name in "ab"]).runs[0]
    for names in (("/tmp/a", "/data/b"), ("s3://one/a", "s3://two/b")):
        comparison = RunComparison(tuple(replace(run, name=name) for name in names))
        assert comparison.folder == ""
        assert comparison.short_names == list(names)
    within = RunComparison(tuple(replace(run, name=f"s3://one/runs/{name}") for name in "ab"))
    assert (within.folder, within.short_names) == ("s3://one/runs", ["a", "b"])


def test_other_held_out_examples_have_no_difference(tmp_path: Path) -> None:
    folders = [
        write_finetuning(tmp_path / "a", {0: 0.5, 1: 0.6, 2: 0.7}),
        write_finetuning(tmp_path / "b", {1: 0.7, 2: 0.8, 3: 0.9}),
    ]
    for folder in folders:
        set_paths(folder, data="rows.csv")
    comparison = compare_runs(folders)
    assert "the seed, which selects the held-out examples" in comparison.warnings[0]
    assert comparison.difference(comparison.runs[1]) is None


def test_other_labels_have_no_difference(tmp_path: Path) -> None:
    folders = [write_finetuning(tmp_path / run, {1: 0.6, 2: 0.7}) for run in ("a", "b")]
    for file in folders[1].glob("*/settings.toml"):
        file.write_text(file.read_text().replace('label = "label"', 'label = "topic"'))
    comparison = compare_runs(folders)
    assert "the runs differ in label;" in comparison.warnings[0]
    assert comparison.difference(comparison.runs[1]) is None


@pytest.mark.parametrize("name", ["dev", "data"])
def test_other_data_have_no_difference(name: str, tmp_path: Path) -> None:
    folders = [write_finetuning(tmp_path / run, {1: 0.6, 2: 0.7}) for run in ("a", "b")]
    for folder in folders:
        set_paths(folder, **{name: f"{folder.name}.csv"})
    comparison = compare_runs(folders)
    assert f"the runs differ in {name}" in comparison.warnings[0]
    assert comparison.difference(comparison.runs[1]) is None


def test_another_spelling_of_a_path_is_no_difference(tmp_path: Path) -> None:
    folders = [write_finetuning(tmp_path / run, {1: 0.6, 2: 0.7}) for run in ("a", "b")]
    for folder, data in zip(folders, ("data/x.csv", "./data//x.csv"), strict=True):
        set_paths(folder, data=data)
    comparison = compare_runs(folders)
    assert comparison.warnings == []
    assert comparison.difference(comparison.runs[1]) is not None
    assert "data" not in comparison.differing_settings


@pytest.mark.parametrize(
    ("paths", "checksums", "warning"),
    [
        (("glue", "glue/CoLA"), ("one", "one"), None),
        (("rows.csv", "rows.csv"), ("one", "two"), "differ in the content of the evaluation data;"),
        (("one.csv", "two.csv"), ("one", "two"), "differ in data;"),
        (("one.csv", "two.csv"), ("one", None), "differ in data;"),
        (("rows.csv", "rows.csv"), ("one", None), None),
    ],
)
@pytest.mark.parametrize("run", ["", "seed-2"])
def test_the_content_of_the_examples_counts_if_it_is_known(
    run: str, paths: tuple[str, ...], checksums: tuple[str | None, ...], warning: str | None, tmp_path: Path
) -> None:
    folders = [write_finetuning(tmp_path / name, {1: 0.6, 2: 0.7}) for name in "ab"]
    for folder, path, checksum in zip(folders, paths, checksums, strict=True):
        set_paths(folder, data=path)
        results = json.loads((folder / "results.json").read_text())
        stored = {} if checksum is None else {"dev_sha256": checksum}
        (folder / "results.json").write_text(json.dumps(results | stored))
    comparison = compare_runs([folder / run for folder in folders])
    other_samples = [line for line in comparison.warnings if "not of the same samples" in line]
    assert bool(other_samples) == (warning is not None)
    assert warning is None or warning in other_samples[0]
    assert run or (comparison.difference(comparison.runs[1]) is None) == (warning is not None)


def set_paths(folder: Path, **values: str) -> None:
    """Set settings of the runs in a folder that were not set."""
    for file in folder.glob("*/settings.toml"):
        text = file.read_text()
        for name, value in values.items():
            unset = f"# {name} = (text in quotes; not set)"
            assert unset in text
            text = text.replace(unset, f'{name} = "{value}"')
        file.write_text(text)


@pytest.mark.parametrize("dev", ["dev.csv", None])
def test_other_training_data_matter_only_without_dev(dev: str | None, tmp_path: Path) -> None:
    folders = [write_finetuning(tmp_path / name, {0: 0.5, 1: 0.6}) for name in "ab"]
    for folder in folders:
        set_paths(folder, data=f"{folder.name}.csv", **({} if dev is None else {"dev": dev}))
    warnings = compare_runs(folders).warnings
    assert warnings == [] if dev else "because the runs differ in data" in warnings[0]


def test_the_first_seed_of_a_sweep_selects_the_held_out_examples(tmp_path: Path) -> None:
    sweep = write_finetuning(tmp_path / "sweep", {0: 0.5, 1: 0.6})
    results = json.loads((sweep / "results.json").read_text())
    results["runs"].append({**results["runs"][1], "lr": 2e-3})  # a second rate; the best run has seed 1
    (sweep / "results.json").write_text(json.dumps(results))
    other = write_finetuning(tmp_path / "other", {0: 0.5, 1: 0.7})
    for folder in (sweep, other):
        set_paths(folder, data="rows.csv")
    assert compare_runs([sweep, other]).warnings == []


def test_runs_of_one_call_share_their_held_out_examples(tmp_path: Path) -> None:
    calls = {
        name: write_finetuning(tmp_path / name, dict.fromkeys(seeds, 0.5))
        for name, seeds in {"a": (0, 1), "b": (1, 2)}.items()
    }
    for folder in calls.values():
        set_paths(folder, data="rows.csv")
    (tmp_path / "results.json").write_text("of another program")
    other_samples = "the seed, which selects the held-out examples"
    assert other_samples not in compare_runs([calls["a"] / "seed-0", calls["a"] / "seed-1"]).warnings[0]
    assert other_samples in compare_runs([calls["a"] / "seed-1", calls["b"] / "seed-1"]).warnings[0]
    assert other_samples in compare_runs([calls["a"], calls["b"]]).warnings[0]


def test_another_device_measures_the_same(tmp_path: Path) -> None:
    runs = [write_pretraining(tmp_path / device, 4.5, device=device) for device in ("cpu", "cuda")]
    assert compare_runs(runs).warnings == ["one seed for each: a small difference can be chance"]


def test_brackets_in_names_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [write_pretraining(tmp_path / name, 4.5, corpus=f"[b]{name}") for name in ("a[b]", "x[")]
    show_comparison(compare_runs(runs), as_json=False)
    assert "a[b]" in capsys.readouterr().out.replace("\n", "")


def test_of_a_sweep_only_the_best_settings_count(tmp_path: Path) -> None:
    folder = write_finetuning(tmp_path / "a", {0: 0.5, 1: 0.7})
    results = json.loads((folder / "results.json").read_text())
    for rate, run in enumerate(results["runs"], start=1):
        run |= {"seed": 0, "lr": rate * 1e-3}
    (folder / "results.json").write_text(json.dumps(results))
    comparison = compare_runs([folder, write_finetuning(tmp_path / "b", {0: 0.6})])
    assert comparison.runs[0].scores["accuracy"] == (0.7,)


@pytest.mark.parametrize("names", ["short", "a-name-that-is-longer"])
def test_the_page_has_all_runs(tmp_path: Path, names: str) -> None:
    folders = [write_pretraining(tmp_path / f"{names}-{number}", 4.0 + number) for number in range(8)]
    html = comparison_page(compare_runs(folders)).html()
    assert all(folder.name in html for folder in folders)
    assert str(tmp_path) in html
    assert html.count("<polyline") == 6
    assert "first 6 runs" in html
    assert ("numbers of their rows" in html) == (names != "short")
    assert "All settings are the same." in html
    assert 'class="facts' not in html


def test_the_current_folder_and_names_that_are_not_utf_8_are_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (write_pretraining(tmp_path / name, 4.0) for name in ("first", "b\udcff"))
    monkeypatch.chdir(first)
    comparison_page(compare_runs([".", second])).write(tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text("utf-8")
    assert "<title>first</title>" in html
    assert "<title>b?</title>" in html


def test_curves_are_of_one_kind_and_baselines_of_all_runs(tmp_path: Path) -> None:
    runs = [write_pretraining(tmp_path / name, 4.5) for name in "abc"]
    for run, unigram_loss in zip(runs, (6.0, 6.0, 7.0), strict=True):
        with (run / "metrics.jsonl").open("a") as log:
            log.write(json.dumps({"step": 4, "mlm_unigram_loss": unigram_loss, "mlm_loss": 4.0}) + "\n")
    plotted = [PlottedRun(run.name, run, number) for number, run in enumerate(runs, start=1)]
    (same,), (different,) = pretraining_charts(plotted[:2], "none"), pretraining_charts(plotted, "none")
    assert "held-out loss (nats)" in same
    assert "token frequencies" in same
    assert "token frequencies" not in different
    file = runs[0] / "metrics.jsonl"
    file.write_text("".join(line + "\n" for line in file.read_text().splitlines() if "held_out" not in line))
    (training,) = pretraining_charts(plotted[:2], "none")
    assert "training loss (nats)" in training


def test_next_tokens_have_a_chart_of_the_runs_that_predict_them(tmp_path: Path) -> None:
    runs = [write_pretraining(tmp_path / name, 4.5) for name in ("masked", "causal")]
    with (runs[1] / "metrics.jsonl").open("a") as log:
        log.write(json.dumps({"step": 4, "tokens": 400, "held_out_next_loss": 3.5}) + "\n")
    plotted = [PlottedRun(run.name, run, number) for number, run in enumerate(runs, start=1)]
    masked, next_tokens = pretraining_charts(plotted, "none")
    assert "masked" in masked
    assert "causal" in masked
    assert "Next tokens" in next_tokens
    assert "no context" not in next_tokens  # that of masked tokens counts those that are not replaced
    assert "causal" in next_tokens
    assert "masked" not in next_tokens
    assert len(pretraining_charts(plotted[:1], "none")) == 1


def test_of_other_kinds_and_tasks_nothing_is_compared(tmp_path: Path) -> None:
    pretraining = write_pretraining(tmp_path / "pretraining", 4.5)
    classify = write_finetuning(tmp_path / "classify", {0: 0.5})
    sst = write_finetuning(tmp_path / "sst", {0: 0.5}, "sst-2")
    for folders, message in (
        ([pretraining], "two or more runs"),
        ([pretraining, pretraining], "given twice"),
        ([pretraining, classify], "a fine-tuning run on classify, and .* is a pre-training run"),
        ([classify, sst], "a fine-tuning run on sst-2, and .* is a fine-tuning run on classify"),
        ([pretraining, tmp_path / "missing"], "missing: no such folder"),
    ):
        with pytest.raises(InputError, match=message):
            compare_runs(folders)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("results.json", "{", "results.json"),
        ("results.json", '{"task": "classify", "median": {}, "best_run": "", "runs": []}', "no runs"),
        ("seed-0/metrics.jsonl", "", "no training step yet"),
        ("seed-0/settings.toml", "task = 3", "unknown task"),
        ("seed-0/settings.toml", "[", "settings.toml"),
    ],
)
def test_damaged_runs_are_refused(tmp_path: Path, file: str, text: str, message: str) -> None:
    first = write_finetuning(tmp_path / "a", {0: 0.5})
    damaged = write_finetuning(tmp_path / "b", {0: 0.5})
    (damaged / file).write_text(text)
    with pytest.raises(InputError, match=message):
        compare_runs([first, damaged])


def test_missing_metrics_are_named(tmp_path: Path) -> None:
    first = write_finetuning(tmp_path / "a", {0: 0.5})
    results = json.loads((first / "results.json").read_text())
    results["runs"][0]["metrics"] = {"macro_f1": 0.5}
    (first / "results.json").write_text(json.dumps(results))
    with pytest.raises(InputError, match="a: classify: the metric accuracy is missing"):
        compare_runs([first, write_finetuning(tmp_path / "b", {0: 0.5})])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_pretraining(tmp_path / "a", 4.5)
    second = write_pretraining(tmp_path / "b", 4.25, lr=0.02)
    page = tmp_path / "page.html"
    assert run_command(app, ["compare", str(first), str(second), "--out", str(page)]) == 0
    output = capsys.readouterr().out
    assert "4.250" in output
    assert "train.lr" in output
    assert "<h2>Settings that differ</h2>" in page.read_text()
    assert run_command(app, ["compare", str(first), str(second), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == compare_runs([first, second]).to_json()
    assert run_command(app, ["compare", str(first), str(second), "--out", str(tmp_path / "table.csv")]) == 2
    assert "ends in .html" in capsys.readouterr().err


def test_an_unfinished_run_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write_pretraining(tmp_path / "a", 4.5)
    settings = PretrainSettings(train=PretrainTrainSettings(steps=600))
    second = write_run(tmp_path / "b", settings, {4: {"mlm_loss": 9.0}})
    assert run_command(app, ["compare", str(first), str(second)]) == 0
    line = f"{second}: an unfinished run, about step 4 of 600; comparing its scores so far\n"
    assert capsys.readouterr().err == line
