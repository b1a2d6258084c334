"""The endpoints of a model: their paths, the fields of an item, and the functions that compute results.

A fine-tuned model has `/predict`, with the fields of its task type. A pre-trained model has
`/fill-mask` and, if it has a pair head, `/order`, which predicts whether two texts are in order.
GET /info returns paths and fields, from which the page builds its forms.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from albertine.engines.exported_folder import read_settings
from albertine.errors import InputError
from albertine.inference.ensemble_model import TaskModel, load_ensemble
from albertine.inference.fill_mask import (
    FillMaskPipeline,
    TokenPrediction,
    exported_fill_mask_pipeline,
    make_fill_mask_pipeline,
)
from albertine.inference.finetuned_model import finetuned_from_model, load_finetuned
from albertine.inference.pipeline import Pipeline
from albertine.interop.hub import is_ensemble, is_export, locate_checkpoint
from albertine.interop.load import has_masked_head, load_checkpoint
from albertine.settings.engine import EngineOptions
from albertine.settings.exit_rule import ExitRule
from albertine.settings.schema import display_text
from albertine.tasks.types.inputs import InputField
from albertine.text.token_text import token_text
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
        mask_token: mask token of the model; only for "fill-mask".
    """

    path: str
    type_name: str
    fields: tuple[InputField, ...]
    parse_fields: Callable[..., Any]
    process_batch: Callable[[Sequence[Any]], Sequence[Any]]
    mask_token: str = ""

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
                raise InputError(f"{field.name}: missing; must be {field.description}")
        size = sum(map(_num_characters, payload.values()))
        if size > MAX_CHARACTERS:
            raise InputError(f"{size:,} characters; an item may have at most {MAX_CHARACTERS:,}")
        values = {name: value for name, value in payload.items() if value is not None}
        return self.parse_fields(**values), size


def _num_characters(value: Any) -> int:
    """Return the length of a text, or of all texts of a list; 0 for None."""
    return sum(map(len, value)) if isinstance(value, list) else len(value or "")


@dataclass(frozen=True)
class ServedModel:
    """A model and its endpoints.

    Attributes:
        name: name of its folder, without the path, or its hub name; sent to clients.
        labels: labels that the model predicts, if any.
        max_length: maximum tokens of a sequence.
        endpoints: the endpoints, by path.
    """

    name: str
    labels: tuple[str, ...]
    max_length: int
    endpoints: Mapping[str, Endpoint]


def load_served_model(source: str, options: EngineOptions, exit_rule: ExitRule | None = None) -> ServedModel:
    """Load a fine-tuned model, an ensemble or a pre-trained model, with its endpoints."""
    # The name is sent to clients, so it has no paths of the server.
    name = Path(source).resolve().name if Path(source).is_dir() else source
    if is_ensemble(Path(source)):
        return _served_task_model(name, load_ensemble(Path(source), options, exit_rule=exit_rule))
    if is_export(Path(source)):
        return _served_export(name, Path(source), options, exit_rule)
    folder = locate_checkpoint(source)
    model = load_checkpoint(folder)
    if has_masked_head(model):
        if exit_rule is not None:
            raise InputError(f"{source}: pre-trained; --exit and --depth are for fine-tuned models")
        return _served_fill_mask(name, make_fill_mask_pipeline(folder, model, options))
    finetuned = finetuned_from_model(source, folder, model, options, exit_rule=exit_rule)
    return _served_task_model(name, finetuned)


def _served_export(
    name: str, folder: Path, options: EngineOptions, exit_rule: ExitRule | None
) -> ServedModel:
    _, head, _ = read_settings(folder)
    if head.kind in ("pretrain", "mlm"):
        return _served_fill_mask(name, exported_fill_mask_pipeline(folder, options))
    return _served_task_model(name, load_finetuned(folder, options, exit_rule=exit_rule))


def _served_fill_mask(name: str, pipeline: FillMaskPipeline) -> ServedModel:
    endpoints = _fill_mask_endpoints(pipeline)
    max_length = pipeline.engine.model_settings.max_length
    return ServedModel(name, (), max_length, {endpoint.path: endpoint for endpoint in endpoints})


def _served_task_model(name: str, model: TaskModel) -> ServedModel:
    pipeline = Pipeline(model)
    endpoint = _pipeline_endpoint(pipeline)
    return ServedModel(name, pipeline.labels, pipeline.max_length, {endpoint.path: endpoint})


def _pipeline_endpoint(pipeline: Pipeline) -> Endpoint:
    def parse_fields(**inputs: Any) -> Any:
        (example,), _ = pipeline.parse(**inputs)
        return example

    return Endpoint("/predict", pipeline.type_name, pipeline.input_fields, parse_fields, pipeline.predict)


def _fill_mask_endpoints(pipeline: FillMaskPipeline) -> list[Endpoint]:
    def fill_batch(encoded_texts: Sequence[Any]) -> list[dict[str, Any]]:
        return [_fill_mask_response(pipeline, encoded) for encoded in encoded_texts]

    def order_batch(encoded_pairs: Sequence[Any]) -> list[dict[str, float]]:
        return [
            {"in_order": round(pipeline.order_probability_of_ids(*encoded), 6)} for encoded in encoded_pairs
        ]

    text = InputField("text", f"She put the key in the {pipeline.mask_token}.")
    first, second = (
        InputField("first", "Ida took the key."),
        InputField("second", "Then she opened the door."),
    )
    endpoints = [
        Endpoint(
            "/fill-mask", "fill-mask", (text,), pipeline.encode_masked_text, fill_batch, pipeline.mask_token
        )
    ]
    if pipeline.has_pair_head:
        endpoints.append(Endpoint("/order", "order", (first, second), pipeline.encode_pair, order_batch))
    return endpoints


def _fill_mask_response(
    pipeline: FillMaskPipeline, encoded: tuple[list[int], list[int], list[int]]
) -> dict[str, Any]:
    return {
        "masks": [
            [_prediction_json(prediction, pipeline.tokenizer) for prediction in predictions]
            for predictions in pipeline.predict_tokens(*encoded, top_k=5)
        ]
    }


def _prediction_json(prediction: TokenPrediction, tokenizer: Tokenizer) -> dict[str, Any]:
    text = token_text(prediction.token, tokenizer)
    return {"token_str": prediction.token, "text": text, "score": round(prediction.score, 6)}
