"""Tests of GET /openapi.json: a valid description, whose schemas fit what the server accepts and returns."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from albertine.deploy.paths import PAGE_PATHS
from tests.deploy.conftest import TASK_TYPES, ServerClient, running_server
from tests.deploy.test_server import EXAMPLE_REQUESTS

ClientFactory = Callable[[str], ServerClient]
TOKEN = "0123456789abcdef"
REQUESTS: dict[str, dict[str, list[Any]]] = {
    **{name: {"/predict": [*items, items]} for name, items in EXAMPLE_REQUESTS.items()},
    "pretrained": {
        "/fill-mask": [{"text": "ka [MASK]"}, []],
        "/order": [{"first": "Ka.", "second": "Lo."}],
    },
}
REQUESTS["classify"]["/predict"] += [
    {"inputs": "ka"},
    {"inputs": ["ka", "lo"], "raw_scores": True},
    {"inputs": [["ka"], ["ka", "lo"]], "truncate": None},
    {"text": "ka " * 80},
]


def check_operation(client: ServerClient, path: str, method: str, body: Any = None) -> Any:
    """Send a request, and check it and its response against the description; return the response."""
    description = client("/openapi.json")[1]
    operation = description["paths"][path][method]

    def check(schema: Any, content: Any) -> None:
        Draft202012Validator({**schema, "components": description["components"]}).validate(content)

    if body is not None:
        check(operation["requestBody"]["content"]["application/json"]["schema"], body)
    status, response, headers = client.request(path, None if body is None else json.dumps(body).encode())
    described = operation["responses"][str(status)]
    content_type = headers["Content-Type"].partition(";")[0]
    check(described["content"][content_type]["schema"], response)
    assert headers["X-Request-Id"]
    assert status == 200
    return response


@pytest.mark.parametrize("name", REQUESTS)
def test_the_description_is_valid_and_fits_requests_and_responses(
    name: str, client_for: ClientFactory
) -> None:
    client = client_for(name)
    description = client("/openapi.json")[1]
    OpenAPIV31SpecValidator(description).validate()
    assert "securitySchemes" not in description["components"]
    endpoints = [endpoint["path"] for endpoint in client("/info")[1]["endpoints"]]
    vectors = ["/embed", "/v1/embeddings", "/embeddings"] if name == "pretrained" else []
    has_default = name in ("classify", "multi-label", "pretrained")
    assert ("post" in description["paths"]["/"]) == has_default
    default = ["/invocations"] if has_default else []
    assert set(description["paths"]) == {*PAGE_PATHS, *endpoints, *vectors, *default, "/tokenize"}
    assert set(REQUESTS[name]) == set(endpoints)
    for path in PAGE_PATHS:
        check_operation(client, path, "get")
    check_operation(client, "/tokenize", "post", {"inputs": ["ka lo", "ka"], "add_special_tokens": None})
    for path, bodies in REQUESTS[name].items():
        for body in bodies:
            check_operation(client, path, "post", body)


def test_wrong_items_do_not_fit_the_schemas(client_for: ClientFactory) -> None:
    for name in TASK_TYPES:
        description = client_for(name)("/openapi.json")[1]
        operation = description["paths"]["/predict"]["post"]
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        validator = Draft202012Validator({**schema, "components": description["components"]})
        for body in ({}, 3, None, "ka", {"texd": "ka"}, [3], {"text": 3}, {"options": ["a"]}):
            assert not validator.is_valid(body), (name, body)
            status, response = client_for(name)("/predict", 0 if body is None else body)
            error = operation["responses"][str(status)]["content"]["application/json"]["schema"]
            Draft202012Validator({**error, "components": description["components"]}).validate(response)


def test_a_token_is_described(models: dict[str, Path]) -> None:
    with running_server(models["classify"], token=TOKEN) as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        _, description, _ = client.request("/openapi.json", None, headers)
    OpenAPIV31SpecValidator(description).validate()
    assert description["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}
    assert description["security"] == [{"token": []}]
    for path in ("/", "/health", "/ping"):
        assert description["paths"][path]["get"]["security"] == []
    assert "security" not in description["paths"]["/"]["post"]
    assert "401" in description["paths"]["/"]["post"]["responses"]
    assert "401" not in description["paths"]["/health"]["get"]["responses"]
    assert "401" in description["paths"]["/predict"]["post"]["responses"]
    assert TOKEN not in json.dumps(description)


def test_embed_is_described_if_the_model_has_it(models: dict[str, Path]) -> None:
    with running_server(models["pretrained"]) as client:
        OpenAPIV31SpecValidator(client("/openapi.json")[1]).validate()
        for path in ("/embed", "/", "/invocations"):
            for body in ({"inputs": "ka"}, {"inputs": ["ka", "lo"], "normalize": False}):
                check_operation(client, path, "post", body)
        for path in ("/v1/embeddings", "/embeddings"):
            for encoding in ("float", "base64", None):
                options = {"model": "any", "encoding_format": encoding}
                check_operation(client, path, "post", {"input": ["ka", "lo"], **options})
