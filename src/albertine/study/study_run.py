"""One run of a study: pre-training with one seed, and its measurements.

STORE/runs/HASH/run.json              name of the arm, and the settings that the hash is computed from
STORE/runs/HASH/machines.json         the machines that have trained it
STORE/runs/HASH/model/                the pre-training run, a model
STORE/runs/HASH/tasks/                fine-tuned models, removed when they are scored
STORE/runs/HASH/results/PART.json     the result of a part: the training, the probe, the layers, a task

The hash covers the corpus, the settings of the pre-training and the run that it starts from; the name of a
part contains the settings of its evaluation. So claims share the runs that they have in common.
"""

import itertools
import json
import math
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any

from albertine import progress
from albertine.atomic import atomic_file
from albertine.checksums import json_checksum
from albertine.corpus.corpus import open_corpus
from albertine.device import choose_device, machine_name, precision_name
from albertine.errors import Diverged, WorkError
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import resolved_settings
from albertine.settings import SettingsSource, build_settings
from albertine.stored_results import StoredResults
from albertine.study.claim import merged
from albertine.study.data import StudyData
from albertine.study.measures import MEASURES
from albertine.study.protocol import Protocol
from albertine.study.run_identity import run_identity
from albertine.study.run_measurements import (
    PartResult,
    flops_per_token,
    layer_measures,
    probe_measures,
    training_measures,
)
from albertine.study.run_part import RunPart, measures_from
from albertine.study.tasks import (
    FinetuningPlan,
    PlanRunner,
    finetuned_score,
    models_of_start,
    models_of_task,
)
from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from albertine.train.run_folder import (
    SETTINGS_FILE,
    has_checkpoints,
    read_run_settings,
    unfinished_run_progress,
)

RUNS_FOLDER, RESULTS_FOLDER = "runs", "results"
TRAINING = "training"  # name of the first result of a run
_MACHINES = "machines"
_COSTS_OF_TRAINING = ("flops", "seconds", "tokens")
_SEEDS_PER_STAGE = 1_000_000  # distance of the sample seeds of a run and of the one that it starts from
_EVALUATIONS = 15  # points of a learning curve


@dataclass(frozen=True)
class TrainingMachines:
    """The machines that have trained a run, by `machine_name`."""

    machines: tuple[str, ...]


