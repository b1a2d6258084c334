"""The folder of a report card, and the parts that are computed in it.

OUT/inputs.json               the model, the corpus and the recipe; a card never mixes two of them
OUT/data/TASK/                the training and dev examples of a task
OUT/untrained/, OUT/runs/     models; see `finetune_runs`
OUT/results/NAME.json         the result of a part; a part with a result is not computed again
OUT/report-card.json, OUT/report-card.html
"""

import hashlib
import json
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from albertine.atomic import atomic_file
from albertine.corpus.manifest import MANIFEST_FILE, checksum
from albertine.errors import InputError, check_format
from albertine.inference.minimal_pairs import evaluate_minimal_pairs
from albertine.inference.settings import EvaluateSettings
from albertine.input_files import read_json_object
from albertine.model.model import Model
from albertine.pretrain.probe import probe
from albertine.pretrain.settings import ProbeSettings
from albertine.report_card import recipe as fixed
from albertine.report_card.recipe import TASK_RECIPES, recipe_json
from albertine.report_card.settings import ReportCardSettings
from albertine.report_card.task_data import DataSources, copy_examples
from albertine.settings import ModelSettings
from albertine.stored_results import StoredResults
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.glue import GLUE
from albertine.tasks.metrics.scores import compute_metric
from albertine.tasks.reading import load_examples
from albertine.tasks.registry import find_task
from albertine.tasks.settings import DataSettings

INPUTS_FILE = "inputs.json"
_FORMAT = 1


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
        inputs = {
            "format": _FORMAT,
            "model": _weights_checksum(model),
            "corpus": checksum(corpus / MANIFEST_FILE) if corpus else None,
            "recipe": recipe_json(self.model_settings),
        }
        file, advice = self.out / INPUTS_FILE, "give another --out"
        if file.exists():
            before = read_json_object(file, f"remove {self.out} to start again, or {advice}")
            check_format(file, before.get("format"), _FORMAT, advice)
            # A corpus may be added later; only a part that is missing is then computed.
            inputs["corpus"] = inputs["corpus"] or before.get("corpus")
            before["corpus"] = before.get("corpus") or inputs["corpus"]
            different = [name for name in inputs if before.get(name) != inputs[name]]
            if different:
                raise InputError(f"{self.out}: the report card of another {different[0]}; {advice}")
        with atomic_file(file) as partial_file:
            partial_file.write_text(json.dumps(inputs, indent=2) + "\n", encoding="utf-8")

    # Held-out text and minimal pairs.

    def probe_model(self) -> dict[str, Any] | None:
        """Return losses and accuracies on held-out text; None without a corpus."""
        if self.settings.corpus is None:
            return None
        settings = ProbeSettings(
            corpus=self.settings.corpus, device=self.settings.device, tokens=fixed.PROBE_TOKENS
        )
        return self.results.get("held-out", lambda: probe(str(self.checkpoint), settings).to_json())

    def score_minimal_pairs(self) -> dict[str, Any] | None:
        """Return the accuracies on minimal pairs; None without such pairs."""
        if self.sources.blimp is None:
            return None
        settings = EvaluateSettings(
            task="blimp",
            data=str(self.sources.blimp),
            pairs=fixed.PAIRS_PER_PARADIGM,
            device=self.settings.device,
            on_error="skip",
        )

        def compute() -> dict[str, Any]:
            (result,) = evaluate_minimal_pairs(self.checkpoint, settings)
            return {
                "method": result.method,
                "overall": asdict(result.overall),
                "phenomena": [asdict(accuracy) for accuracy in result.phenomena],
                "paradigms": [asdict(accuracy) for accuracy in result.paradigms],
            }

        return self.results.get("blimp", compute)

    # Tasks.

    def copy_data(self, task: str) -> dict[str, Any]:
        """Copy the examples of a task; return their numbers."""
        folder = self.data_folder(task)
        return self.results.get(f"{task}/data", lambda: copy_examples(self.sources.tasks[task], folder))

    def score_baselines(self, task: str) -> dict[str, Any]:
        """Return the scores of the baselines on a task; empty for questions on passages, which have none."""
        return self.results.get(f"{task}/baselines", partial(self._baseline_scores, task))

    def _baseline_scores(self, task: str) -> dict[str, Any]:
        if task not in GLUE:
            return {}
        train, dev = self._read_examples(task, "train"), self._read_examples(task, "dev")
        predictions = find_task(task).task_type.baseline_predictions(train, dev) or []
        (most_common, _), *_ = Counter(example.label for example in train).most_common(1)
        predicted_labels = {
            "tf_idf": [prediction["label"] for prediction in predictions],
            "most_common_label": [most_common] * len(dev),
        }
        ids = {label: index for index, label in enumerate(find_task(task).labels)}
        true_ids = np.array([ids[str(example.label)] for example in dev])
        return {
            name: compute_metric(
                TASK_RECIPES[task].metric, true_ids, np.array([ids[label] for label in labels]), len(ids)
            )
            for name, labels in predicted_labels.items()
        }

    def _read_examples(self, task: str, split: str) -> list[TextExample]:
        columns = DataSettings(text_pair="text_pair" if len(GLUE[task].text_columns) == 2 else None)
        file = str(self.data_folder(task) / f"{split}.jsonl")
        examples = load_examples(find_task(task), file, split, columns, require_labels=True)
        return [example for example in examples if isinstance(example, TextExample)]

    def data_folder(self, task: str) -> Path:
        """Return the folder of the examples of a task."""
        return self.out / "data" / task


def _weights_checksum(model: Model) -> str:
    """Return a checksum of all weights of a model."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
