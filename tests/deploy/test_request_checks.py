"""Tests of the checks of a request's headers: hosts, lengths, content types."""

import json
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.deploy.request_checks import allowed_hosts, parse_host
from tests.deploy.conftest import ServerClient

ITEM = b'{"text": "ka"}'


def send(client: ServerClient, headers: dict[str, str], body: bytes = ITEM) -> tuple[int, Any]:
    with closing(HTTPConnection("127.0.0.1", client.port, timeout=30)) as connection:
        connection.putrequest("POST", "/predict", skip_host=True)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost", "localhost"),
        ("localhost:8000", "localhost"),
        ("127.0.0.1:8000", "127.0.0.1"),
        ("[::1]:8000", "::1"),
        ("my_host-1.example.org", "my_host-1.example.org"),
        ("", None),
        (":8000", None),
        ("::1", None),
        ("localhost:port", None),
        ("localhost@evil.example", None),
        ("evil.example#localhost", None),
        ("localhost evil.example", None),
        ("localhost, evil.example", None),
        ("[localhost]", None),
    ],
)
def test_host_header(header: str, host: str | None) -> None:
    assert parse_host(header) == host


def test_allowed_hosts_are_localhost_the_bound_address_and_the_users_names() -> None:
    hosts = allowed_hosts("192.168.1.5", ["My-Host", "2001:db8::1"])
    for host in ("localhost", "LOCALHOST", "192.168.1.5", "my-host", "2001:DB8:0::1"):
        assert hosts.allows(host), host
    for host in ("127.0.0.1", "::1", "evil.example", "localhost.evil.example", "192.168.1.6", "*"):
        assert not hosts.allows(host), host
    assert allowed_hosts("127.0.0.1", ["*"]).allows("any.example")


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
def test_a_server_on_all_addresses_allows_every_address_but_no_other_name(address: str) -> None:
    hosts = allowed_hosts(address, [])
    assert hosts.allows("203.0.113.7")
    assert hosts.allows("fe80::1")
    assert not hosts.allows("evil.example")


def test_a_foreign_host_is_refused_with_the_setting_that_allows_it(
    client_for: Callable[[str], ServerClient],
) -> None:
    client, content_type = client_for("classify"), {"Content-Type": "application/json"}
    for host in ("localhost", f"127.0.0.1:{client.port}"):
        assert send(client, {"Host": host, **content_type})[0] == 200
    status, response = send(client, {"Host": "evil.example:8000", **content_type})
    assert (status, response["error"]) == (
        421,
        "Host evil.example: not a name of this server; if it is one, start the server with "
        "--allowed-hosts evil.example",
    )
    status, response = send(client, {"Host": "a/b", **content_type})
    assert (status, response["error"]) == (400, "Host a/b: not a host name")


@pytest.mark.parametrize(
    ("content_type", "expected_status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("text/plain; application/json", 415),
        ("", 415),
        (None, 415),
    ],
)
def test_only_json_is_accepted(
    content_type: str | None, expected_status: int, client_for: Callable[[str], ServerClient]
) -> None:
    headers = {"Host": "localhost"} | ({} if content_type is None else {"Content-Type": content_type})
    status, response = send(client_for("classify"), headers)
    assert status == expected_status
    if status == 415:
        assert response["error"].startswith("Content-Type ")
        assert response["error"].endswith(": must be application/json")


def test_an_address_may_be_spelled_in_another_way() -> None:
    assert allowed_hosts("127.0.0.1", ["2001:DB8:0:0::1"]).allows("2001:db8::1")


def test_an_allowed_host_must_be_a_host_name(capsys: pytest.CaptureFixture[str]) -> None:
    for value in ("http://example.org", "example.org:80", "10.0.0.1:80", "cafe:80", ":::"):
        assert run_command(app, ["serve", "none", "--allowed-hosts", value]) == 2
        assert "must be a host name without scheme, port and path" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["example.org,", ",example.org", "a,,b"])
def test_an_allowed_host_has_a_name(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app, ["serve", "none", "--allowed-hosts", value]) == 2
    assert "has an empty name" in capsys.readouterr().err
