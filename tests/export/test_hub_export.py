"""Exported models by hub name, with a local server in place of the hub."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.export.export_fixtures import TEXTS
from tests.interop.hub_server import COMMIT, HubHandler, run_script, serve_repository

import albertine
from albertine.export.export import export
from albertine.export.settings import ExportSettings
from albertine.interop.export_record import ExportRecord, read_export_record
from albertine.settings.export import ExportFormat
from albertine.text.tokenizer import TOKENIZER_FILES

NAME = "someone/small"
OTHER_FORMATS = (
    "README.md",
    "model.safetensors",
    "pytorch_model.bin",
    "tf_model.h5",
    "model_quantized.onnx",
    "onnx/model.onnx",
    "onnx/model.onnx_data",
    "openvino_model.bin",
)

COMMAND_SCRIPT = """
import sys
from albertine.cli import app
from albertine.command import run_command
print(run_command(app, sys.argv[1:]))
"""

TASK_SCRIPT = """
import contextlib, io, json, sys, albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.deploy.model_loading import load_served_model
from albertine.settings.engine import EngineOptions
name, data, out, *texts = sys.argv[1:]
predictions = albertine.pipeline(name, revision="main")(texts)
assert run_command(app, ["predict", name, "--data", data, "--out", out]) == 0
with contextlib.redirect_stdout(io.StringIO()) as evaluation:
    assert run_command(app, ["evaluate", name, "--data", data, "--json"]) == 0
served = load_served_model(name, EngineOptions())
print(json.dumps([predictions, json.loads(evaluation.getvalue()), served.name, served.post_paths]))
"""

MASK_SCRIPT = """
import json, sys, albertine
from albertine.deploy.model_loading import load_served_model
from albertine.settings.engine import EngineOptions
fill_mask = albertine.fill_mask_pipeline(sys.argv[1])
served = load_served_model(sys.argv[1], EngineOptions())
((first, *_),) = fill_mask.fill("ka [MASK]")
order = fill_mask.order_probability("ka", "lo")
print(json.dumps([first.token, first.score, order, served.name, served.post_paths]))
"""


@pytest.fixture
def repository(exported: Path, tmp_path: Path) -> Path:
    """The folder of a repository with an export and other formats of its model."""
    return add_other_formats(shutil.copytree(exported, tmp_path / "repository"))


@pytest.fixture
def hub(repository: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Serve the repository; yield the environment variables that make the server the hub."""
    with serve_repository(repository, tmp_path / "home") as environment:
        yield environment


def add_other_formats(folder: Path) -> Path:
    for name in OTHER_FORMATS:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"another format of the model")
    return folder


def expected_downloads(folder: Path) -> list[str]:
    """Return the files of an export that a model needs: those that its record names, settings, tokenizer."""
    needed = {*read_export_record(folder).checksums, *TOKENIZER_FILES}
    needed |= {"export.json", "config.json", "task.json"}
    return sorted(name for name in needed if (folder / name).is_file())


def files_in_cache(home: Path) -> list[str]:
    folder = home / "hub" / "models--someone--small" / "snapshots" / COMMIT
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*"))


@pytest.mark.slow
def test_a_task_model_predicts_with_only_its_own_files(
    hub: dict[str, str], repository: Path, exported: Path, data: Path, tmp_path: Path
) -> None:
    texts = TEXTS[:5]
    output = run_script(hub, TASK_SCRIPT, NAME, str(data), str(tmp_path / "first.csv"), *texts)
    predictions, evaluation, *served = json.loads(output.splitlines()[-1])
    assert predictions == albertine.pipeline(exported)(texts)
    assert evaluation["results"][0]["metrics"]["accuracy"] == 1
    assert served == [NAME, ["/predict"]]
    assert sorted(HubHandler.downloads) == files_in_cache(tmp_path / "home") == expected_downloads(repository)

    HubHandler.authorizations.clear()
    offline = {**hub, "HF_HUB_OFFLINE": "1"}
    output = run_script(offline, TASK_SCRIPT, NAME, str(data), str(tmp_path / "second.csv"), *texts)
    assert json.loads(output.splitlines()[-1])[0] == predictions
    assert HubHandler.authorizations == []  # no request
    assert (tmp_path / "first.csv").read_bytes() == (tmp_path / "second.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_a_pretrained_model_fills_masks_and_is_served(
    to: ExportFormat, checkpoint: Path, tmp_path: Path
) -> None:
    export(checkpoint, tmp_path / "repository", ExportSettings(to=to))
    add_other_formats(tmp_path / "repository")
    with serve_repository(tmp_path / "repository", tmp_path / "home") as environment:
        token, score, order, *served = json.loads(run_script(environment, MASK_SCRIPT, NAME))
    fill_mask = albertine.fill_mask_pipeline(tmp_path / "repository")
    ((expected, *_),) = fill_mask.fill("ka [MASK]")
    assert (token, score) == (expected.token, pytest.approx(expected.score, abs=1e-6))
    assert order == pytest.approx(fill_mask.order_probability("ka", "lo"), abs=1e-6)
    assert served == [NAME, ["/fill-mask", "/order"]]
    assert sorted(HubHandler.downloads) == expected_downloads(tmp_path / "repository")


