"""Tests of the whole demo with small settings: on the little world, on own text, interrupted and resumed."""

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import xml.etree.ElementTree as Tree
from dataclasses import replace
from pathlib import Path

import pytest

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.corpus.corpus import Corpus
from albertine.demo import workspace
from albertine.demo.commands import albertine_executable, equivalent_commands
from albertine.demo.page import _probe_blocks, _value
from albertine.demo.plan import DEMO_TASKS, finetune_settings
from albertine.demo.run import _elapsed_seconds, _prepare_folder, run_demo
from albertine.demo.run_lengths import RunLengths, run_lengths, with_run_lengths
from albertine.demo.settings import DemoSettings
from albertine.demo.study_pages import PUBLISHED_STUDIES
from albertine.demo.workspace import DemoWorkspace
from albertine.errors import InputError
from albertine.model.parameter_counts import count_parameters
from albertine.settings import build_settings, read_settings_file, settings_to_toml
from albertine.text.find_sources import find_sources
from albertine.train import parallel_runs
from tests.export.browser import assert_fits_windows

SMALL_RUNS = ("--hidden-size", "128", "--pretraining-steps", "10", "--finetuning-steps", "5", "--quiet")
SMALL = (*SMALL_RUNS, "--stories", "600", "--examples", "100")


@pytest.fixture(autouse=True)
def small_dev_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("albertine.demo.plan.DEV_EXAMPLES", 60)
    monkeypatch.setattr(workspace, "_CLOZE_SIZES", {"train": 400, "dev": 60})


def read_well_formed(page: Path) -> str:
    content = page.read_text(encoding="utf-8")
    Tree.fromstring(content[content.index("<body>") : content.index("</html>")].replace("&nbsp;", " "))
    assert not re.search(r'(src|href)="?http|@import|url\(', content)
    return content


