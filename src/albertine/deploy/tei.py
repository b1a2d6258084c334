"""The API of Hugging Face text-embeddings-inference (TEI): /predict, /embed and /tokenize with `inputs`.

Its clients work without changes: the forms of requests and responses, the defaults and the statuses of errors
are TEI's. What an Albertine model cannot do is an error; keys that TEI does not know are ignored, as there,
except `parameters`: /predict reads those of the classification API of the Hugging Face hub.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from albertine.deploy.batcher import MAX_BATCH_ITEMS
from albertine.deploy.embedding import normalized
from albertine.deploy.endpoints import MAX_CHARACTERS, ServedModel
from albertine.deploy.errors import ItemTooLong
from albertine.display import display_text
from albertine.errors import AlbertineError
from albertine.text.unicode_check import check_text
from albertine.version import __version__

MAX_REQUEST_ITEMS = 1_024
_DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
_PAIR_FORMS = "a text, a pair [text, text], or a batch [[text], [text, text], ...]"
_PARAMETERS = ("top_k", "function_to_apply")


class TeiError(AlbertineError):
    """An error with the HTTP status that TEI gives it.

    Attributes:
        http_status: 413 for too much, 422 for a wrong form, 424 if the model has no such endpoint, 429 if the
            queue is full.
    """

    def __init__(self, http_status: int, message: str):
        super().__init__(message)
        self.http_status = http_status


@dataclass(frozen=True)
class TeiRequest:
    """A request in TEI's form.

    Attributes:
        items: the inputs: of /predict the fields of each item, else texts.
        is_batch: whether the response is a list with an entry for each item.
        truncate: whether a long text is truncated; else it is an error.
        raw_scores: of /predict: whether the scores are logits.
        top_k: of /predict: how many labels a prediction has; None for all.
        normalize: of /embed: whether the vectors have length 1.
        add_special_tokens: of /tokenize: whether [CLS] and [SEP] are among the tokens.
    """

    items: Sequence[Any]
    is_batch: bool = True
    truncate: bool = False
    raw_scores: bool = False
    top_k: int | None = None
    normalize: bool = True
    add_special_tokens: bool = True


def is_tei_request(payload: Any) -> bool:
    """Return whether the JSON of a request is in TEI's form; no item of Albertine's own has `inputs`."""
    return isinstance(payload, Mapping) and "inputs" in payload


def parse_predict(payload: Mapping[str, Any], reads_pairs: bool) -> TeiRequest:
    """Return the request in the JSON of POST /predict."""
    inputs, parameters = payload["inputs"], payload.get("parameters")
    if parameters is not None:
        return _with_parameters(
            parse_predict({**payload, "parameters": None}, reads_pairs), inputs, parameters
        )
    is_batch = isinstance(inputs, list) and bool(inputs) and isinstance(inputs[0], list)
    groups = inputs if is_batch else [[inputs] if isinstance(inputs, str) else inputs]
    _check_count(groups)
    _check_direction(payload)
    items = [_text_or_pair(group) for group in groups]
    if not reads_pairs and any(len(item) > 1 for item in items):
        raise TeiError(
            422, "inputs: a pair, but the model reads single texts; send a batch as [[text], [text]]"
        )
    return TeiRequest(
        items,
        is_batch,
        _flag(payload, "truncate", False),
        raw_scores=_flag(payload, "raw_scores", False),
    )


def _with_parameters(request: TeiRequest, inputs: Any, parameters: Any) -> TeiRequest:
    """Return a request with the parameters of the hub's API, which answers also a single text with a list."""
    if not isinstance(parameters, Mapping):
        raise TeiError(422, "parameters: must be a JSON object")
    for name, value in parameters.items():
        if name not in _PARAMETERS and value is not None:
            raise TeiError(422, f"parameters: {display_text(name)}: not supported; leave it out")
    if isinstance(inputs, list) and isinstance(inputs[0], str) and len(inputs) > 1:
        raise TeiError(
            422, "inputs: two texts or a pair? with parameters, send [[text], [text]] or [[text, text]]"
        )
    top_k, function = (parameters.get(name) for name in _PARAMETERS)
    if top_k is not None and (type(top_k) is not int or top_k < 1):
        raise TeiError(422, "parameters: top_k: must be a number of labels, at least 1")
    if function not in (None, "none"):
        raise TeiError(
            422, "parameters: function_to_apply: must be none, for logits; leave it out for probabilities"
        )
    is_raw = request.raw_scores or function == "none"
    return replace(request, is_batch=True, raw_scores=is_raw, top_k=top_k)


def _text_or_pair(texts: Any) -> dict[str, str]:
    """Return the fields of an item, which is a list of one or two texts."""
    is_valid = isinstance(texts, list) and 1 <= len(texts) <= 2 and all(isinstance(one, str) for one in texts)
    if not is_valid:
        raise TeiError(422, f"inputs: must be {_PAIR_FORMS}")
    return dict(zip(("text", "text_pair"), texts, strict=False))


def parse_embed(payload: Any) -> TeiRequest:
    """Return the request in the JSON of POST /embed."""
    texts = parse_texts(payload)
    _check_direction(payload)
    for name in ("prompt_name", "dimensions"):
        if payload.get(name) is not None:
            raise TeiError(422, f"{name}: not supported; leave it out")
    return TeiRequest(
        texts, truncate=_flag(payload, "truncate", False), normalize=_flag(payload, "normalize", True)
    )


