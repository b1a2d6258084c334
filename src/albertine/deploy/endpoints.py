"""What a model can be asked over HTTP: paths, the fields of a question, and who answers.

A tuned model answers at `/answer`, in the fields of its kind; a pre-trained one fills
masks at `/fill` and, if it has a head for pairs, tells at `/order` whether two segments
are in order. The page draws its forms from the same table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from albertine.errors import InputError
from albertine.inference.fill_mask import (
    FillMaskPipeline,
    TokenPrediction,
    has_masked_head,
    make_fill_mask_pipeline,
)
from albertine.inference.finetuned_model import finetuned_from_model
from albertine.inference.pipeline import Pipeline
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load import load_checkpoint
from albertine.settings import MODEL_PRESETS
from albertine.settings.schema import display_text
from albertine.text.token_text import token_text
from albertine.text.tokenizer import Tokenizer

FieldType = Literal["text", "words", "texts"]
_FIELD_TYPE_DESCRIPTIONS = {
    "text": "a text",
    "words": "a text, or a list of its words",
    "texts": "a list of texts",
}


MAX_CHARACTERS = 100_000  # characters of a question: it is answered in one pass, and others wait meanwhile


@dataclass(frozen=True)
class RequestField:
    """A part of a question.

    Attributes:
        name: its key in JSON.
        example: what the page has in it at first.
        type: what it may be.
        required: whether a question without it is none.
        count: how many texts it must be.
    """

    name: str
    example: str
    type: FieldType = "text"
    required: bool = True
    count: int | None = None

    def check(self, value: Any) -> None:
        """Refuse what has not the form."""
        as_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
        is_valid = {
            "text": isinstance(value, str),
            "texts": as_list,
            "words": as_list or isinstance(value, str),
        }
        if not is_valid[self.type]:
            raise InputError(f"{self.name}: must be {_FIELD_TYPE_DESCRIPTIONS[self.type]}")


@dataclass(frozen=True)
class Endpoint:
    """What can be asked at a path.

    Attributes:
        path: where.
        type_name: classify, regress, tag, span, choice, fill or order.
        fields: of a question.
        parse_fields: makes a question of its fields, and refuses what cannot be answered.
        process_batch: answers questions, several at a time.
        mask_token: how the model spells what is to be filled.
    """

    path: str
    type_name: str
    fields: tuple[RequestField, ...]
    parse_fields: Callable[..., Any]
    process_batch: Callable[[Sequence[Any]], Sequence[Any]]
    mask_token: str = ""

    def parse_item(self, payload: Any) -> tuple[Any, int]:
        """Read a question, as JSON has it; return its size too, in characters."""
        names = [field.name for field in self.fields]
        if not isinstance(payload, Mapping):
            raise InputError(f"a question must be an object with {', '.join(names)}")
        for name in payload:
            if name not in names:
                raise InputError(
                    f"{display_text(name) or 'an empty name'}: unknown; known: {', '.join(names)}"
                )
        for field in self.fields:
            if payload.get(field.name) is not None:
                field.check(payload[field.name])
            elif field.required:
                raise InputError(f"{field.name}: missing; it must be {_FIELD_TYPE_DESCRIPTIONS[field.type]}")
        size = sum(map(_num_characters, payload.values()))
        if size > MAX_CHARACTERS:
            raise InputError(f"{size:,} characters; a question has {MAX_CHARACTERS:,} at most")
        return self.parse_fields(
            **{name: value for name, value in payload.items() if value is not None}
        ), size


def _num_characters(value: Any) -> int:
    return sum(map(len, value)) if isinstance(value, list) else len(value or "")


@dataclass(frozen=True)
class ServedModel:
    """A model with all that it can be asked.

    Attributes:
        name: what the person called it.
        labels: those that it knows.
        endpoints: by path.
    """

    name: str
    labels: tuple[str, ...]
    endpoints: Mapping[str, Endpoint]


def load_served_model(name: str, device: str, precision: str) -> ServedModel:
    """Open a model, tuned or pre-trained, to be asked."""
    if name in MODEL_PRESETS:
        raise InputError(f"{name}: a preset, with nothing learned; name a model")
    folder = locate_checkpoint(name)
    model = load_checkpoint(folder)
    if has_masked_head(model):
        endpoints = _fill_mask_endpoints(make_fill_mask_pipeline(folder, model, device, precision))
        return ServedModel(name, (), {endpoint.path: endpoint for endpoint in endpoints})
    pipeline = Pipeline(finetuned_from_model(name, folder, model, device, precision))
    endpoint = _pipeline_endpoint(pipeline)
    return ServedModel(name, pipeline.labels, {endpoint.path: endpoint})


_EXAMPLE_CONTEXT = "Ida put the key in the drawer. Then she went to the market and bought a pear."
_EXAMPLE_QUESTION = "Where is the key?"
_EXAMPLE_OPTIONS = ("in the drawer", "in the garden", "at the market", "on the table", "under the bed")


def _pipeline_endpoint(pipeline: Pipeline) -> Endpoint:
    def parse_fields(**told: Any) -> Any:
        (example,), _ = pipeline.parse(**told)
        return example

    return Endpoint("/answer", pipeline.type_name, _pipeline_fields(pipeline), parse_fields, pipeline.predict)


def _pipeline_fields(pipeline: Pipeline) -> tuple[RequestField, ...]:
    match pipeline.type_name:
        case "tag":
            return (RequestField("text", "Ida went to the market in Hull .", "words"),)
        case "span":
            return RequestField("context", _EXAMPLE_CONTEXT), RequestField("question", _EXAMPLE_QUESTION)
        case "choice":
            example_options = [*_EXAMPLE_OPTIONS, *("somewhere else",) * pipeline.num_options][
                : pipeline.num_options
            ]
            return (
                RequestField("context", _EXAMPLE_CONTEXT, required=False),
                RequestField("question", _EXAMPLE_QUESTION, required=False),
                RequestField("options", "\n".join(example_options), "texts", count=pipeline.num_options),
            )
    text = RequestField("text", "The garden was a joy to see.")
    match pipeline.num_texts:
        case 1:
            return (text,)
        case 2:
            return text, RequestField("other", "Somebody saw a garden.")
    return text, RequestField("other", "", required=False)


def _fill_mask_endpoints(pipeline: FillMaskPipeline) -> list[Endpoint]:
    def fill_batch(asked: Sequence[Any]) -> list[dict[str, Any]]:
        return [_fill_mask_response(pipeline, one) for one in asked]

    def order_batch(asked: Sequence[Any]) -> list[dict[str, float]]:
        return [{"in_order": round(pipeline.order_probability_of_ids(*one), 6)} for one in asked]

    text = RequestField("text", f"She put the key in the {pipeline.mask_token}.")
    first, second = (
        RequestField("first", "Ida took the key."),
        RequestField("second", "Then she opened the door."),
    )
    endpoints = [
        Endpoint("/fill", "fill", (text,), pipeline.encode_masked_text, fill_batch, pipeline.mask_token)
    ]
    if pipeline.has_pair_head:
        endpoints.append(Endpoint("/order", "order", (first, second), pipeline.encode_pair, order_batch))
    return endpoints


def _fill_mask_response(
    pipeline: FillMaskPipeline, encoded: tuple[list[int], list[int], list[int]]
) -> dict[str, Any]:
    return {
        "masks": [
            [_prediction_json(one, pipeline.tokenizer) for one in guesses]
            for guesses in pipeline.predict_tokens(*encoded, top_k=5)
        ]
    }


def _prediction_json(prediction: TokenPrediction, tokenizer: Tokenizer) -> dict[str, Any]:
    text = token_text(prediction.token, tokenizer)
    return {"piece": prediction.token, "shown": text, "probability": round(prediction.score, 6)}
