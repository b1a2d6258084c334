"""Models that have learned nothing, one of each kind, and a server for any of them."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from albertine.deploy.application import application
from albertine.deploy.desk import Desk
from albertine.deploy.offers import served
from albertine.deploy.server import Server, configuration, listening
from albertine.settings import HeadSettings
from albertine.tasks.card import Card
from tests.tasks.conftest import MODEL, made
from tests.tasks.conftest import checkpoint as checkpoint  # a fixture

LONGEST = MODEL.max_length
KINDS = {
    "classify": (
        HeadSettings("classify"),
        Card("classify", "classify", ("x", "y"), ("accuracy",), max_length=LONGEST),
    ),
    "regress": (
        HeadSettings("regress", labels=1),
        Card("regress", "regress", (), ("pearson",), max_length=LONGEST),
    ),
    "tag": (HeadSettings("token", labels=2), Card("tag", "tag", ("A", "B"), max_length=LONGEST)),
    "span": (HeadSettings("span"), Card("span", "span", max_length=LONGEST)),
    "choice": (
        HeadSettings("choice", labels=1, options=2),
        Card("choice", "choice", options=2, max_length=LONGEST),
    ),
}


class Asked:
    """A server, and how to talk to it.

    Attributes:
        port: where it listens.
        desks: where it is asked, by path.
    """

    def __init__(self, port: int, desks: Mapping[str, Desk]):
        self.port, self.desks = port, desks

    def __call__(self, path: str, question: Any = None) -> tuple[int, Any]:
        """POST a question, or GET without one; return the status and what came, as JSON."""
        return self.raw(path, None if question is None else json.dumps(question).encode())[:2]

    def raw(self, path: str, body: bytes | None = None) -> tuple[int, Any, Message]:
        """Do the same with what is not JSON; return the headers too."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET" if body is None else "POST", path, body)
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        as_json = reply.headers["Content-Type"] == "application/json"
        return reply.status, json.loads(content) if as_json else content.decode(), reply.headers


@contextmanager
def serving(source: Path) -> Iterator[Asked]:
    """Serve a model in a thread."""
    model = served(str(source), "cpu", "fp32")
    with listening("127.0.0.1", 0) as listener, ThreadPoolExecutor(1) as hand:
        desks = {path: Desk(offer.answered, hand) for path, offer in model.offers.items()}
        server = Server(configuration(application(model, desks)))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield Asked(listener.getsockname()[1], desks)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def models(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tuned model of each kind, and the pre-trained one."""
    folder = tmp_path_factory.mktemp("models")
    tuned = {kind: made(folder / kind, checkpoint, head, card) for kind, (head, card) in KINDS.items()}
    return {**tuned, "pretrained": checkpoint}


@pytest.fixture(scope="module")
def ask(models: dict[str, Path]) -> Iterator[Callable[[str], Asked]]:
    """Serve models by their kind, each once."""
    running: dict[str, Asked] = {}
    with ExitStack() as stack:

        def start(kind: str) -> Asked:
            if kind not in running:
                running[kind] = stack.enter_context(serving(models[kind]))
            return running[kind]

        yield start
