"""A headless Chromium, driven through chromedriver, and a server of static files."""

import base64
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)

# WebGPU on the CPU, by a software driver.
GPU_ARGUMENTS = (
    *(argument for argument in ARGUMENTS if argument != "--disable-gpu"),
    *("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"),
    *("--enable-features=Vulkan", "--use-vulkan=swiftshader"),
)


# Widths of a phone, a tablet and a desktop, in pixels.
WINDOWS = (390, 768, 1280)


def missing_browser() -> str | None:
    """Return why there is no browser here; None if there is one."""
    return _missing("chromium", "chromedriver")


def missing_program() -> str | None:
    """Return why the page of a web export cannot be tested here; None if it can."""
    return _missing("chromium", "chromedriver", "npm", "node")


def _missing(*programs: str) -> str | None:
    return next((f"{name} is not installed" for name in programs if shutil.which(name) is None), None)


class Browser:
    """A page in Chromium."""

    def __init__(self, driver: str, profile: str, arguments: Sequence[str]):
        self._driver = driver
        options = {"args": [*arguments, f"--user-data-dir={profile}"], "binary": shutil.which("chromium")}
        capabilities = {
            "alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        }
        self._session = self._request("session", {"capabilities": capabilities})["sessionId"]

    def open(self, address: str) -> None:
        self._call("url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        return self._call("execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script: str, seconds: float = 60) -> Any:
        """Return the result of a script as soon as it is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if result := self.run(script):
                return result
            time.sleep(0.05)
        shown = self.run("return document.body.innerText")
        raise TimeoutError(f"{script}: the page shows {shown!r}, the console {self.console()}")

    def console(self) -> list[str]:
        """Return the messages of the console since the last call."""
        return [entry["message"] for entry in self._call("se/log", {"type": "browser"})]

    def emulate(self, command: str, **parameters: Any) -> Any:
        return self._call("goog/cdp/execute", {"cmd": command, "params": parameters})

    def set_window(self, width: int, scheme: str) -> None:
        """Show the page in a window of a width in pixels, with a color scheme."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.emulate("Emulation.setDeviceMetricsOverride", **size)
        self.emulate(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
        )

    def screenshot(self, file: Path) -> None:
        """Write a picture of the whole page."""
        time.sleep(0.5)  # transitions end
        picture = self.emulate("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(picture["data"]))

    def width_of(self, file: Path, window: int) -> int:
        """Return the width of a page in a window of a width in pixels."""
        self.set_window(window, "light")
        self.open(file.as_uri())
        width: int = self.run("return document.documentElement.scrollWidth")
        return width

    def close(self) -> None:
        self._request(f"session/{self._session}", None, "DELETE")

    def _call(self, path: str, content: Any) -> Any:
        return self._request(f"session/{self._session}/{path}", content)

    def _request(self, path: str, content: Any, method: str = "POST") -> Any:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(
            f"{self._driver}/{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.loads(response.read())["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()[:2000]) from None


@contextmanager
def open_browser(arguments: Sequence[str] = ARGUMENTS) -> Iterator[Browser]:
    """Start chromedriver and Chromium with an empty profile."""
    port = free_port()
    with (
        TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as driver,
    ):
        try:
            wait_for_port(port)
            browser = Browser(f"http://127.0.0.1:{port}", profile, arguments)
            try:
                yield browser
            finally:
                browser.close()
        finally:
            driver.terminate()


def assert_fits_windows(page: Path) -> None:
    """Check, if Chromium is installed, that a page is not wider than a phone, a tablet or a desktop."""
    if missing_browser() is None:
        with open_browser() as browser:
            widths = {window: browser.width_of(page, window) for window in WINDOWS}
        assert {window: width for window, width in widths.items() if width > window} == {}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


class _Handler(SimpleHTTPRequestHandler):
    headers_to_add: dict[str, str]

    def __init__(self, *arguments: Any, headers_to_add: dict[str, str], **options: Any):
        self.headers_to_add = headers_to_add
        super().__init__(*arguments, **options)

    def end_headers(self) -> None:
        for name, value in self.headers_to_add.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@contextmanager
def serve_folder(folder: Path, headers: dict[str, str] | None = None) -> Iterator[str]:
    """Serve the files of a folder; yield the address."""
    handler = partial(_Handler, directory=str(folder), headers_to_add=headers or {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
