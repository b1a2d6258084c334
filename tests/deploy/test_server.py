"""Tests of the server: same results as the pipeline, one-line errors, graceful shutdown."""

import json
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stderr
from dataclasses import replace
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.deploy import handlers
from albertine.deploy.batcher import RequestBatcher
from albertine.errors import WorkError
from tests.deploy.conftest import TASK_TYPES, ServerClient, error_of, other_lines, post_head, running_server
from tests.task_fixtures import save_untrained_model

ClientFactory = Callable[[str], ServerClient]

NO_MEMORY = "out of memory; send fewer or shorter texts per request"

EXAMPLE_REQUESTS: dict[str, list[dict[str, Any]]] = {
    "classify": [
        {"text": "ka lo"},
        {"text": "mi", "text_pair": "vu ren tas"},
        {"text": "", "text_pair": None},
    ],
    "regress": [{"text": "ka lo"}, {"text": "mi"}],
    "tag": [{"text": "ka lo mi"}, {"text": ["ka", "lo mi"]}],
    "span": [{"question": "ka?", "context": "Lo mi vu."}, {"question": "", "context": ""}],
    "choice": [{"options": ["mi", "vu"]}, {"context": "ka", "question": "lo", "options": ["vu", "mi"]}],
}
EXAMPLE_REQUESTS["co-matching"] = EXAMPLE_REQUESTS["choice"]


def is_close(actual: Any, expected: Any) -> bool:
    """Return whether two JSON values are equal up to rounding."""
    if isinstance(actual, dict):
        return actual.keys() == expected.keys() and all(
            is_close(actual[key], expected[key]) for key in actual
        )
    if isinstance(actual, list):
        return len(actual) == len(expected) and all(map(is_close, actual, expected))
    if isinstance(actual, float):
        return actual == pytest.approx(expected, abs=1e-5)
    return bool(actual == expected)


@pytest.mark.parametrize("type_name", EXAMPLE_REQUESTS)
def test_responses_equal_those_of_the_pipeline(
    type_name: str, client_for: ClientFactory, models: dict[str, Path]
) -> None:
    client = client_for(type_name)
    pipeline = albertine.pipeline(models[type_name], device="cpu", precision="fp32")
    items = EXAMPLE_REQUESTS[type_name]
    expected = [pipeline(**item) for item in items]
    for item, prediction in zip(items, expected, strict=True):
        assert client("/predict", item) == (200, prediction)
    status, batch_response = client("/predict", items)
    assert status == 200
    assert all(map(is_close, batch_response, expected))
    assert client("/predict", []) == (200, [])


def test_a_pretrained_model_serves_fill_mask_and_order(
    client_for: ClientFactory, models: dict[str, Path]
) -> None:
    client = client_for("pretrained")
    pipeline = albertine.fill_mask_pipeline(models["pretrained"], device="cpu")
    text = "ka [MASK] lo [MASK]."
    status, response = client("/fill-mask", {"text": text})
    assert status == 200
    assert [
        [(prediction["token_str"], prediction["score"]) for prediction in mask] for mask in response["masks"]
    ] == [
        [(prediction.token, round(prediction.score, 6)) for prediction in mask]
        for mask in pipeline.fill(text)
    ]
    assert response["masks"][0][0]["text"]
    status, response = client("/order", {"first": "Ka.", "second": "Lo mi."})
    assert (status, response) == (200, {"in_order": round(pipeline.order_probability("Ka.", "Lo mi."), 6)})
    pairs = [("Ka.", "Lo mi."), ("Lo mi.", "Ka."), ("Vu.", "Ren tas.")]
    status, responses = client("/order", [{"first": first, "second": second} for first, second in pairs])
    assert [response["in_order"] for response in responses] == [
        round(pipeline.order_probability(*pair), 6) for pair in pairs
    ]


