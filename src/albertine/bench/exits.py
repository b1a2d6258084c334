"""Benchmark of exits: what a fine-tuned model scores with less depth, and what that saves.

For each seed, a checkpoint is fine-tuned with exits and without and, if its layers share their weights,
with fewer layers, without exits. All models are measured on dev, the one with exits with every rule.
Classifiers also run rules of patience and confidence in padded batches. Results are stored, and an
interrupted benchmark resumes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

from albertine import progress
from albertine.atomic import atomic_file, is_unused
from albertine.bench.padded_exits import time_padded_exits
from albertine.bench.settings import ExitBenchSettings
from albertine.checksums import weights_checksum
from albertine.engines.torch_engine import TorchEngine
from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.finetune.finetune import finetune
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import prepare_task
from albertine.finetune.settings import FinetuneSettings
from albertine.inference.exit_curve import exit_rules, lowest_difference
from albertine.inference.exit_points import FULL_DEPTH, ExitPoint, measure_points
from albertine.inference.finetuned_model import FinetunedModel, load_finetuned
from albertine.interop.hub import locate_checkpoint
from albertine.interop.huggingface import save_folder
from albertine.interop.load import load
from albertine.model.heads import ClassificationHead
from albertine.model.model import Model
from albertine.model.strip_states import check_can_exit
from albertine.paired_statistics import PairedDifference, half_width, paired_difference
from albertine.settings import SettingsSource, build_settings, read_settings_file, settings_to_toml
from albertine.settings.engine import EngineOptions
from albertine.settings.exit_rule import ExitRule
from albertine.stored_results import StoredResults
from albertine.tasks.examples import Example
from albertine.tasks.metrics.intervals import Estimate
from albertine.tasks.sequences import strip_from_samples
from albertine.text.tokenizer import load_tokenizer

NEVER = "nothing exits"
_SETTINGS_FILE, _LOCK_FILE = "bench.toml", "bench.lock"


@dataclass(frozen=True)
class ExitBenchPoint:
    """A setting of the model with exits, as means over the seeds.

    Attributes:
        setting: options of the setting, "full depth", or "nothing exits" for a rule that is never true.
        score: primary metric of the task.
        difference: the score minus that of full depth.
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
class DepthScores:
    """Mean scores at one depth; None where it was not measured.

    Attributes:
        with_exits: of the model trained with exits.
        without_exits: of the model trained without.
        trained_at_depth: of a model with as many layers, trained without exits.
    """

    with_exits: float | None
    without_exits: float | None
    trained_at_depth: float | None


@dataclass(frozen=True)
class ExitBenchResult:
    """What the benchmark has measured, over all seeds.

    Attributes:
        task: name of the task.
        num_seeds: number of seeds.
        num_examples: number of examples of dev; the largest, if it differs between the seeds.
        examples_at_a_time: number of examples that were scored at a time.
        layers: number of layers of the checkpoint.
        recommended: the setting with the fewest FLOPs whose mean score is within the tolerance.
        points: settings of the model with exits.
        score_by_depth: mean scores at each depth.
        full_depth_gain: score at full depth with exits minus that without.
    """

    task: str
    num_seeds: int
    num_examples: int
    examples_at_a_time: int
    layers: int
    recommended: str
    points: tuple[ExitBenchPoint, ...]
    score_by_depth: Mapping[int, DepthScores]
    full_depth_gain: PairedDifference


def measure_exit_bench(source: str, out: Path, settings: ExitBenchSettings) -> ExitBenchResult:
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
    settings = _with_defaults(source, settings)
    _prepare_folder(out, settings)
    with file_lock(
        out / _LOCK_FILE, f"{out}: in use by another benchmark; wait for it, or give another --out"
    ):
        benchmark = _ExitBenchmark(source, model, out, settings)
        seeds = [settings.train.seed + number for number in range(settings.seeds)]
        return benchmark.result([benchmark.results_of_seed(seed) for seed in seeds])


def _with_defaults(source: str, settings: ExitBenchSettings) -> ExitBenchSettings:
    """Return the settings with all defaults filled in, so that a later version with others refuses them.

    Raises `InputError` for what is missing, before there is a folder.
    """
    data = prepare_task(source, settings)
    return with_task_defaults(
        replace(settings, init_from=source),
        data.task.name,
        data.model_settings,
        data.num_samples,
        data.card.max_length,
    )


