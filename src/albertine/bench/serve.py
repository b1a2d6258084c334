"""`albertine bench serve`: throughput and latency of a server under 1, 8 and 64 concurrent callers.

The peer is what one writes with FastAPI and `transformers` (`peer_server.py`): the same model in fp32, one
forward pass for each request, in a thread. Both servers run on this machine and get the same texts, with
the lengths of SST-2's sentences, over connections that stay open. Their measurements alternate.
"""

import asyncio
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from select import select
from tempfile import TemporaryFile
from typing import Any

from albertine import progress
from albertine.bench.load_client import HttpConnection, send_from_callers
from albertine.bench.model import SST2_LENGTHS
from albertine.bench.peer_model import peer_options
from albertine.bench.settings import ServeBenchSettings
from albertine.errors import InputError, WorkError
from albertine.interop.hub import is_ensemble, is_export, local_model, locate_model
from albertine.interop.transformers_config import checkpoint_model_settings

CALLERS = (1, 8, 64)
_WARM_UP_SECONDS = 0.5
_START_SECONDS, _STOP_SECONDS = 300.0, 15.0
# Of a probability, between both sides: in fp32, and where Albertine's server computes in bf16 or int8.
_TOLERANCE, _ROUNDED_TOLERANCE = 0.002, 0.1
_TOKEN_VARIABLE = "ALBERTINE_TOKEN"  # of the server; the requests have none
_PEER_TYPES = ("classify",)
_PEER_PACKAGES = ("fastapi", "transformers")
_TEXT = "the film was a fine story about an old house and two friends who never found their way home"


@dataclass(frozen=True)
class ServerLoadResult:
    """What was measured of a server with some number of callers.

    Attributes:
        server: "albertine" or "fastapi + transformers".
        callers: number of concurrent callers.
        requests: number of requests that were answered.
        requests_per_second: throughput.
        p50_ms: median latency in milliseconds.
        p99_ms: latency that 99% of the requests did not exceed.
    """

    server: str
    callers: int
    requests: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float


def measure_servers(model: str, settings: ServeBenchSettings) -> list[ServerLoadResult]:
    """Return the results of Albertine's server and, if its packages are installed, of the peer."""
    with ExitStack() as stack:
        command = [sys.executable, "-m", "albertine", "serve", model, "--port", "0", "--quiet"]
        command += ["--device", settings.device, "--precision", settings.precision]
        command += ["--workers", str(settings.workers)]
        command += [] if settings.engine is None else ["--engine", settings.engine]
        ports = {"albertine": stack.enter_context(_server(command))}
        info = asyncio.run(_info(ports["albertine"]))
        endpoint = info["endpoints"][0]
        if (reason := _missing_peer(model, endpoint["type"], settings)) is None:
            peer = [sys.executable, "-m", "albertine.bench.peer_server"]
            peer += [settings.peer or model, str(info["max_length"])]
            ports["fastapi + transformers"] = stack.enter_context(_server(peer))
        else:
            progress.print_message(f"without the peer: {reason}")
        bodies = _request_bodies(endpoint)
        if len(ports) > 1:
            tolerance = _TOLERANCE if info["model_dtype"] == "float32" else _ROUNDED_TOLERANCE
            asyncio.run(_check_same_results(ports, endpoint["path"], bodies, tolerance, settings.peer))
        runs = [(callers, server) for callers in CALLERS for server in ports]
        return [
            _measure(server, ports[server], endpoint["path"], bodies, callers, settings.seconds)
            for callers, server in progress.track(runs, "Measuring", unit="loads")
        ]


def _missing_peer(model: str, type_name: str, settings: ServeBenchSettings) -> str | None:
    """Return why there is no peer for a model that a server has loaded; None if there is one."""
    if missing := [name for name in _PEER_PACKAGES if find_spec(name) is None]:
        return f"{' and '.join(missing)} not installed; run pip install {' '.join(_PEER_PACKAGES)}"
    if type_name not in _PEER_TYPES:
        return f"it serves classification models, and this one is of type {type_name}"
    if settings.peer is None and is_ensemble(local_model(model)):
        return "it serves one model, and this is an ensemble"
    if settings.peer is None and is_export(locate_model(model)):
        return "this model is exported; name the checkpoint that it was made from with --peer"
    if settings.device != "cpu":
        return "it computes on the CPU; use --device cpu"
    folder = locate_model(settings.peer or model)
    try:
        peer_options(folder, checkpoint_model_settings(folder))
    except InputError as error:
        return str(error)
    return None


