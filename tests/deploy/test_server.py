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
from albertine.command import run_command
from albertine.deploy import application
from albertine.deploy.batcher import RequestBatcher
from tests.deploy.conftest import TASK_TYPES, ServerClient, running_server
from tests.tasks.conftest import save_untrained_model

ClientFactory = Callable[[str], ServerClient]

EXAMPLE_REQUESTS: dict[str, list[dict[str, Any]]] = {
    "classify": [{"text": "ka lo"}, {"text": "mi", "other": "vu ren tas"}, {"text": "", "other": None}],
    "regress": [{"text": "ka lo"}, {"text": "mi"}],
    "tag": [{"text": "ka lo mi"}, {"text": ["ka", "lo mi"]}],
    "span": [{"question": "ka?", "context": "Lo mi vu."}, {"question": "", "context": ""}],
    "choice": [{"options": ["mi", "vu"]}, {"context": "ka", "question": "lo", "options": ["vu", "mi"]}],
}


def is_close(one: Any, other: Any) -> bool:
    """Tell whether two answers are the same but for the last digits of their numbers."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_close(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_close, one, other))
    return one == pytest.approx(other, abs=1e-5) if isinstance(one, float) else bool(one == other)


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_answers_equal_those_of_the_pipeline(
    kind: str, client_for: ClientFactory, models: dict[str, Path]
) -> None:
    asked = client_for(kind)
    mine = albertine.pipeline(models[kind], device="cpu", precision="fp32")
    expected = [mine(**one) for one in EXAMPLE_REQUESTS[kind]]
    for question, answer in zip(EXAMPLE_REQUESTS[kind], expected, strict=True):
        assert asked("/answer", question) == (200, answer)
    status, together = asked("/answer", EXAMPLE_REQUESTS[kind])
    assert status == 200
    assert all(map(is_close, together, expected))
    assert asked("/answer", []) == (200, [])


def test_a_pretrained_model_serves_fill_mask_and_order(
    client_for: ClientFactory, models: dict[str, Path]
) -> None:
    asked = client_for("pretrained")
    guess = albertine.fill_mask_pipeline(models["pretrained"], device="cpu")
    status, found = asked("/fill", {"text": "ka [MASK] lo [MASK]."})
    assert status == 200
    assert [[(one["piece"], one["probability"]) for one in mask] for mask in found["masks"]] == [
        [(one.token, round(one.score, 6)) for one in mask] for mask in guess.fill("ka [MASK] lo [MASK].")
    ]
    assert found["masks"][0][0]["shown"]
    status, found = asked("/order", {"first": "Ka.", "second": "Lo mi."})
    assert (status, found) == (200, {"in_order": round(guess.order_probability("Ka.", "Lo mi."), 6)})
    pairs = [("Ka.", "Lo mi."), ("Lo mi.", "Ka."), ("Vu.", "Ren tas.")]
    status, several = asked("/order", [{"first": first, "second": second} for first, second in pairs])
    assert [one["in_order"] for one in several] == [
        round(guess.order_probability(*pair), 6) for pair in pairs
    ]


def test_concurrent_requests_get_their_own_answers(client_for: ClientFactory) -> None:
    asked = client_for("tag")
    before = asked.batchers["/answer"].num_answered
    texts = [" ".join(["ka", "lo", "mi"][: 1 + number % 3]) + f" w{number}" for number in range(40)]
    with ThreadPoolExecutor(16) as callers:
        found = list(callers.map(lambda text: asked("/answer", {"text": text}), texts))
    assert [answer["words"] for _, answer in found] == [text.split() for text in texts]
    assert asked.batchers["/answer"].num_answered - before == 40


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
        ("/answer", b" " * (application.MAX_BODY_BYTES + 1), 413, "more than 1 MB"),
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
def test_wrong_requests_get_a_one_line_error(
    path: str, body: bytes | None, status: int, line: str, client_for: ClientFactory
) -> None:
    found, said, _ = client_for("classify").request(path, body)
    assert found == status
    assert said.keys() == {"error"}
    assert line in said["error"]
    assert "\n" not in said["error"]
    assert client_for("classify")("/health") == (200, {"status": "ok"})


def test_wrong_option_counts_and_missing_masks_are_refused(client_for: ClientFactory) -> None:
    good = {"options": ["mi", "vu"]}
    status, said = client_for("choice")("/answer", [good, {"options": ["mi"]}])
    assert (status, said) == (400, {"error": "question 2: options: 1; the model chooses between 2"})
    assert client_for("choice")("/answer", {"options": "mi"}) == (
        400,
        {"error": "options: must be a list of texts"},
    )
    assert client_for("pretrained")("/fill", {"text": "ka"}) == (400, {"error": "ka: has no [MASK] to fill"})
    assert "the model takes 64" in client_for("pretrained")("/fill", {"text": "[MASK] ka " * 99})[1]["error"]


def test_full_queue_is_503_and_internal_error_is_500(
    client_for: ClientFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = client_for("regress")
    with monkeypatch.context() as here:
        here.setattr("albertine.deploy.batcher.MAX_QUEUED_ITEMS", 0)
        status, said, headers = asked.request("/answer", b'{"text": "ka"}')
        assert (status, headers["Retry-After"]) == (503, "5")
        assert "ask again later" in said["error"]
    with monkeypatch.context() as here:

        async def broken(_: RequestBatcher, questions: list[tuple[Any, int]]) -> None:
            raise ZeroDivisionError("of ours")

        here.setattr(RequestBatcher, "submit", broken)
        status, said = asked("/answer", {"text": "ka"})
        line = "a defect in Albertine: ZeroDivisionError: of ours"
        assert (status, said) == (500, {"error": line})
        assert capsys.readouterr().err == f"albertine: {line}; --debug shows where\n"
    assert asked("/answer", {"text": "ka"})[0] == 200


def test_info_lists_endpoints_with_working_examples(
    client_for: ClientFactory, models: dict[str, Path]
) -> None:
    status, about = client_for("classify")("/about")
    assert status == 200
    assert (about["model"], about["labels"]) == (str(models["classify"]), ["x", "y"])
    assert [one["path"] for one in about["asked"]] == ["/answer"]
    assert [field["name"] for field in about["asked"][0]["fields"]] == ["text", "other"]
    for kind in (*TASK_TYPES, "pretrained"):  # what the page begins with is answered
        for offer in client_for(kind)("/about")[1]["asked"]:
            trial = {field["name"]: field["trial"] for field in offer["fields"]}
            if "options" in trial:
                trial["options"] = trial["options"].splitlines()
            assert client_for(kind)(offer["path"], trial)[0] == 200, kind


def test_the_page_is_self_contained_and_covers_all_task_types(client_for: ClientFactory) -> None:
    status, page, headers = client_for("classify").request("/")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert (status, page) == (200, (files("albertine.deploy") / "page.html").read_text(encoding="utf-8"))
    assert "http" not in page
    for kind in (*TASK_TYPES, "fill", "order"):
        assert len(re.findall(rf"\b{kind}: [\[(]", page)) == 2, kind  # its title and how its answer looks


def test_second_text_is_refused_or_required_by_the_model(checkpoint: Path, tmp_path: Path) -> None:
    head, card = TASK_TYPES["classify"]
    for name, told, fields, wrong in (
        ("one", {"columns": {"text": "text", "other": None}}, ["text"], {"text": "ka", "other": "lo"}),
        ("two", {"columns": {"text": "a", "other": "b"}}, ["text", "other"], {"text": "ka"}),
        ("rte", {"task": "rte"}, ["text", "other"], {"text": "ka"}),
    ):
        model = save_untrained_model(tmp_path / name, checkpoint, head, replace(card, **told))
        with running_server(model) as asked:
            assert [one["name"] for one in asked("/about")[1]["asked"][0]["fields"]] == fields
            assert asked("/answer", dict.fromkeys(fields, "ka"))[0] == 200
            status, said = asked("/answer", wrong)
            assert (status, said["error"][:6]) == (400, "other:")


def test_slow_requests_time_out(client_for: ClientFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "BODY_TIMEOUT_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", client_for("classify").port), 30) as caller:
        caller.sendall(b"POST /answer HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
        assert caller.recv(4096).startswith(b"HTTP/1.1 408")


def test_disconnected_clients_are_not_answered(client_for: ClientFactory) -> None:
    asked = client_for("regress")
    batcher = asked.batchers["/answer"]
    started, release = threading.Event(), threading.Event()
    usual = batcher._process_batch

    def slow(questions: Sequence[Any]) -> Sequence[Any]:
        started.set()
        assert release.wait(30)
        return usual(questions)

    batcher._process_batch, before = slow, batcher.num_answered
    try:
        body = b'[{"text": "ka"}, {"text": "lo"}]'
        head = f"POST /answer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", asked.port), 30) as caller:
            caller.sendall(head + body)
            assert started.wait(30)
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(asked, "/answer", {"text": "mi"})
            deadline = time.monotonic() + 30
            while len(batcher._queue) < 1 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.2)  # for the first to be seen leaving
            release.set()
            assert waiting.result(30)[0] == 200
    finally:
        batcher._process_batch = usual
    assert batcher.num_answered - before == 1


# The command.


@contextmanager
def server_process(model: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
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


def send_partial_request(address: str) -> tuple[socket.socket, bytes]:
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


def read_until_closed(caller: socket.socket) -> bytes:
    return b"".join(iter(lambda: caller.recv(4096), b""))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_pending_requests(number: signal.Signals, models: dict[str, Path]) -> None:
    with server_process(models["classify"]) as (process, address):
        assert json.load(urlopen(f"{address}health", timeout=30)) == {"status": "ok"}
        caller, rest = send_partial_request(address)
        with caller:
            process.send_signal(number)
            time.sleep(0.2)
            process.send_signal(number)  # as to a group of processes: one request
            time.sleep(0.2)
            caller.sendall(rest)
            assert b'"label"' in read_until_closed(caller)
        out, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out == ""
    assert said.splitlines() == [
        f"{models['classify']}: POST /answer; a page for trying it at the address above; Ctrl-C ends it",
        "ended; answered: 1",
    ]


def test_shutdown_times_out_with_503(models: dict[str, Path]) -> None:
    with server_process(models["classify"]) as (process, address):
        caller, _ = send_partial_request(address)
        with caller:
            process.send_signal(signal.SIGTERM)
            told = read_until_closed(caller)
        assert told.startswith(b"HTTP/1.1 503")
        assert b"the server is ending; ask again later" in told
        _, said = process.communicate(timeout=30)
    assert process.returncode == 0
    assert said.endswith("ended; answered: 0\n")


def test_startup_errors_are_one_line(
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
            assert run_command(app, ["serve", *words]) == 2, words
            said = capsys.readouterr().err
            assert line in said
            assert said.count("\n") == 1
