"""Tests of loading by hub name, with a local server in place of the hub."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from tests.interop.hub_server import COMMIT, HubHandler, run_script, serve_repository

import albertine
from albertine.errors import InputError
from albertine.interop.hub import is_hub_name
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import ModelSettings

LOAD_SCRIPT = """
import sys, albertine, torch
try:
    model = albertine.load(sys.argv[1], revision=sys.argv[2] if len(sys.argv) > 2 else None)
    print(model.settings.layers, float(model.encoder.embedding.tokens.weight.detach().sum()))
except albertine.AlbertineError as error:
    print(type(error).__name__, error)
"""

MODULES_SCRIPT = """
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load_checkpoint import load_folder
from albertine.interop.sentence_transformers_folder import read_sentence_modules
modules = read_sentence_modules(locate_checkpoint("someone/small"))
load_folder(modules.model_folder)
shape = list(modules.layers[0].weight.shape)
print(modules.poolings, shape, modules.normalize, modules.max_length, modules.prompt)
"""


DATASET_SCRIPT = """
import sys
from albertine.errors import AlbertineError
from albertine.text.hub_datasets import hub_records
try:
    print([record["text"] for _, record in hub_records(sys.argv[1], 0)])
except AlbertineError as error:
    print(error)
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Serve a checkpoint; yield the environment variables that make the server the hub."""
    model = ModelSettings(vocab_size=61, embedding_size=10, hidden_size=24, layers=3, heads=4, max_length=16)
    save_folder(Model(model, seed=4), tmp_path / "small")
    with serve_repository(tmp_path / "small", tmp_path / "home") as environment:
        yield environment


def load_in_process(environment: dict[str, str], *arguments: str) -> str:
    """Load a checkpoint in a new process; return what `LOAD_SCRIPT` prints."""
    return run_script(environment, LOAD_SCRIPT, *arguments)


def layers_in_info(environment: dict[str, str]) -> int:
    command = [sys.executable, "-m", "albertine", "info", "someone/small", "--json"]
    completed = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True)
    return int(json.loads(completed.stdout)["model"]["layers"])


def expected_output(folder: Path) -> str:
    """Return what `LOAD_SCRIPT` prints for the checkpoint in a folder."""
    from albertine.interop.load_checkpoint import load_folder

    model = load_folder(folder)
    return f"{model.settings.layers} {float(model.encoder.embedding.tokens.weight.detach().sum())}"


@pytest.mark.slow
def test_checkpoint_is_cached_for_offline_use(hub: dict[str, str], tmp_path: Path) -> None:
    expected = expected_output(tmp_path / "small")
    (tmp_path / "small" / "task.json").write_text("{}")  # of a fine-tuned model
    assert load_in_process({**hub, "HF_TOKEN": "secret"}, "someone/small", COMMIT) == expected
    assert "Bearer secret" in HubHandler.authorizations
    assert list((tmp_path / "home").rglob("task.json"))
    (tmp_path / "small" / "model.safetensors").rename(tmp_path / "weights")
    assert layers_in_info(hub) == 3  # without weights
    (tmp_path / "weights").rename(tmp_path / "small" / "model.safetensors")
    HubHandler.authorizations.clear()
    assert load_in_process({**hub, "HF_HUB_OFFLINE": "1"}, f"someone/small@{COMMIT}") == expected
    assert HubHandler.authorizations == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "output"),
    [
        (f"hub:someone/small@{COMMIT}", "['One. Two.']"),
        ("hub:someone/small@main:default:train", "['One. Two.']"),
        ("hub:someone/small", "['One. Two.']"),
        ("hub:someone/small@v9", "hub:someone/small@v9: cannot open the dataset"),
    ],
)
def test_revision_of_a_dataset(name: str, output: str, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "train.jsonl").write_text('{"text": "One. Two."}\n')
    with serve_repository(tmp_path / "small", tmp_path / "home") as environment:
        printed = run_script(environment, DATASET_SCRIPT, name)
    assert printed.startswith(output)
    assert printed.endswith("; check the name and the revision") or "cannot" not in printed


@pytest.mark.slow
@pytest.mark.parametrize("is_reset", [False, True])
def test_partial_download_is_never_loaded(hub: dict[str, str], tmp_path: Path, is_reset: bool) -> None:
    HubHandler.num_truncated, HubHandler.is_reset = 1, is_reset
    expected = expected_output(tmp_path / "small")
    output = load_in_process(hub, "someone/small")
    assert output == expected or output.startswith("WorkError someone/small: the download was interrupted")
    assert load_in_process(hub, "someone/small") == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["someone/nothing"],
            "InputError someone/nothing: neither a local folder nor a repository on the hub",
        ),
        (["someone/small", "v9"], "InputError someone/small: the hub repository has no revision v9"),
        (["someone/small@v9"], "InputError someone/small: the hub repository has no revision v9"),
        (["someone/small@v1", "v2"], "InputError someone/small@v1: names another revision than v2;"),
        (["someone/small@"], "InputError someone/small@: no revision after @;"),
        (["nonsense"], "InputError nonsense: no such folder; a model is a folder, or a hub"),
    ],
)
def test_missing_repository_error(hub: dict[str, str], arguments: list[str], message: str) -> None:
    assert load_in_process(hub, *arguments).startswith(message)


@pytest.mark.slow
def test_check_takes_the_tokenizer_of_a_repository(
    hub: dict[str, str], tokenizer: Path, tmp_path: Path
) -> None:
    shutil.copyfile(tokenizer / "tokenizer.json", tmp_path / "small" / "tokenizer.json")
    rows = [f"{'ka lo mi ' * 10},red", "ka,blue"] * 20  # the model takes 16 tokens
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    command = [sys.executable, "-m", "albertine", "check", str(tmp_path / "rows.csv"), "--json"]
    command += ["--tokenizer", "someone/small"]
    completed = subprocess.run(
        command, env={**os.environ, **hub}, capture_output=True, text=True, check=False
    )
    assert "truncated" in [finding["kind"] for finding in json.loads(completed.stdout)["findings"]]
    assert not list((tmp_path / "home").rglob("model.safetensors"))


@pytest.mark.slow
@pytest.mark.parametrize("model_path", ["", "0_Transformer"])
def test_modules_of_sentence_transformers_are_downloaded(
    model_path: str, hub: dict[str, str], tmp_path: Path
) -> None:
    if model_path:  # as in early versions of the library
        (tmp_path / "small").rename(tmp_path / "moved")
        (tmp_path / "small").mkdir()
        (tmp_path / "moved").rename(tmp_path / "small" / model_path)
    modules = {
        model_path: "Transformer",
        "1_Pooling": "Pooling",
        "2_Dense": "Dense",
        "3_Normalize": "Normalize",
    }
    files: dict[str, Any] = {
        "modules.json": [
            {"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in modules.items()
        ],
        f"{model_path}/sentence_bert_config.json".strip("/"): {"max_seq_length": 9},
        "config_sentence_transformers.json": {"prompts": {"a": "b: "}, "default_prompt_name": "a"},
        "1_Pooling/config.json": {"pooling_mode": "cls"},
        "2_Dense/config.json": {"in_features": 24, "out_features": 5},
    }
    for name, content in files.items():
        (tmp_path / "small" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "small" / name).write_text(json.dumps(content))
    weights = {"linear.weight": torch.ones(5, 24), "linear.bias": torch.zeros(5)}
    save_file(weights, tmp_path / "small" / "2_Dense" / "model.safetensors")
    completed = subprocess.run(
        [sys.executable, "-c", MODULES_SCRIPT],
        env={**os.environ, **hub},
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.split() == ["('cls',)", "[5,", "24]", "True", "9", "b:"]


@pytest.mark.slow
def test_a_corpus_takes_the_tokenizer_of_a_repository(
    hub: dict[str, str], tokenizer: Path, text: Path, tmp_path: Path
) -> None:
    shutil.copyfile(tokenizer / "tokenizer.json", tmp_path / "small" / "tokenizer.json")

    def run(*words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "albertine", *words]
        return subprocess.run(
            command, env={**os.environ, **hub, **variables}, capture_output=True, text=True, check=False
        )

    out = tmp_path / "corpus"
    build = ["corpus", "build", str(text), "--held-out", "0.2", "--workers", "1"]
    built = run(*build, "--tokenizer", "someone/small", "--out", str(out))
    assert built.returncode == 0, built.stderr
    assert (out / "tokenizer" / "tokenizer.json").read_bytes() == (tokenizer / "tokenizer.json").read_bytes()
    shown = run("tokenizer", "show", f"someone/small@{COMMIT}", "one two", HF_HUB_OFFLINE="1")
    assert shown.returncode == 0, shown.stderr
    for name, message in (("someone/nothing", "neither a local folder nor"), ("nowhere", "no such folder")):
        refused = run(*build, "--tokenizer", name, "--out", str(tmp_path / "other"))
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"albertine: {name}: {message}")
        assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_offline_without_cache_error(hub: dict[str, str]) -> None:
    output = load_in_process({**hub, "HF_HUB_OFFLINE": "1"}, "someone/small")
    assert output.startswith("WorkError someone/small: neither a local folder nor in the cache")


def test_hub_names_and_paths_are_distinguished() -> None:
    assert is_hub_name("albert/albert-base-v2")
    for path in (
        "albert-base",
        "./runs/one",
        "../one",
        "a/b/c",
        "/a",
        "a/",
        "~/a",
        "ünï/cöde",
        "a/" + 95 * "b",
    ):
        assert not is_hub_name(path)


@pytest.mark.parametrize("source", ["", None, 5])
@pytest.mark.parametrize("function", [albertine.load, albertine.load_tokenizer, albertine.pipeline])
def test_what_is_no_name_of_a_model_is_refused(function: Any, source: Any) -> None:
    with pytest.raises(InputError, match=r"^model .*: expected a folder, a URL or a hub name, OWNER/NAME"):
        function(source)


@pytest.mark.parametrize("file", ["config.json", "ensemble.json"])
@pytest.mark.parametrize("function", [albertine.load, albertine.pipeline])
def test_a_revision_of_a_local_folder_is_refused(function: Any, file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("{}")
    with pytest.raises(
        InputError, match=r"revision main: only for hub names, and .* is a folder; leave it out"
    ):
        function(tmp_path, revision="main")