@contextmanager
def _server(command: Sequence[str]) -> Iterator[int]:
    """Run a server that prints its address, yield its port, and stop it."""
    environment = {key: value for key, value in os.environ.items() if key != _TOKEN_VARIABLE}
    with (
        TemporaryFile("w+", encoding="utf-8", errors="replace") as messages,  # a pipe would fill
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,  # it cannot ask
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
            env=environment,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            if not select([process.stdout], [], [], _START_SECONDS)[0]:
                raise WorkError(f"bench serve: a server did not start in {_START_SECONDS:.0f} seconds")
            address = process.stdout.readline().strip()
            if not address.startswith("http://"):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_STOP_SECONDS)
                messages.seek(0)
                lines = messages.read().strip().splitlines() or ["no message"]
                message = lines[-1].removeprefix("albertine: ")
                error = InputError if process.poll() == 2 else WorkError
                raise error(f"bench serve: a server did not start: {message}")
            yield int(address.rstrip("/").rpartition(":")[2])
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


async def _info(port: int) -> dict[str, Any]:
    """Return the description of Albertine's server and its model; it has at least one endpoint to measure."""
    async with HttpConnection(port) as connection:
        info: dict[str, Any] = json.loads(await connection.get("/info"))
    if not info["endpoints"]:
        raise InputError("bench serve: this model only gives vectors of texts; name one that predicts")
    return info


def _request_bodies(endpoint: dict[str, Any]) -> list[bytes]:
    """Return a request for each length of SST-2's sentences."""
    words, bodies = _TEXT.split(), []
    for length in SST2_LENGTHS:
        text = " ".join(words[index % len(words)] for index in range(length))
        if endpoint["mask_token"]:
            text = f"{endpoint['mask_token']} {text}"
        fields = [field for field in endpoint["fields"] if field["required"]]
        item = {
            field["name"]: [text] * (field["count"] or 2) if field["type"] == "texts" else text
            for field in fields
        }
        bodies.append(json.dumps(item).encode())
    return bodies


async def _check_same_results(
    ports: Mapping[str, int], path: str, bodies: Sequence[bytes], tolerance: float, peer: str | None
) -> None:
    """Raise `WorkError` if the servers do not predict the same probabilities, up to a tolerance."""
    advice = f"--peer {peer} must be the same model" if peer else "report this, with the model"
    ours, theirs = [await _all_probabilities(port, path, bodies) for port in ports.values()]
    for first, second in zip(ours, theirs, strict=True):
        if first.keys() != second.keys():
            raise WorkError(f"bench serve: the servers predict other labels; {advice}")
        difference = max(abs(first[label] - second[label]) for label in first)
        if difference > tolerance:
            raise WorkError(
                f"bench serve: the probabilities of the servers differ by {difference:.2g}; {advice}"
            )


async def _all_probabilities(port: int, path: str, bodies: Sequence[bytes]) -> list[dict[str, float]]:
    """Return the probabilities that a server predicts for each request."""
    async with HttpConnection(port) as connection:
        return [json.loads(await connection.post(path, body))["probabilities"] for body in bodies]


def _measure(
    server: str, port: int, path: str, bodies: Sequence[bytes], callers: int, seconds: float
) -> ServerLoadResult:
    """Return the result of a server; see `ServerLoadResult`."""
    asyncio.run(send_from_callers(port, path, bodies, callers, _WARM_UP_SECONDS))
    started = time.perf_counter()
    latencies = sorted(asyncio.run(send_from_callers(port, path, bodies, callers, seconds)))
    elapsed = time.perf_counter() - started
    return ServerLoadResult(
        server,
        callers,
        len(latencies),
        len(latencies) / elapsed,
        1_000 * _quantile(latencies, 0.5),
        1_000 * _quantile(latencies, 0.99),
    )


def _quantile(ordered: Sequence[float], fraction: float) -> float:
    """Return the smallest value that a fraction of the values does not exceed."""
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


def show_servers(results: Sequence[ServerLoadResult], *, as_json: bool) -> None:
    """Print the results as text or JSON."""
    if as_json:
        progress.print_json({"results": [asdict(result) for result in results]})
        return
    print(f"{'callers':>7}  {'server':24} {'requests/s':>10} {'p50 ms':>9} {'p99 ms':>9}")
    for result in results:
        print(
            f"{result.callers:>7}  {result.server:24} {result.requests_per_second:>10,.1f} "
            f"{result.p50_ms:>9,.1f} {result.p99_ms:>9,.1f}"
        )
