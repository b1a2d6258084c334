"""The folder of a report card, and the parts that are computed in it.

OUT/inputs.json               the model, the corpus, the data and the recipe; a card never mixes two of them
OUT/data/TASK/                the training and dev examples of a task
OUT/untrained/, OUT/runs/     models; see `finetune_runs`
OUT/results/NAME.json         the result of a part; a part with a result is not computed again
OUT/report-card.json, OUT/report-card.html
"""

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from albertine.atomic import atomic_file
from albertine.checksums import file_checksum, weights_checksum
from albertine.corpus.manifest import MANIFEST_FILE
from albertine.errors import InputError, check_format
from albertine.inference.minimal_pairs import evaluate_minimal_pairs
from albertine.inference.settings import EvaluateSettings
from albertine.input_files import read_json_object
from albertine.model.model import Model
from albertine.pretrain.probe import probe
from albertine.pretrain.settings import ProbeSettings
from albertine.report_card import recipe as fixed
from albertine.report_card.recipe import TASK_RECIPES, recipe_json
from albertine.report_card.results import (
    BaselineScores,
    CopiedData,
    EstimatedScore,
    HeldOutScores,
    MinimalPairScores,
)
from albertine.report_card.settings import ReportCardSettings
from albertine.report_card.task_data import DataSources, copy_examples
from albertine.settings import ModelSettings
from albertine.stored_results import StoredResults
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.glue import GLUE
from albertine.tasks.metrics.intervals import Estimate
from albertine.tasks.metrics.scores import compute_metric
from albertine.tasks.reading import load_examples
from albertine.tasks.registry import find_task
from albertine.tasks.settings import DataSettings
from albertine.text.tokenizer import load_tokenizer

INPUTS_FILE = "inputs.json"
_FORMAT = 2