EMBED_SCRIPT = """
import json, sys, albertine
print(json.dumps(albertine.pipeline(sys.argv[1], task="embed")("ka lo").tolist()))
"""


@pytest.mark.slow
def test_an_encoder_brings_its_modules(checkpoint: Path, tmp_path: Path) -> None:
    export(checkpoint, tmp_path / "repository", ExportSettings(task="embed"))
    add_other_formats(tmp_path / "repository")
    with serve_repository(tmp_path / "repository", tmp_path / "home") as environment:
        vector = json.loads(run_script(environment, EMBED_SCRIPT, NAME))
    expected = albertine.pipeline(tmp_path / "repository", task="embed")("ka lo")
    assert vector == pytest.approx(expected.tolist(), abs=1e-6)
    assert sorted(HubHandler.downloads) == expected_downloads(tmp_path / "repository")
    assert "1_Pooling/config.json" in HubHandler.downloads


def remove_graph(folder: Path) -> None:
    (folder / "model.onnx").unlink()


def change_graph(folder: Path) -> None:
    content = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def remove_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def name_all_files(folder: Path) -> None:
    ExportRecord("onnx", "fp32", False, {"*": 64 * "0"}).write(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_graph, f"{NAME}: the repository has no model.onnx, which its export.json needs; upload all"),
        (
            remove_config,
            f"{NAME}: the repository has no config.json, which its export.json needs; upload all",
        ),
        (change_graph, "model.onnx: damaged or changed; remove "),
        (name_all_files, "export.json: names no files of a model; export the model again"),
    ],
)
def test_a_damaged_repository_is_one_line(
    damage: Callable[[Path], Any],
    message: str,
    hub: dict[str, str],
    repository: Path,
    data: Path,
    tmp_path: Path,
) -> None:
    damage(repository)
    lines = command_error(hub, "predict", NAME, "--data", str(data), "--out", str(tmp_path / "out.csv"))
    assert message in lines
    assert not set(HubHandler.downloads) & set(OTHER_FORMATS)


@pytest.mark.slow
def test_offline_without_the_graph_is_one_line(hub: dict[str, str], data: Path, tmp_path: Path) -> None:
    command = ("predict", NAME, "--data", str(data), "--out", str(tmp_path / "out.csv"))
    offline = {**hub, "HF_HUB_OFFLINE": "1"}
    message = f"{NAME}: neither a local folder nor in the cache, and the hub cannot be reached"
    assert message in command_error(offline, *command, status=1)
    assert "an exported model" in command_error(
        hub, "info", NAME
    )  # only the small files are in the cache now
    assert message in command_error(offline, *command, status=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("info", NAME), ("embed", NAME, "--data"), ("serve", NAME, "--depth", "1")]
)
def test_what_an_export_cannot_do_names_it(command: tuple[str, ...], hub: dict[str, str], data: Path) -> None:
    arguments = (*command, str(data)) if command[-1] == "--data" else command
    error = command_error(hub, *arguments)
    if command[0] == "serve":
        assert f"{NAME}: this export always applies all layers" in error
    else:
        problem = "an exported model, where a checkpoint is expected; name the one"
        if command[0] == "embed":
            problem = "an export that predicts, and gives no vectors of texts"
        assert f"{NAME}: {problem}" in error
        assert "model.onnx" not in HubHandler.downloads


def command_error(environment: dict[str, str], *arguments: str, status: int = 2) -> str:
    """Run a command that fails; return its error, which must be one line."""
    script = f"import sys; sys.stderr = sys.stdout\n{COMMAND_SCRIPT}"
    *lines, printed_status = run_script(environment, script, *arguments).splitlines()
    assert (len(lines), int(printed_status)) == (1, status), lines
    return lines[0]
