"""POST /tokenize: the tokens of texts, in the form of text-embeddings-inference."""

from collections.abc import Sequence
from typing import Any

from albertine.deploy.batcher import BatchFunction, ItemResult
from albertine.text.tokenizer import Tokenizer


def make_tokenize_function(tokenizer: Tokenizer) -> BatchFunction:
    """Return the function from texts to their tokens, with [CLS] and [SEP]."""
    # As the endpoints read a text, in which no special token is spelled out.
    tokenizer = tokenizer.with_split_special_tokens()
    unk = tokenizer.special_ids.unk
    id_read = dict.fromkeys(vars(tokenizer.special_ids).values(), unk)
    cls, sep = (
        _special_token(tokenizer, id_) for id_ in (tokenizer.special_ids.cls, tokenizer.special_ids.sep)
    )

    def tokenize(texts: Sequence[str]) -> list[ItemResult]:
        results = []
        for text, (ids, spans) in zip(texts, tokenizer.encode_with_offsets(texts), strict=True):
            tokens = [
                {
                    "id": id_read.get(token_id, token_id),
                    "text": text[start:stop],
                    "special": False,
                    "start": start,
                    "stop": stop,
                }
                for token_id, (start, stop) in zip(ids, spans, strict=True)
            ]
            results.append(ItemResult([cls, *tokens, sep], len(tokens) + 2))
        return results

    return tokenize


def _special_token(tokenizer: Tokenizer, token_id: int) -> dict[str, Any]:
    text = tokenizer.vocabulary[token_id]
    return {"id": token_id, "text": text, "special": True, "start": None, "stop": None}
