"""A local S3 server, in a process of its own, with an empty bucket for each test."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from albertine.storage import objects

SECRET_KEY = "a-secret-that-nobody-prints"
_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


class S3Server:
    """The server; `endpoint` is its URL."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            text=True,
        )
        assert self._process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        headers = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{self.endpoint}/{path}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            content: bytes = response.read()
            return content

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="session")
def server() -> Iterator[S3Server]:
    running = S3Server()
    yield running
    running.close()


@pytest.fixture
def s3_environment(
    server: S3Server, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Environment variables that name the server, credentials, and an empty cache."""
    home = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ALBERTINE_CACHE", str(home / "cache"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    objects._s3.cache_clear()
    yield
    objects._s3.cache_clear()


@pytest.fixture
def bucket(server: S3Server, s3_environment: None) -> str:
    """The URL of a new bucket."""
    name = f"bucket-{uuid4().hex[:12]}"
    server.request("PUT", name)
    return f"s3://{name}"


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