def _prepare_folder(out: Path, settings: ExitBenchSettings) -> None:
    """Create the folder, or check that it is that of a benchmark with the same settings.

    The number of seeds may differ: those that are stored are not run again.
    """
    file = out / _SETTINGS_FILE
    if not file.exists() and not is_unused(out):
        raise InputError(f"{out}: exists and is not a benchmark; give another --out or remove it")
    earlier = SettingsSource(settings.earlier_values)
    if file.exists():
        stored = build_settings(ExitBenchSettings, earlier, read_settings_file(file))
        if replace(stored, seeds=settings.seeds) != settings:
            raise InputError(
                f"{out}: a benchmark with other settings ({file}); use the same, or another --out"
            )
    out.mkdir(parents=True, exist_ok=True)
    with atomic_file(file) as new_file:
        new_file.write_text(settings_to_toml(settings), encoding="utf-8")


@dataclass(frozen=True)
class _Variant:
    """A way to fine-tune the checkpoint.

    Attributes:
        name: its name, also of its runs.
        trains_exits: whether every step of depth is trained to predict.
        layers: number of layers, if it differs from that of the checkpoint.
    """

    name: str
    trains_exits: bool = False
    layers: int | None = None


WITH_EXITS, WITHOUT_EXITS = _Variant("exits", trains_exits=True), _Variant("no-exits")


@dataclass(frozen=True)
class _RunResult:
    """The stored result of one run.

    Attributes:
        task: name of the task.
        num_examples: number of examples of dev.
        points: full depth first, then each exit rule.
        padded_seconds: seconds in padded batches, by the name of the rule.
    """

    task: str
    num_examples: int
    points: tuple[ExitPoint, ...]
    padded_seconds: dict[str, float]


_SeedResults = Mapping[_Variant, _RunResult]


class _ExitBenchmark:
    """The runs and measurements of a benchmark."""

    def __init__(self, source: str, model: Model, out: Path, settings: ExitBenchSettings):
        self._source, self._model, self._out, self._settings = source, model, out, settings
        self._results = StoredResults(out / "results")
        checksum = {"sha256": weights_checksum(model)}
        if "model" not in self._results and any((out / "results").glob("*.json")):
            raise InputError(f"{out}: a benchmark of an earlier version of Albertine; give another --out")
        if self._results.get("model", lambda: checksum) != checksum:
            raise InputError(f"{out}: a benchmark of other weights than {source} has now; give another --out")

    def results_of_seed(self, seed: int) -> _SeedResults:
        """Return the results of all variants with one seed; those that are stored are not run again."""
        return {
            variant: self._results.get_as(
                _RunResult, f"{variant.name}-{seed}", partial(self._measure, variant, seed)
            )
            for variant in self._variants()
        }

    def _variants(self) -> list[_Variant]:
        layers = self._model.settings.layers
        if not self._model.settings.shares_all_layers:  # separate layers cannot move to a model with fewer
            return [WITH_EXITS, WITHOUT_EXITS]
        depths = sorted({max(1, round(layers * share)) for share in (0.25, 0.5, 0.75)} - {layers})
        return [WITH_EXITS, WITHOUT_EXITS, *(_shallow(depth) for depth in depths)]

    def _measure(self, variant: _Variant, seed: int) -> _RunResult:
        settings = self._finetune_settings(variant, seed)
        progress.print_message(f"fine-tuning {variant.name}, seed {seed}")
        start = self._source if variant.layers is None else str(self._shallow_copy(variant.layers))
        run = self._out / "runs" / f"{variant.name}-{seed}"
        finetune(start, run, settings)
        model = load_finetuned(run, EngineOptions(settings.device))
        examples = [example for example, _ in prepare_task(start, settings).dev]
        rules = dict(exit_rules(model)) if variant.layers is None else {}
        if not variant.trains_exits:  # compared at fixed depths only
            rules = {name: rule for name, rule in rules.items() if not rule.can_exit}
        elif not model.task_type.predicts_numbers:
            # Patience K needs K + 1 predictions, one more than there are layers.
            rules[NEVER] = ExitRule(patience=model.engine.model_settings.layers)
        points = measure_points(model, examples, rules, self._settings.examples_at_a_time)
        padded = self._padded_seconds(model, examples, rules) if variant.trains_exits else {}
        return _RunResult(model.card.task, len(examples), tuple(points), padded)

    def _finetune_settings(self, variant: _Variant, seed: int) -> FinetuneSettings:
        values = {field.name: getattr(self._settings, field.name) for field in fields(FinetuneSettings)}
        train = replace(self._settings.train, seed=seed, exits=variant.trains_exits)
        settings = FinetuneSettings(**{**values, "seeds": 1, "init_from": None, "train": train})
        return settings.with_explicit_keys(self._settings.explicit_keys - {"seeds", "init_from"})

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
        """Return the time in padded batches, of full depth and of rules; empty if not a classifier."""
        engine = model.engine
        if not isinstance(engine, TorchEngine) or type(engine.model.head) is not ClassificationHead:
            return {}
        encoded = model.create_scorer().encode(examples)
        size = self._settings.examples_at_a_time
        strips = [
            strip_from_samples([one.samples[0] for one in encoded[first : first + size]])
            for first in range(0, len(encoded), size)
        ]
        time_padded_exits(engine, strips, None)  # the first pass is slower
        # Padded batches support only patience and confidence.
        timed = {name: rule for name, rule in rules.items() if rule.patience or rule.confidence}
        rule_by_name: dict[str, ExitRule | None] = {FULL_DEPTH: None, **timed}
        return {name: time_padded_exits(engine, strips, rule)[0] for name, rule in rule_by_name.items()}

    def result(self, by_seed: Sequence[_SeedResults]) -> ExitBenchResult:
        """Return the means over the seeds."""
        with_exits = [results[WITH_EXITS] for results in by_seed]
        points = tuple(_mean_point(index, with_exits) for index in range(len(with_exits[0].points)))
        lowest = lowest_difference(self._settings.tolerance)
        within = [point for point in points if point.difference.mean >= lowest]
        layers = self._model.settings.layers
        full_scores = [
            [results[variant].points[0].score.value for results in by_seed]
            for variant in (WITH_EXITS, WITHOUT_EXITS)
        ]
        return ExitBenchResult(
            task=with_exits[0].task,
            num_seeds=len(by_seed),
            num_examples=max(result.num_examples for result in with_exits),
            examples_at_a_time=self._settings.examples_at_a_time,
            layers=layers,
            recommended=min(within, key=lambda point: point.flops.value).setting,
            points=points,
            score_by_depth={depth: _scores_at(depth, layers, by_seed) for depth in range(1, layers + 1)},
            full_depth_gain=paired_difference(*full_scores),
        )


