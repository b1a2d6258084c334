"""A served model answers as it does in Python, refuses what is wrong in one line, and ends when asked to."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import albertine
from albertine.cli import app
from albertine.command import run
from albertine.deploy import application
from albertine.deploy.desk import Desk
from tests.deploy.conftest import KINDS, Asked, serving
from tests.tasks.conftest import made

Ask = Callable[[str], Asked]

QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "classify": [{"text": "ka lo"}, {"text": "mi", "other": "vu ren tas"}, {"text": "", "other": None}],
    "regress": [{"text": "ka lo"}, {"text": "mi"}],
    "tag": [{"text": "ka lo mi"}, {"text": ["ka", "lo mi"]}],
    "span": [{"question": "ka?", "context": "Lo mi vu."}, {"question": "", "context": ""}],
    "choice": [{"options": ["mi", "vu"]}, {"context": "ka", "question": "lo", "options": ["vu", "mi"]}],
}


def alike(one: Any, other: Any) -> bool:
    """Tell whether two answers are the same but for the last digits of their numbers."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == pytest.approx(other, abs=1e-5) if isinstance(one, float) else bool(one == other)


@pytest.mark.parametrize("kind", KINDS)
def test_it_answers_as_it_does_in_python(kind: str, ask: Ask, models: dict[str, Path]) -> None:
    asked = ask(kind)
    mine = albertine.pipeline(models[kind], device="cpu", precision="fp32")
    expected = [mine(**one) for one in QUESTIONS[kind]]
    for question, answer in zip(QUESTIONS[kind], expected, strict=True):
        assert asked("/answer", question) == (200, answer)
    status, together = asked("/answer", QUESTIONS[kind])
    assert status == 200
    assert all(map(alike, together, expected))
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
    pairs = [("Ka.", "Lo mi."), ("Lo mi.", "Ka."), ("Vu.", "Ren tas.")]
    status, several = asked("/order", [{"first": first, "second": second} for first, second in pairs])
    assert [one["in_order"] for one in several] == [round(guess.order(*pair), 6) for pair in pairs]


def test_many_callers_each_get_their_own_answer(ask: Ask) -> None:
    asked = ask("tag")
    before = asked.desks["/answer"].done
    texts = [" ".join(["ka", "lo", "mi"][: 1 + number % 3]) + f" w{number}" for number in range(40)]
    with ThreadPoolExecutor(16) as callers:
        found = list(callers.map(lambda text: asked("/answer", {"text": text}), texts))
    assert [answer["words"] for _, answer in found] == [text.split() for text in texts]
    assert asked.desks["/answer"].done - before == 40


