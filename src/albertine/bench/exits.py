"""Benchmark of exits: what a fine-tuned model scores with less depth, and what that saves.

For each seed, a checkpoint is fine-tuned with exits and without, and in shallower copies without exits.
All of them are measured on dev, so many examples at a time, with every exit rule. Beside it, classifiers
run the same rules in padded batches. Results are stored, and an interrupted benchmark resumes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

from albertine import progress
from albertine.atomic import atomic_file, is_unused
from albertine.bench.padded_exits import padded_exits
from albertine.bench.settings import ExitBenchSettings
from albertine.engines.torch_engine import TorchEngine
from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.finetune.finetune import finetune
from albertine.finetune.prepare import prepare_task
from albertine.finetune.settings import FinetuneSettings
from albertine.inference.exit_curve import exit_rules
from albertine.inference.exit_points import FULL_DEPTH, ExitPoint, measure_points
from albertine.inference.finetuned_model import FinetunedModel, load_finetuned
from albertine.interop.hub import locate_checkpoint
from albertine.interop.huggingface import save_folder
from albertine.interop.load import load
from albertine.model.heads import ClassificationHead
from albertine.model.model import Model
from albertine.model.strip_states import check_can_exit
from albertine.paired_statistics import PairedDifference, half_width, paired_difference
from albertine.settings import build_settings, read_settings_file, settings_to_toml
from albertine.settings.engine import EngineOptions
from albertine.settings.exit_rule import ExitRule
from albertine.stored_results import StoredResults
from albertine.tasks.examples import Example
from albertine.tasks.metrics.intervals import Estimate
from albertine.tasks.sequences import strip_from_samples
from albertine.text.tokenizer import load_tokenizer

WITH_EXITS, WITHOUT_EXITS = "exits", "no-exits"
NEVER = "nothing exits"
_SETTINGS_FILE, _LOCK_FILE = "bench.toml", "bench.lock"


@dataclass(frozen=True)
class ExitBenchPoint:
    """A setting of the model with exits, as means over the seeds.

    Attributes:
        setting: options of the setting, "full depth", or "nothing exits" for a rule that is never true.
        score: primary metric of the task.
        difference: difference of the score from that of full depth.
        mean_depth: number of steps of depth.
        flops: FLOPs relative to full depth, with the interval over the seeds; over the examples, if there
            is one seed.
        time: time relative to full depth, with such an interval.
        padded_time: time in padded batches, relative to full depth in a strip; None if not measured.
    """

    setting: str
    score: float
    difference: PairedDifference
    mean_depth: float
    flops: Estimate
    time: Estimate
    padded_time: float | None


@dataclass(frozen=True)
class ExitBench:
    """The result of the benchmark.

    Attributes:
        task: name of the task.
        num_examples: number of examples of dev; the largest, if it differs between the seeds.
        examples_at_a_time: number of examples that were scored at a time.
        layers: number of layers of the checkpoint.
        recommended: the setting with the fewest FLOPs whose mean score is within the tolerance.
        points: settings of the model with exits.
        score_by_depth: for each depth, the mean score with exits, without exits, and of a model of so many
            layers; None where it was not measured.
        without_exits: difference of the score at full depth, trained with exits, from that without.
    """

    task: str
    num_examples: int
    examples_at_a_time: int
    layers: int
    recommended: str
    points: tuple[ExitBenchPoint, ...]
    score_by_depth: Mapping[int, tuple[float | None, float | None, float | None]]
    without_exits: PairedDifference


def measure_exit_bench(source: str, out: Path, settings: ExitBenchSettings) -> ExitBench:
    """Run the benchmark, or what is left of it, and return its result.

    Args:
        source: the pre-trained model.
        out: folder for the runs and results.
        settings: settings of the runs and of the measurements.
    """
    model = load(source)
    check_can_exit(model.settings)
    if model.settings.layers < 2:
        raise InputError(f"{source}: has one layer, and no earlier step to exit at")
    prepare_task(source, settings)  # reports what is missing before there is a folder
    settings = replace(settings, init_from=source)
    _prepare_folder(out, settings)
    with file_lock(
        out / _LOCK_FILE, f"{out}: in use by another benchmark; wait for it, or give another --out"
    ):
        bench = _Bench(source, model, out, settings)
        seeds = [settings.train.seed + number for number in range(settings.seeds)]
        return bench.result([bench.measured_seed(seed) for seed in seeds])


def _prepare_folder(out: Path, settings: ExitBenchSettings) -> None:
    """Create the folder, or check that it is that of a benchmark with the same settings."""
    file = out / _SETTINGS_FILE
    if not file.exists() and not is_unused(out):
        raise InputError(f"{out}: exists and is not a benchmark; give another --out or remove it")
    if file.exists() and build_settings(ExitBenchSettings, read_settings_file(file)) != settings:
        raise InputError(f"{out}: a benchmark with other settings ({file}); use the same, or another --out")
    out.mkdir(parents=True, exist_ok=True)
    with atomic_file(file) as partial:
        partial.write_text(settings_to_toml(settings), encoding="utf-8")


@dataclass(frozen=True)
class _RunResult:
    """What is stored of one run: seconds of padded batches are by the name of the setting."""

    task: str
    num_examples: int
    points: tuple[ExitPoint, ...]
    padded_seconds: dict[str, float]


_SeedResult = Mapping[str, _RunResult]  # by the kind of run


class _Bench:
    """The runs and measurements of a benchmark."""

    def __init__(self, source: str, model: Model, out: Path, settings: ExitBenchSettings):
        self._source, self._model, self._out, self._settings = source, model, out, settings
        self._results = StoredResults(out / "results")

    def measured_seed(self, seed: int) -> _SeedResult:
        """Run and measure all kinds with one seed; what has a result is not run again."""
        layers = self._model.settings.layers
        can_be_shallower = self._model.settings.shares_all_layers
        shallow = sorted({max(1, round(layers * share)) for share in (0.25, 0.5, 0.75)} - {layers})
        kinds = [WITH_EXITS, WITHOUT_EXITS, *(map(str, shallow) if can_be_shallower else ())]
        return {
            kind: self._results.get_as(_RunResult, f"{kind}-{seed}", partial(self._measure, kind, seed))
            for kind in kinds
        }

    def _measure(self, kind: str, seed: int) -> _RunResult:
        """Fine-tune one model, and measure it."""
        settings = self._run_settings(kind, seed)
        progress.print_message(f"fine-tuning {kind}, seed {seed}")
        start = self._source if not kind.isdigit() else str(self._shallow_copy(int(kind)))
        run = self._out / "runs" / f"{kind}-{seed}"
        finetune(start, run, replace(settings, init_from=None))
        model = load_finetuned(run, EngineOptions(settings.device))
        examples = [example for example, _ in prepare_task(start, replace(settings, init_from=None)).dev]
        rules = {} if kind.isdigit() else dict(exit_rules(model))
        if kind == WITH_EXITS and not model.task_type.predicts_numbers:
            rules[NEVER] = ExitRule(patience=model.engine.model_settings.layers)
        points = measure_points(model, examples, rules, self._settings.examples_at_a_time)
        padded = self._padded_seconds(model, examples, rules) if kind == WITH_EXITS else {}
        return _RunResult(model.card.task, len(examples), tuple(points), padded)

    def _run_settings(self, kind: str, seed: int) -> FinetuneSettings:
        values = {field.name: getattr(self._settings, field.name) for field in fields(FinetuneSettings)}
        train = replace(self._settings.train, seed=seed, exits=kind == WITH_EXITS)
        settings = FinetuneSettings(**{**values, "seeds": 1, "train": train})
        settings.record_explicit_keys(self._settings.explicit_keys - {"seeds"})
        return settings

    def _shallow_copy(self, layers: int) -> Path:
        """Return the folder of a copy of the checkpoint with fewer layers."""
        folder = self._out / f"start-{layers}"
        if not folder.exists():
            head = replace(self._model.head_settings, exits="none", learned_exit=False)
            copy = Model(replace(self._model.settings, layers=layers), head, seed=None)
            weights = self._model.state_dict()
            copy.load_state_dict({name: weights[name] for name in copy.state_dict()})
            save_folder(copy, folder, tokenizer=load_tokenizer(locate_checkpoint(self._source)))
        return folder

    def _padded_seconds(
        self, model: FinetunedModel, examples: Sequence[Example], rules: Mapping[str, ExitRule]
    ) -> dict[str, float]:
        """Return the time of full depth and of each rule in padded batches; empty if not a classifier."""
        engine = model.engine
        if not isinstance(engine, TorchEngine) or type(engine.model.head) is not ClassificationHead:
            return {}
        encoded = model.create_scorer().encode(examples)
        size = self._settings.examples_at_a_time
        strips = [
            strip_from_samples([one.samples[0] for one in encoded[first : first + size]])
            for first in range(0, len(encoded), size)
        ]
        padded_exits(engine, strips, None)  # the first pass is slower
        chosen = {name: rule for name, rule in rules.items() if rule.patience or rule.confidence}
        settings: dict[str, ExitRule | None] = {FULL_DEPTH: None, **chosen}
        return {name: padded_exits(engine, strips, rule)[0] for name, rule in settings.items()}

    def result(self, seeds: Sequence[_SeedResult]) -> ExitBench:
        """Return the means over the seeds."""
        points = tuple(_mean_point(index, seeds) for index in range(len(seeds[0][WITH_EXITS].points)))
        within = [point for point in points if point.difference.mean >= -self._settings.tolerance / 100]
        layers = self._model.settings.layers
        full_scores = [
            [seed[kind].points[0].score.value for seed in seeds] for kind in (WITH_EXITS, WITHOUT_EXITS)
        ]
        return ExitBench(
            seeds[0][WITH_EXITS].task,
            max(seed[WITH_EXITS].num_examples for seed in seeds),
            self._settings.examples_at_a_time,
            layers,
            min(within, key=lambda point: point.flops.value).setting,
            points,
            {depth: _scores_at(depth, layers, seeds) for depth in range(1, layers + 1)},
            paired_difference(*full_scores),
        )


def _mean_point(index: int, seeds: Sequence[_SeedResult]) -> ExitBenchPoint:
    """Return the means over the seeds of one setting, by its place among those of the run with exits."""
    points, full = ([seed[WITH_EXITS].points[place] for seed in seeds] for place in (index, 0))
    name, scores = points[0].setting, [point.score.value for point in points]
    padded = [
        seed[WITH_EXITS].padded_seconds[name] / whole.seconds
        for seed, whole in zip(seeds, full, strict=True)
        if name in seed[WITH_EXITS].padded_seconds
    ]
    return ExitBenchPoint(
        name,
        fmean(scores),
        paired_difference(scores, [whole.score.value for whole in full]),
        fmean(point.mean_depth for point in points),
        _over_seeds([point.flops for point in points]),
        _over_seeds([point.time for point in points]),
        fmean(padded) if padded else None,
    )


def _over_seeds(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean over the seeds with its interval; that of the examples, if there is one seed."""
    if len(estimates) == 1:
        return estimates[0]
    values = [estimate.value for estimate in estimates]
    mean, half = fmean(values), half_width(stdev(values), len(values))
    return Estimate(mean, mean - half, mean + half)


def _scores_at(
    depth: int, layers: int, seeds: Sequence[_SeedResult]
) -> tuple[float | None, float | None, float | None]:
    """Return the mean scores at a depth: with exits, without exits, and of a model of so many layers."""

    def mean(kind: str, setting: str) -> float | None:
        points = [point for seed in seeds if kind in seed for point in seed[kind].points]
        scores = [point.score.value for point in points if point.setting == setting]
        return fmean(scores) if scores else None

    setting = FULL_DEPTH if depth == layers else f"--depth {depth}"
    separate = mean(WITHOUT_EXITS, FULL_DEPTH) if depth == layers else mean(str(depth), FULL_DEPTH)
    return mean(WITH_EXITS, setting), mean(WITHOUT_EXITS, setting), separate
