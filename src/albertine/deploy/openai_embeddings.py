"""POST /v1/embeddings: vectors in the form of OpenAI's API, as text-embeddings-inference has it.

`model` and `user` are ignored, and vectors have length 1. OpenAI's own client asks for base64.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.deploy.batcher import ItemResult
from albertine.deploy.embedding import normalized
from albertine.deploy.tei import TeiError, check_lengths, parse_texts
from albertine.display import display_text

KEY = "input"


@dataclass(frozen=True)
class OpenAIRequest:
    """A request in OpenAI's form.

    Attributes:
        texts: the texts.
        is_base64: whether the vectors are base64 of their fp32 values, in place of lists.
    """

    texts: Sequence[str]
    is_base64: bool


def parse_openai(payload: Any) -> OpenAIRequest:
    """Return the request in the JSON of POST /v1/embeddings."""
    texts = parse_texts(payload, KEY)
    if payload.get("dimensions") is not None:
        raise TeiError(422, "dimensions: not supported; leave it out")
    encoding = payload.get("encoding_format")
    if encoding not in (None, "float", "base64"):
        raise TeiError(422, f"encoding_format: must be float or base64, not {display_text(str(encoding))}")
    return OpenAIRequest(texts, encoding == "base64")


def openai_response(
    request: OpenAIRequest, results: Sequence[ItemResult], model: str, max_length: int
) -> dict[str, Any]:
    """Return the response of POST /v1/embeddings.

    Args:
        request: the request.
        results: the result of the embedder for each text.
        model: name of the model.
        max_length: maximum tokens of a text.
    """
    check_lengths([result.output for result in results], max_length, f"{KEY}: ", "send a shorter one")
    vectors = (normalized(result.output["embedding"]) for result in results)
    num_tokens = sum(result.num_tokens for result in results)
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": _encoded(vector, request.is_base64)}
            for index, vector in enumerate(vectors)
        ],
        "model": model,
        "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
    }


def _encoded(vector: NDArray[np.float32], is_base64: bool) -> list[float] | str:
    if is_base64:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    values: list[float] = vector.tolist()
    return values
