"""Untrained models of each task type, and a server for each of them."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from albertine.deploy.application import Access, create_app, create_batchers, server_routes
from albertine.deploy.authorization import BearerToken
from albertine.deploy.batcher import RequestBatcher
from albertine.deploy.http_server import SignalAwareServer, bind_socket, uvicorn_config
from albertine.deploy.metrics import ServerMetrics
from albertine.deploy.model_loading import load_served_model
from albertine.deploy.request_checks import allowed_hosts
from albertine.deploy.server_log import LogFormat, ServerLog
from albertine.settings import HeadSettings
from albertine.settings.engine import EngineOptions
from albertine.settings.exit_rule import ExitRule
from albertine.tasks.card import TaskCard
from tests.task_fixtures import MODEL, save_untrained_model
from tests.task_fixtures import checkpoint as checkpoint  # the re-export makes it a fixture here

MAX_LENGTH = MODEL.max_length
TASK_TYPES = {
    "classify": (
        HeadSettings("classify"),
        TaskCard("classify", "classify", ("x", "y"), ("accuracy",), max_length=MAX_LENGTH),
    ),
    "multi-label": (
        HeadSettings("multi-label", labels=3),
        TaskCard("multi-label", "multi-label", ("x", "y", "z"), label_threshold=0.4, max_length=MAX_LENGTH),
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


REQUEST_LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \S+ \S+ (\d{3}|-) [\d.]+ ms, texts \d+, tokens \d+, id \S+"
)


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

    def request(
        self,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        method: str | None = None,
    ) -> tuple[int, Any, Message]:
        """Send a raw body with POST, or GET without one; return status, response and headers."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        content_type = {} if body is None else {"Content-Type": "application/json"}
        connection.request(
            method or ("GET" if body is None else "POST"), path, body, {**content_type, **headers}
        )
        response = connection.getresponse()
        content = response.read()
        connection.close()
        is_json = response.headers["Content-Type"] == "application/json" and content
        return response.status, json.loads(content) if is_json else content.decode(), response.headers


def error_of(response: Any) -> str:
    """Return the message of an error; fail if its body has another form."""
    openai_keys = {"message", "type", "code"} & response.keys()
    assert response.keys() - openai_keys == {"error", "error_type", "request_id"}
    return str(response["error"])


def other_lines(stderr: str) -> list[str]:
    """Return the lines of a log in text format that are not about a request."""
    return [line for line in stderr.splitlines() if not REQUEST_LINE.fullmatch(line)]


def post_head(length: int, path: str = "/predict") -> bytes:
    """Return the head of a POST request with a body of some bytes."""
    headers = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    return f"POST {path} HTTP/1.1\r\n{headers}\r\n".encode()


@contextmanager
def running_server(
    source: Path,
    *,
    log_format: LogFormat = "text",
    origins: Sequence[str] = (),
    token: str | None = None,
    exit_rule: ExitRule | None = None,
) -> Iterator[ServerClient]:
    """Serve a model in a thread, and yield a client of it."""
    model = load_served_model(str(source), EngineOptions("cpu", "fp32"), exit_rule)
    metrics = ServerMetrics(server_routes(model), list(model.batch_functions))
    access = Access(allowed_hosts("127.0.0.1", ()), origins, None if token is None else BearerToken(token))
    with bind_socket("127.0.0.1", 0) as listener, ThreadPoolExecutor(1) as executor:
        batchers = create_batchers(model, executor, metrics)
        app = create_app(model, batchers, access, ServerLog(log_format), metrics, max_connections=100)
        server = SignalAwareServer(uvicorn_config(app))
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
