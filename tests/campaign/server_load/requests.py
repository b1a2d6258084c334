"""Valid requests to a server: random items, and many forms of HTTP that carry them."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

TOKEN = "campaign-token.0123456789=="  # of all servers
ORIGIN = "https://app.example"  # whose pages may use them
_AUTHORIZATION = f"Authorization: Bearer {TOKEN}"
_WORDS = ("the", "key", "was", "in", "a", "drawer", "Ida", "took", "don't", "Ümläut", "東京", "😀", "x1", "…")


@dataclass(frozen=True)
class ValidRequest:
    """A request with a JSON body; the server answers it with status 200."""

    path: str
    body: bytes


def random_item(endpoint: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return a random valid item for an endpoint, as `GET /info` describes it."""

    def text() -> str:
        words = rng.choices(_WORDS, k=rng.randint(1, 6))  # short enough for the smallest models
        if endpoint["mask_token"]:
            words.insert(rng.randint(0, len(words)), endpoint["mask_token"])
        return " ".join(words)

    return {
        field["name"]: [text() for _ in range(field["count"])] if field["type"] == "texts" else text()
        for field in endpoint["fields"]
        if field["required"] or rng.random() < 0.5
    }


def random_request(endpoint: Mapping[str, Any], rng: random.Random) -> ValidRequest:
    """Return a random request with an item or a list of items."""
    items = [random_item(endpoint, rng) for _ in range(rng.choice([1, 1, 1, 2, 5]))]
    payload = items[0] if len(items) == 1 and rng.random() < 0.8 else items
    return ValidRequest(endpoint["path"], json.dumps(payload, ensure_ascii=rng.random() < 0.5).encode())


def head(
    method: str,
    path: str,
    *headers: str,
    host: str = "localhost",
    version: str = "1.1",
    authorization: str | None = _AUTHORIZATION,
) -> bytes:
    """Return the head of a request, with the token unless another header or None is given for it."""
    lines = [f"{method} {path} HTTP/{version}", f"Host: {host}", *headers]
    if authorization is not None:
        lines.append(authorization)
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("utf-8", "surrogateescape")


def post(
    path: str,
    body: bytes,
    *headers: str,
    host: str = "localhost",
    version: str = "1.1",
    authorization: str | None = _AUTHORIZATION,
) -> bytes:
    """Return a whole request with a JSON body and its length; see `head`."""
    lines = ("Content-Type: application/json", f"Content-Length: {len(body)}", *headers)
    return head("POST", path, *lines, host=host, version=version, authorization=authorization) + body


def chunked_head(path: str, *headers: str) -> bytes:
    """Return the head of a request whose JSON body follows in chunks."""
    return head("POST", path, "Content-Type: application/json", *headers, "Transfer-Encoding: chunked")


def chunked(path: str, body: bytes, rng: random.Random) -> bytes:
    """Return a whole request whose body is sent in chunks of random sizes."""
    data = chunked_head(path)
    while body:
        size = rng.randint(1, 40)
        data += f"{len(body[:size]):x}\r\n".encode() + body[:size] + b"\r\n"
        body = body[size:]
    return data + b"0\r\n\r\n"


# Ids that would add a header or a line of a log, if they were not replaced.
SPLITTING_IDS = (
    "a%0d%0aX-Evil: 1", "a\\r\\nX-Evil: 1", "a;X-Evil: 1", "a\u2028X-Evil: 1", "a\xe4", "<script>", "a b", "",
    '"},{"status":200', "\x85",
)  # fmt: skip

# Forms of a request that the server must answer like the plain one.
VALID_FORMS: Mapping[str, Callable[[ValidRequest, random.Random], bytes]] = MappingProxyType(
    {
        "plain": lambda request, _: post(request.path, request.body),
        "chunked": lambda request, rng: chunked(request.path, request.body, rng),
        "HTTP/1.0": lambda request, _: post(request.path, request.body, version="1.0"),
        "another case": lambda request, _: (
            post(request.path, request.body)
            .replace(b"Content-Length", b"CONTENT-length")
            .replace(b"application/json", b"Application/JSON; charset=utf-8")
        ),
        "many headers": lambda request, rng: post(
            request.path, request.body, *(f"X-{number}: {'v' * 50}" for number in range(rng.randint(1, 100)))
        ),
        "spaces around the body": lambda request, _: post(request.path, b" \n" + request.body + b"\t "),
        "absolute address of the host": lambda request, _: post(
            request.path, request.body, host="127.0.0.1:1"
        ),
        "expects 100": lambda request, _: post(request.path, request.body, "Expect: 100-continue"),
        "page of an allowed origin": lambda request, _: post(request.path, request.body, f"Origin: {ORIGIN}"),
        "page of another origin": lambda request, _: post(
            request.path, request.body, "Origin: https://evil.example"
        ),
        "request id": lambda request, rng: post(
            request.path, request.body, f"X-Request-Id: {rng.getrandbits(64):x}"
        ),
        "overlong request id": lambda request, rng: post(
            request.path, request.body, f"X-Request-Id: {'i' * rng.choice([129, 5_000])}"
        ),
        "request id that splits a header": lambda request, rng: post(
            request.path, request.body, f"X-Request-Id: {rng.choice(SPLITTING_IDS)}"
        ),
        "two request ids": lambda request, _: post(
            request.path, request.body, "X-Request-Id: a", "X-Request-Id: b"
        ),
        "lower-case scheme of the token": lambda request, _: post(
            request.path, request.body, authorization=f"authorization: bearer {TOKEN}"
        ),
        "query": lambda request, _: post(f"{request.path}?a=%00&b", request.body),
    }
)
