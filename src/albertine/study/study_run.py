"""One run of a study: pre-training with one seed, and its measurements.

STORE/runs/HASH/run.json          the settings that the hash is computed from
STORE/runs/HASH/model/            the pre-training run, a model
STORE/runs/HASH/tasks/NAME/       the model fine-tuned on a task
STORE/runs/HASH/results/*.json    a part with a result is not computed again

The hash contains all that a result depends on, so claims share the runs that they have in common.
"""

import itertools
import json
import math
import shutil
import tomllib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any

from albertine import progress
from albertine.atomic import atomic_file
from albertine.checksums import json_checksum
from albertine.corpus.corpus import open_corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.errors import Diverged, InputError
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import resolved_settings
from albertine.settings import SettingsSource, build_settings, settings_to_toml
from albertine.stored_results import StoredResults
from albertine.study.claim import merged
from albertine.study.data import StudyData
from albertine.study.measures import MEASURES
from albertine.study.protocol import Protocol
from albertine.study.run_measurements import (
    PartResult,
    flops_per_token,
    layer_measures,
    probe_measures,
    training_measures,
)
from albertine.study.tasks import FinetuningPlan, PlannedTuning, finetuned_score
from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from albertine.train.parallel_runs import last_step
from albertine.train.run_folder import has_checkpoints

RUNS_FOLDER, RESULTS_FOLDER = "runs", "results"
TRAINING = "training"  # name of the first result of a run
# Raise it if the same settings give other results, such as after a change of a measure.
RESULTS_VERSION = 2
_SOURCES_WITH_GAPS = ("probe", "layers")  # sources whose measures may be missing
_LARGEST_NUMBER = 1e100  # a larger one is damage, and its percentage could be infinite
_COSTS_OF_TRAINING = ("flops", "seconds", "tokens")
_SEEDS_PER_STAGE = 1_000_000  # between the sample seeds of a run and of the one it starts from
_EVALUATIONS = 15  # points of a learning curve
# They change where a run computes and what it stores, and no result. Settings of speed count, because speed
# is a result.
_SETTINGS_WITHOUT_EFFECT = (
    "corpus",
    "device",
    "workers",
    "train.save_every",
    "train.save_minutes",
    "train.keep_checkpoints",
    "train.tracker",
)


