"""The tasks on which studies fine-tune, and how."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from albertine import progress
from albertine.checksums import json_checksum
from albertine.errors import Diverged, InputError
from albertine.finetune.finetune import finetune
from albertine.finetune.paper_defaults import default_optimizer, scaled_learning_rate, task_defaults
from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.finetune.two_texts import check_head
from albertine.inference.ensemble import evaluate_ensemble
from albertine.inference.evaluate import evaluate
from albertine.inference.settings import EnsembleSettings, EvaluateSettings
from albertine.settings import SettingsSource, build_settings
from albertine.study.task_examples import ExampleSettings, TaskExamples
from albertine.tasks.registry import find_task, primary_metric
from albertine.train.settings import OptimizerName

# A plan may not set them: the study does, or they would make arms incomparable.
_FORBIDDEN_SETTINGS = {
    "task", "data", "dev", "held_out", "init_from", "seeds", "device", "train.seed", "train.steps",
    "train.evaluate_every",
}  # fmt: skip
_START_PREFIX = "start-"
_NO_EXAMPLES = ExampleSettings(
    {"data": "."}, EnsembleSettings(), EvaluateSettings()
)  # to check settings without any
_SEEDS_PER_RUN = 1_000  # keeps the seeds of the models of one run apart from those of the next


@dataclass(frozen=True)
class StudyTask:
    """A task, of the little world or real.

    Attributes:
        world_name: its name in `albertine world write --tasks`; None if the little world lacks it.
        batch_size: examples of a step on the little world.
        lr: peak learning rate on the little world.
        optimizer: name of the optimizer on the little world.
        on_demand: whether a world contains it only for claims that name it.
    """

    world_name: str | None
    batch_size: int = 16
    lr: float = 1e-3
    optimizer: OptimizerName = "muon"
    on_demand: bool = False


# Rates that suit models 128 wide. Stored scores are not addressed by these values: a change must raise
# `RESULTS_VERSION`, so that old and new scores are never compared.
STUDY_TASKS: Mapping[str, StudyTask] = {
    **{name: StudyTask(name) for name in ("mnli", "sst-2", "rte", "sts-b", "mrpc", "cola", "qqp", "qnli")},
    "squad-1.1": StudyTask("squad", 24, 2e-3),
    "race": StudyTask("race", on_demand=True),
    "dream": StudyTask(None, on_demand=True),
}


@dataclass(frozen=True)
class FinetuningPlan:
    """How an arm is fine-tuned on each task. Rates and ensembles are chosen on other examples than scored.

    Attributes:
        start: task whose fine-tuned model all other tasks start from; None for the pre-trained model.
        runs: models that are fine-tuned on each task, with different seeds; the score is their median.
        ensemble: whether to score, instead, an ensemble of these models, its members chosen on the
            examples for choices.
        settings: settings of `albertine finetune` for all these runs.
        rates: factors by which the task's learning rate is multiplied; the models of the best one on the
            examples for choices are scored.
    """

    start: str | None = None
    runs: int = 1
    ensemble: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    rates: tuple[float, ...] = (1.0,)

    @property
    def hash(self) -> str:
        """Hash of its values, for the names of results."""
        values = asdict(self)
        # Plans of earlier versions have neither; their results stay valid.
        if not self.settings:
            del values["settings"]
        values["rates"] = [float(rate) for rate in self.rates]
        if values["rates"] == [1.0]:
            del values["rates"]
        return json_checksum(values)[:8]

    @property
    def models_hash(self) -> str:
        """Hash of what its models depend on: an ensemble and a single model can be of the same ones."""
        return replace(self, ensemble=False).hash

    def trainings(self, tasks: Sequence[str]) -> int:
        """Return how many times a pre-trained model is fine-tuned for the scores of some tasks."""
        starts = any(task != self.start for task in tasks) if self.start is not None else False
        return len(self.rates) * (self.runs * len(tasks) + starts)

    def check(self, tasks: Sequence[str], name: str) -> None:
        """Raise `InputError` if a setting is invalid for a task, or may not be set.

        Args:
            tasks: tasks of the claim.
            name: name of the plan, for messages.
        """
        if forbidden := _FORBIDDEN_SETTINGS & SettingsSource(self.settings).keys:
            raise InputError(f"{name}.settings: {min(forbidden)}: fixed by the study; remove it")
        if self.start is not None and tasks and STUDY_TASKS[self.start].on_demand and self.start not in tasks:
            raise InputError(f"{name}: start = {self.start}: not in the world of this claim; add it to tasks")
        for task in (*tasks, *([self.start] if self.start and tasks else [])):
            for rate in self.rates:
                settings = _settings(task, _NO_EXAMPLES, 1, 0, 1, self.settings, f"{name}.settings", rate)
                check_head(find_task(task), settings)


def finetuned_score(
    model: Path, examples: TaskExamples, out: Path, name: str, steps: int, seed: int, width: int
) -> float:
    """Fine-tune a model of some width on a task; return the score of the last step on dev."""
    settings = _settings(name, examples.settings(name, with_choice=False), steps, seed, width)
    return primary_metric(name, finetune(model, out, settings).median_metrics)


@dataclass(frozen=True)
class PlanRunner:
    """Fine-tunes a model by a plan, and scores it.

    Attributes:
        plan: the plan.
        examples: the examples of the tasks.
        out: folder of the fine-tuned models; models that it already holds are used, or resumed.
        steps: steps of each run.
        seed: seed of the run of the study.
        width: width of the models.
    """

    plan: FinetuningPlan
    examples: TaskExamples
    out: Path
    steps: int
    seed: int
    width: int

    def score(self, model: Path, name: str) -> float:
        """Return the score of a pre-trained model on a task."""
        data = self.examples.settings(name, with_choice=True)
        if self.plan.start is not None and self.plan.start != name:
            [model] = self._finetune_at_best_rate(model, self.plan.start, _START_PREFIX, runs=1)
        tuned = self._finetune_at_best_rate(model, name, "", runs=self.plan.runs)
        if self.plan.ensemble:
            ensemble = self.out / f"{name}-ensemble"
            if not ensemble.exists():
                evaluate_ensemble(tuned, data.choice, save=ensemble)
            tuned = [ensemble]
        results = [evaluate(one, data.score)[0] for one in tuned]
        return median(primary_metric(name, result.metrics) for result in results)

    def _finetune_at_best_rate(self, model: Path, name: str, prefix: str, runs: int) -> list[Path]:
        """Return models that are fine-tuned on a task, at the rate whose median score is the best.

        Raises `Diverged` if the runs of every rate do.
        """
        best: tuple[float, list[Path]] | None = None
        diverged: Diverged | None = None
        for rate in map(float, self.plan.rates):
            folders = [self.out / f"{prefix}{name}-{rate}-{number}" for number in range(runs)]
            try:
                score = median(
                    self._finetune_once(model, name, folder, number, rate)
                    for number, folder in enumerate(folders)
                )
            except Diverged as error:
                progress.print_message(f"{name}, {rate:g} times the learning rate: {error}")
                diverged = error
                continue
            if best is None or score > best[0]:
                best = score, folders
        if best is None:
            assert diverged is not None
            raise diverged
        return best[1]

    def _finetune_once(self, model: Path, name: str, folder: Path, number: int, rate: float) -> float:
        """Fine-tune a model on a task; return its score on the examples for choices."""
        seed = _SEEDS_PER_RUN * self.seed + number
        examples = self.examples.settings(name, with_choice=True)
        settings = _settings(name, examples, self.steps, seed, self.width, self.plan.settings, rate=rate)
        return primary_metric(name, finetune(model, folder, settings).median_metrics)


def models_of_task(out: Path, name: str) -> list[Path]:
    """Return the folders of a plan's models of a task, below its `out`."""
    return sorted(out.glob(f"{name}-*"))


