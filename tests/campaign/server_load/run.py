"""Runs trials against servers of several models at once, and checks what the servers use and print."""

import asyncio
import json
import random
import shlex
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from statistics import mean
from types import MappingProxyType

from tests.campaign.findings import Finding, Report
from tests.campaign.server_load import trials
from tests.campaign.server_load.client import Answer, WrongAnswer, check_result, connect
from tests.campaign.server_load.process import ServerProcess
from tests.campaign.server_load.requests import VALID_FORMS, head, post, random_request
from tests.campaign.server_load.trials import SCENARIOS, Target
from tests.campaign.server_load.wrong_requests import MALFORMED, REFUSED, WRONG_BODIES, MakeBytes

# A model of each task type, the pre-trained one and an ensemble.
MODELS = ("classify", "run", "answer", "tag", "choose", "regress", "ensemble")
SECONDS_PER_MODEL = 15.0  # of the campaign; a short one has fewer servers
_WRONG_TABLES: Mapping[str, Mapping[str, MakeBytes]] = MappingProxyType(
    {"body": WRONG_BODIES, "refused": REFUSED, "malformed": MALFORMED}
)
_REQUESTS_PER_ENDPOINT = 16
_SERVERS_AT_ONCE = 2
_LOAD_CONNECTIONS, _LOAD_REQUESTS = 32, 25  # of a round
_WRONG_REQUESTS = 8  # of each table in a round
_SLOW_CONNECTIONS = 8
_END_SECONDS = 10.0  # for the last rounds and the end of the servers
_CLOSE_SECONDS = 10.0
# The allocator keeps memory of the largest requests; a leak of 100 bytes per request shows in a night.
MAX_MEMORY_GROWTH = 16 << 20
_MIN_MEMORY_SAMPLES = 8


def run_part(report: Report, examples: Path, work: Path, rng: random.Random, deadline: float) -> None:
    """Run the part of the campaign until the deadline."""
    seconds = deadline - time.monotonic()
    models = rng.sample(MODELS, k=max(1, min(len(MODELS), int(seconds / SECONDS_PER_MODEL))))
    servers = [ServerProcess(model, examples, work / f"{model}.log") for model in models]
    try:
        for server in servers:
            server.wait_until_ready()
        load = _Load(report, examples, work, servers)
        asyncio.run(load.run(rng, deadline - _END_SECONDS))
        for server in servers:
            server.terminate()
        for server in servers:
            load.check_end(server)
    finally:
        for server in servers:
            server.kill()