PartFunction = Callable[[], PartResult]


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
    """

    data: StudyData
    protocol: Protocol
    arm: str
    values: dict[str, Any]
    seed: int
    start: "StudyRun | None" = None
    finetuning: FinetuningPlan | None = None

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"{self.arm}, seed {self.seed}"

    @property
    def settings(self) -> PretrainSettings:
        """Settings of the pre-training run."""
        before = build_settings(PretrainSettings, SettingsSource(self.values, self.name))
        own: dict[str, Any] = {
            "corpus": str(self.data.corpus),
            "objective": {"seed": self.seed + _SEEDS_PER_STAGE * self._stage},
            "train": {
                "seed": self.seed,
                "keep_checkpoints": 1,
                "evaluate_every": math.ceil(before.train.steps / _EVALUATIONS),
            },
        }
        if self.start is not None:
            own["init_from"] = str(self.start.model)
        return build_settings(PretrainSettings, SettingsSource(merged(self.values, own), self.name))

    @property
    def _stage(self) -> int:
        """How many runs it starts from, one after the other; each has other samples."""
        return 0 if self.start is None else self.start._stage + 1

    @cached_property
    def _resolved_settings(self) -> PretrainSettings:
        """Settings with every value that the run uses, as far as the corpus is built."""
        if not self.data.is_built:
            return self.settings
        start_model = None if self.start is None else self.start._resolved_settings.model
        return resolved_settings(self.settings, open_corpus(self.data.corpus), start_model)

    @property
    def flops(self) -> float:
        """FLOPs of the pre-training, for full batches."""
        settings = self._resolved_settings
        return flops_per_token(settings) * settings.train.steps * settings.train.batch_tokens

    @cached_property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.data.store / RUNS_FOLDER / json_checksum(self._identity)[:16]

    @property
    def model(self) -> Path:
        """Folder of the pre-training run."""
        return self.folder / "model"

    @property
    def _tasks_folder(self) -> Path:
        return self.folder / "tasks"

    @property
    def _identity(self) -> dict[str, Any]:
        """All that the results depend on, with every setting as the run resolves it."""
        values = tomllib.loads(settings_to_toml(self._resolved_settings))
        tables = {
            key: dict(value) if isinstance(value, dict) else {"": value} for key, value in values.items()
        }
        for name in _SETTINGS_WITHOUT_EFFECT:
            table, _, key = name.rpartition(".")
            tables.get(table or key, {}).pop(key if table else "", None)
        if self.start is not None:
            tables["init_from"] = {"": self.start.folder.name}
        return {"version": RESULTS_VERSION, "corpus": self.data.corpus_checksum, "settings": tables}

    @property
    def _results(self) -> StoredResults:
        return StoredResults(self.folder / RESULTS_FOLDER)

    @property
    def failure(self) -> str | None:
        """Why the run failed; None if it did not, or has not been run."""
        if self.start is not None and self.start.failure is not None:
            return f"{self.start.name}, where it starts, has failed"
        training = self._stored(TRAINING)
        return None if training is None else training.failure

    @property
    def is_trained(self) -> bool:
        """Whether the training is finished or has failed, also that of the run it starts from."""
        has_start = self.start is None or self.start.is_trained
        return self.failure is not None or (has_start and self._stored(TRAINING) is not None)

    def _stored(self, name: str) -> PartResult | None:
        """Return the result of a part; None if it is not finished, or if the file lacks a sensible number."""
        if name not in self._results:
            return None
        part = self._results.get_as(PartResult, name, PartResult)
        has_measures = all(
            one in part.values
            and (part.values[one] is not None or MEASURES[one].source in _SOURCES_WITH_GAPS)
            for one in self._measures_of_part(name)
        )
        is_sensible = all(abs(value or 0.0) <= _LARGEST_NUMBER for value in part.values.values())
        return part if part.failure is not None or (has_measures and is_sensible) else None

    def _measures_of_part(self, name: str) -> list[str]:
        """Return the measures that a part gives."""
        tasks = [task for task in self.protocol.tasks if self._task_part(task) == name]
        source = name.partition("-")[0]
        sources = ("size", "training") if source == TRAINING else (source,)
        return tasks or [one for one, measure in MEASURES.items() if measure.source in sources]

    def _parts(self, measures: Collection[str]) -> dict[str, PartFunction]:
        """Return the parts that the measures need, by name, with the functions that compute them."""
        parts: dict[str, PartFunction] = {TRAINING: self._train}
        sources = {MEASURES[name].source for name in measures}
        if "probe" in sources:
            parts[f"probe-{self.protocol.probe_tokens}"] = self._probe
        if "layers" in sources:
            parts["layers"] = self._measure_layers
        for task in self._tasks(measures):
            parts[self._task_part(task)] = partial(self._finetune, task)
        return parts

    def _tasks(self, measures: Collection[str]) -> Sequence[str]:
        """Return the tasks that the measures need."""
        return self.protocol.tasks if any(MEASURES[name].source == "tasks" for name in measures) else ()

    def _task_part(self, task: str) -> str:
        protocol = self.protocol
        name = f"{task}-{protocol.finetune_steps}-{protocol.examples}-{protocol.dev_examples}"
        return name if self.finetuning is None else f"{name}-{self._plan_hash}"

    @property
    def _plan_hash(self) -> str:
        assert self.finetuning is not None
        return self.finetuning.hash

    def is_finished(self, measures: Collection[str]) -> bool:
        """Return whether all measures are stored, or the run has failed."""
        if self.failure is not None:
            return True
        return self.is_trained and all(self._stored(name) is not None for name in self._parts(measures))

    def planned_steps(self, measures: Collection[str]) -> int:
        """Return the steps of its pre-training and fine-tuning."""
        tasks = self._tasks(measures)
        trainings = len(tasks) if self.finetuning is None else self.finetuning.trainings(tasks)
        return self.settings.train.steps + self.protocol.finetune_steps * trainings

    def steps_done(self, measures: Collection[str]) -> int:
        """Return how many of these steps are done."""
        planned, tasks = self.planned_steps(measures), self._tasks(measures)
        stored = [task for task in tasks if self._task_part(task) in self._results]
        if tasks and len(stored) == len(tasks):
            return planned
        steps, plan = last_step(self.model), self.finetuning
        if plan is not None and plan.start is not None:
            steps += self._last_steps("start-*")
        for task in tasks:
            if task in stored:  # its models may be removed then
                steps += self.protocol.finetune_steps * (1 if plan is None else len(plan.rates) * plan.runs)
            else:
                steps += self._last_steps(self._task_part(task) if plan is None else f"{task}-*")
        return min(steps, planned)

    def remaining_finetuning_steps(self, measures: Collection[str]) -> int:
        """Return how many steps of fine-tuning are not done."""
        done = max(self.steps_done(measures), self.settings.train.steps)
        return self.planned_steps(measures) - done

    def _last_steps(self, pattern: str) -> int:
        """Return the steps of the models of its fine-tuning whose folders match a pattern."""
        folder = self._tasks_folder if self.finetuning is None else self._tasks_folder / self._plan_hash
        return sum(map(last_step, folder.glob(pattern)))

    def check_epochs(self) -> None:
        """Raise `InputError` if the arm tests repeated samples and trains too few epochs for it."""
        objective = self._resolved_settings.objective
        if objective.text_fraction == 1 and objective.distinct_epochs is None:
            return
        try:
            samples = len(PretrainDataset(open_corpus(self.data.corpus), objective))
        except InputError as error:
            raise InputError(f"arm {self.arm}: {error}") from None
        train, distinct = self.settings.train, objective.distinct_epochs or 1
        epochs = train.steps * train.batch_tokens / (samples * objective.max_length)
        if epochs < 2 * distinct:
            raise InputError(
                f"arm {self.arm}: train.steps gives {epochs:.1f} epochs of its part of the text, expected at "
                f"least {2 * distinct}, so that samples repeat; give less text, or more steps"
            )

    def compute(self, measures: Collection[str]) -> None:
        """Train and evaluate what is not stored yet. A failed run is a result."""
        if self.is_finished(measures):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(self.folder / "run.json") as partial_file:
            description = {"arm": self.arm, **self._identity}
            partial_file.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        for name, compute in self._parts(measures).items():
            if name in self._results and self._stored(name) is None:
                progress.print_message(
                    f"{self.name}: the result {name} lacks a number, or is damaged; it is computed again"
                )
                self._results.remove(name)
            if self._results.get_as(PartResult, name, compute).failure is not None:
                break
        # They are large, and the finished model and the scores are kept.
        shutil.rmtree(self.model / CHECKPOINTS_FOLDER, ignore_errors=True)
        if self.finetuning is not None:
            shutil.rmtree(self._tasks_folder / self._plan_hash, ignore_errors=True)

    def measured(self, measures: Collection[str]) -> dict[str, float]:
        """Return the stored measures, by name; a run that has failed has none."""
        if self.failure is not None or not self.is_finished(measures):
            return {}
        values: dict[str, float | None] = {}
        for name in self._parts(measures):
            if (part := self._stored(name)) is not None:
                values |= part.values
        scores = [score for task in self.protocol.tasks if (score := values.get(task)) is not None]
        if scores and len(scores) == len(self.protocol.tasks):
            values["average"] = fmean(scores)
        for name in _COSTS_OF_TRAINING:
            values[name] = (values.get(name) or 0.0) + self.cost_of_start(name)
        return {name: value for name in measures if (value := values.get(name)) is not None}

    def cost_of_start(self, name: str) -> float:
        """Return "flops", "seconds" or "tokens" of the training of the runs that this one starts from."""
        training = None if self.start is None else self.start._stored(TRAINING)
        if self.start is None or training is None:
            return 0.0
        return (training.values.get(name) or 0.0) + self.start.cost_of_start(name)

    def layer_curve(self, quantity: str) -> list[float]:
        """Return the "distance" or "angle" of each layer, also of those beyond the trained ones."""
        part = self._stored("layers")
        values = {} if part is None else part.values
        layers = itertools.takewhile(values.__contains__, (f"{quantity} {n}" for n in itertools.count(1)))
        return [value for name in layers if (value := values[name]) is not None]

    def _train(self) -> PartResult:
        if not has_checkpoints(self.model):  # a finished run whose result was removed, or one just started
            shutil.rmtree(self.model, ignore_errors=True)
        try:
            pretrain(self.model, self.settings)
        except Diverged as error:
            return PartResult(failure=str(error))
        return training_measures(self.model, self._resolved_settings)

    def _probe(self) -> PartResult:
        # Samples as long as those of the training: later positions have not been trained.
        length = self.settings.longest_sample()
        return probe_measures(self.model, self.data.corpus, self.protocol.probe_tokens, length)

    def _measure_layers(self) -> PartResult:
        return layer_measures(self.model, self.data.corpus)

    def _finetune(self, task: str) -> PartResult:
        world, steps = self.data.world, self.protocol.finetune_steps
        if self.finetuning is not None:
            worlds, out = (world, self.data.test_world), self._tasks_folder / self._plan_hash
            tuning = PlannedTuning(self.finetuning, worlds, out, steps, self.seed)
            return PartResult({task: tuning.score(self.model, task)})
        out = self._tasks_folder / self._task_part(task)
        score = finetuned_score(self.model, world, out, task, steps, self.seed)
        shutil.rmtree(out, ignore_errors=True)  # the score is enough
        return PartResult({task: score})
