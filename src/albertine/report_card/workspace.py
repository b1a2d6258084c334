"""The folder of a report card, and the parts that are computed in it.

OUT/inputs.json               the model, the corpus and the recipe; a card never mixes two of them
OUT/data/TASK/                the training and dev examples of a task
OUT/untrained/seed-N/         the same network with the weights with which a pre-training run begins
OUT/runs/TASK/START/seed-N/   a fine-tuned model; START is "pre-trained" or "untrained"
OUT/results/NAME.json         the result of a part; a part with a result is not computed again
OUT/report-card.json, OUT/report-card.html
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal, get_args

import numpy as np

from albertine import progress
from albertine.atomic import atomic_file
from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import MANIFEST_FILE, checksum
from albertine.device import choose_device
from albertine.errors import InputError, check_format
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import prepare_task
from albertine.finetune.run import finetune_run
from albertine.inference.minimal_pairs import evaluate_minimal_pairs
from albertine.inference.settings import EvaluateSettings
from albertine.input_files import read_json_object
from albertine.interop.huggingface import save_folder
from albertine.interop.load import load_checkpoint
from albertine.model.model import Model
from albertine.pretrain.probe import probe
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.pretrain.setup import untrained_model
from albertine.report_card import recipe as fixed
from albertine.report_card.recipe import TASK_RECIPES, finetune_settings, recipe_json
from albertine.report_card.settings import ReportCardSettings
from albertine.report_card.task_data import DataSources, copy_examples
from albertine.settings import ModelSettings, build_settings
from albertine.stored_results import StoredResults
from albertine.tasks.baseline.baseline import predict_labels
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.glue import GLUE
from albertine.tasks.metrics.scores import compute_metric
from albertine.tasks.reading import load_examples
from albertine.tasks.registry import find_task
from albertine.tasks.settings import DataSettings
from albertine.text.tokenizer import load_tokenizer
from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from albertine.train.distributed import init_distributed
from albertine.train.parallel_runs import run_in_parallel
from albertine.train.run_folder import read_run_settings

Start = Literal["pre-trained", "untrained"]
STARTS: tuple[Start, ...] = get_args(Start)
INPUTS_FILE = "inputs.json"
_FORMAT = 1
_MIN_WIDTH_FOR_ALL_CORES = 768  # narrower models are no faster on several cores


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
        folder = self._data(task)
        return self.results.get(f"{task}/data", lambda: copy_examples(self.sources.tasks[task], folder))

    def score_baselines(self, task: str) -> dict[str, Any]:
        """Return the scores of the baselines on a task; empty for questions, which have none."""
        return self.results.get(f"{task}/baselines", partial(self._baseline_scores, task))

    def _baseline_scores(self, task: str) -> dict[str, Any]:
        if task not in GLUE:
            return {}
        train, dev = self._read_examples(task, "train"), self._read_examples(task, "dev")
        (most_common, _), *_ = Counter(example.label for example in train).most_common(1)
        predictions = {
            "tf-idf": predict_labels(train, dev),
            "most common label": [most_common] * len(dev),
        }
        labels, metric = find_task(task).labels, TASK_RECIPES[task].metric

        def ids(names: list[Any]) -> Any:
            return np.array([labels.index(name) for name in names])

        true_ids = ids([example.label for example in dev])
        return {
            name: compute_metric(metric, true_ids, ids(predicted), len(labels))
            for name, predicted in predictions.items()
        }

    def _read_examples(self, task: str, split: str) -> list[TextExample]:
        columns = DataSettings(text_pair="text_pair" if len(GLUE[task].text_columns) == 2 else None)
        file = str(self._data(task) / f"{split}.jsonl")
        examples = load_examples(find_task(task), file, split, columns, require_labels=True)
        return [example for example in examples if isinstance(example, TextExample)]

    def _data(self, task: str) -> Path:
        return self.out / "data" / task

    def finetune_models(self) -> None:
        """Fine-tune the model, and the same network without pre-training, on all tasks."""
        for seed in self.seeds:
            self._untrained_checkpoint(seed)
        names = [
            (task, start, seed) for task in self.sources.tasks for start in STARTS for seed in self.seeds
        ]
        remaining: dict[Path, Callable[[], object]] = {
            self._run(*name): partial(self.finetune_model, *name)
            for name in names
            if self._result_name(*name) not in self.results
        }
        total_steps = sum(
            TASK_RECIPES[task].steps(self.copy_data(task)["train_examples"])
            for task, start, seed in names
            if self._run(task, start, seed) in remaining
        )
        if self._is_parallel:
            run_in_parallel("Fine-tuning", remaining, total_steps)
        for number, (run, finetune) in enumerate(remaining.items(), start=1):
            if not self._is_parallel:
                progress.print_message(f"run {number} of {len(remaining)}: {run.relative_to(self.out)}")
                finetune()
        for name in names:  # in a run with a result, checkpoints serve nothing
            shutil.rmtree(self._run(*name) / CHECKPOINTS_FOLDER, ignore_errors=True)

    @property
    def seeds(self) -> range:
        """The seeds of the fine-tuning runs."""
        return range(self.settings.seeds)

    @property
    def _is_parallel(self) -> bool:
        """Whether runs take place in parallel: small models on a CPU."""
        is_cpu = choose_device(self.settings.device).type == "cpu"
        return is_cpu and self.model_settings.hidden_size < _MIN_WIDTH_FOR_ALL_CORES

    def finetune_model(self, task: str, start: Start, seed: int) -> dict[str, Any]:
        """Fine-tune from one start with one seed; return the metrics of the last step."""
        return self.results.get(
            self._result_name(task, start, seed), partial(self._finetune, task, start, seed)
        )

    def _finetune(self, task: str, start: Start, seed: int) -> dict[str, Any]:
        checkpoint = self.checkpoint if start == "pre-trained" else self._untrained_checkpoint(seed)
        settings = finetune_settings(
            TASK_RECIPES[task],
            self.model_settings,
            self._data(task),
            self.copy_data(task)["train_examples"],
            seed,
            self.settings.device,
        )
        with init_distributed(settings.device) as distributed:
            data = prepare_task(str(checkpoint), settings)
            resolved = with_task_defaults(
                settings, task, data.model_settings, data.num_samples, data.card.max_length
            )
            run = self._run(task, start, seed)
            result = finetune_run(run, run.name, resolved, data, distributed, max_restarts=0)
        return {"seed": seed, "metrics": result.metrics}

    def task_scores(self, task: str, start: Start) -> dict[str, Any]:
        """Return the median score of all seeds on a task, and the metrics of each."""
        runs = [self.finetune_model(task, start, seed) for seed in self.seeds]
        score = median(run["metrics"][TASK_RECIPES[task].metric] for run in runs)
        return {"score": score, "runs": runs}

    def _untrained_checkpoint(self, seed: int) -> Path:
        """Write the network without pre-training, unless it exists; return its folder."""
        folder = self.out / "untrained" / f"seed-{seed}"
        if not folder.exists():
            model = untrained_model(self.model_settings, self._start_settings(seed))
            save_folder(model, folder, tokenizer=load_tokenizer(self.checkpoint))
        return folder

    def _start_settings(self, seed: int) -> PretrainSettings:
        """Return settings with the start of the model's own run; with the default start if it is unknown."""
        try:
            run_settings = build_settings(PretrainSettings, read_run_settings(self.checkpoint, PretrainSettings))
            local_start = run_settings.local_start
        except InputError:
            local_start = True
        settings = PretrainSettings(local_start=local_start)
        return PretrainSettings(
            local_start=local_start, train=type(settings.train)(seed=seed)
        )

    def _run(self, task: str, start: Start, seed: int) -> Path:
        return self.out / "runs" / task / start / f"seed-{seed}"

    def _result_name(self, task: str, start: Start, seed: int) -> str:
        return f"{task}/{start}/seed-{seed}"


def _weights_checksum(model: Model) -> str:
    """Return a checksum of all weights of a model."""
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def read_model(folder: Path) -> Model:
    """Return the model of a checkpoint with its own head."""
    with progress.quiet_output():
        return load_checkpoint(folder)


def open_corpus_of(settings: ReportCardSettings) -> Corpus | None:
    """Return the corpus, if one is given."""
    return Corpus(settings.corpus) if settings.corpus else None
