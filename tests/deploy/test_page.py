"""Tests of the page of a server in Chromium: it predicts, and asks for the token of a server that has one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.conftest import running_server
from tests.export.browser import Browser, missing_browser, open_browser

TOKEN = "0123456789abcdef-TOKEN.~_+/=="

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing_browser() is not None, reason=str(missing_browser())),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


def submit(browser: Browser, **values: str) -> None:
    """Fill in fields by their ids, and submit the form."""
    browser.run(
        "for (const [id, value] of Object.entries(arguments[0])) document.getElementById(id).value = value;"
        "document.querySelector('form').requestSubmit();",
        values,
    )


def test_the_page_predicts(models: dict[str, Path], browser: Browser) -> None:
    with running_server(models["classify"]) as client:
        browser.open(f"http://127.0.0.1:{client.port}/")
        browser.wait("return document.querySelector('form')")
        assert not browser.run("return document.getElementById('token')")
        submit(browser, **{"/predicttext": "ka lo"})
        assert browser.wait("return document.querySelectorAll('.row').length")
        assert "Bearer" not in browser.run("return document.querySelector('pre').textContent")
        assert browser.console() == []


def test_the_page_asks_for_the_token(models: dict[str, Path], browser: Browser, tmp_path: Path) -> None:
    with running_server(models["classify"], token=TOKEN) as client:
        browser.open(f"http://127.0.0.1:{client.port}/")
        assert browser.wait("return document.querySelector('h2')?.textContent") == "This server needs a token"
        assert browser.run("return document.querySelector('.error').textContent") == ""
        submit(browser, token="not \xe4 token")  # the browser refuses it
        assert browser.run("return document.getElementById('token').validity.patternMismatch")
        submit(browser, token=TOKEN[:-1])
        message = "Not the token of this server."
        browser.wait(f"return document.querySelector('.error').textContent === '{message}'")
        submit(browser, token=TOKEN)
        browser.wait("return document.getElementById('/predicttext')")
        submit(browser, **{"/predicttext": "ka lo"})
        browser.wait("return document.querySelectorAll('.row').length")
        command = browser.run("return document.querySelector('pre').textContent")
        assert "-H 'Authorization: Bearer TOKEN'" in command
        assert not browser.run("return document.documentElement.outerHTML.includes(arguments[0])", TOKEN)
        browser.open(f"http://127.0.0.1:{client.port}/")
        browser.wait("return document.getElementById('token')")  # a new page has forgotten it
