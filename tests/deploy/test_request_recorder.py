"""Tests of request ids and of the log: a response has an id, a request one line without its texts."""

import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from albertine.deploy import connection
from albertine.deploy.request_record import RequestRecord
from albertine.deploy.server_log import ServerLog
from albertine.progress import quiet_output
from tests.deploy.conftest import REQUEST_LINE, ServerClient, post_head, running_server

ClientFactory = Callable[[str], ServerClient]
ITEM = json.dumps({"text": "ka"}).encode()
HEX_DIGITS = set("0123456789abcdef")
KEYS = ["time", "id", "method", "path", "status", "milliseconds", "texts", "tokens"]


def is_new_id(value: str | None) -> bool:
    return value is not None and len(value) == 32 and set(value) <= HEX_DIGITS


def read_lines(log: StringIO, count: int) -> list[str]:
    """Return the lines of the log when there are enough; a line follows its response."""
    deadline = time.monotonic() + 10
    while log.getvalue().count("\n") < count and time.monotonic() < deadline:
        time.sleep(0.01)
    return log.getvalue().splitlines()


@pytest.mark.parametrize("given", ["a", "0af7651916cd43dd:8448eb21/1_2.3=+@-", "x" * 128])
def test_a_valid_id_is_kept(given: str, client_for: ClientFactory) -> None:
    for path, body, status in (("/predict", ITEM, 200), ("/predict", b"{", 400), ("/none", None, 404)):
        found, response, headers = client_for("classify").request(path, body, {"X-Request-Id": given})
        assert (found, headers.get_all("X-Request-Id")) == (status, [given])
        if status != 200:
            assert response["request_id"] == given


@pytest.mark.parametrize(
    "given", ["", "x" * 129, "a b", "a,b", "a;b", '"', "a\tb", "\xe4", "a%0d%0ab", "<a>", "{}"]
)
def test_an_invalid_id_is_replaced(given: str, client_for: ClientFactory) -> None:
    _, response, headers = client_for("classify").request("/predict", b"{", {"X-Request-Id": given})
    assert is_new_id(headers["X-Request-Id"])
    assert response["request_id"] == headers["X-Request-Id"]


def test_of_two_ids_neither_is_taken(client_for: ClientFactory) -> None:
    head = post_head(len(ITEM)).replace(b"\r\n\r\n", b"\r\nX-Request-Id: a\r\nX-Request-Id: b\r\n\r\n")
    with socket.create_connection(("127.0.0.1", client_for("classify").port), 30) as stream:
        stream.sendall(head + ITEM)
        received = stream.recv(65_536).decode()
    assert is_new_id(received.partition("x-request-id: ")[2][:32])


