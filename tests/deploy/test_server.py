"""A served model answers as it does in Python, refuses what is wrong in one line, and ends when asked to."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import albertine
from albertine.cli import app
from albertine.command import run
from albertine.deploy import server
from albertine.deploy.desk import Desk
from tests.deploy.conftest import KINDS, Asked

Ask = Callable[[str], Asked]

QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "classify": [{"text": "ka lo"}, {"text": "mi", "other": "vu ren tas"}, {"text": ""}],
    "regress": [{"text": "ka lo"}, {"text": "mi", "other": None}],
    "tag": [{"text": "ka lo mi"}, {"text": ["ka", "lo mi"]}],
    "span": [{"question": "ka?", "context": "Lo mi vu."}, {"question": "", "context": ""}],
    "choice": [{"options": ["mi", "vu"]}, {"context": "ka", "question": "lo", "options": ["vu", "mi"]}],
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_answers_as_it_does_in_python(kind: str, ask: Ask, models: dict[str, Path]) -> None:
    asked = ask(kind)
    mine = albertine.pipeline(models[kind], device="cpu", precision="fp32")
    expected = [mine(**one) for one in QUESTIONS[kind]]
    for question, answer in zip(QUESTIONS[kind], expected, strict=True):
        assert asked("/answer", question) == (200, answer)
    status, together = asked("/answer", QUESTIONS[kind])
    assert status == 200
    assert [one.keys() for one in together] == [one.keys() for one in expected]
    assert asked("/answer", []) == (200, [])


def test_a_pretrained_model_fills_and_orders(ask: Ask, models: dict[str, Path]) -> None:
    asked = ask("pretrained")
    guess = albertine.guesser(models["pretrained"], device="cpu")
    status, found = asked("/fill", {"text": "ka [MASK] lo [MASK]."})
    assert status == 200
    assert [[(one["piece"], one["probability"]) for one in mask] for mask in found["masks"]] == [
        [(one.piece, round(one.score, 6)) for one in mask] for mask in guess.fill("ka [MASK] lo [MASK].")
    ]
    assert found["masks"][0][0]["shown"]
    status, found = asked("/order", {"first": "Ka.", "second": "Lo mi."})
    assert (status, found) == (200, {"in_order": round(guess.order("Ka.", "Lo mi."), 6)})


def test_many_callers_each_get_their_own_answer(ask: Ask) -> None:
    asked = ask("tag")
    before = asked.counter.answers
    texts = [" ".join(["ka", "lo", "mi"][: 1 + number % 3]) + f" w{number}" for number in range(40)]
    with ThreadPoolExecutor(16) as callers:
        found = list(callers.map(lambda text: asked("/answer", {"text": text}), texts))
    assert [answer["words"] for _, answer in found] == [text.split() for text in texts]
    assert asked.counter.answers - before == 40


@pytest.mark.parametrize(
    ("path", "body", "status", "line"),
    [
        ("/answer", b"zzz", 400, "no JSON (Expecting value"),
        ("/answer", b"", 400, "no JSON"),
        ("/answer", b"\xff\xfe\xfa", 400, "no JSON"),
        ("/answer", b"[" * 100_000, 400, "no JSON"),
        ("/answer", b'"ka"', 400, "a question must be an object with text, other"),
        ("/answer", b"[1]", 400, "question 0: a question must be"),
        ("/answer", b'{"other": "x"}', 400, "text: missing; it must be a text"),
        ("/answer", b'{"text": 3}', 400, "text: must be a text"),
        ("/answer", b'{"text": ["ka"]}', 400, "text: must be a text"),
        ("/answer", b'[{"text": "x"}, {"texd": "x"}]', 400, "question 1: texd: unknown; known: text, other"),
        ("/answer", rb'{"text": "\ud800"}', 400, "half a character"),
        ("/answer", b"[" + b'{"text": ""},' * 1024 + b'{"text": ""}]', 400, "1,025 questions; send 1,024"),
        ("/answer", b" " * (server.MOST_BYTES + 1), 413, "more than 4.19 MB"),
        ("/answer", None, 405, "GET /answer: not possible; POST is"),
        ("/fill", b"{}", 404, "/fill: no such path; known: /, /about, /health, /answer"),
        ("/../../etc/passwd", None, 404, "no such path"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    path: str, body: bytes | None, status: int, line: str, ask: Ask
) -> None:
    found, said = ask("classify").raw(path, body)
    assert found == status
    assert said.keys() == {"error"}
    assert line in said["error"]
    assert "\n" not in said["error"]
    assert ask("classify")("/health") == (200, {"status": "ok"})


def test_other_numbers_of_options_and_texts_without_masks(ask: Ask) -> None:
    good = {"options": ["mi", "vu"]}
    status, said = ask("choice")("/answer", [good, {"options": ["mi"]}])
    assert (status, said) == (400, {"error": "question 1: options: 1; the model chooses between 2"})
    assert ask("choice")("/answer", {"options": "mi"}) == (400, {"error": "options: must be a list of texts"})
    assert ask("pretrained")("/fill", {"text": "ka"}) == (400, {"error": "ka: has no [MASK] to fill"})
    assert "the model takes 64" in ask("pretrained")("/fill", {"text": "[MASK] ka " * 99})[1]["error"]


def test_a_busy_desk_and_a_defect_are_told(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ask("regress")
    with monkeypatch.context() as here:
        here.setattr("albertine.deploy.desk.WAITING", 0)
        status, said = asked("/answer", {"text": "ka"})
        assert status == 503
        assert "ask again later" in said["error"]
    with monkeypatch.context() as here:

        async def broken(*_: Any) -> None:
            raise ZeroDivisionError("of ours")

        here.setattr(Desk, "ask", broken)
        status, said = asked("/answer", {"text": "ka"})
        assert (status, said) == (500, {"error": "a defect in Albertine: ZeroDivisionError: of ours"})
    assert asked("/answer", {"text": "ka"})[0] == 200


def test_it_says_what_can_be_asked(ask: Ask, models: dict[str, Path]) -> None:
    status, about = ask("classify")("/about")
    assert status == 200
    assert (about["model"], about["labels"]) == (str(models["classify"]), ["x", "y"])
    assert [one["path"] for one in about["asked"]] == ["/answer"]
    assert [field["name"] for field in about["asked"][0]["fields"]] == ["text", "other"]
    for kind in (*KINDS, "pretrained"):  # what the page begins with is answered
        for offer in ask(kind)("/about")[1]["asked"]:
            trial = {field["name"]: field["trial"] for field in offer["fields"]}
            if "options" in trial:
                trial["options"] = trial["options"].splitlines()[:2]
            assert ask(kind)(offer["path"], trial)[0] == 200, kind


def test_the_page_needs_nothing_from_elsewhere_and_knows_every_kind(ask: Ask) -> None:
    status, page = ask("classify")("/")
    assert (status, page) == (200, (files("albertine.deploy") / "page.html").read_text(encoding="utf-8"))
    assert "http" not in page
    for kind in (*KINDS, "fill", "order"):
        assert len(re.findall(rf"\b{kind}: [\[(]", page)) == 2, kind  # its title and how its answer looks


# The command.


def started(model: Path, *words: str) -> tuple[subprocess.Popen[str], str]:
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
        *words,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_under_way_be_answered_first(
    number: signal.Signals, models: dict[str, Path]
) -> None:
    process, address = started(models["classify"])
    with process:
        assert json.load(urlopen(f"{address}health", timeout=30)) == {"status": "ok"}
        body = json.dumps({"text": "ka lo mi"}).encode()
        head = f"POST /answer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection(
            ("127.0.0.1", int(address.rstrip("/").rpartition(":")[2])), 30
        ) as caller:
            caller.sendall(head + body[:5])
            with pytest.raises(TimeoutError):  # it waits for the rest
                caller.settimeout(0.5)
                caller.recv(1)
            process.send_signal(number)
            process.send_signal(number)  # as to a group of processes
            caller.settimeout(30)
            caller.sendall(body[5:])
            assert b'"label"' in b"".join(iter(lambda: caller.recv(4096), b""))
        out, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    assert said.splitlines() == [
        f"{models['classify']}: POST /answer; a page for trying it at the address above; Ctrl-C ends it",
        "ended; answered: 1",
    ]


def test_what_cannot_be_served_is_told_in_one_line(
    models: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        wrongs = [
            ([str(models["tag"]), "--port", port], "Address already in use; name another, or --port 0"),
            ([str(models["tag"]), "--host", "nowhere.invalid"], "--host nowhere.invalid: no address"),
            ([str(models["tag"]), "--port", "70000"], "port 70000"),
            (["albert-base", "--port", "0"], "a preset, with nothing learned"),
            ([str(tmp_path / "none"), "--port", "0"], "none"),
            ([str(tmp_path), "--port", "0"], "config.json"),
        ]
        for words, line in wrongs:
            assert run(app, ["serve", *words]) == 2, words
            said = capsys.readouterr().err
            assert line in said
            assert said.count("\n") == 1
