"""Untrained models of each task type, and a server for each of them."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from albertine.deploy.application import create_app
from albertine.deploy.batcher import RequestBatcher
from albertine.deploy.endpoints import load_served_model
from albertine.deploy.request_checks import allowed_hosts
from albertine.deploy.server import SignalAwareServer, bind_socket, uvicorn_config
from albertine.settings import HeadSettings
from albertine.settings.engine import EngineOptions
from albertine.tasks.card import TaskCard
from tests.task_fixtures import MODEL, save_untrained_model
from tests.task_fixtures import checkpoint as checkpoint  # the re-export makes it a fixture here

MAX_LENGTH = MODEL.max_length
TASK_TYPES = {
    "classify": (
        HeadSettings("classify"),
        TaskCard("classify", "classify", ("x", "y"), ("accuracy",), max_length=MAX_LENGTH),
    ),
    "regress": (
        HeadSettings("regress", labels=1),
        TaskCard("regress", "regress", (), ("pearson",), max_length=MAX_LENGTH),
    ),
    "tag": (HeadSettings("token", labels=2), TaskCard("tag", "tag", ("A", "B"), max_length=MAX_LENGTH)),
    "span": (HeadSettings("span"), TaskCard("span", "span", max_length=MAX_LENGTH)),
    "choice": (
        HeadSettings("choice", labels=1, options=2),
        TaskCard("choice", "choice", num_options=2, max_length=MAX_LENGTH),
    ),
}


class ServerClient:
    """A client of a running server.

    Attributes:
        port: port of the server.
        batchers: the server's batchers, by path.
    """

    def __init__(self, port: int, batchers: Mapping[str, RequestBatcher]):
        self.port, self.batchers = port, batchers

    def __call__(self, path: str, item: Any = None) -> tuple[int, Any]:
        """Send an item with POST, or GET without one; return status and response."""
        return self.request(path, None if item is None else json.dumps(item).encode())[:2]

    def request(self, path: str, body: bytes | None = None) -> tuple[int, Any, Message]:
        """Send a raw body with POST, or GET without one; return status, response and headers."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request("GET" if body is None else "POST", path, body, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        is_json = response.headers["Content-Type"] == "application/json"
        return response.status, json.loads(content) if is_json else content.decode(), response.headers


def post_head(length: int, path: str = "/predict") -> bytes:
    """Return the head of a POST request with a body of some bytes."""
    headers = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    return f"POST {path} HTTP/1.1\r\n{headers}\r\n".encode()


@contextmanager
def running_server(source: Path) -> Iterator[ServerClient]:
    """Serve a model in a thread, and yield a client of it."""
    model = load_served_model(str(source), EngineOptions("cpu", "fp32"))
    with bind_socket("127.0.0.1", 0) as listener, ThreadPoolExecutor(1) as executor:
        batchers = {
            path: RequestBatcher(endpoint.process_batch, executor)
            for path, endpoint in model.endpoints.items()
        }
        server = SignalAwareServer(
            uvicorn_config(create_app(model, batchers, allowed_hosts("127.0.0.1", ())))
        )
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield ServerClient(listener.getsockname()[1], batchers)
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def models(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of untrained models: of each task type, with a co-matching head, and of pre-training."""
    folder = tmp_path_factory.mktemp("models")
    choice, choice_card = TASK_TYPES["choice"]
    matching = {"co-matching": (replace(choice, co_matching=True), choice_card)}
    finetuned = {
        name: save_untrained_model(folder / name, checkpoint, head, card)
        for name, (head, card) in (TASK_TYPES | matching).items()
    }
    return {**finetuned, "pretrained": checkpoint}


@pytest.fixture(scope="module")
def client_for(models: dict[str, Path]) -> Iterator[Callable[[str], ServerClient]]:
    """A function that returns the client for a task type, and starts its server at the first call."""
    running: dict[str, ServerClient] = {}
    with ExitStack() as stack:

        def start(type_name: str) -> ServerClient:
            if type_name not in running:
                running[type_name] = stack.enter_context(running_server(models[type_name]))
            return running[type_name]

        yield start
