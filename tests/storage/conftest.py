"""Local servers of S3 and of Google Cloud Storage, and an empty bucket for each test."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from albertine.storage import file_systems

SECRET_KEY = "a-secret-that-nobody-prints"
_S3 = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
# Threads: a client may open an object, and request a range of it before it has read the rest.
_GOOGLE = """
import http.server, sys
http.server.HTTPServer = http.server.ThreadingHTTPServer
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True)
server.start()
print(server._api._httpd.server_port, flush=True)
sys.stdin.read()
"""


class LocalServer:
    """A server in a process of its own; `endpoint` is its URL.

    Args:
        script: Python that starts it, prints its port, and serves until its standard input is closed.
    """

    def __init__(self, script: str) -> None:
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        assert self._process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/octet-stream",
    ) -> bytes:
        headers = {"Content-Type": content_type}
        request = urllib.request.Request(f"{self.endpoint}/{path}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            content: bytes = response.read()
            return content

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="session")
def server() -> Iterator[LocalServer]:
    """The S3 server."""
    running = LocalServer(_S3)
    yield running
    running.close()


@pytest.fixture(scope="session")
def google_server() -> Iterator[LocalServer]:
    running = LocalServer(_GOOGLE)
    yield running
    running.close()


@pytest.fixture
def empty_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without credentials, and an empty cache."""
    home = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith(("AWS_", "GOOGLE_", "STORAGE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ALBERTINE_CACHE", str(home / "cache"))


@pytest.fixture
def s3_environment(server: LocalServer, empty_cache: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Environment variables that name the S3 server and credentials, and an empty cache."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    file_systems._s3.cache_clear()
    yield
    file_systems._s3.cache_clear()


@pytest.fixture
def bucket(server: LocalServer, s3_environment: None) -> str:
    """The URL of a new bucket on S3."""
    name = f"bucket-{uuid4().hex[:12]}"
    server.request("PUT", name)
    return f"s3://{name}"


@pytest.fixture
def google_bucket(google_server: LocalServer, empty_cache: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a new bucket on Google Cloud Storage."""
    name = f"bucket-{uuid4().hex[:12]}"
    body = json.dumps({"name": name}).encode()
    google_server.request("POST", "storage/v1/b?project=p", body, "application/json")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", google_server.endpoint)
    return f"gs://{name}"


@pytest.fixture(params=["bucket", "google_bucket"], ids=["s3", "gs"])
def any_bucket(request: pytest.FixtureRequest) -> str:
    """The URL of a new bucket on one of the stores."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an empty, a small and a large file, one of them in a subfolder."""
    made = tmp_path / "folder"
    (made / "inner").mkdir(parents=True)
    (made / "empty.txt").write_bytes(b"")
    (made / "inner" / "small.bin").write_bytes(bytes(range(256)))
    (made / "named.gz").write_bytes(b"not compressed")
    (made / "large.bin").write_bytes(os.urandom(9 << 20))
    return made
