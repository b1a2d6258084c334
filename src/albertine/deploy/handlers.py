"""The handlers of POST requests: read the JSON, submit its items to a batcher, and return the results."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from albertine import progress
from albertine.deploy import openai_embeddings, tei
from albertine.deploy.batcher import ItemResult, RequestBatcher, ServerBusy
from albertine.deploy.endpoints import Endpoint, ServedModel, logits_batcher
from albertine.deploy.errors import ItemTooLong, error_response
from albertine.deploy.paths import EMBED_PATH, TOKENIZE_PATH
from albertine.deploy.request_record import current_record
from albertine.deploy.tei import MAX_REQUEST_ITEMS, TeiError
from albertine.display import display_text
from albertine.errors import InputError

MAX_BODY_BYTES = 1_000_000
MAX_MASKS = 2_000  # in the texts of a request
_SHUTDOWN_MESSAGE = "the server is shutting down; retry later"

RequestHandler: TypeAlias = Callable[[Request], Awaitable[Response]]
# Returns the JSON of the response to the JSON of a request.
PayloadHandler: TypeAlias = Callable[[Request, Any], Awaitable[Any]]


def json_handler(handle_payload: PayloadHandler) -> RequestHandler:
    """Return a handler of POST requests whose body is JSON."""

    async def handler(request: Request) -> Response:
        _check_content_type(request)
        try:
            payload = _parse_json(await _read_body(request))
            return JSONResponse(await handle_payload(request, payload))
        except asyncio.CancelledError:  # by uvicorn, when the timeout of a graceful shutdown has passed
            return error_response(503, _SHUTDOWN_MESSAGE)

    return handler


def endpoint_handler(
    endpoint: Endpoint, model: ServedModel, batchers: Mapping[str, RequestBatcher]
) -> PayloadHandler:
    """Return the handler of an endpoint, which accepts its own items, and for /predict also TEI's form."""

    async def handle(request: Request, payload: Any) -> Any:
        if endpoint.path == "/predict" and tei.is_tei_request(payload):
            return await _tei_predictions(request, payload, endpoint, model, batchers)
        payloads = payload if isinstance(payload, list) else [payload]
        _check_masks(payloads, endpoint)
        items = _parse_items(payload, endpoint)
        num_texts = sum(map(endpoint.num_texts, payloads))
        results = await _submit(request, batchers[endpoint.path], items, num_texts)
        outputs = [result.output for result in results]
        return outputs if isinstance(payload, list) else outputs[0]

    return handle


async def _tei_predictions(
    request: Request,
    payload: Mapping[str, Any],
    endpoint: Endpoint,
    model: ServedModel,
    batchers: Mapping[str, RequestBatcher],
) -> Any:
    """Return the response to a request in TEI's form; see `endpoint_handler`."""
    if not endpoint.classifies:
        names = " and ".join(field.name for field in endpoint.fields if field.required)
        raise TeiError(424, f"inputs: for classification models; send {names} in place of it")
    reads_pairs = "text_pair" in (field.name for field in endpoint.fields)
    tei_request = tei.parse_predict(payload, reads_pairs)
    name = logits_batcher(endpoint.path) if tei_request.raw_scores else endpoint.path
    if name not in batchers:
        raise TeiError(
            424, "raw scores: an ensemble averages probabilities, and has no logits; leave this out"
        )
    parsed = _parse_texts(tei_request.items, endpoint.parse_item)
    num_texts = sum(map(len, tei_request.items))
    results = await _submit_tei(request, batchers[name], parsed, num_texts)
    return tei.predict_response(tei_request, [result.output for result in results], model.max_length)


def embed_handler(model: ServedModel, batchers: Mapping[str, RequestBatcher]) -> PayloadHandler:
    """Return the handler of POST /embed."""

    async def handle(request: Request, payload: Any) -> Any:
        assert model.embedder is not None
        tei_request = tei.parse_embed(payload)
        parsed = _parse_texts(tei_request.items, tei.parse_text)
        results = await _submit_tei(request, batchers[EMBED_PATH], parsed, len(parsed))
        outputs = [result.output for result in results]
        return tei.embed_response(tei_request, outputs, model.embedder.max_length)

    return handle


def openai_handler(model: ServedModel, batchers: Mapping[str, RequestBatcher]) -> PayloadHandler:
    """Return the handler of POST /v1/embeddings."""

    async def handle(request: Request, payload: Any) -> Any:
        assert model.embedder is not None
        openai_request = openai_embeddings.parse_openai(payload)
        parsed = _parse_texts(openai_request.texts, tei.parse_text, openai_embeddings.KEY)
        results = await _submit_tei(request, batchers[EMBED_PATH], parsed, len(parsed))
        return openai_embeddings.openai_response(
            openai_request, results, model.name, model.embedder.max_length
        )

    return handle


