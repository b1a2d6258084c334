"""Tests of the benchmark of servers: what the client measures, and a run of the whole command."""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.task_fixtures import MODEL, save_untrained_model
from tests.task_fixtures import checkpoint as checkpoint  # the re-export makes it a fixture here

from albertine.bench import serve
from albertine.bench.load_client import send_from_callers
from albertine.bench.peer_server import create_peer_app
from albertine.bench.settings import ServeBenchSettings
from albertine.errors import InputError, WorkError
from albertine.export.export import export
from albertine.export.settings import ExportSettings
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard
from albertine.text.tokenizer import load_tokenizer

DELAY = 0.05


def measure(response: bytes, callers: int, seconds: float) -> tuple[list[float], list[bytes]]:
    """Return the latencies of requests to a server that waits before its response, and their bodies."""
    bodies: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
                bodies.append(await reader.readexactly(length))
                await asyncio.sleep(DELAY)
                writer.write(response)
        finally:
            writer.close()

    async def scenario() -> list[float]:
        def ignore_closed(_: Any, __: Any) -> None:
            pass

        asyncio.get_running_loop().set_exception_handler(ignore_closed)
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            return await send_from_callers(port, "/predict", [b"1", b"22"], callers, seconds)
        finally:
            server.close()

    return asyncio.run(scenario()), bodies


def test_each_caller_waits_for_its_response() -> None:
    started = time.perf_counter()
    latencies, bodies = measure(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 4, 0.5)
    elapsed = time.perf_counter() - started
    assert all(latency >= DELAY for latency in latencies)
    assert 4 <= len(latencies) <= 4 * elapsed / DELAY
    assert len(bodies) == len(latencies)
    assert set(bodies) == {b"1", b"22"}


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (b'HTTP/1.1 503 x\r\nContent-Length: 8\r\n\r\n{"a": 1}', 'a request got 503 {"a": 1}'),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", "got no response"),
    ],
)
def test_a_failed_request_ends_the_measurement(
    response: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("albertine.bench.load_client._RESPONSE_SECONDS", 0.3)
    with pytest.raises(WorkError, match=message):
        measure(response, 2, 0.5)


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        ("import time; time.sleep(60)", WorkError, "did not start in 1 seconds"),
        ("print('y or n?'); input()", WorkError, "did not start: EOFError: EOF when reading a line"),
        (
            "import sys; sys.stderr.write('m' * 200_000 + chr(10) + 'why'); sys.exit(2)",
            InputError,
            "start: why",
        ),
    ],
)
def test_a_server_that_does_not_start_is_an_error(
    program: str, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_START_SECONDS", 1.0)
    with pytest.raises(error, match=message), serve._server([sys.executable, "-c", program]):
        pass


@pytest.mark.parametrize(("peer", "advice"), [("other", "--peer other must be"), (None, "report this")])
def test_other_probabilities_are_an_error(
    peer: str | None, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def probabilities(port: int, *_: object) -> list[dict[str, float]]:
        return [{"x": 0.5 + 0.1 * port}]

    monkeypatch.setattr(serve, "_all_probabilities", probabilities)
    with pytest.raises(WorkError, match=f"differ by 0.1; {advice}"):
        asyncio.run(serve._check_same_results({"ours": 0, "peer": 1}, "", [], 0.01, peer))


def test_the_peer_truncates_like_the_server(checkpoint: Path, tmp_path: Path) -> None:
    save_folder(
        Model(MODEL, HeadSettings("classify"), seed=3), tmp_path, tokenizer=load_tokenizer(checkpoint)
    )
    (predict,) = [
        route.endpoint
        for route in create_peer_app(str(tmp_path), 8).routes
        if getattr(route, "path", "") == "/predict"
    ]
    assert predict("ka lo " * 4)["probabilities"] == predict("ka lo " * 9)["probabilities"]


def test_quantiles() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [serve._quantile(values, fraction) for fraction in (0.0, 0.5, 0.99)] == [1.0, 50.0, 99.0]
    assert serve._quantile([7.0], 0.99) == 7.0


def test_the_peer_is_left_out_with_a_reason(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings, folder = ServeBenchSettings(), str(tmp_path)
    assert "type tag" in str(serve._missing_peer(folder, "tag", settings))
    assert "--device cpu" in str(serve._missing_peer(folder, "classify", ServeBenchSettings(device="cuda")))
    for file, reason in (("export.json", "exported; name the checkpoint"), ("ensemble.json", "an ensemble")):
        (tmp_path / file).write_text("{}")
        assert reason in str(serve._missing_peer(folder, "classify", settings))
        assert serve._missing_peer(folder, "classify", ServeBenchSettings(peer=str(checkpoint))) is None
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "fastapi" else object())
    reason = "fastapi not installed; run pip install fastapi transformers"
    assert serve._missing_peer(folder, "classify", settings) == reason


@pytest.mark.long
def test_the_peer_serves_networks_with_a_modelling_file(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Model(replace(MODEL, rotary=True), HeadSettings("classify"), seed=3)
    save_folder(model, tmp_path / "model", tokenizer=load_tokenizer(checkpoint))
    assert create_peer_app(str(tmp_path / "model"), 32)
    # No question whether to run the file: the benchmark expects the address there.
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_both_servers_are_measured(checkpoint: Path, tmp_path: Path) -> None:
    card = TaskCard("classify", "classify", ("x", "y"), ("accuracy",), max_length=MODEL.max_length)
    save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify"), card)
    command = [sys.executable, "-m", "albertine", "bench", "serve"]
    options = ["--seconds", "0.3", "--json", "--quiet"]
    done = subprocess.run(
        [*command, str(tmp_path / "model"), *options], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    results = json.loads(done.stdout)["results"]
    assert [(result["server"], result["callers"]) for result in results] == [
        (server, callers) for callers in (1, 8, 64) for server in ("albertine", "fastapi + transformers")
    ]
    for result in results:
        assert result["requests"] >= 1
        assert 0 < result["p50_ms"] <= result["p99_ms"]
    measure_export(command, options, tmp_path)
    failed = subprocess.run([*command, str(tmp_path / "none")], capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert failed.stderr.count("\n") == 1


def measure_export(command: list[str], options: list[str], folder: Path) -> None:
    """Measure the export of the model in a folder, first without the peer and then with it."""
    export(folder / "model", folder / "exported", ExportSettings())
    arguments = [*command, str(folder / "exported"), *options]
    for peer, servers in (
        ([], ["albertine"] * 3),
        (["--peer", str(folder / "model")], ["albertine", "fastapi + transformers"] * 3),
    ):
        done = subprocess.run([*arguments, *peer], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert [result["server"] for result in json.loads(done.stdout)["results"]] == servers