@dataclass(frozen=True)
class StudyRun:
    """A pre-training run of one arm and seed, with its evaluations.

    Attributes:
        data: text and corpus.
        protocol: how to evaluate.
        arm: name of the arm, for messages.
        values: settings of `albertine pretrain` that the arm sets, as nested tables.
        seed: seed of weights, samples and fine-tuning.
        start: the run whose weights it starts from; None for random weights.
        finetuning: how it is fine-tuned and scored; None for once on each task, scored on dev.
        probe_length: longest held-out sample, with which all arms of a claim are evaluated; None for that of
            the training.
    """

    data: StudyData
    protocol: Protocol
    arm: str
    values: dict[str, Any]
    seed: int
    start: "StudyRun | None" = None
    finetuning: FinetuningPlan | None = None
    probe_length: int | None = None

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"{self.arm}, seed {self.seed}"

    @cached_property
    def settings(self) -> PretrainSettings:
        """Settings of the pre-training run."""
        before = build_settings(PretrainSettings, SettingsSource(self.values, self.name))
        own: dict[str, Any] = {
            "corpus": str(self.data.corpus),
            "objective": {"seed": self.seed + _SEEDS_PER_STAGE * self._stage},
            "train": {
                "seed": self.seed,
                "keep_checkpoints": 1,
                # bf16 or fp32 in place of auto: the hash of the run must tell them apart.
                "precision": precision_name(before.train.precision, choose_device(before.device)),
                "evaluate_every": math.ceil(before.train.steps / _EVALUATIONS),
            },
        }
        if self.start is not None:
            own["init_from"] = str(self.start.model_folder)
        return build_settings(PretrainSettings, SettingsSource(merged(self.values, own), self.name))

    @property
    def _stage(self) -> int:
        """Number of runs in the chain before this one; each stage has other samples."""
        return 0 if self.start is None else self.start._stage + 1

    @cached_property
    def complete_settings(self) -> PretrainSettings:
        """Settings with all defaults filled in; `settings` until the corpus is built, which defaults need."""
        if not self.data.is_built:
            return self.settings
        start_model = None if self.start is None else self.start.complete_settings.model
        return resolved_settings(self.settings, open_corpus(self.data.corpus), start_model)

    @property
    def flops(self) -> float:
        """FLOPs of the pre-training, for full batches."""
        settings = self.complete_settings
        return flops_per_token(settings) * settings.train.steps * settings.train.batch_tokens

    @cached_property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.data.store / RUNS_FOLDER / json_checksum(self._identity)[:16]

    @property
    def model_folder(self) -> Path:
        """Folder of the pre-training run."""
        return self.folder / "model"

    @property
    def _tasks_folder(self) -> Path:
        return self.folder / "tasks"

    @property
    def finetuned_folder(self) -> Path:
        """Folder of the fine-tuned models, until they are scored; runs of several arms may share it."""
        if self.finetuning is None:
            return self._tasks_folder
        parts = [self.finetuning.models_hash, self._finetuning_key, self._examples_key(self.protocol.tasks)]
        return self._tasks_folder / "-".join(filter(None, parts))

    @property
    def _finetuning_key(self) -> str:
        """The settings of the protocol that change the fine-tuned models."""
        return f"{self.protocol.finetune_steps}-{self.protocol.examples}-{self.protocol.dev_examples}"

    @property
    def _identity(self) -> dict[str, Any]:
        start = None if self.start is None else self.start.folder.name
        return run_identity(self.complete_settings, self.data.corpus_checksum, start)

    @property
    def _results(self) -> StoredResults:
        return StoredResults(self.folder / RESULTS_FOLDER)

    @property
    def training_failure(self) -> str | None:
        """Why the training failed; None if it did not, or has not been run."""
        if self.start is not None and self.start.training_failure is not None:
            return f"{self.start.name}, the run that it starts from, has failed"
        training = self._training.result(self._results)
        return None if training is None else training.failure

    def failure(self, measures: Collection[str]) -> str | None:
        """Return why a measure cannot be had: the training or a fine-tuning failed; None if none did."""
        if self.training_failure is not None:
            return self.training_failure
        results = (part.result(self._results) for part in self._parts(measures))
        return next((result.failure for result in results if result and result.failure), None)

    @property
    def is_training_done(self) -> bool:
        """Whether it and the run that it starts from are trained, or one of them has failed."""
        has_start = self.start is None or self.start.is_training_done
        return self.training_failure is not None or (
            has_start and self._training.result(self._results) is not None
        )

    @property
    def _training(self) -> RunPart:
        return RunPart(TRAINING, measures_from("size", "training"), self._train)

    @property
    def _layers(self) -> RunPart:
        return RunPart("layers", measures_from("layers"), self._measure_layers)

    @property
    def _evaluation(self) -> RunPart:
        return RunPart(self._probe_name, measures_from("probe"), self._probe)

    def _parts(self, measures: Collection[str]) -> list[RunPart]:
        """Return the parts that give the measures; the training is the first."""
        sources, parts = {MEASURES[name].source for name in measures}, [self._training]
        if "probe" in sources:
            parts.append(self._evaluation)
        if "layers" in sources:
            parts.append(self._layers)
        return parts + [self._task_part(task) for task in self.tasks(measures)]

    @property
    def _probe_name(self) -> str:
        name, length = f"probe-{self.protocol.probe_tokens}", self.probe_length
        return name if length in (None, self.settings.longest_sample()) else f"{name}-{length}"

    def _task_part(self, task: str) -> RunPart:
        name = f"{task}-{self._finetuning_key}"
        if key := self._examples_key([task]):
            name += f"-{key}"
        if self.finetuning is not None:
            name += f"-{self.finetuning.hash}"
        return RunPart(name, (task,), partial(self._finetune_and_score, task))

    def _examples_key(self, tasks: Sequence[str]) -> str:
        """Return the key of the examples on which the scores of some tasks depend."""
        start = None if self.finetuning is None else self.finetuning.start
        return self.data.examples.key([*tasks, *([start] if start else [])])

    def tasks(self, measures: Collection[str]) -> Sequence[str]:
        """Return the tasks that the measures need."""
        return self.protocol.tasks if any(MEASURES[name].source == "tasks" for name in measures) else ()

    def is_scored(self, task: str) -> bool:
        """Return whether the score of a task is stored."""
        return self._task_part(task).name in self._results

    def task_model_folders(self, task: str) -> list[Path]:
        """Return the folders of the models that are fine-tuned on a task, until it is scored."""
        if self.finetuning is None:
            return [self._tasks_folder / self._task_part(task).name]
        return models_of_task(self.finetuned_folder, task)

    def start_model_folders(self) -> list[Path]:
        """Return the folders of the models that its fine-tuning plan starts from."""
        return [] if self.finetuning is None else models_of_start(self.finetuned_folder)

    def is_finished(self, measures: Collection[str]) -> bool:
        """Return whether the results of all measures are stored, or the training has failed."""
        if self.training_failure is not None:
            return True
        return self.is_training_done and all(part.result(self._results) for part in self._parts(measures))

    def compute(self, measures: Collection[str]) -> None:
        """Train and evaluate what is not stored yet, and store the results; a failure is stored as a result.

        The models of a fine-tuning plan stay, for other arms; see `remove_finetuned_models`.
        """
        if self.is_finished(measures):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.folder / "run.json") as partial_file:
            description = {"arm": self.arm, **self._identity}
            partial_file.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        for part in self._parts(measures):
            if part.name in self._results and part.result(self._results) is None:
                progress.print_message(
                    f"{self.name}: the result {part.name} lacks a number, or is damaged; it is computed again"
                )
                self._results.remove(part.name)
            self._results.get_as(PartResult, part.name, part.compute)
            if part.result(self._results) is None:
                raise WorkError(
                    f"{self.name}: {part.name} lacks a number after it was computed; please report this"
                )
            if self.training_failure is not None:
                break
        # They are large, and the finished model and the scores are kept.
        shutil.rmtree(self.model_folder / CHECKPOINTS_FOLDER, ignore_errors=True)

    def remove_finetuned_models(self) -> None:
        """Remove the models of its fine-tuning plan, once all arms that share them are scored."""
        if self.finetuning is None:
            return
        # Also those of other steps or examples, if it was interrupted; earlier versions named them by `hash`.
        for name in (self.finetuning.models_hash, self.finetuning.hash):
            for folder in self._tasks_folder.glob(f"{name}*"):
                shutil.rmtree(folder, ignore_errors=True)

    def stored_measures(self, measures: Collection[str]) -> dict[str, float]:
        """Return measures by name; none if the training has failed or the run is not finished.

        A task whose fine-tuning has failed has none. The average is that of all tasks. Costs of the training
        include those of the runs it starts from.
        """
        if self.training_failure is not None or not self.is_finished(measures):
            return {}
        values: dict[str, float | None] = {}
        for part in self._parts(measures):
            if (result := part.result(self._results)) is not None:
                values |= result.values
        scores = [score for task in self.protocol.tasks if (score := values.get(task)) is not None]
        if scores and len(scores) == len(self.protocol.tasks):
            values["average"] = fmean(scores)
        for name in _COSTS_OF_TRAINING:
            values[name] = (values.get(name) or 0.0) + self.cost_of_start(name)
        return {name: value for name in measures if (value := values.get(name)) is not None}

    def cost_of_start(self, name: str) -> float:
        """Return "flops", "seconds" or "tokens" of the training of the runs that this one starts from."""
        if self.start is None or (training := self.start._training.result(self.start._results)) is None:
            return 0.0
        return (training.values.get(name) or 0.0) + self.start.cost_of_start(name)

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines that have trained it and the runs that it starts from; none if they are unknown."""
        training = self._training.result(self._results)
        own = () if training is None else training.machines
        if self.start is None:
            return own
        before = self.start.machines
        return tuple(dict.fromkeys((*before, *own))) if before and own else ()

    @property
    def has_fp32_evaluation(self) -> bool | None:
        """Whether it is known to be evaluated on held-out text in fp32; None if it is not evaluated."""
        result = self._evaluation.result(self._results)
        return None if result is None else result.precision == "fp32"

    def layer_curve(self, quantity: str) -> list[float]:
        """Return the "distance" or "angle" of each layer, also of layers beyond the trained depth."""
        result = self._layers.result(self._results)
        values = {} if result is None else result.values
        layers = itertools.takewhile(values.__contains__, (f"{quantity} {n}" for n in itertools.count(1)))
        return [value for name in layers if (value := values[name]) is not None]

    def _train(self) -> PartResult:
        is_resumed = has_checkpoints(self.model_folder)
        if not is_resumed:  # its result was removed, or it just started
            shutil.rmtree(self.model_folder, ignore_errors=True)
        machines = self._record_machine(is_resumed=is_resumed)
        try:
            pretrain(self.model_folder, replace(self.settings, init_from=self._stored_start()))
        except Diverged as error:
            return PartResult(failure=str(error), machines=machines)
        return replace(training_measures(self.model_folder, self.complete_settings), machines=machines)

    def _record_machine(self, *, is_resumed: bool) -> tuple[str, ...]:
        """Add this machine to those that have trained the run; return all, or none if some are unknown."""
        stored, before = StoredResults(self.folder), tuple[str, ...]()
        if is_resumed:
            if (recorded := stored.read_as(TrainingMachines, _MACHINES)) is None:
                return ()  # an earlier version has begun it
            before = recorded.machines
            if unfinished_run_progress(self.model_folder) is None:
                return before  # only its result is missing
        machine = machine_name(choose_device(self.settings.device))
        machines = tuple(dict.fromkeys((*before, machine)))
        with atomic_file(self.folder / f"{_MACHINES}.json") as partial_file:
            partial_file.write_text(json.dumps({"machines": machines}), encoding="utf-8")
        return machines

    def _stored_start(self) -> str | None:
        """Return the model to start from; of a run that resumes, its stored path: a study may have moved."""
        file = self.model_folder / SETTINGS_FILE
        if self.start is None or not file.exists():
            return self.settings.init_from
        stored = read_run_settings(self.model_folder, PretrainSettings)
        return build_settings(PretrainSettings, stored).init_from

    def _probe(self) -> PartResult:
        # Not longer than the samples of the training: later positions have not been trained.
        length = self.probe_length or self.settings.longest_sample()
        return probe_measures(self.model_folder, self.data.corpus, self.protocol.probe_tokens, length)

    def _measure_layers(self) -> PartResult:
        return layer_measures(self.model_folder, self.data.corpus)

    def _finetune_and_score(self, task: str) -> PartResult:
        try:
            result = PartResult({task: self._task_score(task)})
        except Diverged as error:
            result = PartResult(failure=f"fine-tuning on {task}: {error}")
        if self.finetuning is None:
            [out] = self.task_model_folders(task)
            shutil.rmtree(out, ignore_errors=True)  # the score is enough
        return result

    def _task_score(self, task: str) -> float:
        examples, steps = self.data.examples, self.protocol.finetune_steps
        width = self.settings.model.hidden_size
        if self.finetuning is not None:
            runner = PlanRunner(self.finetuning, examples, self.finetuned_folder, steps, self.seed, width)
            return runner.score(self.model_folder, task)
        [out] = self.task_model_folders(task)
        return finetuned_score(self.model_folder, examples, out, task, steps, self.seed, width)
