"""Tests of loading by hub name, with a local server in place of the hub."""

import hashlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import torch
from safetensors.torch import save_file

from albertine.interop.hub import is_hub_name
from albertine.interop.huggingface import save_folder
from albertine.model.model import Model
from albertine.settings import ModelSettings

COMMIT = hashlib.sha1(b"commit").hexdigest()
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
from albertine.interop.sentence_transformers_folder import read_sentence_modules
modules = read_sentence_modules(locate_checkpoint("someone/small"))
shape = list(modules.layers[0].weight.shape)
print(modules.poolings, shape, modules.normalize, modules.max_length, modules.prompt)
"""


class HubHandler(BaseHTTPRequestHandler):
    """Serves the repository `someone/small` with the API of the hub.

    Attributes:
        folder: files of the repository.
        num_truncated: number of the next downloads of weights that are truncated.
        is_reset: whether a truncated download ends with a reset of its connection.
        authorizations: `authorization` headers of all requests.
    """

    folder: Path
    num_truncated: int = 0
    is_reset: bool = False
    authorizations: list[str | None]

    def do_HEAD(self) -> None:
        self.respond(body=False)

    def do_GET(self) -> None:
        self.respond(body=True)

    def respond(self, *, body: bool) -> None:
        HubHandler.authorizations.append(self.headers.get("authorization"))
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        if parts[:2] == ["api", "models"] and parts[2:4] == ["someone", "small"]:
            self.respond_with_metadata(parts[4:])
        elif parts[:3] == ["someone", "small", "resolve"] and parts[3] in ("main", COMMIT):
            self.respond_with_file(self.folder / "/".join(parts[4:]), body=body)
        else:
            self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def respond_with_metadata(self, parts: list[str]) -> None:
        files = (file for file in self.folder.rglob("*") if file.is_file())
        names = sorted(file.relative_to(self.folder).as_posix() for file in files)
        if len(parts) > 1 and parts[1] not in ("main", COMMIT):
            self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif parts[:1] == ["tree"]:
            entries = [
                {
                    "type": "file",
                    "path": name,
                    "size": (self.folder / name).stat().st_size,
                    "oid": etag(self.folder / name),
                }
                for name in names
            ]
            self.send(200, json.dumps(entries).encode())
        else:
            siblings = [{"rfilename": name} for name in names]
            model = {"id": "someone/small", "modelId": "someone/small", "sha": COMMIT, "siblings": siblings}
            self.send(
                200, json.dumps(model | {"private": False, "tags": [], "downloads": 0, "likes": 0}).encode()
            )

    def respond_with_file(self, path: Path, *, body: bool) -> None:
        if not path.exists():
            self.send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        content = path.read_bytes()
        headers = {"ETag": f'"{etag(path)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        requested_range = self.headers.get("range")
        start = int(requested_range.removeprefix("bytes=").split("-")[0]) if requested_range else 0
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        truncate = path.suffix == ".safetensors" and HubHandler.num_truncated > 0 and body
        HubHandler.num_truncated -= truncate
        self.send(206 if start else 200, content[start:], headers, body=body, truncate=truncate)

    def send(
        self,
        status: int,
        content: bytes,
        headers: dict[str, str] | None = None,
        *,
        body: bool = True,
        truncate: bool = False,
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body and self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if truncate else content)
        if truncate:
            self.close_connection = True
        if truncate and self.is_reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class HubServer(ThreadingHTTPServer):
    """Closes a connection without first announcing its end, so that the end can be a reset."""

    def shutdown_request(self, request: Any) -> None:
        self.close_request(request)


def etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Serve a repository; yield the environment variables that make the server the hub."""
    model = ModelSettings(vocab_size=61, embedding_size=10, hidden_size=24, layers=3, heads=4, max_length=16)
    save_folder(Model(model, seed=4), tmp_path / "small")
    HubHandler.folder, HubHandler.authorizations = tmp_path / "small", []
    HubHandler.num_truncated, HubHandler.is_reset = 0, False
    server = HubServer(("127.0.0.1", 0), HubHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    server.shutdown()
    thread.join()
    server.server_close()


def load_in_process(environment: dict[str, str], *arguments: str) -> str:
    """Load a checkpoint in a new process; return what `LOAD_SCRIPT` prints."""
    return run_script(environment, LOAD_SCRIPT, *arguments)


def run_script(environment: dict[str, str], script: str, *arguments: str) -> str:
    """Run a script in a new process, which reads the variables of the hub; return what it prints."""
    completed = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.strip()


def layers_in_info(environment: dict[str, str]) -> int:
    command = [sys.executable, "-m", "albertine", "info", "someone/small", "--json"]
    completed = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, check=True)
    return int(json.loads(completed.stdout)["model"]["layers"])


def expected_output(folder: Path) -> str:
    """Return what `LOAD_SCRIPT` prints for the checkpoint in a folder."""
    from albertine.interop.huggingface import load_folder

    model = load_folder(folder)
    return f"{model.settings.layers} {float(model.encoder.embedding.tokens.weight.detach().sum())}"


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
    assert load_in_process({**hub, "HF_HUB_OFFLINE": "1"}, "someone/small", COMMIT) == expected
    assert HubHandler.authorizations == []


@pytest.mark.parametrize("is_reset", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_partial_download_is_never_loaded(hub: dict[str, str], tmp_path: Path, is_reset: bool) -> None:
    HubHandler.num_truncated, HubHandler.is_reset = 1, is_reset
    expected = expected_output(tmp_path / "small")
    output = load_in_process(hub, "someone/small")
    assert output == expected or output.startswith("WorkError someone/small: the download was interrupted")
    assert load_in_process(hub, "someone/small") == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["someone/nothing"],
            "InputError someone/nothing: neither a local folder nor a repository on the hub",
        ),
        (["someone/small", "v9"], "InputError someone/small: the hub repository has no revision v9"),
        (["nonsense"], "InputError nonsense: neither a folder, a hub name nor a preset"),
    ],
)
def test_missing_repository_error(hub: dict[str, str], arguments: list[str], message: str) -> None:
    assert load_in_process(hub, *arguments).startswith(message)


def test_modules_of_sentence_transformers_are_downloaded(hub: dict[str, str], tmp_path: Path) -> None:
    modules = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense", "3_Normalize": "Normalize"}
    files: dict[str, Any] = {
        "modules.json": [
            {"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in modules.items()
        ],
        "sentence_bert_config.json": {"max_seq_length": 9},
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
