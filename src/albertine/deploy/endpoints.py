"""The endpoints of a model: their paths, the fields of an item, and the functions that compute results.

A fine-tuned model has `/predict`, with the fields of its task type. A pre-trained model has
`/fill-mask` and, if it has a pair head, `/order`, which predicts whether two texts are in order.
GET /info returns paths and fields, from which the page builds its forms.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from albertine.deploy.batcher import BatchFunction, ItemResult
from albertine.deploy.embedding import Embedder
from albertine.deploy.errors import ItemTooLong
from albertine.deploy.paths import DEFAULT_PATHS, EMBED_PATH, OPENAI_PATHS, TOKENIZE_PATH
from albertine.deploy.tokenization import make_tokenize_function
from albertine.display import display_text
from albertine.errors import InputError
from albertine.settings.engine import EngineName
from albertine.tasks.types.inputs import InputField
from albertine.tasks.types.json_schema import Schema
from albertine.text.tokenizer import Tokenizer

# The limit of an item, which is computed in one pass while all later items wait.
MAX_CHARACTERS = 100_000


@dataclass(frozen=True)
class Endpoint:
    """A path that accepts POST requests.

    Attributes:
        path: the path.
        type_name: name of the task type, or "fill-mask" or "order".
        fields: the fields of an item.
        parse_fields: returns the batch input of an item from its fields; raises `InputError`.
        process_batch: returns the results of a batch, one per batch input.
        summary: what it does, in a few words.
        result_schema: JSON schema of a result.
        mask_token: mask token of the model; only for "fill-mask".
        classifies: whether it predicts the probabilities of the model's labels for an item.
        process_logits: as `process_batch`, with the logits of the labels as output; None if there are none.
    """

    path: str
    type_name: str
    fields: tuple[InputField, ...]
    parse_fields: Callable[..., Any]
    process_batch: Callable[[Sequence[Any]], Sequence[ItemResult]]
    summary: str
    result_schema: Schema
    mask_token: str = ""
    classifies: bool = False
    process_logits: Callable[[Sequence[Any]], Sequence[ItemResult]] | None = None

    def parse_item(self, payload: Any) -> tuple[Any, int]:
        """Return the batch input of a JSON item, and its size in characters."""
        names = [field.name for field in self.fields]
        if not isinstance(payload, Mapping):
            raise InputError(f"must be a JSON object with {', '.join(names)}")
        for name in payload:
            if name not in names:
                raise InputError(
                    f"{display_text(name) or 'empty key'}: unknown field; known: {', '.join(names)}"
                )
        for field in self.fields:
            if payload.get(field.name) is not None:
                field.check(payload[field.name])
            elif field.required:
                problem = "null" if field.name in payload else "missing"
                raise InputError(f"{field.name}: {problem}; must be {field.description}")
        size = sum(map(_num_characters, payload.values()))
        if size > MAX_CHARACTERS:
            raise ItemTooLong(f"{size:,} characters; an item may have at most {MAX_CHARACTERS:,}")
        values = {name: value for name, value in payload.items() if value is not None}
        return self.parse_fields(**values), size

    def num_texts(self, payload: Mapping[str, Any]) -> int:
        """Return the number of texts of a valid item."""
        values = ((field, payload.get(field.name)) for field in self.fields)
        return sum(len(value) if field.type == "texts" else 1 for field, value in values if value is not None)


def _num_characters(value: Any) -> int:
    """Return the length of a text, or of all texts of a list, of which an empty one counts 1; 0 for None."""
    return sum(max(1, len(text)) for text in value) if isinstance(value, list) else len(value or "")


@dataclass(frozen=True)
class ServedModel:
    """A model and its endpoints.

    Attributes:
        name: name of its folder, without the path, or its hub name; sent to clients.
        labels: labels that the model predicts, if any.
        max_length: maximum tokens of a sequence.
        micro_batch_tokens: tokens that the model computes at a time; only a longer sequence exceeds them.
        precision: precision of the matrix products.
        engine: library that runs it; None if the members of an ensemble have different ones.
        tokenizer: tokenizer of the model.
        endpoints: the endpoints, by path.
        embedder: computes the vectors of POST /embed; None if the model has no such path.
    """

    name: str
    labels: tuple[str, ...]
    max_length: int
    micro_batch_tokens: int
    precision: str
    engine: EngineName | None
    tokenizer: Tokenizer
    endpoints: Mapping[str, Endpoint]
    embedder: Embedder | None = None

    @property
    def post_paths(self) -> list[str]:
        """The paths of what the model does, for POST requests."""
        return [*self.endpoints, *([EMBED_PATH] if self.embedder else [])]

    @property
    def tei_paths(self) -> list[str]:
        """More paths for POST requests, those of text-embeddings-inference."""
        return [
            *(DEFAULT_PATHS if self.default_path else ()),
            *(OPENAI_PATHS if self.embedder else ()),
            TOKENIZE_PATH,
        ]

    @property
    def default_path(self) -> str | None:
        """The path whose requests `POST /` accepts; None for a model of another kind than TEI has."""
        if self.embedder is not None:
            return EMBED_PATH
        return None if self.classifier is None else self.classifier.path

    @property
    def batch_functions(self) -> dict[str, BatchFunction]:
        """The functions that compute batches, by the name of their batcher: a path, or one with "logits"."""
        functions: dict[str, BatchFunction] = {TOKENIZE_PATH: make_tokenize_function(self.tokenizer)}
        for path, endpoint in self.endpoints.items():
            functions[path] = endpoint.process_batch
            if endpoint.process_logits is not None:
                functions[logits_batcher(path)] = endpoint.process_logits
        if self.embedder is not None:
            functions[EMBED_PATH] = self.embedder.process_batch
        return functions

    @property
    def classifier(self) -> Endpoint | None:
        """The endpoint that predicts one of the labels; None if the model has another task."""
        return next((one for one in self.endpoints.values() if one.classifies), None)


def logits_batcher(path: str) -> str:
    """Return the name of the batcher that computes the logits of an endpoint."""
    return f"{path} logits"