def models_of_start(out: Path) -> list[Path]:
    """Return the folders of the models that a plan's other models start from, below its `out`."""
    return sorted(out.glob(f"{_START_PREFIX}*"))


def _settings(
    name: str,
    examples: ExampleSettings,
    steps: int,
    seed: int,
    width: int,
    changes: Mapping[str, Any] = MappingProxyType({}),
    source: str = "finetuning",
    rate: float = 1.0,
) -> FinetuneSettings:
    """Return the settings of a run; changes may replace those of the task, whose rate is then multiplied."""
    task = STUDY_TASKS[name]
    train: dict[str, Any] = {"steps": steps, "seed": seed, "evaluate_every": steps}
    if examples.max_examples is not None:
        batch_size = task_defaults(name).scaled_batch_size(examples.max_examples)
        train |= {"batch_size": batch_size, "optimizer": default_optimizer(width)}
    else:
        train |= {"batch_size": task.batch_size, "lr": task.lr, "optimizer": task.optimizer}
    # Arms are fine-tuned in the same way, unless their plans differ.
    values = {"task": name, **examples.training, "mark_matches": False, "train": train}
    sources = SettingsSource(values, source), SettingsSource(changes, source)
    settings = build_settings(FinetuneSettings, *sources)
    usual = settings.train.lr
    lr = rate * (_usual_rate(name, width, settings.train) if usual is None else usual)
    if lr == settings.train.lr:
        return settings
    return build_settings(FinetuneSettings, *sources, SettingsSource({"train": {"lr": lr}}, source))


def _usual_rate(name: str, width: int, train: FinetuneTrainSettings) -> float:
    """Return the learning rate of `albertine finetune` for a batch size and an optimizer."""
    assert train.batch_size is not None
    assert train.optimizer is not None
    return scaled_learning_rate(task_defaults(name), width, train.batch_size, train.optimizer)