def test_concurrent_requests_get_their_own_responses(client_for: ClientFactory) -> None:
    client = client_for("tag")
    answered_before = client.batchers["/predict"].num_answered
    texts = [" ".join(["ka", "lo", "mi"][: 1 + number % 3]) + f" w{number}" for number in range(40)]
    with ThreadPoolExecutor(16) as executor:
        responses = list(executor.map(lambda text: client("/predict", {"text": text}), texts))
    assert [response["words"] for _, response in responses] == [text.split() for text in texts]
    assert client.batchers["/predict"].num_answered - answered_before == 40


@pytest.mark.parametrize(
    ("path", "body", "expected_status", "message"),
    [
        ("/predict", b"zzz", 400, "not valid JSON (Expecting value"),
        ("/predict", b"", 400, "not valid JSON"),
        ("/predict", b"\xff\xfe\xfa", 400, "not valid JSON (not UTF-8, at byte 0)"),
        ("/predict", b"[" * 100_000, 400, "not valid JSON (nested too deeply)"),
        ("/predict", b"1" * 5_000, 400, "not valid JSON (a number has too many digits)"),
        ("/predict", b'"ka"', 400, "must be a JSON object with text, text_pair"),
        ("/predict", b"[1]", 400, "item 1: must be a JSON object"),
        ("/predict", b'{"text_pair": "x"}', 400, "text: missing; must be a text"),
        ("/predict", b'{"text": null}', 400, "text: null; must be a text"),
        ("/predict", b'{"text": 3}', 400, "text: must be a text"),
        ("/predict", b'{"text": ["ka"]}', 400, "text: must be a text"),
        (
            "/predict",
            b'[{"text": "x"}, {"texd": "x"}]',
            400,
            "item 2: texd: unknown field; known: text, text_pair",
        ),
        ("/predict", rb'{"text": "\ud800"}', 400, "an unpaired surrogate"),
        (
            "/predict",
            b"[" + b'{"text": ""},' * 1024 + b'{"text": ""}]',
            400,
            "1,025 items; send at most 1,024",
        ),
        ("/predict", b" " * (handlers.MAX_BODY_BYTES + 1), 413, "larger than 1 MB"),
        ("/predict", None, 405, "GET /predict: method not allowed; use POST"),
        (
            "/fill-mask",
            b"{}",
            404,
            "/fill-mask: unknown path; known: /, /info, /health, /ping, /metrics, /openapi.json, /predict",
        ),
        ("/predict", b'{"": ""}', 400, "empty key: unknown field"),
        (
            "/predict",
            b'{"text": "' + b"x" * 100_001 + b'"}',
            400,
            "100,001 characters; an item may have at most 100,000",
        ),
        ("/predict/", b"{}", 404, "/predict/: unknown path"),
        ("/../../etc/passwd", None, 404, "unknown path"),
    ],
)
def test_wrong_requests_get_a_one_line_error(
    path: str, body: bytes | None, expected_status: int, message: str, client_for: ClientFactory
) -> None:
    status, response, _ = client_for("classify").request(path, body)
    assert status == expected_status
    assert message in error_of(response)
    assert "\n" not in error_of(response)
    assert client_for("classify")("/health") == (
        200,
        {"status": "ok", "workers": 1, "workers_loaded": 1},
    )


def test_wrong_option_counts_and_missing_masks_are_refused(client_for: ClientFactory) -> None:
    valid = {"options": ["mi", "vu"]}
    status, response = client_for("choice")("/predict", [valid, {"options": ["mi"]}])
    assert (status, error_of(response)) == (400, "item 2: options: 1; the model chooses between 2")
    status, response = client_for("choice")("/predict", {"options": "mi"})
    assert (status, error_of(response)) == (400, "options: must be a list of texts")
    status, response = client_for("pretrained")("/fill-mask", {"text": "ka"})
    assert (status, error_of(response)) == (400, "ka: has no [MASK] to fill")
    _, response = client_for("pretrained")("/fill-mask", {"text": "[MASK] ka " * 99})
    assert "the model takes 64" in response["error"]
    status, response = client_for("pretrained")("/fill-mask", [{"text": "[MASK] " * 30}] * 70)
    assert (status, error_of(response)) == (400, "2,100 masks; send at most 2,000 per request")