def check_finetuning_commands(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that the commands in the report have the settings with which the demo fine-tunes."""
    settings = build_settings(DemoSettings, read_settings_file(out / "demo.toml"))
    lines = equivalent_commands(DemoWorkspace(out, settings))
    lines = [line for line in lines if line.startswith("albertine finetune")]
    for line, name in zip(lines, DEMO_TASKS, strict=True):
        assert run_command(app, [*shlex.split(line)[1:], "--print-settings"]) == 0
        run = finetune_settings(settings, name, out)
        if DEMO_TASKS[name].uses_world:  # the command writes a world of its own
            run = replace(run, data="world")
        assert capsys.readouterr().out.startswith(settings_to_toml(run).rstrip())  # a sweep's settings follow


@pytest.mark.slow
def test_an_interrupted_demo_resumes_and_writes_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demo"
    original = DemoWorkspace.probe_models

    def interrupted(self: DemoWorkspace) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DemoWorkspace, "probe_models", interrupted)
    assert run_command(app, ["demo", "--out", str(out), *SMALL]) == 130
    assert not (out / "report.html").exists()
    # All tasks without pre-training are fine-tuned beside pre-training.
    assert len(list((out / "results").glob("untrained-*.json"))) == 3
    times_before = {file: file.stat().st_mtime_ns for file in (out / "albert").glob("*.safetensors")}
    monkeypatch.setattr(DemoWorkspace, "probe_models", original)
    assert run_command(app, ["demo", "--out", str(out), "--stories", "700"]) == 2
    assert "a demo with other settings" in capsys.readouterr().err
    assert run_command(app, ["demo", "--out", str(out), *SMALL]) == 0
    assert {file: file.stat().st_mtime_ns for file in (out / "albert").glob("*.safetensors")} == times_before
    page = read_well_formed(out / "report.html")
    assert_fits_windows(out / "report.html")
    for text in (
        "Architecture",
        "bag of words",
        "Figure 1",
        "Predictions for segment order",
        "albertine world write",
        "and was pre-trained for",
    ):
        assert text in page, text
    printed = capsys.readouterr().out.strip().splitlines()
    executables, commands = zip(*(shlex.split(line)[:2] for line in printed[-3:]), strict=True)
    assert commands == ("serve", "demo", "finetune")
    assert set(executables) == {shlex.split(albertine_executable())[0]}
    result = json.loads((out / "results" / "cloze.json").read_text())
    assert 0 < result["metrics"]["accuracy"] <= 1
    check_finetuning_commands(out, capsys)
    monkeypatch.setattr(workspace, "write_world", interrupted)  # finished steps are not repeated
    monkeypatch.setattr(parallel_runs, "ProcessPool", interrupted)
    assert run_command(app, ["demo", "--out", str(out), *SMALL]) == 0


@pytest.mark.long
@pytest.mark.slow
def test_two_berts_are_trained_for_the_same_time(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    assert run_command(app, ["demo", "--compare", "--out", str(out), *SMALL]) == 0
    page = read_well_formed(out / "report.html")
    assert_fits_windows(out / "report.html")
    assert "All models train on the same text for the same time" in page
    counts = {}
    for name in ("albert", "bert", "narrow-bert"):
        model = albertine.load(out / name)
        counts[name] = count_parameters(model.settings).encoder
        assert model.settings.shares_all_layers == (name == "albert")
        assert len(list((out / ("tasks" if name == "albert" else f"{name}-tasks")).iterdir())) == 3
    assert counts["bert"] > 2 * counts["albert"]
    assert counts["narrow-bert"] == pytest.approx(counts["albert"], rel=0.1)
    assert f"{counts['narrow-bert']:,}" in page
    losses = json.loads((out / "results" / "probe.json").read_text())
    narrow, own = (losses[name]["probe"]["mask_token_loss"]["value"] for name in ("narrow-bert", "albert"))
    assert ("the narrow BERT has the lower loss" in page) == (narrow < own)
    for study in ("table-2", "table-6"):
        assert f"albertine study {study} --scale minutes --out studies" in page
        assert f'href="studies/{study}.minutes.html"' in page
        published = Path(__file__).parents[2] / "docs" / "studies" / "claims" / f"{study}.minutes.html"
        assert (out / "studies" / published.name).read_bytes() == published.read_bytes()
    # A run that resumes keeps the number of steps that fitted into the time.
    files = {file: file.stat().st_mtime_ns for file in out.glob("*bert/*.safetensors")}
    for name in ("bert", "narrow-bert", "probe"):
        (out / "results" / f"{name}.json").unlink()
    assert run_command(app, ["demo", "--compare", "--out", str(out), *SMALL]) == 0
    assert {file: file.stat().st_mtime_ns for file in files} == files


@pytest.mark.long
@pytest.mark.slow
def test_a_demo_on_own_text_writes_no_world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "own"
    texts.mkdir()
    nouns, adjectives = (
        ("house", "river", "garden", "letter", "winter"),
        ("old", "cold", "green", "lost", "far"),
    )
    lines = [
        f"The {noun} is {adjective}. It was {adjective} all day. Nobody saw the {noun}.\n"
        f"When it rained, they were in the {adjective} {noun}. At night, she was in the {adjective} {noun}."
        for noun in nouns
        for adjective in adjectives
    ]
    for number in range(150):
        (texts / f"{number}.txt").write_text(f"This is letter {number}.\n" + "\n".join(lines))
    out = tmp_path / "demo"
    assert (
        run_command(
            app, ["demo", "--text", str(texts), "--out", str(out), "--seed", str(1 << 53), *SMALL_RUNS]
        )
        == 0
    )
    page = read_well_formed(out / "report.html")
    assert_fits_windows(out / "report.html")
    assert "Which of four words is the original?" in page
    assert "bag of words" not in page
    assert "they <mark>were</mark> in the" in page  # a minimal pair from a held-out sentence
    assert "albertine evaluate albert --task blimp" in page
    assert "too little text" not in page
    assert not (out / "world").exists()
    assert "albertine pretrain --corpus" in capsys.readouterr().out


def test_the_report_says_how_much_text_is_held_out(corpus: Corpus) -> None:
    manifest = replace(
        corpus.manifest, documents={"train": 2, "dev": 1}, tokens={"train": 630_000, "dev": 370_000}
    )
    estimate = {"value": 0.5, "low": 0.4, "high": 0.6}
    probe = {f"{name}_accuracy": estimate for name in ("mask_token", "sop", "nsp")}
    result = {"probe": {**probe, "mask_token_loss": estimate, "sequences": 100}}
    page = "".join(_probe_blocks({"albert": result}, manifest))
    assert "37% of the text, 370,000 tokens in 1 document of 3." in page


def test_an_accuracy_without_an_interval_is_unknown(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    estimate = {"value": 0.5, "low": None, "high": None}
    keys = ("mask_token_accuracy", "sop_accuracy", "nsp_accuracy", "mask_token_loss")
    result = {"probe": {**dict.fromkeys(keys, estimate), "sequences": 1}}
    page = "".join(_probe_blocks({"albert": result}, corpus.manifest))
    assert "Accuracy on 1 held-out sample, with" in page
    assert page.count("unknown") == len(keys)
    assert _value(estimate, ".0%") == "unknown"
    monkeypatch.setattr(DemoWorkspace, "probe_models", lambda _: {"albert": result})
    DemoWorkspace(tmp_path, DemoSettings()).print_probe_results()
    assert "albert: too little held-out text to say" in capsys.readouterr().err


def test_text_of_one_short_document_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "book.txt").write_text(
        "\n".join(f"It was day {number} of the rain." for number in range(500))
    )
    words = ("--text", str(tmp_path / "book.txt"), "--out", str(tmp_path / "demo"))
    assert run_command(app, ["demo", *words, *SMALL_RUNS]) == 2
    assert "too few documents to hold some out; give several files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--text", "nowhere/"), "nowhere"),
        (("--text", "-"), "standard input or a pipe can be read only once"),
        (("--pretraining-steps", "3"), "steps"),
        (("--hidden-size", "130"), "--hidden-size 130: must be a multiple of 16, such as 128 or 144"),
        (("--text", ".", "--hidden-size", "132"), "must be a multiple of 8, such as 128 or 136"),
    ],
)
def test_wrong_settings_are_refused_before_any_work(
    words: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, ["demo", "--out", str(tmp_path / "demo"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_text_in_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a pipe can be read only once; save it as a file"):
        run_demo(tmp_path / "demo", DemoSettings(text=str(tmp_path / "pipe")))


def test_a_demo_in_the_folder_of_its_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("One.")
    monkeypatch.chdir(tmp_path)
    for text in (".", str(tmp_path)):
        with pytest.raises(InputError, match="my-demo: is in the folder of --text"):
            run_demo(Path("my-demo"), DemoSettings(text=text))
    assert not Path("my-demo").exists()


def test_json_without_the_field_text_is_refused_with_advice_for_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"body": "One day it rained."}\n')
    assert (
        run_command(app, ["demo", "--text", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "demo")]) == 2
    )
    message = capsys.readouterr().err
    assert "no field text; fields: body; rename the field that holds the text to text\n" in message


def test_a_folder_of_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"x")
    assert run_command(app, ["demo", "--out", str(tmp_path / "photos")]) == 2
    assert "is not a demo" in capsys.readouterr().err
    assert [file.name for file in (tmp_path / "photos").iterdir()] == ["one.jpg"]


PROCESSORS = {
    "avx512_bf16": RunLengths(800, 400),
    "avx2": RunLengths(600, 300),
}


def use_processor(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("albertine.demo.run_lengths.has_fast_bf16", lambda _: name != "avx2")


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_lengths_follow_from_the_processor(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_processor(monkeypatch, name)
    assert run_lengths(DemoSettings()) == PROCESSORS[name]
    assert run_lengths(with_run_lengths(DemoSettings(), None)) == PROCESSORS[name]
    given = DemoSettings(hidden_size=192, pretraining_steps=50)
    assert run_lengths(given) == RunLengths(50, PROCESSORS[name].finetuning_steps)


@pytest.mark.parametrize("other", PROCESSORS)
@pytest.mark.parametrize("settings", [DemoSettings(), DemoSettings(hidden_size=192, seed=3)])
def test_a_demo_begun_on_another_processor_keeps_its_lengths(
    settings: DemoSettings, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_processor(monkeypatch, other)
    stored = with_run_lengths(settings, None)
    use_processor(monkeypatch, "avx2")
    assert with_run_lengths(settings, stored) == stored
    small = replace(stored, pretraining_steps=20)  # not what this call would have begun anywhere
    assert with_run_lengths(settings, small).pretraining_steps == 600


def test_a_demo_killed_in_its_first_moments_starts_again(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    out.mkdir()
    (out / ".demo.toml.0123abcd.partial").write_text("half")
    _prepare_folder(out, DemoSettings(), [])
    assert sorted(file.name for file in out.iterdir()) == ["demo.toml", "results"]


def test_a_demo_of_changed_text_is_refused(tmp_path: Path) -> None:
    out, file = tmp_path / "demo", tmp_path / "a.txt"
    out.mkdir()
    file.write_text("One.")
    settings = DemoSettings(text=str(file))
    _prepare_folder(out, settings, find_sources([str(file)]))
    (out / "tokenizer").mkdir()
    file.write_text("One, two.")
    _prepare_folder(out, settings, find_sources([str(file)]))  # before there is a corpus, it starts again
    assert not (out / "tokenizer").exists()
    (out / "corpus").mkdir()
    (out / "corpus" / "manifest.json").touch()
    file.write_text("One, two, three.")
    with pytest.raises(
        InputError, match=r"a\.txt: has changed since the demo in .* began; give another --out"
    ):
        _prepare_folder(out, settings, find_sources([str(file)]))


def test_a_demo_of_another_version_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    out.mkdir()
    _prepare_folder(out, DemoSettings(), [])
    (out / "albert").mkdir()
    (out / "demo.toml").write_text("former_name = 1\n")
    plan_file = out / "results" / "plan"
    plan_file.write_text("1")
    with pytest.raises(InputError, match="a demo of another version of Albertine"):
        run_demo(out, DemoSettings())
    plan_file.unlink()
    with pytest.raises(InputError, match="a demo of another version of Albertine"):
        run_demo(out, DemoSettings())


def test_a_demo_of_which_only_results_are_left_is_not_continued_with_other_settings(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    out.mkdir()
    _prepare_folder(out, DemoSettings(), [])
    (out / "results" / "world.json").write_text("{}")
    with pytest.raises(InputError, match="a demo with other settings"):
        _prepare_folder(out, DemoSettings(seed=1), [])


def test_a_missing_run_is_named_with_its_result(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "albert.json").write_text("{}")
    with pytest.raises(
        InputError, match=r"albert: missing; restore it, or remove .*/results/albert\.json to train it again"
    ):
        DemoWorkspace(tmp_path, DemoSettings()).pretrain_albert()


def test_an_empty_file_of_the_elapsed_time_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "elapsed").touch()
    assert _elapsed_seconds(tmp_path) == 0


@pytest.mark.slow
def test_printed_commands_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = sysconfig.get_path("scripts")
    monkeypatch.setenv("PATH", scripts)
    assert albertine_executable() == "albertine"
    monkeypatch.setenv("PATH", str(tmp_path))
    for folder in (tmp_path, Path(sys.prefix).parent):  # outside the environment's folder, and inside
        monkeypatch.chdir(folder)
        command = albertine_executable()
        assert command.startswith("/") == (folder == tmp_path)
        version = subprocess.run(
            [*shlex.split(command), "--version"], capture_output=True, text=True, check=True
        )
        assert version.stdout
    # Without a script, as in a zip file or a frozen program.
    monkeypatch.setattr("albertine.demo.commands.sysconfig.get_path", lambda _: str(tmp_path))
    assert albertine_executable() == shlex.join([sys.executable, "-m", "albertine"])


def test_the_verdicts_that_the_report_states_are_those_of_the_studies() -> None:
    table = (Path(__file__).parents[2] / "docs" / "studies" / "README.md").read_text(encoding="utf-8")
    for study in PUBLISHED_STUDIES:
        assert (
            f"| [`{study.claim}`](claims/{study.claim}.minutes.html) | minutes | 5 | {study.verdict}" in table
        )
