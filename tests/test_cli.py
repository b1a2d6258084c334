"""Tests of the commands through the command line."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import albertine
from albertine import __version__
from albertine.cli import app
from albertine.command import run_command
from albertine.device import choose_device
from albertine.errors import InputError
from albertine.settings import MODEL_PRESETS, ModelSettings


def json_output(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run_command(app, [*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_module_and_console_script_behave_the_same() -> None:
    script = Path(sys.executable).parent / "albertine"
    for command in ([str(script)], [sys.executable, "-m", "albertine"]):
        completed = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert completed.stdout.strip() == __version__
        assert subprocess.run([*command, "inof"], capture_output=True, check=False).returncode == 2


def test_help_describes_every_command_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app, ["--help"]) == 0
    overview = capsys.readouterr().out
    for name in ("info", "tokenizer", "corpus", "convert", "bench"):
        assert re.search(rf"│ {name} +[A-Z]", overview)
    assert "albertine COMMAND --help" in overview
    commands = ["info", "tokenizer train", "tokenizer show", "corpus build", "corpus show", "corpus check"]
    commands += ["convert", "bench startup", "bench model", "bench corpus"]
    for command in map(str.split, commands):
        assert run_command(app, [*command, "--help"]) == 0
        assert "Example: albertine " + " ".join(command) in capsys.readouterr().out


def command_words(words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of all commands, such as ("corpus", "build")."""
    selected = app
    for word in words:
        selected = selected[word]
    names = [name for name in selected if not name.startswith("-")]
    if not names:
        yield words
    for name in names:
        yield from command_words((*words, name))


