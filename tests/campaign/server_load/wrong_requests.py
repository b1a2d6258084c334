"""Requests that the server must refuse."""

import json
import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from tests.campaign.server_load.requests import (
    ORIGIN,
    TOKEN,
    ValidRequest,
    chunked_head,
    head,
    post,
)

# Returns the bytes to send, derived from a valid request.
MakeBytes: TypeAlias = Callable[[ValidRequest, random.Random], bytes]


def _deep(depth: int) -> bytes:
    return b'{"text": ' * depth + b"1" + b"}" * depth


_WRONG_INPUTS: tuple[Any, ...] = (
    None, 3, True, {}, [], [[]], ["a", "b", "c"], [["a"], "b"], [["a", "b", "c"]], [[["a"]]], [1, 2],
    "x" * 100_001, "\ud800", "word " * 2_000,
)  # fmt: skip

_BODIES: Mapping[str, MakeBytes] = MappingProxyType(
    {
        "empty": lambda *_: b"",
        "cut": lambda request, rng: request.body[: rng.randrange(len(request.body))],
        "random bytes": lambda _, rng: rng.randbytes(rng.randint(1, 2_000)),
        "not UTF-8": lambda *_: b'{"text": "\xff\xfe"}',
        "deep list": lambda _, rng: b"[" * rng.choice([100, 1_000, 100_000]),
        "deep closed list": lambda *_: b"[" * 900 + b"]" * 900,
        "deep object": lambda _, rng: _deep(rng.choice([100, 1_000, 90_000])),
        "NaN": lambda _, rng: rng.choice([b"NaN", b'{"text": NaN}', b"[Infinity]", b"-Infinity"]),
        "long number": lambda _, rng: b"9" * rng.choice([100, 5_000, 900_000]),
        "number of large exponent": lambda *_: b'{"text": 1e999999999}',
        "lone surrogate": lambda *_: rb'{"text": "\ud800"}',
        "lone surrogate in a key": lambda *_: rb'{"\udfff": ""}',
        "control characters in a key": lambda *_: rb'{"\u001b[31m\r\n": ""}',
        "long key": lambda *_: b'{"' + b"k" * 500_000 + b'": ""}',
        "unknown field": lambda *_: b'{"nothing": "x"}',
        "wrong types": lambda _, rng: rng.choice(
            [b"null", b"true", b'"x"', b"[[]]", b"[null]", b'{"text": {}}', b'{"text": [[]]}', b"{}"]
        ),
        "too many items": lambda request, _: b"[" + b",".join([request.body] * 1_025) + b"]",
        "long text": lambda *_: b'{"text": "' + b"x" * 100_001 + b'", "first": "", "second": ""}',
        "too large": lambda *_: b" " * 1_000_001,
        "wrong inputs": lambda _, rng: json.dumps(
            {"inputs": rng.choice(_WRONG_INPUTS), "truncate": rng.choice([None, False])}
        ).encode(),
        "wrong options of inputs": lambda _, rng: json.dumps(
            {"inputs": "x", rng.choice(["truncate", "raw_scores", "truncation_direction"]): "left"}
        ).encode(),
        "too many inputs": lambda *_: json.dumps({"inputs": [["x"]] * 1_025}).encode(),
        "byte order mark of UTF-16": lambda *_: b"\xff\xfe{\x00",
    }
)


def _with_body(make_body: MakeBytes) -> MakeBytes:
    return lambda request, rng: post(request.path, make_body(request, rng))


# Requests with a wrong body, of the stated length and content type.
WRONG_BODIES: Mapping[str, MakeBytes] = MappingProxyType(
    {name: _with_body(make_body) for name, make_body in _BODIES.items()}
)


def _mutated_head(request: ValidRequest, rng: random.Random) -> bytes:
    """Return a request with a byte in its first line that no valid request has there."""
    data = bytearray(post(request.path, request.body))
    data[rng.randrange(1, data.index(b"\r\n"))] = rng.choice(b"\0\x01\x7f\x80\xff\r\n")
    return bytes(data)


_WRONG_LENGTHS = ("x", "1_0", "0x1", "+1", "1 1", "\u0661", "")
_WRONG_CHUNK_SIZES = (
    b"zz\r\n", b"-1\r\n", b"\r\n", b"5 5\r\n", b"F" * 100 + b"\r\n", b"5;" + b"x" * 70_000,
)  # fmt: skip
_FOREIGN_HOSTS = (
    "evil.example", "localhost.evil.example", "evil.example:80", "localhost@evil", "", "1.2.3.4", "[::2]",
    "a" * 3_000,
)  # fmt: skip
_WRONG_TOKENS = (
    "", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN,
    f"Bearer {TOKEN} {TOKEN}", "Bearer " + "x" * 5_000, "Bearer \xe4", f"Bearer {TOKEN.upper()}",
)  # fmt: skip
_FOREIGN_ORIGINS = (
    "null", "https://evil.example", f"{ORIGIN}.evil.example", f"{ORIGIN}:8443", "http://app.example",
    "x" * 3_000,
)  # fmt: skip
_TRAVERSALS = (
    "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/..%5c..%5c", "/info/../x",
)  # fmt: skip
# A second request, which the server must not answer if the end of the first one is ambiguous.
_SMUGGLED = head("GET", "/health")

