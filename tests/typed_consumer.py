"""A program that uses the public API as users do; mypy checks it with the strict settings of the project."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import albertine


def embed(source: str, texts: Sequence[str]) -> torch.Tensor:
    """Return the hidden states of texts, `[tokens, hidden]`."""
    model: albertine.Model = albertine.load(source)
    tokenizer: albertine.Tokenizer = albertine.load_tokenizer(source)
    ids: list[list[int]] = [tokenizer.encode(text) for text in texts]
    decoded: list[str] = [tokenizer.decode(text_ids) for text_ids in ids]
    assert len(decoded) == len(texts)
    strip: albertine.Strip = albertine.Strip.from_sequences(ids)
    hidden: torch.Tensor = model.encoder(strip)
    return hidden


def embed_texts(source: str, data: str) -> int:
    """Return the number of vectors in a file, after computing some in memory."""
    pipeline = albertine.pipeline(source, task="embed", pooling="cls", device="cpu")
    vectors: NDArray[np.float32] = pipeline(["A door.", "A boat."], normalize=False)
    assert vectors.shape == (2, pipeline.vector_size)
    settings = albertine.EmbedSettings(data=data, pooling="mean", normalize=False)
    return albertine.embed(source, settings, "vectors.npy")


def create_checkpoint(folder: Path) -> None:
    """Write a model with fresh weights."""
    settings = albertine.ModelSettings(hidden_size=64, layers=2, heads=4)
    albertine.save(albertine.create(settings, head="classify", seed=1), folder)
    albertine.save(albertine.create("demo", albertine.HeadSettings("span")), str(folder / "span"))


def train(corpus: Path, out: str, data: str) -> float:
    """Pre-train, fine-tune, evaluate and predict; return the difference of two scores."""
    metrics: dict[str, float] = albertine.pretrain(
        f"{out}/pretrained",
        albertine.PretrainSettings(
            corpus=corpus,
            objective=albertine.ObjectiveSettings(max_length=128),
            train=albertine.PretrainTrainSettings(steps=10),
        ),
    )
    assert metrics
    finetune_settings = albertine.FinetuneSettings(
        task="classify",
        data=data,
        sequence=albertine.SequenceSettings(max_length=64),
        train=albertine.FinetuneTrainSettings(steps=10),
    )
    results: albertine.FinetuneResults = albertine.finetune(f"{out}/pretrained", out, finetune_settings)
    medians: dict[str, float] = results.median_metrics
    evaluations: list[albertine.EvaluationResult] = albertine.evaluate(
        [out], albertine.EvaluateSettings(data=data)
    )
    count: int = albertine.predict(out, albertine.PredictSettings(data=data), f"{out}.jsonl")
    assert count
    return medians["accuracy"] - evaluations[0].primary_metric


def use_pipelines(classifier_folder: str, pretrained_folder: str) -> list[str]:
    """Return a label and the tokens predicted for masks, or the one-line message of an error."""
    try:
        classifier = albertine.pipeline(classifier_folder, device="cpu")
        fill_mask = albertine.fill_mask_pipeline(pretrained_folder, device="cpu")
    except albertine.AlbertineError as error:
        return [str(error)]
    tokens = [prediction.token for predictions in fill_mask.fill("A [MASK].") for prediction in predictions]
    return [classifier("A fine film.")["label"], *tokens]