def test_response_to_a_truncated_item_says_so(models: dict[str, Path]) -> None:
    long_text = "ka " * 80
    num_tokens = len(albertine.load_tokenizer(models["classify"]).encode(long_text, add_special_tokens=False))
    with redirect_stderr(StringIO()) as log, running_server(models["classify"]) as client:
        for _ in range(2):
            status, responses = client("/predict", [{"text": "ka"}, {"text": long_text}])
            assert status == 200
            assert [response.get("truncated_tokens") for response in responses] == [None, num_tokens + 2 - 64]
    (message,) = other_lines(log.getvalue())
    assert message.endswith("later ones are only counted, in albertine_truncated_items_total")


def test_full_queue_is_503(client_for: ClientFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("albertine.deploy.batcher.MAX_QUEUED_ITEMS", 0)
    status, response, headers = client_for("regress").request("/predict", b'{"text": "ka"}')
    assert (status, headers["Retry-After"]) == (503, "5")
    assert "retry later" in response["error"]


@pytest.mark.parametrize(
    ("error", "status", "message", "logged"),
    [
        (
            ZeroDivisionError("division by zero"),
            500,
            "internal error: ZeroDivisionError: division by zero",
            "internal error: ZeroDivisionError: division by zero; start with --debug for the traceback",
        ),
        (WorkError("the model is damaged"), 500, "the model is damaged", "the model is damaged"),
        (MemoryError(), 503, NO_MEMORY, "out of memory"),
        (MemoryError("1 GB\nat 0x7f"), 503, NO_MEMORY, "out of memory (1 GB at 0x7f)"),
        (RuntimeError("DefaultCPUAllocator: no"), 503, NO_MEMORY, "out of memory (DefaultCPUAllocator: no)"),
    ],
)
def test_errors_of_the_server_are_logged(
    error: Exception,
    status: int,
    message: str,
    logged: str,
    client_for: ClientFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = client_for("regress")
    with monkeypatch.context() as patch, redirect_stderr(StringIO()) as log:

        async def failing_submit(_: RequestBatcher, items: list[tuple[Any, int]]) -> None:
            raise error

        patch.setattr(RequestBatcher, "submit", failing_submit)
        found_status, response = client("/predict", {"text": "ka"})
        assert (found_status, error_of(response)) == (status, message)
        assert other_lines(log.getvalue()) == [f"albertine: {logged} (request {response['request_id']})"]
    assert client("/predict", {"text": "ka"})[0] == 200


def test_info_lists_endpoints_with_working_examples(
    client_for: ClientFactory, models: dict[str, Path]
) -> None:
    status, info = client_for("classify")("/info")
    assert status == 200
    assert (info["model"], info["labels"]) == ("classify", ["x", "y"])  # not the path on the server
    assert info["max_length"] == client_for("pretrained")("/info")[1]["max_length"] == 64
    assert [endpoint["path"] for endpoint in info["endpoints"]] == ["/predict"]
    assert [field["name"] for field in info["endpoints"][0]["fields"]] == ["text", "text_pair"]
    for type_name in (*TASK_TYPES, "pretrained"):  # the initial values of the page are valid requests
        for endpoint in client_for(type_name)("/info")[1]["endpoints"]:
            example = {field["name"]: field["example"] for field in endpoint["fields"]}
            if "options" in example:
                example["options"] = example["options"].splitlines()
            assert client_for(type_name)(endpoint["path"], example)[0] == 200, type_name


def test_an_ensemble_is_served_like_a_model(
    client_for: ClientFactory, models: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copy(models["classify"] / "task.json", tmp_path)
    members = [{"folder": str(models["classify"]), "weight": weight} for weight in (1, 3)]
    (tmp_path / "ensemble.json").write_text(json.dumps({"format": 1, "members": members}))
    with running_server(tmp_path) as client:
        assert client("/info")[1]["model"] == tmp_path.name
        assert client("/predict", {"text": "ka"}) == client_for("classify")("/predict", {"text": "ka"})


def test_the_page_is_self_contained_and_covers_all_task_types(client_for: ClientFactory) -> None:
    status, page, headers = client_for("classify").request("/")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert (status, page) == (200, (files("albertine.deploy") / "page.html").read_text(encoding="utf-8"))
    assert "http" not in page
    for type_name in (*TASK_TYPES, "fill-mask", "order"):
        key = f'"{type_name}"' if "-" in type_name else type_name
        assert len(re.findall(rf"(?<!\w){key}: [\[(]", page)) == 2, type_name  # in TITLES and RENDERERS


def test_the_model_determines_whether_an_item_has_a_second_text(checkpoint: Path, tmp_path: Path) -> None:
    head, card = TASK_TYPES["classify"]
    for name, card_changes, fields, wrong_item in (
        (
            "single",
            {"columns": {"text": "text", "text_pair": None}},
            ["text"],
            {"text": "ka", "text_pair": "lo"},
        ),
        ("pair", {"columns": {"text": "a", "text_pair": "b"}}, ["text", "text_pair"], {"text": "ka"}),
        ("rte", {"task": "rte"}, ["text", "text_pair"], {"text": "ka"}),
    ):
        model = save_untrained_model(tmp_path / name, checkpoint, head, replace(card, **card_changes))
        with running_server(model) as client:
            _, info = client("/info")
            assert [field["name"] for field in info["endpoints"][0]["fields"]] == fields
            assert client("/predict", dict.fromkeys(fields, "ka"))[0] == 200
            status, response = client("/predict", wrong_item)
            assert (status, response["error"][:10]) == (400, "text_pair:")


def test_disconnected_clients_are_not_answered(client_for: ClientFactory) -> None:
    client = client_for("regress")
    batcher = client.batchers["/predict"]
    started, release = threading.Event(), threading.Event()
    process_batch, answered_before = batcher._process_batch, batcher.num_answered

    def blocking_process_batch(items: Sequence[Any]) -> Sequence[Any]:
        started.set()
        assert release.wait(30)
        return process_batch(items)

    batcher._process_batch = blocking_process_batch
    try:
        body = b'[{"text": "ka"}, {"text": "lo"}]'
        head = post_head(len(body))
        with socket.create_connection(("127.0.0.1", client.port), 30) as connection:
            connection.sendall(head + body)
            assert started.wait(30)
        with ThreadPoolExecutor(1) as executor:
            pending = executor.submit(client, "/predict", {"text": "mi"})
            deadline = time.monotonic() + 30
            while len(batcher._queue) < 1 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.2)  # until the server notices the disconnection
            release.set()
            assert pending.result(30)[0] == 200
    finally:
        batcher._process_batch = process_batch
    assert batcher.num_answered - answered_before == 1


# The command.


@contextmanager
def server_process(
    model: Path, before_start: Callable[[], None] | None = None
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `albertine serve`; yield the process and the address that it prints."""
    command = [
        sys.executable,
        "-m",
        "albertine",
        "serve",
        str(model),
        "--port",
        "0",
        "--device",
        "cpu",
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=before_start
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def send_partial_request(address: str) -> tuple[socket.socket, bytes]:
    """Send a request without its last bytes; return the connection and these bytes."""
    body = json.dumps({"text": "ka lo mi"}).encode()
    head = post_head(len(body))
    connection = socket.create_connection(("127.0.0.1", int(address.rstrip("/").rpartition(":")[2])), 30)
    connection.sendall(head + body[:5])
    connection.settimeout(0.5)
    with pytest.raises(TimeoutError):  # the server waits for the rest
        connection.recv(1)
    connection.settimeout(30)
    return connection, body[5:]


@pytest.mark.slow
def test_the_command_reports_truncated_items(models: dict[str, Path]) -> None:
    with server_process(models["classify"]) as (process, address):
        body = json.dumps([{"text": "ka"}, {"text": "ka " * 80}, {"text": "lo " * 80}]).encode()
        request = Request(f"{address}predict", body, {"Content-Type": "application/json"})
        urlopen(request, timeout=30).close()
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=30)
    _, first_truncation, request_line, summary = stderr.splitlines()
    assert re.fullmatch(r"\S+ POST /predict 200 [\d.]+ ms, texts 3, tokens 13\d, id \w+", request_line)
    assert first_truncation.startswith("an item is too long for the model and was truncated")
    assert summary == "stopped; answered: 3, truncated: 2"


def read_until_closed(connection: socket.socket) -> bytes:
    """Return all bytes that the server sends before it closes a connection."""
    return b"".join(iter(lambda: connection.recv(4096), b""))


@pytest.mark.slow
@pytest.mark.parametrize("shutdown_signal", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_pending_requests(shutdown_signal: signal.Signals, models: dict[str, Path]) -> None:
    with server_process(models["classify"]) as (process, address):
        assert json.load(urlopen(f"{address}health", timeout=30))["status"] == "ok"
        connection, rest = send_partial_request(address)
        with connection:
            process.send_signal(shutdown_signal)
            time.sleep(0.2)
            process.send_signal(shutdown_signal)  # a process may get one Ctrl-C twice, which counts as one
            time.sleep(0.2)
            connection.sendall(rest)
            assert b'"label"' in read_until_closed(connection)
        stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    assert stdout == ""
    first, *requests, last = stderr.splitlines()
    assert first == (
        f"{models['classify']}: POST /predict; open the address above in a browser to try it; "
        "stop with Ctrl-C"
    )
    assert [line.split()[1:4] for line in requests] == [
        ["GET", "/health", "200"],
        ["POST", "/predict", "200"],
    ]
    assert last == "stopped; answered: 1"


@pytest.mark.slow
def test_shutdown_times_out_with_503(models: dict[str, Path]) -> None:
    with server_process(models["classify"]) as (process, address):
        connection, _ = send_partial_request(address)
        with connection:
            process.send_signal(signal.SIGTERM)
            response = read_until_closed(connection)
        assert response.startswith(b"HTTP/1.1 503")
        assert b"the server is shutting down; retry later" in response
        _, stderr = process.communicate(timeout=30)
    assert process.returncode == 0
    assert stderr.endswith("stopped; answered: 0\n")


def test_startup_errors_are_one_line(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])  # in use
        cases = [
            ([str(models["tag"]), "--port", port], "Address already in use; use another port, or --port 0"),
            ([str(models["tag"]), "--host", "nowhere.invalid"], "--host nowhere.invalid: no such host name"),
            ([str(models["tag"]), "--host", "192.0.2.1"], "--host 192.0.2.1: not an address of this"),
            ([str(models["tag"]), "--port", "70000"], "port 70000"),
            (["albert-base", "--port", "0"], "a preset, which has no trained weights"),
            ([str(tmp_path / "none"), "--port", "0"], "none"),
            ([str(tmp_path), "--port", "0"], "config.json"),
        ]
        for arguments, message in cases:
            assert run_command(app, ["serve", *arguments]) == 2, arguments
            stderr = capsys.readouterr().err
            assert message in stderr
            assert stderr.count("\n") == 1


@pytest.mark.slow
def test_a_flood_does_not_exhaust_the_open_files(models: dict[str, Path]) -> None:
    limit = 96

    def limit_open_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    with server_process(models["classify"], limit_open_files) as (process, address), ExitStack() as stack:
        port = int(address.rstrip("/").rpartition(":")[2])
        for _ in range(2 * limit):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 30))
        time.sleep(1.2)  # then idle connections are replaced
        assert urlopen(f"{address}health").status == 200
        process.send_signal(signal.SIGTERM)
        assert "Traceback" not in process.communicate(timeout=30)[1]
