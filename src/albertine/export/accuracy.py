"""Judges an export in int8: the scores of its source and its own, on the same data."""

import heapq
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from albertine.corpus.batches import collate
from albertine.corpus.corpus import Corpus, check_same_tokenizer, open_corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import ObjectiveSettings
from albertine.engines.engine import Engine
from albertine.engines.exported_folder import open_export
from albertine.engines.torch_engine import prepare_torch_engine
from albertine.errors import InputError
from albertine.export.settings import ExportSettings
from albertine.inference.evaluate import evaluate_split
from albertine.inference.finetuned_model import FinetunedModel, finetuned_from_model, load_finetuned
from albertine.inference.read_split import read_split
from albertine.interop.load import has_masked_head
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings.engine import EngineOptions
from albertine.tasks.examples import Example
from albertine.tasks.metrics.display import format_metrics, shown_metrics
from albertine.tasks.sequences import longest_first_groups, strip_from_samples
from albertine.tasks.settings import DataSettings
from albertine.text.tokenizer import load_tokenizer

CALIBRATION_ROWS = 300
CALIBRATION_TOKENS = 1024  # of one input of the quantizer
_HELD_OUT_SAMPLES = 400
_SAMPLE_TOKENS = 128

Row = TypeVar("Row")

# They name the data by which a fine-tuned model is judged; a pre-trained one has none.
_SETTINGS_OF_FINETUNED = [*(field.name for field in fields(DataSettings)), "split", "calibrate"]


@dataclass(frozen=True)
class Accuracy:
    """A score of a model.

    Attributes:
        score: the score by which models are compared; a point is 0.01.
        text: the scores in words.
        count: number of examples, or of masked tokens.
        unit: what is counted.
    """

    score: float
    text: str
    count: int
    unit: str


@dataclass(frozen=True)
class Int8Scores:
    """What int8 costs a model.

    Attributes:
        before: scores of the source in fp32.
        after: scores of the export.
        float_activations: number of activations that stay in floating point.
        activations: number of all quantized activations; 0 if they were not counted.
    """

    before: Accuracy
    after: Accuracy
    float_activations: int = 0
    activations: int = 0

    @property
    def loss(self) -> float:
        """Lost points."""
        return 100 * (self.before.score - self.after.score)

    @property
    def text(self) -> str:
        """The scores in words."""
        rest = ""
        if self.float_activations:
            rest = f", with {self.float_activations} of {self.activations} activations in floating point"
        scores = f"In int8{rest}: {self.after.text}; in fp32: {self.before.text}"
        return f"{scores}; on {self.after.count:,} {self.after.unit}."


class Judge(ABC):
    """Computes the scores of a model and of its export, and gives inputs for the calibration.

    Attributes:
        has_labels: whether it can compute scores; otherwise it only has inputs for the calibration.
    """

    has_labels = True

    @abstractmethod
    def calibration_strips(self) -> Sequence[Strip]:
        """Return input that shows the ranges of the activations."""

    @abstractmethod
    def score_source(self) -> Accuracy:
        """Return the score of the source in fp32."""

    @abstractmethod
    def score_export(self, folder: Path) -> Accuracy:
        """Return the score of the export, in the precision in which it is used by default."""


def create_judge(
    source: str, folder: Path, model: Model, settings: ExportSettings, *, must_judge: bool
) -> Judge | None:
    """Return the judge of a model, from the data in the settings; None if none is needed.

    Args:
        source: name given by the user.
        folder: folder of the checkpoint.
        model: the model.
        settings: the data.
        must_judge: raise `InputError` without data.
    """
    is_pretrained = has_masked_head(model)
    option = "corpus" if is_pretrained else "data"
    excluded = _SETTINGS_OF_FINETUNED if is_pretrained else ("corpus",)
    for name in excluded:
        if getattr(settings, name) != getattr(ExportSettings(), name):
            kind = "pre-trained" if is_pretrained else "fine-tuned"
            raise InputError(f"--{name.replace('_', '-')}: {source} is {kind}; give --{option}")
    if getattr(settings, option) is None:
        needs_calibration = settings.to == "openvino" and settings.calibrate is None
        if must_judge or needs_calibration:
            shown = "held-out texts" if is_pretrained else "labeled rows"
            raise InputError(missing_data_message(option, shown, must_judge=must_judge))
        if settings.calibrate is None:
            return None
    if is_pretrained:
        corpus = open_corpus(settings.corpus)
        check_same_tokenizer(source, load_tokenizer(folder).fingerprint, corpus)
        return _PretrainedJudge(model, corpus)
    finetuned = finetuned_from_model(source, folder, model, EngineOptions("cpu", "fp32"), task=settings.task)
    judge = _FinetunedJudge(finetuned, settings)
    judge.check_data()
    return judge


