"""Rounds of trials against one server; checks of its memory, open files, log and end."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Coroutine, Iterator, Mapping
from statistics import mean
from types import MappingProxyType
from typing import Any

from tests.campaign.server_load import trials
from tests.campaign.server_load.client import Response, WrongResponse, check_result, connect
from tests.campaign.server_load.process import ServerProcess
from tests.campaign.server_load.reporter import Reporter
from tests.campaign.server_load.requests import VALID_FORMS, head, post, random_request
from tests.campaign.server_load.trials import QUIET_SCENARIOS, SCENARIOS, Target
from tests.campaign.server_load.wrong_requests import MALFORMED, REFUSED, WRONG_BODIES, MakeBytes

_WRONG_REQUESTS: Mapping[str, Mapping[str, MakeBytes]] = MappingProxyType(
    {"body": WRONG_BODIES, "refused": REFUSED, "malformed": MALFORMED}
)
_REQUESTS_PER_ENDPOINT = 16  # different valid ones
# In a round: connections with valid requests, requests of each, requests of each unusual kind.
_CONNECTIONS, _REQUESTS_PER_CONNECTION, _UNUSUAL_REQUESTS = 32, 25, 8
_SLOW_CONNECTIONS = 8
_CLOSE_SECONDS = 10.0  # in which a server must notice that connections are closed
# The allocator keeps the memory of the largest requests. A night shows a leak of 100 bytes per request.
MAX_MEMORY_GROWTH = 16 << 20
_MIN_MEMORY_SAMPLES = 8


class ServerLoad:
    """Trials against one server."""

    def __init__(self, server: ServerProcess, reporter: Reporter, rng: random.Random, *, has_floods: bool):
        self._server, self._reporter, self._rng = server, reporter, rng
        self._scenarios = list(SCENARIOS if has_floods else QUIET_SCENARIOS)
        self._memory: list[int] = []  # after each round

    async def run(self, turns: asyncio.Semaphore, deadline: float) -> None:
        """Run rounds of trials until the deadline, in turn with other servers."""
        target = await _make_target(self._server, child_of(self._rng))
        await self._run_round(target)  # warm-up
        await asyncio.sleep(0.5)
        open_files = self._server.open_files()
        slow = asyncio.create_task(self._send_slowly(target, child_of(self._rng), deadline))
        while time.monotonic() < deadline and self._server.is_running:
            async with turns:
                await self._run_round(target)
            self._memory.append(self._server.memory())
        slow.cancel()
        await asyncio.wait([slow])
        await self._check_open_files(open_files)

    def check_stopped(self) -> None:
        """Check the end of the server after SIGTERM, its log, and the growth of its memory."""
        problems = [self._server.wait_until_stopped(), *self._server.unexpected_lines()[:3]]
        if len(self._memory) >= _MIN_MEMORY_SAMPLES:
            quarter = len(self._memory) // 4
            growth = mean(self._memory[-quarter:]) - mean(self._memory[quarter : 2 * quarter])
            self._reporter.count("memory of a server")
            if growth > MAX_MEMORY_GROWTH:
                problems.append(f"memory grew by {growth / 1e6:.0f} MB")
        self._reporter.count("end of a server")
        for problem in filter(None, problems):
            self._reporter.add(self._server, "log, memory and end", problem)

    async def _run_round(self, target: Target) -> None:
        """Send valid and wrong requests at the same time, then run a scenario alone."""
        load = [*self._valid_load(target), *self._access_load(target), *self._wrong_load(target)]
        self._rng.shuffle(load)
        await asyncio.gather(*load)
        name = self._rng.choice(self._scenarios)
        await self._try(name, SCENARIOS[name](target, child_of(self._rng)))
        await self._try(f"recovery after {name}", trials.wait_for_response(target))

    def _valid_load(self, target: Target) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the trials of a round that send valid requests."""
        for _ in range(_CONNECTIONS):
            trial = trials.send_valid(target, child_of(self._rng), _REQUESTS_PER_CONNECTION)
            yield self._try("valid requests", trial, count=_REQUESTS_PER_CONNECTION)
        for form in self._rng.choices(list(VALID_FORMS), k=_UNUSUAL_REQUESTS):
            yield self._try(f"valid: {form}", trials.send_form(target, child_of(self._rng), form))

    def _access_load(self, target: Target) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the trials of a round that concern ids, origins and the forms of another server."""
        for name, trial in (
            ("request ids", trials.send_with_ids),
            ("preflight", trials.send_preflight),
            ("inputs", trials.send_inputs),
        ):
            yield self._try(name, trial(target, child_of(self._rng)))

    def _wrong_load(self, target: Target) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the trials of a round that send wrong requests."""
        for kind, table in _WRONG_REQUESTS.items():
            for name in self._rng.choices(list(table), k=_UNUSUAL_REQUESTS):
                data = table[name](target.draw(self._rng), self._rng)
                send = trials.send_malformed if kind == "malformed" else trials.send_refused
                yield self._try(f"{kind}: {name}", send(target, data), data)

    async def _send_slowly(self, target: Target, rng: random.Random, deadline: float) -> None:
        """Keep some slow clients connected, as long as they can time out before the deadline."""
        while time.monotonic() + trials.SLOW_CLIENT_SECONDS < deadline:
            clients = [
                self._try("slow requests", trials.send_slowly(target, child_of(rng)))
                for _ in range(_SLOW_CONNECTIONS)
            ]
            await asyncio.gather(*clients)

    async def _check_open_files(self, expected: int) -> None:
        """Check that the server has closed all connections."""
        deadline = time.monotonic() + _CLOSE_SECONDS
        while self._server.open_files() > expected and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        self._reporter.count("open files of a server")
        if (found := self._server.open_files()) > expected:
            problem = f"{found} open files after all connections, {expected} before"
            self._reporter.add(self._server, "open files", problem)

    async def _try(self, subject: str, trial: Awaitable[None], data: bytes = b"", count: int = 1) -> None:
        """Await a trial, and report its problem.

        Args:
            subject: the kind of trial.
            trial: the trial.
            data: what the trial sends, if this alone reproduces the problem.
            count: number of trials that it counts as.
        """
        try:
            await trial
        except (WrongResponse, OSError) as error:
            ended = "" if self._server.is_running else "the server has ended: "
            self._reporter.add(self._server, subject, f"{ended}{str(error) or type(error).__name__}", data)
        self._reporter.count(subject, count)


def child_of(rng: random.Random) -> random.Random:
    """Return new random numbers for a trial, so that its draws do not depend on other trials."""
    return random.Random(rng.getrandbits(64))


async def _make_target(server: ServerProcess, rng: random.Random) -> Target:
    """Return random requests to a server, with the results that they get alone."""

    async def respond(data: bytes) -> Response:
        async with connect(server.port) as connection:
            connection.send(data)
            response = await connection.read_response()
        if response is None or response.status != 200:
            raise SystemExit(f"{server.model}: {response} to {data[-200:]!r}")
        return response

    info = json.loads((await respond(head("GET", "/info"))).body)
    requests = [
        random_request(endpoint, rng) for endpoint in info["endpoints"] for _ in range(_REQUESTS_PER_ENDPOINT)
    ]
    results = {request: (await respond(post(request.path, request.body))).body for request in requests}
    for request in requests:
        check_result(await respond(post(request.path, request.body)), results[request])
    return Target(server.port, MappingProxyType(results))