class _Load:
    """Trials against running servers, with what they found."""

    def __init__(self, report: Report, examples: Path, work: Path, servers: list[ServerProcess]):
        self._report, self._examples, self._work, self._servers = report, examples, work, servers
        self._memory: dict[str, list[int]] = {server.model: [] for server in servers}
        self._found: set[tuple[str, str]] = set()

    async def run(self, rng: random.Random, deadline: float) -> None:
        """Run rounds of trials against all servers until the deadline."""
        turns = asyncio.Semaphore(_SERVERS_AT_ONCE)
        # Floods close slow connections early, so one server gets no floods.
        quiet = self._servers[0] if len(self._servers) > 1 else None
        await asyncio.gather(
            *(
                self._run_server(server, child_of(rng), turns, deadline, floods=server is not quiet)
                for server in self._servers
            )
        )

    async def _run_server(
        self,
        server: ServerProcess,
        rng: random.Random,
        turns: asyncio.Semaphore,
        deadline: float,
        *,
        floods: bool,
    ) -> None:
        """Run rounds of trials against a server in turn with the others."""
        target = await _target(server, child_of(rng))
        await self._run_round(server, target, rng, floods=floods)  # warm-up
        await asyncio.sleep(0.5)
        open_files = server.open_files()
        slow = asyncio.create_task(self._send_slowly(server, target, child_of(rng), deadline))
        while time.monotonic() < deadline and server.is_running:
            async with turns:
                await self._run_round(server, target, rng, floods=floods)
            self._memory[server.model].append(server.memory())
        slow.cancel()
        await asyncio.wait([slow])
        await self._check_open_files(server, open_files)

    def check_end(self, server: ServerProcess) -> None:
        """Check the end of a server, its log and its memory."""
        problems = [server.wait_until_stopped(), *server.unexpected_lines()[:3]]
        samples = self._memory[server.model]
        if len(samples) >= _MIN_MEMORY_SAMPLES:
            quarter = len(samples) // 4
            growth = mean(samples[-quarter:]) - mean(samples[quarter : 2 * quarter])
            self._report.count("server", "memory of a server")
            if growth > MAX_MEMORY_GROWTH:
                problems.append(f"memory grew by {growth / 1e6:.0f} MB")
        self._report.count("server", "end of a server")
        for problem in filter(None, problems):
            self._add(server, "log, memory and end", problem, self._campaign_command())

    async def _run_round(
        self, server: ServerProcess, target: Target, rng: random.Random, *, floods: bool
    ) -> None:
        """Send valid and wrong requests at the same time, then run a scenario alone."""
        load = [
            self._try(
                server,
                "valid requests",
                trials.send_valid(target, child_of(rng), _LOAD_REQUESTS),
                trials_counted=_LOAD_REQUESTS,
            )
            for _ in range(_LOAD_CONNECTIONS)
        ]
        load += [
            self._try(server, f"valid: {form}", trials.send_form(target, child_of(rng), form))
            for form in rng.choices(list(VALID_FORMS), k=_WRONG_REQUESTS)
        ]
        for kind, table in _WRONG_TABLES.items():
            for name in rng.choices(list(table), k=_WRONG_REQUESTS):
                data = table[name](target.draw(rng), rng)
                send = trials.send_malformed if kind == "malformed" else trials.send_refused
                load.append(self._try(server, f"{kind}: {name}", send(target, data), data))
        rng.shuffle(load)
        await asyncio.gather(*load)
        name = rng.choice(list(SCENARIOS if floods else trials.QUIET_SCENARIOS))
        await self._try(server, name, SCENARIOS[name](target, child_of(rng)))
        await self._try(server, f"recovery after {name}", trials.wait_for_answer(target))

    async def _send_slowly(
        self, server: ServerProcess, target: Target, rng: random.Random, deadline: float
    ) -> None:
        """Keep some slow clients connected; those that the deadline interrupts are not counted."""
        while time.monotonic() + trials.SLOW_CLIENT_SECONDS < deadline:
            clients = [
                self._try(server, "slow requests", trials.send_slowly(target, child_of(rng)))
                for _ in range(_SLOW_CONNECTIONS)
            ]
            await asyncio.gather(*clients)

    async def _check_open_files(self, server: ServerProcess, expected: int) -> None:
        """Check that a server has closed all connections."""
        deadline = time.monotonic() + _CLOSE_SECONDS
        while server.open_files() > expected and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        self._report.count("server", "open files of a server")
        if server.open_files() > expected:
            problem = f"{server.open_files()} open files after all connections, {expected} before"
            self._add(server, "open files", problem, self._campaign_command())

    async def _try(
        self,
        server: ServerProcess,
        subject: str,
        trial: Awaitable[None],
        data: bytes = b"",
        trials_counted: int = 1,
    ) -> None:
        """Await a trial, and record what it finds; `data` are the bytes that show it again."""
        try:
            await trial
        except (WrongAnswer, OSError) as error:
            ended = "" if server.is_running else "the server has ended: "
            command = self._replay_command(server, subject, data) if data else self._campaign_command()
            self._add(server, subject, f"{ended}{str(error) or type(error).__name__}", command)
        self._report.count("server", subject, trials_counted)

    def _add(self, server: ServerProcess, subject: str, problem: str, command: str) -> None:
        """Record a finding, once for each subject and kind of problem."""
        if (subject, problem[:20]) not in self._found:
            self._found.add((subject, problem[:20]))
            self._report.add(Finding("server", f"{server.model}: {subject}", problem, command))

    def _replay_command(self, server: ServerProcess, subject: str, data: bytes) -> str:
        folder = self._work / "findings"
        folder.mkdir(exist_ok=True)
        name = "".join(character if character.isalnum() else "-" for character in subject)
        file = folder / f"{len(self._found)}-{name}.http"
        file.write_bytes(data)
        return shlex.join(
            [
                "python",
                "-m",
                "tests.campaign.server_load.replay",
                str(self._examples / server.model),
                str(file),
            ]
        )

    def _campaign_command(self) -> str:
        return f"make campaign SEED={self._report.seed}"


def child_of(rng: random.Random) -> random.Random:
    """Return random numbers of its own for a trial, so that its draws do not depend on other trials."""
    return random.Random(rng.getrandbits(64))


async def _target(server: ServerProcess, rng: random.Random) -> Target:
    """Return random requests for a server, with the results that they get alone."""

    async def answer(data: bytes) -> Answer:
        async with connect(server.port) as connection:
            connection.send(data)
            result = await connection.read_answer()
        if result is None or result.status != 200:
            raise SystemExit(f"{server.model}: {result} to {data[-200:]!r}")
        return result

    info = json.loads((await answer(head("GET", "/info"))).body)
    requests = [
        random_request(endpoint, rng) for endpoint in info["endpoints"] for _ in range(_REQUESTS_PER_ENDPOINT)
    ]
    results = {request: (await answer(post(request.path, request.body))).body for request in requests}
    for request in requests:
        check_result(await answer(post(request.path, request.body)), results[request])
    return Target(server.port, MappingProxyType(results))