def tokenize_handler(batchers: Mapping[str, RequestBatcher]) -> PayloadHandler:
    """Return the handler of POST /tokenize."""

    async def handle(request: Request, payload: Any) -> Any:
        tei_request = tei.parse_tokenize(payload)
        parsed = _parse_texts(tei_request.items, tei.parse_text)
        results = await _submit_tei(request, batchers[TOKENIZE_PATH], parsed, len(parsed))
        return tei.tokenize_response(tei_request, [result.output for result in results])

    return handle


def _parse_texts(
    items: Sequence[Any], parse_item: Callable[[Any], tuple[Any, int]], key: str = "inputs"
) -> list[tuple[Any, int]]:
    """Return the batch input of each item, with its size in characters.

    Errors have status 413 if an item is too long, and else 422.
    """
    try:
        return [parse_item(item) for item in items]
    except InputError as error:
        status = 413 if isinstance(error, ItemTooLong) else 422
        raise TeiError(status, f"{key}: {error}") from None


async def _submit_tei(
    request: Request, batcher: RequestBatcher, items: Sequence[tuple[Any, int]], num_texts: int
) -> list[ItemResult]:
    try:
        return await _submit(request, batcher, items, num_texts)
    except ServerBusy as error:
        raise TeiError(429, str(error)) from None


async def _submit(
    request: Request, batcher: RequestBatcher, items: Sequence[tuple[Any, int]], num_texts: int
) -> list[ItemResult]:
    """Return the results for items, and record their numbers of texts and tokens."""
    record = current_record.get()
    if record is not None:
        record.num_texts = num_texts
    results: list[ItemResult] = await _unless_disconnected(request, batcher.submit(items))
    if record is not None:
        record.num_tokens = sum(result.num_tokens for result in results)
        record.num_truncated = sum("truncated_tokens" in result.output for result in results)
        record.depths = [result.depth for result in results if result.depth is not None]
    return results


def _check_content_type(request: Request) -> None:
    """Raise an error if the content is not JSON.

    So pages of other sites cannot use the server: for JSON, a browser first asks it with a CORS preflight.
    """
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(
            415, f"Content-Type {display_text(content_type) or '(missing)'}: must be application/json"
        )


async def _read_body(request: Request) -> bytes:
    """Return the body of a request, up to the size limit."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise HTTPException(
                413,
                f"the request is larger than {progress.format_bytes(MAX_BODY_BYTES)}; send fewer or shorter "
                "items",
            )
    return bytes(body)


async def _unless_disconnected(request: Request, pending: Awaitable[list[ItemResult]]) -> list[ItemResult]:
    """Return the results, or raise `ClientDisconnect` if the client disconnects first."""
    results, disconnect = asyncio.ensure_future(pending), asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait((results, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if not results.done():
            raise ClientDisconnect
        return results.result()
    finally:
        for future in (results, disconnect):
            future.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"not valid JSON (not UTF-8, at byte {error.start:,})") from None
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON ({error})") from None
    except RecursionError:
        raise InputError("not valid JSON (nested too deeply)") from None
    except ValueError:  # Python reads no integers of thousands of digits
        raise InputError("not valid JSON (a number has too many digits)") from None


def _check_masks(payloads: Sequence[Any], endpoint: Endpoint) -> None:
    """Raise `InputError` for a request with too many masks: the predictions for each take a kilobyte."""
    if not endpoint.mask_token:
        return
    texts = [str(item.get("text")) for item in payloads if isinstance(item, Mapping)]
    num_masks = sum(text.count(endpoint.mask_token) for text in texts)
    if num_masks > MAX_MASKS:
        raise InputError(f"{num_masks:,} masks; send at most {MAX_MASKS:,} per request")


def _parse_items(payload: Any, endpoint: Endpoint) -> list[tuple[Any, int]]:
    """Return the batch input of each item of a request, with its size in characters; errors name the item."""
    if not isinstance(payload, list):
        return [endpoint.parse_item(payload)]
    if len(payload) > MAX_REQUEST_ITEMS:
        raise InputError(f"{len(payload):,} items; send at most {MAX_REQUEST_ITEMS:,} per request")
    items = []
    for number, item in enumerate(payload, 1):
        try:
            items.append(endpoint.parse_item(item))
        except InputError as error:
            raise InputError(f"item {number}: {error}") from None
    return items
