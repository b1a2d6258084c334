"""Judges a pre-trained model in int8 by the share of masked tokens of held-out text that it predicts."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albertine.corpus.batches import collate
from albertine.corpus.corpus import check_same_tokenizer, open_corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import ObjectiveSettings, PairTask
from albertine.engines.engine import Engine
from albertine.engines.exported_folder import open_export
from albertine.engines.torch_engine import prepare_torch_engine
from albertine.export.accuracy import CALIBRATION_ROWS, CALIBRATION_TOKENS, Accuracy, Judge, sample_texts
from albertine.export.settings import ExportSettings
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings.engine import EngineOptions
from albertine.tasks.sequences import split_by_tokens
from albertine.text.tokenizer import Tokenizer

_HELD_OUT_SAMPLES = 400
_SAMPLE_TOKENS = 128
_MASKED_SHARE = 0.15  # of the tokens of a text that calibrates


class PretrainedJudge(Judge):
    """Computes the accuracy of masked tokens of a corpus; its samples or other texts calibrate."""

    def __init__(self, source: str, model: Model, tokenizer: Tokenizer, settings: ExportSettings):
        self._model, self._tokenizer = model, tokenizer
        self._dataset: PretrainDataset | None = None
        if settings.corpus is not None:
            corpus = open_corpus(settings.corpus)
            check_same_tokenizer(source, tokenizer.fingerprint, corpus)
            length = min(_SAMPLE_TOKENS, model.settings.max_length)
            pair: PairTask = (
                "sop" if model.head_settings.kind == "pretrain" and model.settings.segments > 1 else "none"
            )
            self._dataset = PretrainDataset(corpus, ObjectiveSettings(pair, length), "dev")
        self.has_labels = self._dataset is not None
        # A file that cannot be read must fail before the export.
        calibrate = settings.calibrate
        self._texts = [] if calibrate is None else sample_texts(str(calibrate), settings, CALIBRATION_ROWS)

    def calibration_strips(self) -> Sequence[Strip]:
        """Return the texts with some tokens masked; without a file, the samples of the corpus."""
        if not self._texts:
            return [batch.strip for batch in self._batches()]
        sequences = list(self._masked_sequences())
        groups = split_by_tokens(sequences, len, CALIBRATION_TOKENS)
        return [Strip.from_sequences(group) for group in groups]

    def score_source(self) -> Accuracy:
        """Return the accuracy of the source."""
        return self._accuracy(prepare_torch_engine(self._model, "cpu", "fp32"))

    def score_export(self, folder: Path) -> Accuracy:
        """Return the accuracy of the export."""
        return self._accuracy(open_export(folder, EngineOptions("cpu")))

    def _masked_sequences(self) -> Iterator[list[int]]:
        generator, special = random.Random(0), self._tokenizer.special_ids
        for ids in self._tokenizer.encode_batch(self._texts):
            kept = ids[: self._model.settings.max_length - 2]
            masked = [special.mask if generator.random() < _MASKED_SHARE else token for token in kept]
            yield [special.cls, *masked, special.sep]

    def _batches(self) -> list[Any]:
        assert self._dataset is not None
        per_batch = max(1, CALIBRATION_TOKENS // self._dataset.objective.max_length)
        indices = np.arange(min(len(self._dataset), _HELD_OUT_SAMPLES))
        chunks = np.split(indices, range(per_batch, len(indices), per_batch))
        return [collate(self._dataset.draw(chunk), len(chunk)) for chunk in chunks]

    def _accuracy(self, engine: Engine) -> Accuracy:
        correct = count = 0
        for batch in self._batches():
            output = engine.run(batch.strip)
            masked = batch.targets.masked
            logits = getattr(output, "masked", output).logits.index_select(0, masked.indices)
            correct += int((logits.argmax(1) == masked.labels).sum())
            count += len(masked.labels)
        share = correct / max(1, count)
        return Accuracy(share, f"accuracy {100 * share:.1f}", count, "masked tokens")
