"""Judges an exported encoder in int8: whether it finds the same texts similar as its source."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from albertine.engines.encoder_engine import SENTENCE_EMBEDDING, ExportedEncoderEngine
from albertine.engines.exported_engine import padded_inputs
from albertine.errors import InputError
from albertine.export.accuracy import (
    CALIBRATION_ROWS,
    Accuracy,
    Judge,
    missing_data_message,
    sample_texts,
)
from albertine.export.settings import ExportSettings
from albertine.inference.embedding import (
    EmbeddingPipeline,
    Vectors,
    exported_embedding_pipeline,
    modules_of_folder,
)
from albertine.model.strip import Strip
from albertine.settings.engine import EngineOptions
from albertine.tasks.metrics.scores import compute_metric
from albertine.tasks.sequences import longest_first_groups, strip_from_samples

_MAX_TEXTS = 1_000  # half a million similarities
_MIN_TEXTS = 20


class EmbeddingJudge(Judge):
    """Compares the similarities of all pairs of some texts, by their rank, with those of the source."""

    def __init__(self, source: EmbeddingPipeline, settings: ExportSettings):
        self._source = source
        self.has_labels = settings.data is not None
        # Data that cannot be read must fail before the export.
        calibration = settings.calibrate or settings.data
        self._calibration = sample_texts(str(calibration), settings, CALIBRATION_ROWS) if calibration else []
        self._judged = sample_texts(str(settings.data), settings, _MAX_TEXTS) if self.has_labels else []
        if self.has_labels and len(self._judged) < _MIN_TEXTS:
            raise InputError(
                f"{settings.data}: {len(self._judged)} different texts, too few to compare; give at least "
                f"{_MIN_TEXTS}"
            )

    def calibration_strips(self) -> Sequence[Strip]:
        """Return texts, one in each strip: the graph takes a row for one text."""
        examples = self._source.encode(self._calibration)
        return [strip_from_samples([example.samples[0]]) for example in examples]

    def score_source(self) -> Accuracy:
        """Return the score of the source, which is that of perfect agreement."""
        return Accuracy(1.0, "100.0", len(self._judged), "texts")

    def score_export(self, folder: Path) -> Accuracy:
        """Return the agreement of the export, in the precision in which it is used by default.

        It is that of Albertine's vectors or of those of the graph, whichever is worse.
        """
        exported = exported_embedding_pipeline(modules_of_folder(folder), EngineOptions("cpu"))
        score = min(
            compute_metric("spearman", self._expected_similarities, _similarities(vectors))
            for vectors in (exported(self._judged), _vectors_of_graph(exported, self._judged))
        )
        text = f"rank correlation of the similarities of texts with those of the source {100 * score:.1f}"
        return Accuracy(score, text, len(self._judged), "texts")

    @cached_property
    def _expected_similarities(self) -> Vectors:
        return _similarities(self._source(self._judged))


def _vectors_of_graph(exported: EmbeddingPipeline, texts: Sequence[str]) -> Vectors:
    """Return the vectors that the graph itself computes, with a text in each row."""
    engine = exported.engine
    assert isinstance(engine, ExportedEncoderEngine)
    samples = [example.samples[0] for example in exported.encode(texts)]
    vectors: list[Vectors | None] = [None] * len(samples)
    for indices in longest_first_groups(samples, engine.micro_batch_tokens):
        strip = strip_from_samples([samples[index] for index in indices])
        outputs = engine.run_rows(padded_inputs(strip))
        for index, vector in zip(indices, outputs[SENTENCE_EMBEDDING], strict=True):
            vectors[index] = vector
    return np.stack([vector for vector in vectors if vector is not None])


def _similarities(vectors: Vectors) -> Vectors:
    """Return the cosine of each pair of vectors, [pairs]."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    similarities: Vectors = directions @ directions.T
    return similarities[np.triu_indices(len(vectors), 1)]


def create_embedding_judge(
    source: EmbeddingPipeline, settings: ExportSettings, *, must_judge: bool
) -> EmbeddingJudge | None:
    """Return the judge of an encoder in int8; None if no data judge it.

    Args:
        source: gives the vectors of the source.
        settings: the texts.
        must_judge: raise `InputError` without data.
    """
    if settings.data is None:
        needs_calibration = settings.to == "openvino" and settings.calibrate is None
        if must_judge or needs_calibration:
            raise InputError(
                missing_data_message(
                    "data", "texts", must_judge=must_judge, needs_calibration=needs_calibration
                )
            )
        if settings.calibrate is None:
            return None
    return EmbeddingJudge(source, settings)