@pytest.mark.parametrize("words", list(command_words()), ids=" ".join)
def test_help_breaks_a_line_only_where_it_is_full(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of a docstring end elsewhere than those of a terminal."""
    monkeypatch.setenv("COLUMNS", "100")
    assert run_command(app, [*words, "--help"]) == 0
    description = capsys.readouterr().out.split("╭")[0].splitlines()
    for line, following in pairwise(map(str.rstrip, description)):
        if line and following:
            assert len(f"{line} {following.split()[0]}") > 100


@pytest.mark.parametrize("words", list(command_words()), ids=" ".join)
def test_usage_names_the_arguments_of_the_table(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run_command(app, [*words, "--help"]) == 0
    text = capsys.readouterr().out
    usage = text.splitlines()[0]
    assert usage.startswith(f"Usage: albertine {' '.join(words)} ")
    shown = re.findall(r"[A-Z][A-Z-]+", re.sub(r"Usage|--[a-z-]+ [A-Z]+|\[OPTIONS\]", "", usage))
    arguments = re.search(r"─ Arguments ─.*?╰", text, re.DOTALL)
    table = arguments[0] if arguments else ""
    assert shown == re.findall(r"^│ [* ]? *([A-Z][A-Z-]+)  ", table, re.MULTILINE)
    assert "[default: ()]" not in text
    assert '[default: ""]' not in text


@pytest.mark.parametrize("words", list(command_words()), ids=" ".join)
def test_help_explains_the_presets_of_a_model_where_there_is_one(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, [*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert ("--model PRESET" in text) == ("--model.layers" in text)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["serve", "x", "--device", "gpu"], "one of auto, cpu, cuda (did you mean cuda?)"),
        (["serve", "x", "--device", "cpus"], "one of auto, cpu, cuda (did you mean cpu?)"),
    ],
)
def test_the_suggested_device_is_the_one_that_was_meant(
    command: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, command) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_device_is_an_input_error_in_python() -> None:
    with pytest.raises(
        InputError, match=r"device gpu: unknown \(did you mean cuda\?\); known: auto, cpu, cuda"
    ):
        choose_device("gpu")


def test_info_lists_all_presets(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app, ["info"]) == 0
    captured = capsys.readouterr()
    table = captured.out
    for name in MODEL_PRESETS:
        assert (f"\n{name} " in table) == (not name.startswith("albertine-"))
    assert "The presets albertine-* have the sizes of albert-*" in captured.err
    assert "11,683,584" in table


@pytest.mark.parametrize(
    ("words", "grows"),
    [
        ((), True),
        (("--model.layers", "24"), True),
        (("--model", "albertine-tiny"), True),
        (("--model", "albert-tiny"), False),
        (("--init-from", "checkpoint"), False),
        (("--config", "settings.toml"), False),
        (("--config", "train.toml"), True),
        (("--config", "start.toml"), False),
    ],
)
def test_depth_grows_by_default_unless_the_architecture_comes_from_elsewhere(
    words: tuple[str, ...],
    grows: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("settings.toml").write_text("[model]\nlayers = 3\n")
    Path("train.toml").write_text("[train]\nsteps = 100\n")
    Path("start.toml").write_text('init_from = "checkpoint"\n')
    assert run_command(app, ["pretrain", *words, "--print-settings"]) == 0
    settings = tomllib.loads(capsys.readouterr().out)
    assert settings["curriculum"].get("depth") == ("grow" if grows else None)
    assert settings["objective"]["mlm_probability"] == (0.3 if grows else 0.15)


def test_info_json_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    info = json_output(capsys, "info", "albert-large", "--memory", "24GB")
    assert info["parameters"]["total"] == sum(info["parameters"]["by_part"].values())
    assert info["parameters"]["encoder"] == 17_683_968
    assert info["parameters"]["bert_ratio"] == pytest.approx(18.9, abs=0.05)
    assert info["embedding"] == {"unfactorized": 30_720_000, "factorized": 3_971_072}
    assert info["flops"]["forward_per_token"] > info["flops"]["attention_per_token"] > 0
    assert info["weight_bytes"]["fp32"] == 4 * info["parameters"]["total"]
    assert info["training_memory"]["with_recomputation"]["total"] > 0
    assert info["data_parallel"]["gradient_bytes"] == 4 * info["parameters"]["total"]
    assert (
        info["largest_batch_size"]["with_recomputation"]
        > info["largest_batch_size"]["without_recomputation"]
        > 0
    )


def test_the_preset_table_fits_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in (["info"], ["info", "--memory", "24GB"]):
        assert run_command(app, words) == 0
        captured = capsys.readouterr()
        assert "…" not in captured.out
        assert max(map(len, captured.out.splitlines())) <= 80
        assert "1,275,291,648" in captured.out
        assert "One model in full" in captured.err
        assert ("trains in 24GB" in captured.err) == (len(words) > 1)


def test_info_table_shows_the_same_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app, ["info", "albert-large", "--memory", "24GB"]) == 0
    table = capsys.readouterr().out
    for value in ("17,683,968", "30,720,000", "3,971,072", "334,607,360 (1/18.9)", "Largest batch in 24GB"):
        assert value in table


def test_info_of_a_folder_with_brackets_and_of_a_model_larger_than_its_bert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ModelSettings(vocab_size=1000, embedding_size=512, hidden_size=64, heads=2, layers=1)
    albertine.save(albertine.Model(settings), "run[final]")
    assert run_command(app, ["info", "run[final]"]) == 0
    table = capsys.readouterr().out
    assert "run[final]" in table
    assert re.search(r"encoder of same-shape BERT +[\d,]+ \([2-9]\.\d times\)", table)


def test_info_compares_two_models(capsys: pytest.CaptureFixture[str]) -> None:
    models = json_output(capsys, "info", "albert-large", "--compare", "bert-large")["models"]
    assert [model["name"] for model in models] == ["albert-large", "bert-large"]
    assert models[0]["parameters"]["bert_of_same_shape"] == models[1]["parameters"]["encoder"]


def test_info_applies_model_settings(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--model.embedding_size", "256", "--model.share", "attention", "--model.groups", "4")
    info = json_output(capsys, "info", "albert-base", *words)
    assert info["name"] == "albert-base, changed"
    assert (info["model"]["embedding_size"], info["model"]["share"], info["model"]["groups"]) == (
        256,
        "attention",
        4,
    )
    assert info["parameters"]["published_millions"] is None


def test_info_reads_a_config_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text('[model]\npreset = "albert-small"\n')
    assert json_output(capsys, "info", "--config", str(file))["name"] == "albert-small"


def test_printed_settings_can_be_used_as_config(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["info", "bert-base", "--model.groups", "1", "--memory", "8GB", "--length", "64"]
    assert run_command(app, [*words, "--print-settings"]) == 0
    file = tmp_path / "printed.toml"
    file.write_text(capsys.readouterr().out)
    assert json_output(capsys, "info", "--config", str(file)) == json_output(capsys, *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["info", "albert-lage"],
            "albert-lage: neither a preset nor a folder (did you mean albert-large?)",
        ),
        (["info", "--model.heads", "5"], "--model.heads 5: must divide hidden_size = 768; try 4 or 6"),
        (
            ["info", "--model.hiden_size", "5"],
            "--model.hiden-size: unknown option (did you mean --model.hidden-size?); known: --model.v",
        ),
        (["info", "--foo=3"], "--foo=3: unknown option; known: --compare, --json,"),
        (["check", "x", "--field", "body"], "--field: unknown option (here: --text); known: --json,"),
        (["info", "albert-base", "albert-large"], "albert-large: unexpected argument"),
        (["convert", "a", "b", "--share", "some"], "--share some: must be all"),
        (["convert", "a", "b", "--rank", "x"], "--rank x: must be an integer"),
        (["info", "albert-base", "--model", "bert-base"], "albert-base and --model bert-base: two presets"),
        (["--quiet", "info"], "--quiet: options come after the command"),
        (["info", "--memory", "9" * 400 + "GB"], "must be between 1B and 1000000TB"),
        (["info", "--batch-size", "1" + "0" * 400], "must be at most 1,000,000,000"),
        (["info", "--precision", "a\nb"], "--precision a\\nb: must be one of fp32, bf16"),
        (
            ["info", "--model.max_length", "64"],
            "--model.max-length 64: does not fit length = 128, which must be",
        ),
        (
            ["info", "--length", "512", "--compare", "demo"],
            "--compare demo: does not fit length = 512: must be",
        ),
        (["info", "--memory", "24"], "--memory 24: must be a number and a unit, as in 24GB or 16GiB"),
        (["info", "--length", "513"], "--length 513: must be at most model.max_length = 512"),
        (["info", "--compare", "brt-base"], "--compare brt-base: unknown preset (did you mean bert-base?)"),
        (["bench", "stratup"], "stratup: unknown command (did you mean startup?); known: startup, "),
        (["nothing"], "nothing: unknown command; known: info, "),
        (
            ["predict", "m", "--data", "d", "--keep", "a", "--keep", "b"],
            "--keep: given twice; give it once (a list",
        ),
        (["world", "show", "1.5"], "NUMBER 1.5: must be an integer"),
        (["convert", "a", "b", "--share", "all", "--rank", "1.5"], "--rank 1.5: must be an integer"),
        (["convert", "a", "b", "--share", "none"], "--share none: must be all"),
        (["world", "write", "a", "--cluster", "none"], "--cluster none: must be ray"),
        (["tokenizer", "show", "a", "-"], "TEXT -: standard input is not read here"),
        (["fill-mask", "a", "-"], "TEXT -: standard input is not read here"),
        (
            ["plan", "--tokens", "1B", "--train.steps", "7"],
            "--tokens and --train.steps: two lengths of the run",
        ),
        (
            ["plan", "--finetune", "mnli", "--train.batch-tokens", "512"],
            "--train.batch-tokens: steps and batch",
        ),
        (
            ["plan", "--finetune", "mnli", "--curriculum.depth", "1:2"],
            "--curriculum.depth: steps and batches",
        ),
        (
            ["plan", "--finetune", "mnli", "--corpus", "c"],
            "--corpus: fine-tuning reads the examples of a task",
        ),
        (
            ["plan", "--tokens", "1B", "--hardware", "8 x H100", "--device", "cpu"],
            "--device: is for --hardware this; 8 x H100 has its own",
        ),
        (["plan", "--tokens", "1B", "--hardware", "H100", "--workers", "3"], "--workers: a plan counts no"),
        (["plan", "--efficiency", "0.4"], "--efficiency: --hardware this is measured; leave it out"),
        (["pretrain", "--out", "o", "--local-start"], "--local-start: needs position embeddings"),
        (
            ["pretrain", "--out", "o", "--local-start", "--init-from", "run"],
            "--local-start: has no effect with --init-from, whose",
        ),
        (["pretrain", "--plot", "run", "--resume"], "--plot: draws the curve of a run and stops; leave out"),
        (
            ["fill-mask", "run", "a [MASK]", "--seed", "3"],
            "--seed: is for the samples of --corpus; leave it out",
        ),
        (["demo", "--text", "a.txt", "--stories", "900"], "--stories 900: is for the little world"),
        (["info", "--model.halting-cost", "5"], "--model.halting-cost 5: needs depth_rule = halting"),
        (["info", "--processes", "4"], "--processes 4: not used for the table of presets; name a model"),
        (["info", "--precision", "fp32"], "--precision fp32: not used for the table of presets"),
        (["tokenizer", "show", "t", "text", "--field", "x"], "--field: is for --stats FILE; leave it out"),
        (
            ["world", "write", "w", "--train", "0", "--tasks", "rte"],
            '--train 0: does not fit tasks = "rte", which needs train above 0',
        ),
        (
            ["corpus", "show", "c", "--objective.text-fraction", "0.5", "--split", "dev"],
            "--objective.text-fraction 0.5: is for split = train; leave it out",
        ),
        (["report-card", "run", "--out", "o", "--seeds", "3"], "--seeds 3: needs data: only tasks take"),
        (["bench", "exits", "run", "--out", "o", "--exit-heads", "own"], "own: needs train.exits = true"),
        ([""], "empty argument: unknown command"),
        (["info", ""], "SOURCE: empty value; check that the shell variable is set"),
        (["corpus", "build", "a.txt", "--out", ""], "--out: empty value; check"),
    ],
)
def test_wrong_input_gets_one_line_and_status_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_bench_startup_reports_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    times = json_output(capsys, "bench", "startup", "--runs", "1")
    assert times["help_seconds"] > times["python_seconds"] > 0
    assert times["ratio"] == pytest.approx(times["help_seconds"] / times["python_seconds"])


@pytest.mark.slow
def test_bench_model_reports_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--model", "demo", "--runs", "1", "--batch", "sentences", "--precision", "fp32")
    lines = json_output(capsys, "bench", "model", *words)["lines"]
    assert [line["workload"] for line in lines] == ["training", "forward"]
    for line in lines:
        assert line["ratio"] == pytest.approx(line["tokens_per_second"] / line["peer_tokens_per_second"])
        assert min(line["peak_bytes"], line["peer_peak_bytes"]) > 50_000_000
        assert 0 < line["utilization"] < 1.5


def test_tokenizer_trains_and_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("The cat sat on the mat. The dog sat on the cat. " * 20)
    folder = str(tmp_path / "made")
    words = ["tokenizer", "train", str(tmp_path / "a.txt"), "--vocab_size", "115", "--out", folder]
    assert run_command(app, words) == 0
    result = json_output(
        capsys, "tokenizer", "show", folder, "the cat [x]", "--stats", str(tmp_path / "a.txt")
    )
    assert result["vocab_size"] == 115
    assert len(result["ids"]) == len(result["tokens"])
    assert result["stats"]["words"] == 240
    assert result["stats"]["unknown"] == 0
    assert result["stats"]["tokens_per_word"] >= 1
    assert run_command(app, ["tokenizer", "show", folder, "the cat"]) == 0
    assert "▁the" in capsys.readouterr().out
    assert run_command(app, words) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("corpus build text", "--tokenizer is missing; see albertine corpus build --help"),
        (
            "corpus build text --tokenizer",
            "--tokenizer: the value is missing; see albertine corpus build --help",
        ),
        ("pretrain --train.steps", "--train.steps: the value is missing; see albertine pretrain --help"),
        ("convert old", "DESTINATION is missing; see albertine convert --help"),
    ],
)
def test_missing_arguments_are_named(words: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app, words.split()) == 2
    assert capsys.readouterr().err == f"albertine: {line}\n"
