"""Tests of a connection's limits: malformed, slow, idle and too many clients."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, redirect_stderr
from http.client import HTTPResponse
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from albertine.deploy import connection
from tests.deploy.conftest import ServerClient, error_of, other_lines, post_head, running_server

ClientFactory = Callable[[str], ServerClient]
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect(client: ServerClient) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.port), 30)


def exchange(client: ServerClient, data: bytes) -> bytes:
    """Send bytes, and return all that the server sends until it closes the connection."""
    with connect(client) as stream:
        stream.sendall(data)
        return read_until_closed(stream)


def read_until_closed(stream: socket.socket) -> bytes:
    received = b""
    try:
        while data := stream.recv(65_536):
            received += data
    except ConnectionResetError:  # the server has not read everything
        pass
    return received


def read_status(stream: socket.socket) -> int:
    """Read a whole response, and return its status."""
    response = HTTPResponse(stream)
    response.begin()
    response.read()
    return response.status


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", received)]


def test_a_long_head_gets_a_response_and_no_reset(client_for: ClientFactory) -> None:
    head = HEALTH[:-2] + b"X-Long: " + b"a" * 300_000 + b"\r\n\r\n"
    with connect(client_for("classify")) as stream:
        stream.sendall(head)
        received = b""
        while data := stream.recv(65_536):  # raises an error if the connection is reset
            received += data
    assert statuses(received) == [400]


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000,
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HEAD /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_not_http_gets_an_error_and_is_disconnected(data: bytes, client_for: ClientFactory) -> None:
    with redirect_stderr(StringIO()) as log:
        received = exchange(client_for("classify"), data)
        assert client_for("classify")("/health")[0] == 200
    assert statuses(received) == ([400] if received else [])  # lost if the server has not read everything
    if received and not data.startswith(b"HEAD"):
        body = received.partition(b"\r\n\r\n")[2]
        assert error_of(json.loads(body)) == "not a valid HTTP request, or its head is too long"
    assert other_lines(log.getvalue()) == []


def test_two_lengths_are_refused_and_what_follows_is_not_read(client_for: ClientFactory) -> None:
    head = post_head(5).replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    received = exchange(client_for("classify"), head + b"0\r\n\r\n" + HEALTH)
    assert statuses(received) == [400]
    assert b"Content-Length and Transfer-Encoding; send one of them" in received


def test_bad_bytes_after_an_early_answer_only_close_the_connection(client_for: ClientFactory) -> None:
    head = b"POST /none HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with redirect_stderr(StringIO()) as log, connect(client_for("classify")) as stream:
        stream.sendall(head)
        assert read_status(stream) == 404
        stream.sendall(b"zz\r\n")
        assert read_until_closed(stream) == b""
    assert other_lines(log.getvalue()) == []


@pytest.mark.parametrize(
    ("data", "expected_statuses"),
    [
        (b"", []),
        (b"GET / HT", [408]),
        (post_head(99) + b"{", [408]),
        (HEALTH, [200]),
        (HEALTH + b"GET / HT", [200, 408]),
        (post_head(99, "/none") + b"{", [404]),
    ],
)
def test_slow_clients_time_out(
    data: bytes, expected_statuses: list[int], client_for: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CLIENT_TIMEOUT_SECONDS", 0.3)
    assert statuses(exchange(client_for("classify"), data)) == expected_statuses


def test_a_trickling_client_times_out(client_for: ClientFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CLIENT_TIMEOUT_SECONDS", 0.5)
    with connect(client_for("classify")) as stream, pytest.raises(OSError):  # noqa: PT011  # of several kinds
        for _ in range(100):
            stream.sendall(b"G")
            time.sleep(0.05)


def test_a_client_that_takes_no_response_is_disconnected_but_a_slow_one_gets_all(
    client_for: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CLIENT_TIMEOUT_SECONDS", 0.3)
    requests = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000
    with connect(client_for("classify")) as stream:
        stream.sendall(requests)
        time.sleep(1.5)
        assert len(statuses(read_until_closed(stream))) < 1_000
    with connect(client_for("classify")) as stream:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        stream.sendall(requests)
        received = bytearray()
        while data := stream.recv(1 << 20):
            received += data
            time.sleep(0.01)
    assert len(statuses(bytes(received))) == 1_000


def test_idle_connections_are_closed_before_new_ones_are_refused(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "albertine.deploy.http_server.resource.getrlimit", lambda _: (16, 16)
    )  # 8 connections
    with running_server(models["regress"]) as client:
        idle = [connect(client) for _ in range(7)]
        idle[3].sendall(b"GET / HT")
        with connect(client) as active:
            active.sendall(HEALTH)
            assert read_status(active) == 200
            monkeypatch.setattr(connection, "MIN_IDLE_SECONDS", 60.0)
            status, response, headers = client.request("/health")
            assert (status, headers["Retry-After"]) == (503, "5")
            assert error_of(response) == "too many connections; retry later"
            monkeypatch.setattr(connection, "MIN_IDLE_SECONDS", 0.0)
            assert client("/health")[0] == 200
            assert read_until_closed(idle[0]) == b""  # the oldest
            active.sendall(HEALTH)
            assert read_status(active) == 200
        for stream in idle:
            stream.close()


def test_refused_clients_get_the_response(models: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "albertine.deploy.http_server.resource.getrlimit", lambda _: (16, 16)
    )  # 8 connections
    monkeypatch.setattr(connection, "MIN_IDLE_SECONDS", 60.0)
    with running_server(models["regress"]) as client, ExitStack() as stack:
        accepted, *_ = [stack.enter_context(connect(client)) for _ in range(8)]
        refused, slow, *beyond = [stack.enter_context(connect(client)) for _ in range(4)]
        for stream in (refused, slow):
            stream.sendall(post_head(5))
        time.sleep(0.2)
        refused.sendall(b"12345")  # after the server has read the head
        assert [read_status(stream) for stream in (refused, slow, *beyond)] == [503] * 4
        assert refused.recv(1) == b""  # closed, and not reset
        accepted.sendall(HEALTH)
        assert read_status(accepted) == 200


def test_a_request_that_is_computed_is_not_idle(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("albertine.deploy.http_server.resource.getrlimit", lambda _: (16, 16))
    monkeypatch.setattr(connection, "MIN_IDLE_SECONDS", 0.0)
    with running_server(models["regress"]) as client:
        batcher = client.batchers["/predict"]
        started, release = threading.Event(), threading.Event()
        process_batch = batcher._process_batch

        def blocking_process_batch(items: Sequence[Any]) -> Sequence[Any]:
            started.set()
            assert release.wait(30)
            return process_batch(items)

        batcher._process_batch = blocking_process_batch
        body = b'{"text": "ka"}'
        with connect(client) as pending:
            pending.sendall(post_head(len(body)) + body)
            assert started.wait(30)
            idle = [connect(client) for _ in range(30)]
            assert client("/health")[0] == 200
            release.set()
            assert read_status(pending) == 200
        for stream in idle:
            stream.close()
