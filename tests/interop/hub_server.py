"""A local server with the API of the hub, which has one repository, `someone/small`."""

import hashlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = hashlib.sha1(b"commit").hexdigest()


class HubHandler(BaseHTTPRequestHandler):
    """Serves the repository `someone/small` with the API of the hub.

    Attributes:
        folder: files of the repository.
        num_truncated: number of the next downloads of weights that are truncated.
        is_reset: whether a truncated download ends with a reset of its connection.
        authorizations: `authorization` headers of all requests.
        downloads: files that were sent.
    """

    folder: Path
    num_truncated: int = 0
    is_reset: bool = False
    authorizations: list[str | None]
    downloads: list[str]

    def do_HEAD(self) -> None:
        self.respond(body=False)

    def do_GET(self) -> None:
        self.respond(body=True)

    def respond(self, *, body: bool) -> None:
        HubHandler.authorizations.append(self.headers.get("authorization"))
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        if parts[0] == "datasets":
            parts = parts[1:]
        if parts[0] == "api" and parts[1] in ("models", "datasets") and parts[2:4] == ["someone", "small"]:
            self.respond_with_metadata(parts[4:])
        elif parts[:3] == ["someone", "small", "resolve"] and parts[3] in ("main", COMMIT):
            self.respond_with_file(self.folder / "/".join(parts[4:]), body=body)
        else:
            self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def respond_with_metadata(self, parts: list[str]) -> None:
        files = (file for file in self.folder.rglob("*") if file.is_file())
        names = sorted(file.relative_to(self.folder).as_posix() for file in files)
        if len(parts) > 1 and parts[1] not in ("main", COMMIT):
            self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        elif parts[:1] == ["tree"]:
            self.respond_with_tree(self.folder / "/".join(parts[2:]))
        else:
            siblings = [{"rfilename": name} for name in names]
            model = {"id": "someone/small", "modelId": "someone/small", "sha": COMMIT, "siblings": siblings}
            self.send(
                200, json.dumps(model | {"private": False, "tags": [], "downloads": 0, "likes": 0}).encode()
            )

    def respond_with_tree(self, folder: Path) -> None:
        if not folder.is_dir():
            self.send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
            return
        entries = []
        recursive = "recursive=true" in urlsplit(self.path).query.lower()
        for path in sorted(folder.rglob("*") if recursive else folder.iterdir()):
            entry = {"path": path.relative_to(self.folder).as_posix(), "type": "directory", "oid": "0" * 40}
            size = path.stat().st_size
            entries.append(
                {**entry, "type": "file", "size": size, "oid": etag(path)} if path.is_file() else entry
            )
        self.send(200, json.dumps(entries).encode())

    def respond_with_file(self, path: Path, *, body: bool) -> None:
        if not path.exists():
            self.send(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        if body:
            HubHandler.downloads.append(path.relative_to(self.folder).as_posix())
        content = path.read_bytes()
        headers = {"ETag": f'"{etag(path)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        requested_range = self.headers.get("range")
        start, end = 0, len(content)
        if requested_range:
            first, _, last = requested_range.removeprefix("bytes=").partition("-")
            start, end = int(first), min(end, int(last) + 1 if last else end)
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        truncate = path.suffix == ".safetensors" and HubHandler.num_truncated > 0 and body
        HubHandler.num_truncated -= truncate
        status = 206 if requested_range else 200
        self.send(status, content[start:end], headers, body=body, truncate=truncate)

    def send(
        self,
        status: int,
        content: bytes,
        headers: dict[str, str] | None = None,
        *,
        body: bool = True,
        truncate: bool = False,
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body and self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if truncate else content)
        if truncate:
            self.close_connection = True
        if truncate and self.is_reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class HubServer(ThreadingHTTPServer):
    """Closes a connection without first announcing its end, so that the end can be a reset."""

    def shutdown_request(self, request: Any) -> None:
        self.close_request(request)


def etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


@contextmanager
def serve_repository(
    folder: Path, home: Path, handler: type[HubHandler] = HubHandler
) -> Iterator[dict[str, str]]:
    """Serve a folder as the repository; yield the environment variables that make the server the hub.

    Args:
        folder: the folder.
        home: folder of the cache of `huggingface_hub`.
        handler: answers the requests.
    """
    HubHandler.folder, HubHandler.authorizations, HubHandler.downloads = folder, [], []
    HubHandler.num_truncated, HubHandler.is_reset = 0, False
    server = HubServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield {
            "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run_script(environment: dict[str, str], script: str, *arguments: str) -> str:
    """Run a script in a new process, which reads the variables of the hub; return what it prints."""
    completed = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.strip()