def _shallow(layers: int) -> _Variant:
    return _Variant(str(layers), layers=layers)


def _mean_point(index: int, results: Sequence[_RunResult]) -> ExitBenchPoint:
    """Return the means over the seeds of one setting, by its index among the points of a run."""
    points = [result.points[index] for result in results]
    full_depth_points = [result.points[0] for result in results]
    setting, scores = points[0].setting, [point.score.value for point in points]
    padded = [
        result.padded_seconds[setting] / full_depth.seconds
        for result, full_depth in zip(results, full_depth_points, strict=True)
        if setting in result.padded_seconds
    ]
    return ExitBenchPoint(
        setting=setting,
        score=fmean(scores),
        difference=paired_difference(scores, [point.score.value for point in full_depth_points]),
        mean_depth=fmean(point.mean_depth for point in points),
        flops=_over_seeds([point.flops for point in points]),
        time=_over_seeds([point.time for point in points]),
        padded_time=fmean(padded) if padded else None,
    )


def _over_seeds(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean over the seeds with its interval; that of the examples, if there is one seed."""
    if len(estimates) == 1:
        return estimates[0]
    values = [estimate.value for estimate in estimates]
    mean, half = fmean(values), half_width(stdev(values), len(values))
    return Estimate(mean, mean - half, mean + half)


def _scores_at(depth: int, layers: int, by_seed: Sequence[_SeedResults]) -> DepthScores:
    """Return the mean scores at a depth."""

    def mean(variant: _Variant, setting: str) -> float | None:
        scores = [
            point.score.value
            for results in by_seed
            if variant in results
            for point in results[variant].points
            if point.setting == setting
        ]
        return fmean(scores) if scores else None

    setting = FULL_DEPTH if depth == layers else f"--depth {depth}"
    trained_at_depth = WITHOUT_EXITS if depth == layers else _shallow(depth)
    return DepthScores(
        mean(WITH_EXITS, setting), mean(WITHOUT_EXITS, setting), mean(trained_at_depth, FULL_DEPTH)
    )
