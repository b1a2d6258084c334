"""Predictions on a cluster: a job is a chunk of examples, and each worker loads the model once."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch

from albertine.device import choose_device
from albertine.errors import InputError
from albertine.executors.executor import Executor
from albertine.inference.ensemble_model import TaskModel, load_task_model
from albertine.inference.settings import PredictSettings
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import Example, example_chunks
from albertine.tasks.scorer import CHUNK_SIZE
from albertine.tasks.types.task_type import Prediction


class ClusterPredictor:
    """Predicts examples on a cluster, with the chunks and the threads of a prediction in this process."""

    def __init__(self, executor: Executor, model: str | Path, settings: PredictSettings):
        if settings.engine == "auto":
            raise InputError("--engine auto: measures one machine; with --cluster, name an engine")
        self._executor, self._model, self._settings = executor, model, settings

    def predict_chunks(
        self, examples: Iterable[Example], counts: EncodingCounts
    ) -> Iterator[list[tuple[Example, Prediction]]]:
        """Yield examples with their predictions, in chunks; see `ExampleScorer.predict_chunks`."""
        threads = torch.get_num_threads()
        finished = self._executor.run(
            _predict_chunk,
            example_chunks(examples, CHUNK_SIZE),
            initializer=_load_model,
            initargs=(self._model, self._settings, threads),
            in_order=True,
            cores=threads,
            gpus=int(choose_device(self._settings.device).type == "cuda"),
            advice="use a smaller model, or nodes with more memory",
        )
        for chunk, (predictions, chunk_counts) in finished:
            counts.merge(chunk_counts)
            yield list(zip(chunk, predictions, strict=True))


_model: TaskModel | None = None  # of a worker


def _load_model(model: str | Path, settings: PredictSettings, threads: int) -> None:
    global _model
    torch.set_num_threads(threads)
    _model = load_task_model(model, settings.engine_options, task=settings.task, exit_rule=settings.exit_rule)


def _predict_chunk(examples: Sequence[Example]) -> tuple[list[Prediction], EncodingCounts]:
    """Return the predictions for a chunk, and its counts of tokens, in a worker."""
    assert _model is not None
    counts = EncodingCounts(_model.tokenizer.special_ids)
    predictions = [prediction for _, prediction in _model.create_scorer().predict(examples, counts)]
    return predictions, counts
