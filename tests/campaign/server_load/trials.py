"""Trials of one server: each sends requests, and raises `WrongResponse` if the server breaks a promise."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import MappingProxyType

from tests.campaign.server_load.client import WrongResponse, check_error, check_result, connect
from tests.campaign.server_load.process import MAX_CONNECTIONS
from tests.campaign.server_load.requests import ORIGIN, SPLITTING_IDS, VALID_FORMS, ValidRequest, head, post

MAX_PIPELINED = 8
RECOVERY_SECONDS = 10.0  # on a busy machine
# A request must arrive within 30 s (docs/serving.md); its rest, after an early response, within 30 s more.
# Both have a margin for a busy machine.
SLOW_CLIENT_SECONDS, ANSWERED_CLIENT_SECONDS = 45.0, 75.0


@dataclass(frozen=True)
class Target:
    """A server, with requests and the results that they get alone.

    Attributes:
        port: its port.
        results: valid requests, with the body of the response to each.
    """

    port: int
    results: Mapping[ValidRequest, bytes]

    def draw(self, rng: random.Random) -> ValidRequest:
        """Return one of the requests."""
        return rng.choice(list(self.results))


async def send_valid(target: Target, rng: random.Random, num_requests: int) -> None:
    """Send valid requests over one connection, several at once."""
    requests = list(target.results)
    async with connect(target.port) as connection:
        while num_requests > 0:
            sent = rng.choices(requests, k=min(num_requests, rng.randint(1, MAX_PIPELINED)))
            num_requests -= len(sent)
            connection.send(b"".join(post(request.path, request.body) for request in sent))
            for request in sent:
                check_result(await connection.read_response(), target.results[request])


async def send_form(target: Target, rng: random.Random, form: str) -> None:
    """Send a valid request in a rare form, in several parts of random sizes."""
    request = target.draw(rng)
    data = VALID_FORMS[form](request, rng)
    async with connect(target.port) as connection:
        for _ in range(rng.randint(0, 4)):
            size = rng.randint(0, len(data))
            connection.send(data[:size])
            data = data[size:]
            await asyncio.sleep(rng.random() * 0.02)
        connection.send(data)
        check_result(await connection.read_response(), target.results[request])


async def send_with_ids(target: Target, rng: random.Random) -> None:
    """Send requests with ids over one connection: a valid id must come back, another one must not."""
    request, result = rng.choice(list(target.results.items()))
    valid_ids = [f"{rng.getrandbits(128):032x}", "a", "i" * 128, "0-a_b.c:d/e+f=g@h"]
    async with connect(target.port) as connection:
        for given in rng.sample([*valid_ids, *SPLITTING_IDS, "i" * 129], k=8):
            body, path = rng.choice([(request.body, request.path), (b"{", request.path), (b"{}", "/none")])
            connection.send(post(path, body, f"X-Request-Id: {given}"))
            response = await connection.read_response()
            if response is None:
                raise WrongResponse("disconnected")
            if (response.request_id == given) != (given in valid_ids):
                raise WrongResponse(f"id {response.request_id!r} for {given!r}")
            if body == request.body and path == request.path:
                check_result(response, result)
            else:
                check_error(response)


async def send_preflight(target: Target, rng: random.Random) -> None:
    """Send the preflight request of a page that may use the server, then its request."""
    request = target.draw(rng)
    headers = (f"Origin: {ORIGIN}", "Access-Control-Request-Method: POST")
    async with connect(target.port) as connection:
        connection.send(head("OPTIONS", request.path, *headers, authorization=None))
        response = await connection.read_response()
        if response is None or response.status != 200:
            raise WrongResponse(f"{response} to a preflight request")
        connection.send(post(request.path, request.body, headers[0]))
        check_result(await connection.read_response(), target.results[request])


async def send_inputs(target: Target, rng: random.Random) -> None:
    """Send a valid request in the form of text-embeddings-inference, or get its error for other models."""
    text = rng.choice(["the key", "a drawer", "東京 😀", ""])
    async with connect(target.port) as connection:
        connection.send(post("/predict", json.dumps({"inputs": text}).encode()))
        inputs = await connection.read_response()
        connection.send(post("/predict", json.dumps({"text": text}).encode()))
        own = await connection.read_response()
    if inputs is None or own is None:
        raise WrongResponse("disconnected")
    if inputs.status != 200:
        check_error(inputs)
    elif inputs.status == own.status:
        best = json.loads(inputs.body)[0]["label"]
        if best != json.loads(own.body)["label"]:
            raise WrongResponse(f"{inputs.body[:100]!r} and {own.body[:100]!r} for one text")


async def send_refused(target: Target, data: bytes) -> None:
    """Send a well-formed request that must be refused, then a valid one over the same connection."""
    async with connect(target.port) as connection:
        connection.send(data)
        response = await connection.read_response()
        if response is None:
            return
        check_error(response)
        request, result = next(iter(target.results.items()))
        connection.send(post(request.path, request.body))
        # The server may close the connection after an error.
        if (response := await connection.read_response()) is not None:
            check_result(response, result)


async def send_malformed(target: Target, data: bytes) -> None:
    """Send malformed HTTP, and read errors until the server closes the connection."""
    async with connect(target.port) as connection:
        connection.send(data)
        while (response := await connection.read_response()) is not None:
            check_error(response)


async def send_heads_only(target: Target, rng: random.Random) -> None:
    """Send HEAD requests for pages."""
    async with connect(target.port) as connection:
        for path in rng.choices(["/", "/info", "/health", "/metrics", "/openapi.json"], k=5):
            connection.send(head("HEAD", path))
            response = await connection.read_response(has_body=False)
            if response is not None and response.status != 200:
                raise WrongResponse(f"HEAD {path}: {response.status}")


async def abandon(target: Target, rng: random.Random) -> None:
    """Send requests, some incomplete, and close or reset the connection without reading a response."""
    request = target.draw(rng)
    data = post(request.path, request.body) * rng.randint(1, MAX_PIPELINED)
    if rng.random() < 0.3:
        data = data[: rng.randrange(len(data))]
    async with connect(target.port) as connection:
        connection.send(data)
        await asyncio.sleep(rng.choice([0, 0.001, 0.01]))
        if rng.random() < 0.5:
            connection.reset()


async def flood(target: Target, rng: random.Random) -> None:
    """Open more connections than the server accepts, idle or with half a head; then send a valid request."""
    async with AsyncExitStack() as stack:
        for _ in range(MAX_CONNECTIONS + rng.randint(10, 150)):
            try:
                connection = await stack.enter_async_context(connect(target.port))
            except ConnectionError:
                continue
            if rng.random() < 0.5:
                connection.send(b"POST /predict HTTP/1.1\r\nHost: loc")
        await wait_for_response(target)


async def read_no_responses(target: Target, rng: random.Random) -> None:
    """Request many long responses over several connections, and read none of them."""
    async with AsyncExitStack() as stack:
        for _ in range(rng.randint(1, 20)):
            connection = await stack.enter_async_context(connect(target.port))
            connection.send(head("GET", "/") * 500)
        await wait_for_response(target)


async def wait_for_response(target: Target) -> None:
    """Repeat a valid request until it gets its result; raise `WrongResponse` if that takes too long."""
    request, result = next(iter(target.results.items()))
    loop = asyncio.get_running_loop()
    deadline = loop.time() + RECOVERY_SECONDS
    while True:
        try:
            async with connect(target.port) as connection:
                connection.send(post(request.path, request.body))
                response = await connection.read_response()
        except OSError:
            response = None
        if response is not None and response.status != 503:
            check_result(response, result)
            return
        if response is not None:
            check_error(response)
        if loop.time() > deadline:
            raise WrongResponse(f"a valid request gets {response} for {RECOVERY_SECONDS:.0f} s")
        await asyncio.sleep(0.1)


async def send_slowly(target: Target, rng: random.Random) -> None:
    """Send an endless request byte by byte; the server must close the connection in time."""
    request = target.draw(rng)
    long_head = head("POST", request.path, "Content-Type: application/json", "X: " + "y" * 500)
    data, seconds = rng.choice(
        [
            (long_head, SLOW_CLIENT_SECONDS),
            (post(request.path, b" " * 1_000), SLOW_CLIENT_SECONDS),
            (post("/none", b" " * 1_000), ANSWERED_CLIENT_SECONDS),
        ]
    )
    position = rng.randint(0, len(data) - 500)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    async with connect(target.port) as connection:
        connection.send(data[:position])
        closed = asyncio.create_task(connection.read_to_end())
        while not closed.done():
            if loop.time() > deadline:
                closed.cancel()
                raise WrongResponse(f"a request that arrives byte by byte is read for {seconds:.0f} s")
            await asyncio.wait([closed], timeout=0.5)
            if not connection.writer.is_closing():
                connection.send(data[position : position + 1])
                position += 1


Scenario = Callable[[Target, random.Random], Awaitable[None]]
SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "abandoned requests": abandon,
        "heads only": send_heads_only,
        "too many connections": flood,
        "responses that are not read": read_no_responses,
    }
)
# Scenarios in which the server does not close connections of other clients.
QUIET_SCENARIOS = ("abandoned requests", "heads only")
