"""A process that runs `albertine serve`: its start and end, its memory and open files, its log."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from albertine.deploy.http_server import max_connections
from tests.campaign.commands import resident_bytes
from tests.campaign.server_load.requests import ORIGIN, TOKEN

MAX_OPEN_FILES = 512  # a low limit keeps floods small
MAX_CONNECTIONS = max_connections(MAX_OPEN_FILES)
START_SECONDS = 120.0
STOP_SECONDS = 15.0  # 8 s for pending requests (docs/serving.md), and a margin for a busy machine
# Parts of the lines that a server without defects prints.
_EXPECTED_TEXTS = (
    "; open the address above in a browser to try it; stop with Ctrl-C",
    "an item is too long for the model and was truncated; ",
    "stopped; answered: ",
    "the model of an unfinished run",
)
_REQUEST_KEYS = ["time", "id", "method", "path", "status", "milliseconds", "texts", "tokens"]
_SECRETS = (TOKEN, "drawer", r"\u6771", "Bearer")  # the token, and words of the texts


class ServerProcess:
    """A process that runs `albertine serve`.

    Attributes:
        model: name of the model in the examples.
        port: port on 127.0.0.1; 0 before `wait_until_ready`.
        log: file of its standard error.
    """

    def __init__(self, model: str, examples: Path, log: Path):
        """Start a server, without waiting until it is ready."""
        self.model, self.port, self.log = model, 0, log
        self._terminated: float | None = None
        command = [sys.executable, "-m", "albertine", "serve", model, "--port", "0", "--device", "cpu"]
        options = ["--precision", "fp32", "--log-format", "json", "--cors-origins", ORIGIN]
        with log.open("wb") as stream:
            self._process = subprocess.Popen(
                [*command, *options],
                cwd=examples,
                env={**os.environ, "OMP_NUM_THREADS": "1", "ALBERTINE_TOKEN": TOKEN},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stream,
                start_new_session=True,
                preexec_fn=_limit_open_files,
            )

    def wait_until_ready(self) -> None:
        """Wait until the server prints its address."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        if not line.startswith("http://"):
            raise SystemExit(f"albertine serve {self.model}: {self.log.read_text()}")
        self.port = int(line.rstrip("/\n").rpartition(":")[2])

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def memory(self) -> int:
        """Return the resident bytes of the process."""
        return resident_bytes(self._process.pid)

    def open_files(self) -> int:
        """Return the number of open file descriptors of the process; 0 if it has ended."""
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir())) if self.is_running else 0

    def unexpected_lines(self) -> list[str]:
        """Return the lines of its log that a server without defects does not print."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if not _is_expected(line)]

    def terminate(self) -> None:
        """Send SIGTERM, unless the process has ended."""
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)
            self._terminated = time.monotonic()

    def wait_until_stopped(self) -> str:
        """Wait for the end after SIGTERM; return what is wrong with it, empty if nothing is."""
        if self._terminated is None:
            return f"ended by itself with status {self._process.returncode}"
        try:
            status = self._process.wait(max(0.0, self._terminated + STOP_SECONDS - time.monotonic()))
        except subprocess.TimeoutExpired:
            return f"still running {STOP_SECONDS:.0f} s after SIGTERM"
        return "" if status == 0 else f"status {status} after SIGTERM"

    def kill(self) -> None:
        """Kill the process, if it has not ended."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _is_expected(line: str) -> bool:
    """Return whether a line is that of a request, without its texts and the token, or an expected message."""
    if any(secret in line for secret in _SECRETS):
        return False
    try:
        content = json.loads(line)
    except ValueError:  # printed before the server has its log
        return any(expected in line for expected in _EXPECTED_TEXTS)
    if "message" in content:
        return any(expected in content["message"] for expected in _EXPECTED_TEXTS)
    return list(content) == _REQUEST_KEYS and isinstance(content["status"], int)


def _limit_open_files() -> None:
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = min(MAX_OPEN_FILES, hard_limit)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
