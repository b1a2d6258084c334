"""Tests of the bearer token: what needs it and what does not, and that nothing shows it."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from albertine.cli import app
from albertine.command import run_command
from albertine.deploy.authorization import TOKEN_VARIABLE, BearerToken, read_token
from albertine.deploy.paths import PAGE_PATHS
from albertine.errors import InputError
from tests.deploy.conftest import ServerClient, error_of, running_server

TOKEN = "0123456789abcdef-TOKEN.~_+/=="
ITEM = b'{"text": "ka"}'


@pytest.fixture(scope="module")
def client(models: dict[str, Path]) -> Iterator[ServerClient]:
    with running_server(models["classify"], token=TOKEN) as running:
        yield running


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_the_token_opens_all_paths(scheme: str, client: ServerClient) -> None:
    headers = {"Authorization": f"{scheme} {TOKEN}"}
    for path in PAGE_PATHS:
        assert client.request(path, None, headers)[0] == 200
    for path in ("/predict", "/", "/invocations"):
        assert client.request(path, ITEM, headers)[0] == 200
    assert client.request("/tokenize", b'{"inputs": "ka"}', headers)[0] == 200


@pytest.mark.parametrize(
    ("header", "challenge"),
    [
        (None, 'Bearer realm="albertine"'),
        ("", 'Bearer realm="albertine"'),
        (TOKEN, 'Bearer realm="albertine"'),
        ("Bearer", 'Bearer realm="albertine"'),
        (f"Basic {TOKEN}", 'Bearer realm="albertine"'),
        (f"Bearer {TOKEN} {TOKEN}", 'Bearer realm="albertine"'),
        (f"Bearer {TOKEN[:-1]}", 'Bearer realm="albertine", error="invalid_token"'),
        (f"Bearer {TOKEN}x", 'Bearer realm="albertine", error="invalid_token"'),
        (f"Bearer {TOKEN.lower()}", 'Bearer realm="albertine", error="invalid_token"'),
        ("Bearer \xe4", 'Bearer realm="albertine", error="invalid_token"'),
    ],
)
def test_without_the_token_only_the_page_and_the_health_check_answer(
    header: str | None, challenge: str, client: ServerClient
) -> None:
    headers = {} if header is None else {"Authorization": header}
    for path, body in (
        ("/predict", ITEM), ("/predict", b"{"), ("/", ITEM), ("/invocations", ITEM), ("/tokenize", ITEM),
        ("/health", ITEM), ("//", None), ("/info", None), ("/metrics", None),
        ("/openapi.json", None), ("/none", None), ("/health/", None), ("//health", None), ("/Health", None),
    ):  # fmt: skip
        status, response, response_headers = client.request(path, body, headers)
        assert (status, response_headers["WWW-Authenticate"]) == (401, challenge), path
        message = error_of(response)
        assert TOKEN not in message
        assert TOKEN[:-1] not in message
    for path in ("/health", "/ping"):
        status, response, _ = client.request(path, None, headers)
        assert (status, response["status"]) == (200, "ok")
    assert client.request("/", None, headers)[0] == 200


def test_a_token_has_no_readable_form() -> None:
    token = BearerToken(TOKEN)
    assert token.matches(TOKEN)
    for form in (repr(token), str(vars(token)), pickle.dumps(token).decode("latin-1")):
        assert TOKEN not in form
    assert pickle.loads(pickle.dumps(token)).matches(TOKEN)


def test_the_token_is_read_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert read_token(None) is None
    file = tmp_path / "token"
    for content in (TOKEN, f"{TOKEN}\n", f"{TOKEN}\r\n"):
        file.write_text(content, newline="")
        token = read_token(file)
        assert token is not None
        assert token.matches(TOKEN)
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    token = read_token(None)
    assert token is not None
    assert token.matches(TOKEN)
    with pytest.raises(InputError, match="ALBERTINE_TOKEN is set too; give only one token"):
        read_token(file)


@pytest.mark.parametrize(
    "content",
    ["", "\n", "short", "x" * 5_000, "two words of a token", f"{TOKEN}\n{TOKEN}", f"{TOKEN}\xe4", "=" * 20],
)
@pytest.mark.parametrize("in_file", [True, False])
def test_a_wrong_token_is_an_error_that_does_not_show_it(
    content: str,
    in_file: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    arguments = ["serve", str(tmp_path), "--port", "0"]
    if in_file:
        (tmp_path / "token").write_text(content, encoding="utf-8")
        arguments += ["--token-file", str(tmp_path / "token")]
    else:
        monkeypatch.setenv(TOKEN_VARIABLE, content)
    assert run_command(app, arguments) == 2
    output = capsys.readouterr()
    assert output.err.count("\n") == 1
    assert "token" in output.err
    assert not content.strip() or content.strip() not in output.out + output.err


def test_a_missing_token_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "none", tmp_path):
        assert run_command(app, ["serve", str(tmp_path), "--token-file", str(path)]) == 2
        assert f"--token-file {path}: " in capsys.readouterr().err


def test_of_a_file_only_the_first_characters_are_counted(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x" * 5_000)
    with pytest.raises(InputError, match=r"the token has more than 4,096 characters; it must have 16 to"):
        read_token(tmp_path / "token")


def test_help_and_settings_do_not_show_the_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    for option in ("--help", "--print-settings"):
        assert run_command(app, ["serve", "model", option]) == 0
        assert TOKEN not in capsys.readouterr().out