def parse_tokenize(payload: Any) -> TeiRequest:
    """Return the request in the JSON of POST /tokenize."""
    texts = parse_texts(payload)
    if payload.get("prompt_name") is not None:
        raise TeiError(422, "prompt_name: not supported; leave it out")
    # A token takes hundreds of bytes in the response.
    if (size := sum(map(len, texts))) > MAX_CHARACTERS:
        raise TeiError(413, f"inputs: {size:,} characters; send at most {MAX_CHARACTERS:,}")
    return TeiRequest(texts, add_special_tokens=_flag(payload, "add_special_tokens", True))


def parse_texts(payload: Any, key: str = "inputs") -> list[str]:
    """Return the texts under a key of a request, which is a text or a list of texts."""
    if not isinstance(payload, Mapping) or key not in payload:
        raise TeiError(422, f"must be a JSON object with {key}, a text or a list of texts")
    texts = [payload[key]] if isinstance(payload[key], str) else payload[key]
    if texts == []:
        raise TeiError(422, f"{key}: an empty list; send at least one text")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TeiError(422, f"{key}: must be a text or a list of texts; token ids are not supported")
    _check_count(texts, key)
    return texts


def parse_text(text: str) -> tuple[str, int]:
    """Return a text as the input of a batch, with its size in characters."""
    check_text(text, "text")
    if len(text) > MAX_CHARACTERS:
        raise ItemTooLong(f"{len(text):,} characters; an item may have at most {MAX_CHARACTERS:,}")
    return text, len(text)


def _check_count(items: Sequence[Any], key: str = "inputs") -> None:
    if len(items) > MAX_REQUEST_ITEMS:
        raise TeiError(413, f"{key}: a batch of {len(items):,}; send at most {MAX_REQUEST_ITEMS:,}")


def _check_direction(payload: Mapping[str, Any]) -> None:
    direction = payload.get("truncation_direction")
    if direction is not None and (not isinstance(direction, str) or direction.lower() != "right"):
        raise TeiError(422, "truncation_direction: must be right; the end of a long text is left out")


def _flag(payload: Mapping[str, Any], name: str, default: bool) -> bool:
    value = payload.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise TeiError(422, f"{name}: must be true or false, not {display_text(str(value))}")
    return value


def predict_response(request: TeiRequest, outputs: Sequence[Mapping[str, Any]], max_length: int) -> Any:
    """Return the response of POST /predict: for each item its labels with their scores, best first."""
    _check_truncation(request, outputs, max_length)
    scores_key = "logits" if request.raw_scores else "probabilities"
    predictions = [
        [
            {"score": score, "label": label}
            for label, score in sorted(output[scores_key].items(), key=lambda item: -item[1])[: request.top_k]
        ]
        for output in outputs
    ]
    return predictions if request.is_batch else predictions[0]


def embed_response(request: TeiRequest, outputs: Sequence[Mapping[str, Any]], max_length: int) -> Any:
    """Return the response of POST /embed: a vector for each text."""
    _check_truncation(request, outputs, max_length)
    vectors = (output["embedding"] for output in outputs)
    return [(normalized(vector) if request.normalize else vector).tolist() for vector in vectors]


def tokenize_response(request: TeiRequest, outputs: Sequence[Sequence[Mapping[str, Any]]]) -> Any:
    """Return the response of POST /tokenize: the tokens of each text."""
    return [
        [token for token in tokens if request.add_special_tokens or not token["special"]]
        for tokens in outputs
    ]


def _check_truncation(request: TeiRequest, outputs: Sequence[Mapping[str, Any]], max_length: int) -> None:
    if not request.truncate:
        check_lengths(outputs, max_length, "inputs: ", "send a shorter one, or truncate: true")


def check_lengths(outputs: Sequence[Mapping[str, Any]], max_length: int, prefix: str, advice: str) -> None:
    """Raise `TeiError` if a text was truncated.

    Args:
        outputs: the outputs of a batch.
        max_length: maximum tokens of a text.
        prefix: where the texts were, at the start of the message.
        advice: what to do, at its end.
    """
    for output in outputs:
        if excess := output.get("truncated_tokens"):
            raise TeiError(
                413,
                f"{prefix}a text has {excess:,} tokens more than the {max_length:,} that the model reads; "
                f"{advice}",
            )


def model_info(model: ServedModel, max_concurrent_requests: int) -> dict[str, Any]:
    """Return TEI's keys of GET /info."""
    return {
        "model_id": model.name,
        "model_sha": None,
        "model_dtype": _DTYPES.get(model.precision, model.precision),
        "model_type": _model_type(model),
        "max_concurrent_requests": max_concurrent_requests,
        "max_input_length": model.max_length,
        "max_batch_tokens": model.micro_batch_tokens,
        "max_batch_requests": MAX_BATCH_ITEMS,
        "max_client_batch_size": MAX_REQUEST_ITEMS,
        "auto_truncate": False,
        "tokenization_workers": 1,
        "version": __version__,
    }


def _model_type(model: ServedModel) -> dict[str, Any] | None:
    """Return the kind of the model; None if TEI has no such kind."""
    if model.classifier is not None:
        labels = enumerate(model.labels)
        return {
            "classifier": {
                "id2label": {str(index): label for index, label in enumerate(model.labels)},
                "label2id": {label: index for index, label in labels},
            }
        }
    return None if model.embedder is None else {"embedding": {"pooling": model.embedder.pooling}}
