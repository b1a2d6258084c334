"""Judges an exported encoder in int8: whether it finds the same texts similar as its source."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from albertine.errors import InputError
from albertine.export.accuracy import (
    CALIBRATION_ROWS,
    CALIBRATION_TOKENS,
    Accuracy,
    Judge,
    missing_data_message,
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
from albertine.tasks.formats.texts import read_texts
from albertine.tasks.metrics.scores import compute_metric
from albertine.tasks.sequences import longest_first_groups, strip_from_samples
from albertine.text.documents import ReadErrors

_MAX_TEXTS = 1_000  # half a million similarities
_MIN_TEXTS = 20


class EmbeddingJudge(Judge):
    """Compares the similarities of all pairs of some texts, by their rank, with those of the source."""

    def __init__(self, source: EmbeddingPipeline, settings: ExportSettings):
        self._source, self._settings = source, settings
        self.has_labels = settings.data is not None
        # Data that cannot be read must fail before the export.
        calibration = settings.calibrate or settings.data
        self._calibration = self._texts(str(calibration), CALIBRATION_ROWS) if calibration else []
        self._judged = self._texts(str(settings.data), _MAX_TEXTS) if self.has_labels else []
        if self.has_labels and len(self._judged) < _MIN_TEXTS:
            raise InputError(
                f"{settings.data}: {len(self._judged)} different texts, too few to compare; give at least "
                f"{_MIN_TEXTS}"
            )

    def calibration_strips(self) -> Sequence[Strip]:
        """Return the first texts."""
        samples = [example.samples[0] for example in self._source.encode(self._calibration)]
        groups = longest_first_groups(samples, CALIBRATION_TOKENS)
        return [strip_from_samples([samples[index] for index in group]) for group in groups]

    def before(self) -> Accuracy:
        """Return the score of the source, which is that of perfect agreement."""
        return Accuracy(1.0, "100.0", len(self._judged), "texts")

    def after(self, folder: Path) -> Accuracy:
        """Return the agreement of the export, in the precision in which it is used by default."""
        exported = exported_embedding_pipeline(modules_of_folder(folder), EngineOptions("cpu"))
        expected, actual = (_similarities(embed(self._judged)) for embed in (self._source, exported))
        score = compute_metric("spearman", expected, actual, 1)
        text = f"rank correlation of the similarities of texts with those of the source {100 * score:.1f}"
        return Accuracy(score, text, len(self._judged), "texts")

    def _texts(self, source: str, count: int) -> list[str]:
        """Return the first different texts of a file."""
        errors = ReadErrors(skip=self._settings.on_error == "skip")
        texts = dict.fromkeys(example.texts[0] for example in read_texts(source, self._settings, errors))
        return list(islice(texts, count))


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
            raise InputError(missing_data_message("data", "texts", must_judge=must_judge))
        if settings.calibrate is None:
            return None
    return EmbeddingJudge(source, settings)