@pytest.mark.parametrize(
    ("path", "body", "status", "line"),
    [
        ("/answer", b"zzz", 400, "no JSON (Expecting value"),
        ("/answer", b"", 400, "no JSON"),
        ("/answer", b"\xff\xfe\xfa", 400, "no JSON"),
        ("/answer", b"[" * 100_000, 400, "no JSON"),
        ("/answer", b'"ka"', 400, "a question must be an object with text, other"),
        ("/answer", b"[1]", 400, "question 1: a question must be"),
        ("/answer", b'{"other": "x"}', 400, "text: missing; it must be a text"),
        ("/answer", b'{"text": 3}', 400, "text: must be a text"),
        ("/answer", b'{"text": ["ka"]}', 400, "text: must be a text"),
        ("/answer", b'[{"text": "x"}, {"texd": "x"}]', 400, "question 2: texd: unknown; known: text, other"),
        ("/answer", rb'{"text": "\ud800"}', 400, "half a character"),
        ("/answer", b"[" + b'{"text": ""},' * 1024 + b'{"text": ""}]', 400, "1,025 questions; send 1,024"),
        ("/answer", b" " * (application.MOST_BYTES + 1), 413, "more than 1 MB"),
        ("/answer", None, 405, "GET /answer: not possible; possible: POST"),
        ("/fill", b"{}", 404, "/fill: no such path; known: /, /about, /health, /answer"),
        ("/answer", b'{"": ""}', 400, "an empty name: unknown"),
        (
            "/answer",
            b'{"text": "' + b"x" * 100_001 + b'"}',
            400,
            "100,001 characters; a question has 100,000",
        ),
        ("/answer/", b"{}", 404, "/answer/: no such path"),
        ("/../../etc/passwd", None, 404, "no such path"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    path: str, body: bytes | None, status: int, line: str, ask: Ask
) -> None:
    found, said, _ = ask("classify").raw(path, body)
    assert found == status
    assert said.keys() == {"error"}
    assert line in said["error"]
    assert "\n" not in said["error"]
    assert ask("classify")("/health") == (200, {"status": "ok"})


def test_other_numbers_of_options_and_texts_without_masks(ask: Ask) -> None:
    good = {"options": ["mi", "vu"]}
    status, said = ask("choice")("/answer", [good, {"options": ["mi"]}])
    assert (status, said) == (400, {"error": "question 2: options: 1; the model chooses between 2"})
    assert ask("choice")("/answer", {"options": "mi"}) == (400, {"error": "options: must be a list of texts"})
    assert ask("pretrained")("/fill", {"text": "ka"}) == (400, {"error": "ka: has no [MASK] to fill"})
    assert "the model takes 64" in ask("pretrained")("/fill", {"text": "[MASK] ka " * 99})[1]["error"]


def test_a_busy_desk_and_a_defect_are_told(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ask("regress")
    with monkeypatch.context() as here:
        here.setattr("albertine.deploy.desk.WAITING", 0)
        status, said, headers = asked.raw("/answer", b'{"text": "ka"}')
        assert (status, headers["Retry-After"]) == (503, "5")
        assert "ask again later" in said["error"]
    with monkeypatch.context() as here:

        async def broken(_: Desk, questions: list[tuple[Any, int]]) -> None:
            raise ZeroDivisionError("of ours")

        here.setattr(Desk, "ask", broken)
        status, said = asked("/answer", {"text": "ka"})
        line = "a defect in Albertine: ZeroDivisionError: of ours"
        assert (status, said) == (500, {"error": line})
        assert capsys.readouterr().err == f"albertine: {line}; --debug shows where\n"
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
                trial["options"] = trial["options"].splitlines()
            assert ask(kind)(offer["path"], trial)[0] == 200, kind


def test_the_page_needs_nothing_from_elsewhere_and_knows_every_kind(ask: Ask) -> None:
    status, page, headers = ask("classify").raw("/")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert (status, page) == (200, (files("albertine.deploy") / "page.html").read_text(encoding="utf-8"))
    assert "http" not in page
    for kind in (*KINDS, "fill", "order"):
        assert len(re.findall(rf"\b{kind}: [\[(]", page)) == 2, kind  # its title and how its answer looks


def test_a_model_of_one_text_takes_no_other_and_one_of_pairs_needs_it(
    checkpoint: Path, tmp_path: Path
) -> None:
    head, card = KINDS["classify"]
    for name, told, fields, wrong in (
        ("one", {"columns": {"text": "text", "other": None}}, ["text"], {"text": "ka", "other": "lo"}),
        ("two", {"columns": {"text": "a", "other": "b"}}, ["text", "other"], {"text": "ka"}),
        ("rte", {"task": "rte"}, ["text", "other"], {"text": "ka"}),
    ):
        model = made(tmp_path / name, checkpoint, head, replace(card, **told))
        with serving(model) as asked:
            assert [one["name"] for one in asked("/about")[1]["asked"][0]["fields"]] == fields
            assert asked("/answer", dict.fromkeys(fields, "ka"))[0] == 200
            status, said = asked("/answer", wrong)
            assert (status, said["error"][:6]) == (400, "other:")


def test_who_does_not_send_all_is_not_waited_for(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "SLOWEST", 0.3)
    with socket.create_connection(("127.0.0.1", ask("classify").port), 30) as caller:
        caller.sendall(b"POST /answer HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
        assert caller.recv(4096).startswith(b"HTTP/1.1 408")


def test_who_leaves_is_not_answered(ask: Ask) -> None:
    asked = ask("regress")
    desk = asked.desks["/answer"]
    begun, go_on = threading.Event(), threading.Event()
    usual = desk._answered

    def slow(questions: Sequence[Any]) -> Sequence[Any]:
        begun.set()
        assert go_on.wait(30)
        return usual(questions)

    desk._answered, before = slow, desk.done
    try:
        body = b'[{"text": "ka"}, {"text": "lo"}]'
        head = f"POST /answer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", asked.port), 30) as caller:
            caller.sendall(head + body)
            assert begun.wait(30)
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(asked, "/answer", {"text": "mi"})
            deadline = time.monotonic() + 30
            while len(desk._waiting) < 1 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.2)  # for the first to be seen leaving
            go_on.set()
            assert waiting.result(30)[0] == 200
    finally:
        desk._answered = usual
    assert desk.done - before == 1


# The command.


@contextmanager
def started(model: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
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
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def half_asked(address: str) -> tuple[socket.socket, bytes]:
    """Send a question but for its end; return the connection and the end."""
    body = json.dumps({"text": "ka lo mi"}).encode()
    head = f"POST /answer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    caller = socket.create_connection(("127.0.0.1", int(address.rstrip("/").rpartition(":")[2])), 30)
    caller.sendall(head + body[:5])
    caller.settimeout(0.5)
    with pytest.raises(TimeoutError):  # it waits for the rest
        caller.recv(1)
    caller.settimeout(30)
    return caller, body[5:]


def everything_from(caller: socket.socket) -> bytes:
    return b"".join(iter(lambda: caller.recv(4096), b""))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_under_way_be_answered_first(
    number: signal.Signals, models: dict[str, Path]
) -> None:
    with started(models["classify"]) as (process, address):
        assert json.load(urlopen(f"{address}health", timeout=30)) == {"status": "ok"}
        caller, rest = half_asked(address)
        with caller:
            process.send_signal(number)
            time.sleep(0.2)
            process.send_signal(number)  # as to a group of processes: one request
            time.sleep(0.2)
            caller.sendall(rest)
            assert b'"label"' in everything_from(caller)
        out, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    assert said.splitlines() == [
        f"{models['classify']}: POST /answer; a page for trying it at the address above; Ctrl-C ends it",
        "ended; answered: 1",
    ]


def test_patience_has_an_end_and_says_so(models: dict[str, Path]) -> None:
    with started(models["classify"]) as (process, address):
        caller, _ = half_asked(address)
        with caller:
            process.send_signal(signal.SIGTERM)
            told = everything_from(caller)
        assert told.startswith(b"HTTP/1.1 503")
        assert b"the server is ending; ask again later" in told
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert said.endswith("ended; answered: 0\n")


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