class CardWorkspace:
    """The folder of a report card.

    Attributes:
        out: The folder.
        checkpoint: Folder of the pre-trained model.
        settings: Settings of the command.
        sources: Data of the tasks and minimal pairs.
        model_settings: Settings of the model's encoder.
        results: Results of the parts.
    """

    def __init__(
        self,
        out: Path,
        checkpoint: Path,
        settings: ReportCardSettings,
        sources: DataSources,
        model_settings: ModelSettings,
    ):
        self.out, self.checkpoint, self.settings, self.sources = out, checkpoint, settings, sources
        self.model_settings = model_settings
        self.results = StoredResults(out / "results")

    def record_inputs(self, model: Model) -> None:
        """Write what the card is made from; raise `InputError` if the folder has a card of something else."""
        corpus = self.settings.corpus
        inputs: dict[str, Any] = {
            "format": _FORMAT,
            "model": weights_checksum(model),
            # The weights of a shared layer do not say how often it is applied.
            "network": _other_than_default(self.model_settings),
            "tokenizer": load_tokenizer(self.checkpoint).fingerprint,
            "recipe": recipe_json(self.model_settings),
        }
        # A corpus and data may be added later; only a part that is missing is then computed.
        if corpus:
            inputs["corpus"] = file_checksum(corpus / MANIFEST_FILE)
        inputs |= {f"data set of {title}": checksum for title, checksum in self.sources.checksums().items()}
        file, advice = self.out / INPUTS_FILE, "give another --out"
        if file.exists():
            before = read_json_object(file, f"remove {self.out} to start again, or {advice}")
            check_format(file, before.get("format"), _FORMAT, advice)
            different = [name for name in inputs if before.get(name, inputs[name]) != inputs[name]]
            if different:
                raise InputError(f"{self.out}: a report card with another {different[0]}; {advice}")
            inputs = before | inputs
        with atomic_file(file) as partial_file:
            partial_file.write_text(json.dumps(inputs, indent=2) + "\n", encoding="utf-8")

    # Held-out text and minimal pairs.

    def probe_model(self) -> HeldOutScores | None:
        """Return losses and accuracies on held-out text; None without a corpus."""
        if self.settings.corpus is None:
            return None
        return self.results.get_as(HeldOutScores, "held-out", self._held_out_scores)

    def _held_out_scores(self) -> HeldOutScores:
        settings = ProbeSettings(
            corpus=self.settings.corpus, device=self.settings.device, tokens=fixed.PROBE_TOKENS
        )
        result = probe(str(self.checkpoint), settings, with_nsp=False)
        return HeldOutScores(
            result.sequences,
            result.unigram_loss,
            _estimated_score(result.mask_token_loss),
            _estimated_score(result.mask_token_accuracy),
            _estimated_score(result.sop_accuracy),
        )

    def score_minimal_pairs(self) -> MinimalPairScores | None:
        """Return the accuracies on minimal pairs; None without such pairs."""
        if self.sources.blimp is None:
            return None
        return self.results.get_as(MinimalPairScores, "blimp", self._minimal_pair_scores)

    def _minimal_pair_scores(self) -> MinimalPairScores:
        settings = EvaluateSettings(
            task="blimp",
            data=str(self.sources.blimp),
            pairs=fixed.PAIRS_PER_PARADIGM,
            device=self.settings.device,
            on_error="skip",
        )
        (result,) = evaluate_minimal_pairs(self.checkpoint, settings)
        return MinimalPairScores(
            result.method, result.overall, list(result.phenomena), list(result.paradigms)
        )

    # Tasks.

    def copy_data(self, task: str) -> CopiedData:
        """Copy the examples of a task; return their numbers."""
        name, folder = f"{task}/data", self.data_folder(task)
        copied = self.results.get_as(
            CopiedData, name, lambda: copy_examples(self.sources.tasks[task], folder)
        )
        if min(copied.train_examples, copied.dev_examples) < 1:
            raise InputError(
                f"{self.out}: the result {name} has no examples; remove the folder to start again"
            )
        return copied

    def score_baselines(self, task: str) -> BaselineScores:
        """Return the scores of the baselines on a task."""
        return self.results.get_as(BaselineScores, f"{task}/baselines", lambda: self._baseline_scores(task))

    def _baseline_scores(self, task: str) -> BaselineScores:
        if task not in GLUE:
            return BaselineScores()
        train, dev = self._read_examples(task, "train"), self._read_examples(task, "dev")
        predictions = find_task(task).task_type.baseline_predictions(train, dev) or []
        (most_common, _), *_ = Counter(str(example.label) for example in train).most_common(1)
        ids = {label: index for index, label in enumerate(find_task(task).labels)}
        true_ids = np.array([ids[str(example.label)] for example in dev])

        def score(labels: Iterable[str]) -> float:
            predicted_ids = np.array([ids[label] for label in labels])
            return compute_metric(TASK_RECIPES[task].metric, true_ids, predicted_ids)

        return BaselineScores(
            tf_idf=score(prediction["label"] for prediction in predictions),
            most_common_label=score([most_common] * len(dev)),
        )

    def _read_examples(self, task: str, split: str) -> list[TextExample]:
        columns = DataSettings(text_pair="text_pair" if len(GLUE[task].text_columns) == 2 else None)
        file = str(self.data_folder(task) / f"{split}.jsonl")
        examples = load_examples(find_task(task), file, split, columns, require_labels=True)
        return [example for example in examples if isinstance(example, TextExample)]

    def data_folder(self, task: str) -> Path:
        """Return the folder of the examples of a task."""
        return self.out / "data" / task


def _estimated_score(estimate: Estimate) -> EstimatedScore | None:
    """Return an estimate; None if there are too few samples for it."""
    values = (estimate.value, estimate.low, estimate.high)
    return EstimatedScore(*values) if all(map(math.isfinite, values)) else None


def _other_than_default(settings: ModelSettings) -> dict[str, Any]:
    """Return the values that are not the defaults, so that a new setting changes nothing."""
    default = asdict(ModelSettings())
    return {name: value for name, value in asdict(settings).items() if value != default[name]}