# Malformed HTTP. The server must close the connection, and not answer what follows.
MALFORMED: Mapping[str, MakeBytes] = MappingProxyType(
    {
        "random bytes": lambda _, rng: rng.randbytes(rng.randint(1, 500)) + b"\r\n\r\n",
        "damaged first line": _mutated_head,
        "TLS": lambda _, rng: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200),
        "HTTP/2": lambda *_: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 40,
        "no version": lambda *_: b"GET /\r\n\r\n",
        "wrong version": lambda *_: b"GET / HTTP/one\r\nHost: localhost\r\n\r\n",
        "request id with a line break": lambda request, rng: post(
            request.path, request.body, rng.choice(["X-Request-Id: a\rX-Evil: 1", "X-Request-Id: a\0"])
        ),
        "no host": lambda *_: b"GET /health HTTP/1.1\r\n\r\n",
        "two hosts": lambda *_: head("GET", "/health", "Host: localhost"),
        "header without a colon": lambda *_: head("GET", "/health", "nonsense"),
        "header with a space": lambda *_: head("GET", "/health", "X : y"),
        "folded header": lambda *_: head("GET", "/health", "X: y", "\0 z"),
        "NUL in a header": lambda *_: head("GET", "/health", "X: \0"),
        "huge header": lambda _, rng: head("GET", "/health", "X: " + "y" * rng.choice([400_000, 2_000_000])),
        "huge path": lambda _, rng: head("GET", "/" + "y" * rng.choice([400_000, 2_000_000])),
        "many headers": lambda *_: head("GET", "/health", *(f"X-{number}: y" for number in range(60_000))),
        "negative length": lambda request, _: head("POST", request.path, "Content-Length: -1") + _SMUGGLED,
        "length that is no number": lambda request, rng: (
            head("POST", request.path, f"Content-Length: {rng.choice(_WRONG_LENGTHS)}") + _SMUGGLED
        ),
        "enormous length": lambda request, _: head("POST", request.path, f"Content-Length: {'9' * 30}"),
        "two lengths": lambda request, _: (
            head("POST", request.path, "Content-Length: 5", "Content-Length: 6") + _SMUGGLED
        ),
        "length and chunks": lambda request, rng: (
            chunked_head(rng.choice([request.path, "/none"]), "Content-Length: 5") + b"0\r\n\r\n" + _SMUGGLED
        ),
        "unknown encoding": lambda request, _: head("POST", request.path, "Transfer-Encoding: gzip, chunked"),
        "bad chunk size": lambda request, rng: (
            chunked_head(rng.choice([request.path, "/none"])) + rng.choice(_WRONG_CHUNK_SIZES) + _SMUGGLED
        ),
        "chunk without its end": lambda request, _: (
            chunked_head(request.path) + b"2\r\n{}xx0\r\n\r\n" + _SMUGGLED
        ),
    }
)

# Well-formed HTTP requests that the server must refuse.
REFUSED: Mapping[str, MakeBytes] = MappingProxyType(
    {
        "foreign host": lambda request, rng: post(
            request.path, request.body, host=rng.choice(_FOREIGN_HOSTS)
        ),
        "no token": lambda request, _: post(request.path, request.body, authorization=None),
        "wrong token": lambda request, rng: post(
            request.path, request.body, authorization=f"Authorization: {rng.choice(_WRONG_TOKENS)}"
        ),
        "two tokens": lambda request, _: post(request.path, request.body, f"Authorization: Bearer {TOKEN}"),
        "page without a token": lambda _, rng: head(
            "GET", rng.choice(["/", "/info", "/metrics", "/openapi.json", "/none"]), authorization=None
        ),
        "preflight of another origin": lambda request, rng: head(
            "OPTIONS",
            request.path,
            f"Origin: {rng.choice(_FOREIGN_ORIGINS)}",
            "Access-Control-Request-Method: POST",
            authorization=None,
        ),
        "preflight of another method": lambda request, rng: head(
            "OPTIONS",
            request.path,
            f"Origin: {ORIGIN}",
            f"Access-Control-Request-Method: {rng.choice(['DELETE', 'PUT', 'x' * 1_000])}",
        ),
        "unknown path": lambda _, rng: head("GET", "/" + "".join(rng.choices("abc%/.#", k=20))[1:] + "q"),
        "path traversal": lambda _, rng: head("GET", rng.choice(_TRAVERSALS)),
        "escaped control characters": lambda *_: head("GET", "/%00%0d%0a%1b[31m%ff%ed%a0%80"),
        "long path": lambda *_: head("GET", "/" + "y" * 8_000),
        "other method": lambda request, rng: head(
            rng.choice(["PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "X" * 500]), request.path
        ),
        "GET of an endpoint": lambda request, _: head("GET", request.path),
        "POST of a page": lambda request, _: post("/info", request.body),
        "OPTIONS of all": lambda *_: head("OPTIONS", "*"),
        "proxy request": lambda *_: head("GET", "http://evil.example/"),
        "CONNECT": lambda *_: head("CONNECT", "evil.example:443"),
        "upgrade": lambda request, _: head("GET", request.path, "Connection: Upgrade", "Upgrade: websocket"),
        "wrong content type": lambda request, rng: post(request.path, request.body).replace(
            b"application/json",
            rng.choice([b"text/plain", b"", b"multipart/form-data; boundary=x", b"a" * 3_000]),
        ),
        "no content type": lambda request, _: post(request.path, request.body).replace(
            b"Content-Type: application/json\r\n", b""
        ),
    }
)