def missing_data_message(option: str, shown: str, *, must_judge: bool) -> str:
    """Return why an option is missing, which is either needed as calibration, or to judge the export.

    Args:
        option: its name.
        shown: what of the data shows the loss.
        must_judge: whether it is needed to judge the export.
    """
    if option == "corpus" and not must_judge:
        return f"--corpus is missing: OpenVINO's int8 is calibrated with its {shown}"
    rest = "--force exports it unseen" if must_judge else "or give --calibrate with rows without labels"
    return f"--{option} is missing: its {shown} show what int8 loses; {rest}"


def sample_rows(rows: Iterable[Row], count: int) -> list[Row]:
    """Return a random sample of rows of any number, the same at each call; files may be sorted."""
    generator = random.Random(0)
    return heapq.nsmallest(count, rows, key=lambda _: generator.random())


def sample_different(texts: Iterable[str], count: int) -> list[str]:
    """Return a random sample of different texts of any number, the same at each call."""
    by_hash: dict[bytes, str] = {}
    for text in texts:
        by_hash[sha256(text.encode()).digest()] = text
        if len(by_hash) > 2 * count:
            by_hash = dict(heapq.nsmallest(count, by_hash.items()))
    return [text for _, text in heapq.nsmallest(count, by_hash.items())]


class _FinetunedJudge(Judge):
    """Judges a fine-tuned model by the metrics of its task."""

    def __init__(self, model: FinetunedModel, settings: ExportSettings):
        self._model, self._settings = model, settings
        self.has_labels = settings.data is not None
        self._calibration = _with_data(settings, settings.calibrate or settings.data)

    def check_data(self) -> None:
        """Raise `InputError` if the data cannot be read, before the export is made."""
        next(iter(self._examples(self._calibration, require_labels=False)))
        if self.has_labels:
            next(iter(self._examples(self._settings, require_labels=True)))

    def calibration_strips(self) -> Sequence[Strip]:
        examples = self._examples(self._calibration, require_labels=False)
        encoded = self._model.create_scorer().encode(sample_rows(examples, CALIBRATION_ROWS))
        samples = [sample for example in encoded for sample in example.samples]
        groups = longest_first_groups(samples, CALIBRATION_TOKENS)
        return [strip_from_samples([samples[index] for index in group]) for group in groups]

    def score_source(self) -> Accuracy:
        return self._accuracy(self._model)

    def score_export(self, folder: Path) -> Accuracy:
        exported = load_finetuned(folder, EngineOptions("cpu"), task=self._settings.task)
        # For messages: the folder still has its temporary name.
        return self._accuracy(replace(exported, source=f"{self._model.source} in int8"))

    def _accuracy(self, model: FinetunedModel) -> Accuracy:
        result = evaluate_split(model, self._split_name(self._settings), self._settings)
        shown = {name: result.metrics[name] for name in shown_metrics(result.metrics)}
        return Accuracy(result.primary_metric, format_metrics(shown), result.num_examples, "examples")

    def _examples(self, settings: ExportSettings, *, require_labels: bool) -> Iterator[Example]:
        return read_split(self._model, self._split_name(settings), settings, require_labels=require_labels)

    def _split_name(self, settings: ExportSettings) -> str:
        """Return the name of the first part of the split: a folder and a table can differ in it."""
        assert settings.data is not None
        return self._model.task.split_names(settings.split, settings.data)[0]


def _with_data(settings: ExportSettings, data: Path | str | None) -> ExportSettings:
    """Return settings with other data and the same columns."""
    changed = replace(settings, data=None if data is None else str(data))
    return changed.with_explicit_keys(settings.explicit_keys)


class _PretrainedJudge(Judge):
    """Judges a pre-trained model by the share of masked tokens of held-out text that it predicts."""

    def __init__(self, model: Model, corpus: Corpus):
        length = min(_SAMPLE_TOKENS, model.settings.max_length)
        self._model = model
        self._dataset = PretrainDataset(corpus, ObjectiveSettings("sop", length), "dev")
        self._per_batch = max(1, CALIBRATION_TOKENS // length)

    def calibration_strips(self) -> Sequence[Strip]:
        return [batch.strip for batch in self._batches()]

    def score_source(self) -> Accuracy:
        return self._accuracy(prepare_torch_engine(self._model, "cpu", "fp32"))

    def score_export(self, folder: Path) -> Accuracy:
        return self._accuracy(open_export(folder, EngineOptions("cpu")))

    def _batches(self) -> list[Any]:
        indices = np.arange(min(len(self._dataset), _HELD_OUT_SAMPLES))
        chunks = np.split(indices, range(self._per_batch, len(indices), self._per_batch))
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
