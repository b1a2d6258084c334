"""Tests of the responses of the supervisor while no worker answers."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse

import pytest

from albertine.deploy import refusals
from albertine.deploy.http_server import bind_socket
from albertine.deploy.refusals import Refusals
from albertine.deploy.server_log import ServerLog


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with bind_socket("127.0.0.1", 0) as listener:
        yield listener


def request(port: int, body: bytes) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response, content


def test_requests_of_any_size_get_503(listener: socket.socket, capsys: pytest.CaptureFixture[str]) -> None:
    refused, port = Refusals(listener, ServerLog("text")), listener.getsockname()[1]
    bodies = (b"", b"{}", b"x" * 1_000_000)
    with ThreadPoolExecutor(len(bodies)) as clients:
        pending = [clients.submit(request, port, body) for body in bodies]
        while not all(one.done() for one in pending):
            refused.update(is_refusing=True)
            time.sleep(0.01)
    for response, content in (one.result() for one in pending):
        error = json.loads(content)
        assert (response.status, response.headers["Retry-After"]) == (503, "5")
        assert error["error"] == "no worker of the server answers; others are being started; retry later"
        assert response.headers["X-Request-Id"] == error["request_id"]
    refused.update(is_refusing=False)
    assert not refused._accepted
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "albertine: no worker answers; requests get status 503 until one does"


def test_connections_are_left_to_workers_that_answer(listener: socket.socket) -> None:
    refused = Refusals(listener, ServerLog("text"))
    with socket.create_connection(listener.getsockname()) as client:
        refused.update(is_refusing=False)
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)


def test_a_client_that_does_not_close_is_disconnected(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "_READ_SECONDS", 0.1)
    refused = Refusals(listener, ServerLog("text"))
    with socket.create_connection(listener.getsockname()) as client:
        refused.update(is_refusing=True)
        assert client.recv(65_536).startswith(b"HTTP/1.1 503 ")
        assert len(refused._accepted) == 1
        time.sleep(0.2)
        refused.update(is_refusing=True)
        assert not refused._accepted