def test_all_errors_have_an_id(client_for: ClientFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_for("classify")
    monkeypatch.setattr(connection, "CLIENT_TIMEOUT_SECONDS", 0.3)
    for data in (b"nonsense\r\n\r\n", post_head(9), b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", client.port), 30) as stream:
            stream.sendall(data)
            received = b"".join(iter(lambda: stream.recv(65_536), b"")).decode()
        head, _, body = received.partition("\r\n\r\n")
        assert f"x-request-id: {json.loads(body)['request_id']}" in head.lower()


def test_a_timed_out_request_keeps_its_id_and_has_one_line(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CLIENT_TIMEOUT_SECONDS", 0.3)
    head = post_head(9).replace(b"\r\n\r\n", b"\r\nX-Request-Id: slow\r\n\r\n")
    with redirect_stderr(StringIO()) as log, running_server(models["classify"], log_format="json") as client:
        with socket.create_connection(("127.0.0.1", client.port), 30) as stream:
            stream.sendall(head)
            received = b"".join(iter(lambda: stream.recv(65_536), b""))
        assert b'"request_id":"slow"' in received
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["id"], line["status"]) for line in lines] == [("slow", 408)]


def test_a_line_has_numbers_but_no_texts(models: dict[str, Path]) -> None:
    secret = "Geheimnis"
    token = "secret-token-of-the-server"
    with (
        redirect_stderr(StringIO()) as log,
        running_server(models["classify"], log_format="json", token=token) as client,
    ):
        headers = {"Authorization": f"Bearer {token}", "X-Request-Id": "id-1"}
        items = [{"text": secret, "text_pair": secret}, {"text": secret}]
        client.request(f"/predict?q={secret}", json.dumps(items).encode(), headers)
        client.request("/predict", json.dumps({secret: secret}).encode(), headers)
        client.request("/predict", ITEM, {"Authorization": f"Bearer {secret}"})
        output = "\n".join(read_lines(log, 3))
    assert secret not in output
    assert token not in output
    first, second, third = map(json.loads, output.splitlines())
    assert list(first) == KEYS
    assert (first["id"], first["method"], first["path"], first["status"]) == ("id-1", "POST", "/predict", 200)
    assert first["texts"] == 3
    assert first["tokens"] > 3
    assert 0 < first["milliseconds"] < 60_000
    assert (second["status"], second["texts"], second["tokens"]) == (400, 0, 0)
    assert (third["status"], is_new_id(third["id"])) == (401, True)


def test_the_number_of_tokens_is_that_of_the_model(models: dict[str, Path]) -> None:
    with (
        redirect_stderr(StringIO()) as log,
        running_server(models["pretrained"], log_format="json") as client,
    ):
        client("/fill-mask", {"text": "[MASK]"})
        client("/order", {"first": "[MASK]", "second": "[MASK]"})
        client("/health")
        lines = [json.loads(line) for line in read_lines(log, 3)]
    assert [(line["texts"], line["tokens"]) for line in lines] == [(1, 3), (2, 5), (0, 0)]


def test_a_path_cannot_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    record = RequestRecord("id", "GET", "/\r\n2026 GET / 200\x1b[31m" + "x" * 9_999, status=404)
    ServerLog("text").request(record)
    ServerLog("json").request(record)
    text, json_line = capsys.readouterr().err.splitlines()
    assert len(text) < 400
    assert text.isprintable()
    assert len(json.loads(json_line)["path"]) < 250


def test_quiet_leaves_only_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with quiet_output():
        for log in (ServerLog("text"), ServerLog("json")):
            log.request(RequestRecord("id"))
            log.message("ready")
            log.error("broken", "id-1")
    text, json_line = capsys.readouterr().err.splitlines()
    assert text == "albertine: broken (request id-1)"
    content = json.loads(json_line)
    assert (content["level"], content["message"], content["id"]) == ("error", "broken", "id-1")


def test_text_lines_have_one_form(capsys: pytest.CaptureFixture[str]) -> None:
    ServerLog("text").request(
        RequestRecord("id-1", "POST", "/predict", status=200, num_texts=2, num_tokens=9)
    )
    line = capsys.readouterr().err.rstrip("\n")
    assert REQUEST_LINE.fullmatch(line)
    assert " POST /predict 200 " in line
    assert line.endswith(" ms, texts 2, tokens 9, id id-1")


def test_a_closed_log_does_not_stop_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed:
        def write(self, _: str) -> None:
            raise BrokenPipeError

        flush = write

    monkeypatch.setattr("sys.stderr", Closed())
    ServerLog("json").request(RequestRecord("id"))


def test_a_disconnected_client_is_recorded_as_499(models: dict[str, Path]) -> None:
    started, release = threading.Event(), threading.Event()

    def blocking_process_batch(items: Sequence[Any]) -> Sequence[Any]:
        started.set()
        assert release.wait(30)
        return items

    with redirect_stderr(StringIO()) as log, running_server(models["classify"], log_format="json") as client:
        client.batchers["/predict"]._process_batch = blocking_process_batch
        with socket.create_connection(("127.0.0.1", client.port), 30) as stream:
            stream.sendall(post_head(len(ITEM)) + ITEM)
            assert started.wait(30)
        (line,) = read_lines(log, 1)
        release.set()
    assert json.loads(line)["status"] == 499
