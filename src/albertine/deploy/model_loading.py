"""Loads a model for the server, with the endpoints that its kind has."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from albertine.deploy.batcher import ItemResult
from albertine.deploy.embedding import Embedder
from albertine.deploy.endpoints import Endpoint, ServedModel
from albertine.deploy.logits import make_logits_function
from albertine.engines.exported_folder import engine_name, read_settings
from albertine.engines.torch_engine import TorchEngine
from albertine.errors import InputError
from albertine.inference.embedding import (
    EmbeddingPipeline,
    exported_embedding_pipeline,
    make_embedding_pipeline,
    modules_of_folder,
)
from albertine.inference.ensemble_model import EnsembleModel, TaskModel, load_ensemble
from albertine.inference.fill_mask import (
    FillMaskPipeline,
    TokenPrediction,
    exported_fill_mask_pipeline,
    make_fill_mask_pipeline,
)
from albertine.inference.finetuned_model import finetuned_from_export, finetuned_from_model
from albertine.inference.pipeline import Pipeline
from albertine.interop.export_record import read_export_record
from albertine.interop.hub import is_ensemble, is_export, local_model, locate_model
from albertine.interop.load import has_masked_head, load_checkpoint, load_encoder
from albertine.interop.sentence_transformers_folder import has_sentence_modules
from albertine.settings.engine import EngineOptions
from albertine.settings.exit_rule import ExitRule
from albertine.tasks.registry import find_task
from albertine.tasks.types.inputs import InputField
from albertine.tasks.types.json_schema import PROBABILITY, TEXT, Schema, array_of, object_of
from albertine.text.token_text import token_text
from albertine.text.tokenizer import Tokenizer

_MASKS: Schema = object_of(
    {"masks": array_of(array_of(object_of({"token_str": TEXT, "text": TEXT, "score": PROBABILITY})))}
)
_ORDER: Schema = object_of({"in_order": PROBABILITY})


def load_served_model(
    source: str, options: EngineOptions, exit_rule: ExitRule | None = None, *, task: str | None = None
) -> ServedModel:
    """Load a fine-tuned model, an ensemble or a pre-trained model, with its endpoints.

    Args:
        source: a run, the folder of a checkpoint, of an export or of an ensemble, or a hub name.
        options: device, precision and engine.
        exit_rule: when a prediction of a fine-tuned model is final; None after all steps of depth.
        task: task of the same type to use in place of that of a fine-tuned model; None for its own.
    """
    if task is not None:
        find_task(task)  # an unknown task must fail before a model is loaded
    # The name is sent to clients, so it has no paths of the server.
    local = local_model(source)
    name = local.resolve().name if local.is_dir() else source
    if is_ensemble(local):
        return _served_task_model(name, load_ensemble(local, options, task=task, exit_rule=exit_rule))
    folder = locate_model(source)
    if is_export(folder):
        return _served_export(name, source, folder, options, exit_rule, task)
    if has_sentence_modules(folder):
        _refuse_for_embeddings(name, exit_rule, task)
        return _served_sentence_model(name, folder, options)
    model = load_checkpoint(folder)
    if model.missing_parameters:  # an encoder without a head
        _refuse_for_embeddings(name, exit_rule, task)
        return _served_sentence_model(name, folder, options)
    if has_masked_head(model):
        _refuse_for_pretrained(source, exit_rule, task)
        pipeline = make_fill_mask_pipeline(folder, model, options.with_fp32_default())
        return _served_fill_mask(name, folder, pipeline)
    finetuned = finetuned_from_model(source, folder, model, options, task=task, exit_rule=exit_rule)
    return _served_task_model(name, finetuned)


def _refuse_for_pretrained(source: str, exit_rule: ExitRule | None, task: str | None) -> None:
    if exit_rule is not None:
        raise InputError(f"{source}: pre-trained; --exit and --depth are for fine-tuned models")
    if task is not None:
        raise InputError(f"{source}: pre-trained; --task is for fine-tuned models")


def _refuse_for_embeddings(name: str, exit_rule: ExitRule | None, task: str | None) -> None:
    if exit_rule is not None:
        raise InputError(
            f"{name}: a model for embeddings, which applies all of its layers; leave out --exit and --depth"
        )
    if task is not None:
        raise InputError(f"{name}: a model for embeddings, which predicts nothing; leave out --task")


def _served_export(
    name: str,
    source: str,
    folder: Path,
    options: EngineOptions,
    exit_rule: ExitRule | None,
    task: str | None,
) -> ServedModel:
    if read_export_record(folder).embeds:
        _refuse_for_embeddings(name, exit_rule, task)
        return _served_encoder(name, exported_embedding_pipeline(modules_of_folder(folder), options))
    _, head, _ = read_settings(folder)
    if head.kind in ("pretrain", "mlm"):
        _refuse_for_pretrained(source, exit_rule, task)
        return _served_fill_mask(
            name, folder, exported_fill_mask_pipeline(source, folder, options.with_fp32_default())
        )
    finetuned = finetuned_from_export(source, folder, options, task=task, exit_rule=exit_rule)
    return _served_task_model(name, finetuned)


def _served_fill_mask(name: str, folder: Path, pipeline: FillMaskPipeline) -> ServedModel:
    endpoints = _fill_mask_endpoints(pipeline)
    engine = pipeline.engine
    embedder = None
    if isinstance(engine, TorchEngine):  # an export that predicts has no output of vectors
        embedder = Embedder(EmbeddingPipeline(engine, pipeline.tokenizer, modules_of_folder(folder)))
    by_path = {endpoint.path: endpoint for endpoint in endpoints}
    max_length = engine.model_settings.max_length
    return ServedModel(
        name,
        (),
        max_length,
        engine.micro_batch_tokens,
        engine.precision,
        engine_name(engine),
        pipeline.tokenizer,
        by_path,
        embedder,
    )


def _served_sentence_model(name: str, folder: Path, options: EngineOptions) -> ServedModel:
    """Return an encoder without a head, such as one of sentence-transformers, which only gives embeddings."""
    if options.engine not in (None, "auto", "torch"):
        raise InputError(
            f"{name}: only torch computes the embeddings of a checkpoint; for {options.engine}, export it "
            "with albertine export --task embed, and serve the export"
        )
    modules = modules_of_folder(folder)
    pipeline = make_embedding_pipeline(modules, load_encoder(modules.model_folder), options)
    return _served_encoder(name, pipeline)


def _served_encoder(name: str, pipeline: EmbeddingPipeline) -> ServedModel:
    """Return a model that only gives embeddings."""
    engine = pipeline.engine
    return ServedModel(
        name,
        (),
        pipeline.max_length,
        engine.micro_batch_tokens,
        engine.precision,
        engine_name(engine),
        pipeline.tokenizer,
        {},
        Embedder(pipeline),
    )


def _served_task_model(name: str, model: TaskModel) -> ServedModel:
    pipeline = Pipeline(model)
    endpoint = _pipeline_endpoint(pipeline, model)
    members = model.members if isinstance(model, EnsembleModel) else [model]
    names = {engine_name(member.engine) for member in members}
    engine = members[0].engine
    return ServedModel(
        name,
        pipeline.labels,
        pipeline.max_length,
        engine.micro_batch_tokens,
        engine.precision,
        names.pop() if len(names) == 1 else None,
        model.tokenizer,
        {endpoint.path: endpoint},
    )


def _pipeline_endpoint(pipeline: Pipeline, model: TaskModel) -> Endpoint:
    task_type = model.task_type

    def parse_fields(**inputs: Any) -> Any:
        (example,), _ = pipeline.parse(**inputs)
        return example

    def predict_batch(examples: Sequence[Any]) -> list[ItemResult]:
        return [
            ItemResult(prediction, num_tokens, prediction.get("depth"))
            for prediction, num_tokens in pipeline.predict_counted(examples)
        ]

    return Endpoint(
        "/predict",
        pipeline.type_name,
        pipeline.input_fields,
        parse_fields,
        predict_batch,
        task_type.title,
        task_type.prediction_schema(),
        classifies=task_type.with_logits() is not None,
        process_logits=make_logits_function(model),
    )


def _fill_mask_endpoints(pipeline: FillMaskPipeline) -> list[Endpoint]:
    def fill_batch(encoded_texts: Sequence[Any]) -> list[ItemResult]:
        return [
            ItemResult(_fill_mask_response(pipeline, encoded), len(encoded[0])) for encoded in encoded_texts
        ]

    def order_batch(encoded_pairs: Sequence[Any]) -> list[ItemResult]:
        return [
            ItemResult({"in_order": round(pipeline.order_probability_of_ids(*encoded), 6)}, len(encoded[0]))
            for encoded in encoded_pairs
        ]

    text = InputField("text", f"She put the key in the {pipeline.mask_token}.")
    first, second = (
        InputField("first", "Ida took the key."),
        InputField("second", "Then she opened the door."),
    )
    endpoints = [
        Endpoint(
            "/fill-mask",
            "fill-mask",
            (text,),
            pipeline.encode_masked_text,
            fill_batch,
            "tokens for the masks of a text",
            _MASKS,
            pipeline.mask_token,
        )
    ]
    if pipeline.has_pair_head:
        summary = "whether two texts are in order"
        fields = (first, second)
        endpoints.append(
            Endpoint("/order", "order", fields, pipeline.encode_pair, order_batch, summary, _ORDER)
        )
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
