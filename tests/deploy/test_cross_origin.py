"""Tests of CORS: off by default, on for the allowed origins, and below the check of the host."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from albertine.cli import app
from albertine.command import run_command
from tests.deploy.conftest import ServerClient, error_of, running_server

ORIGIN, TOKEN = "https://app.example.org", "0123456789abcdef"
ITEM = b'{"text": "ka"}'
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "content-type,authorization,x-request-id",
}


@pytest.fixture(scope="module")
def client(models: dict[str, Path]) -> Iterator[ServerClient]:
    origins = (ORIGIN, "http://localhost:3000")
    with running_server(models["classify"], origins=origins, token=TOKEN) as running:
        yield running


def test_by_default_no_origin_is_allowed(models: dict[str, Path]) -> None:
    with running_server(models["classify"]) as plain:
        status, _, headers = plain.request("/predict", None, PREFLIGHT, "OPTIONS")
        assert (status, headers["Access-Control-Allow-Origin"]) == (405, None)
        status, _, headers = plain.request("/predict", ITEM, {"Origin": ORIGIN})
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, None)


def test_a_preflight_of_an_allowed_origin_needs_no_token(client: ServerClient) -> None:
    status, _, headers = client.request("/predict", None, PREFLIGHT, "OPTIONS")
    assert (status, headers["Access-Control-Allow-Origin"]) == (200, ORIGIN)
    assert "POST" in headers["Access-Control-Allow-Methods"]
    assert {"Authorization", "Content-Type", "X-Request-Id"} <= set(
        headers["Access-Control-Allow-Headers"].split(", ")
    )
    assert "Origin" in headers["Vary"]
    assert headers["Access-Control-Allow-Credentials"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"Origin": "https://evil.example"},
        {"Origin": f"{ORIGIN}.evil.example"},
        {"Origin": ORIGIN.replace("https", "http")},
        {"Origin": f"{ORIGIN}:8443"},
        {"Origin": "null"},
        {"Access-Control-Request-Method": "DELETE"},
        {"Access-Control-Request-Headers": "x-other"},
        {"Access-Control-Request-Private-Network": "true"},
    ],
)
def test_other_preflights_are_refused_in_one_line(changes: dict[str, str], client: ServerClient) -> None:
    status, response, headers = client.request("/predict", None, {**PREFLIGHT, **changes}, "OPTIONS")
    assert status == 400
    assert "not allowed; the server allows origins with --cors-origins" in error_of(response)
    assert headers["Access-Control-Allow-Origin"] is None


def test_pages_of_an_allowed_origin_read_results_and_errors(client: ServerClient) -> None:
    authorization = {"Authorization": f"Bearer {TOKEN}"}
    for headers, body, expected in ((authorization, ITEM, 200), (authorization, b"{", 400), ({}, ITEM, 401)):
        status, _, found = client.request("/predict", body, {"Origin": ORIGIN, **headers})
        assert (status, found["Access-Control-Allow-Origin"]) == (expected, ORIGIN)
        assert "X-Request-Id" in found["Access-Control-Expose-Headers"]
        status, _, found = client.request("/predict", body, {"Origin": "https://evil.example", **headers})
        assert (status, found["Access-Control-Allow-Origin"]) == (expected, None)


def test_an_allowed_origin_does_not_allow_a_foreign_host_or_other_content(client: ServerClient) -> None:
    status, response, _ = client.request("/predict", None, {**PREFLIGHT, "Host": "evil.example"}, "OPTIONS")
    assert status == 421
    assert "Host evil.example" in error_of(response)
    headers = {"Origin": ORIGIN, "Content-Type": "text/plain", "Authorization": f"Bearer {TOKEN}"}
    assert client.request("/predict", ITEM, headers)[0] == 415


def test_a_star_allows_any_origin(models: dict[str, Path]) -> None:
    with running_server(models["classify"], origins=("*",)) as open_client:
        _, _, headers = open_client.request("/predict", ITEM, {"Origin": "https://any.example"})
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert open_client.request("/predict", None, PREFLIGHT, "OPTIONS")[0] == 200


@pytest.mark.parametrize(
    "value",
    [
        "example.org",
        "https://example.org/",
        "https://Example.org",
        "null",
        "ftp://a",
        "https://a b",
    ],
)
def test_an_origin_has_scheme_and_host(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(app, ["serve", "none", "--cors-origins", value]) == 2
    assert "must be scheme, host and port in lower case without a path" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("https://a.org:443", "browsers omit :443; write https://a.org"),
        ("http://[::1]:80", "browsers omit :80; write http://[::1]"),
        ("https://a.org:0", "port must be from 1 to 65535"),
        ("https://a.org:99999", "port must be from 1 to 65535"),
        ("https://a.org:08000", "port must be from 1 to 65535, without leading zeros"),
        ("https://a.org,", "has an empty name"),
    ],
)
def test_origins_that_no_browser_sends_are_refused(
    value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, ["serve", "none", "--cors-origins", value]) == 2
    assert f"--cors-origins {value}: {message}" in capsys.readouterr().err
