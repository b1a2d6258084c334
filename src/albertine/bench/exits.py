"""Benchmark of exits: what a fine-tuned model scores with less depth, and what that saves.

For each seed, a checkpoint is fine-tuned with exits, without exits and, if its layers share their weights,
without exits and with fewer layers. Only the model with exits has the settings of exits, such as own heads,
and is measured with every rule; the others are measured at fixed depths. Classifiers also run rules of
patience and confidence in padded batches. Results are stored, and an interrupted benchmark resumes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.atomic import atomic_file, is_unused
from albertine.bench.exits_result import (
    WITH_EXITS,
    WITHOUT_EXITS,
    ExitBenchResult,
    RunResult,
    SeedResults,
    Variant,
    mean_result,
    shallow,
)
from albertine.bench.padded_exits import time_padded_exits
from albertine.bench.settings import ExitBenchSettings
from albertine.checksums import json_checksum, weights_checksum
from albertine.engines.torch_engine import TorchEngine
from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.finetune.finetune import finetune
from albertine.finetune.finetuning import samples_digest
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import FinetuneData, prepare_task
from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.inference.exit_curve import exit_rules
from albertine.inference.exit_points import FULL_DEPTH, measure_points
from albertine.inference.finetuned_model import FinetunedModel, load_finetuned
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load import load
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.model.prediction_heads import ClassificationHead
from albertine.model.strip_states import check_can_exit
from albertine.settings import SettingsSource, build_settings, read_settings_file, settings_to_toml
from albertine.settings.engine import EngineOptions
from albertine.settings.exit_rule import ExitRule
from albertine.stored_results import StoredResults
from albertine.tasks.examples import Example
from albertine.tasks.sequences import strip_from_samples
from albertine.text.tokenizer import load_tokenizer

_NEVER = "nothing exits"
_SETTINGS_FILE, _LOCK_FILE = "bench.toml", "bench.lock"


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
    # What is missing must raise an error before there is a folder.
    data = prepare_task(source, settings)
    settings = _with_defaults(source, settings, data)
    if not is_unused(out, _LOCK_FILE) and not (out / _SETTINGS_FILE).exists():
        raise InputError(f"{out}: exists and is not a benchmark; give another --out or remove it")
    out.mkdir(parents=True, exist_ok=True)
    with file_lock(
        out / _LOCK_FILE, f"{out}: in use by another benchmark; wait for it, or give another --out"
    ):
        _store_settings(out, settings)
        results = _open_results(source, model, data, out)
        benchmark = _ExitBenchmark(source, model, out, settings, results)
        seeds = [settings.train.seed + number for number in range(settings.seeds)]
        by_seed = [benchmark.results_of_seed(seed) for seed in seeds]
        return mean_result(by_seed, model.settings.layers, settings.tolerance, settings.examples_at_a_time)


def _with_defaults(source: str, settings: ExitBenchSettings, data: FinetuneData) -> ExitBenchSettings:
    """Return the settings with all defaults, so that a version with other defaults refuses to resume."""
    return with_task_defaults(
        replace(settings, init_from=source),
        data.task.name,
        data.model_settings,
        data.num_samples,
        data.card.max_length,
    )


def _store_settings(out: Path, settings: ExitBenchSettings) -> None:
    """Write the settings, or check that a benchmark in the folder has the same ones.

    The number of seeds may differ: those that are stored are not run again.
    """
    file = out / _SETTINGS_FILE
    earlier = SettingsSource(settings.earlier_values)
    if file.exists():
        stored = build_settings(ExitBenchSettings, earlier, read_settings_file(file))
        if replace(stored, seeds=settings.seeds) != settings:
            raise InputError(
                f"{out}: a benchmark with other settings ({file}); use the same, or another --out"
            )
    with atomic_file(file) as new_file:
        new_file.write_text(settings_to_toml(settings), encoding="utf-8")


def _open_results(source: str, model: Model, data: FinetuneData, out: Path) -> StoredResults:
    """Return the stored results; raise `InputError` if they are of other weights or other examples."""
    results = StoredResults(out / "results")
    samples = samples_digest([*data.train_samples, *data.dev_samples])
    inputs = {"weights": weights_checksum(model), "examples": json_checksum([samples, data.card.labels])}
    if "inputs" not in results and any((out / "results").glob("*.json")):
        raise InputError(f"{out}: a benchmark of an earlier version of Albertine; give another --out")
    stored = results.get("inputs", lambda: inputs)
    if stored.get("weights") != inputs["weights"]:
        raise InputError(f"{out}: a benchmark of other weights than {source} has now; give another --out")
    if stored.get("examples") != inputs["examples"]:
        raise InputError(
            f"{out}: a benchmark of other examples than --data or --dev has now, or of another version of "
            "Albertine, which reads them in another way; restore them, or give another --out"
        )
    return results


class _ExitBenchmark:
    """The runs and measurements of a benchmark."""

    def __init__(
        self, source: str, model: Model, out: Path, settings: ExitBenchSettings, results: StoredResults
    ):
        self._source, self._model, self._out, self._settings = source, model, out, settings
        self._results = results

    def results_of_seed(self, seed: int) -> SeedResults:
        """Return the results of all variants with one seed; those that are stored are not run again."""
        return {
            variant: self._results.get_as(
                RunResult, f"{variant.name}-{seed}", partial(self._measure, variant, seed)
            )
            for variant in self._variants()
        }

    def _variants(self) -> list[Variant]:
        layers = self._model.settings.layers
        if not self._model.settings.shares_all_layers:  # separate layers cannot move to a model with fewer
            return [WITH_EXITS, WITHOUT_EXITS]
        depths = sorted({max(1, round(layers * share)) for share in (0.25, 0.5, 0.75)} - {layers})
        return [WITH_EXITS, WITHOUT_EXITS, *(shallow(depth) for depth in depths)]

    def _measure(self, variant: Variant, seed: int) -> RunResult:
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
            rules[_NEVER] = ExitRule(patience=model.engine.model_settings.layers)
        points = measure_points(model, examples, rules, self._settings.examples_at_a_time)
        padded = self._padded_seconds(model, examples, rules) if variant.trains_exits else {}
        return RunResult(model.card.task, len(examples), tuple(points), padded)

    def _finetune_settings(self, variant: Variant, seed: int) -> FinetuneSettings:
        values = {field.name: getattr(self._settings, field.name) for field in fields(FinetuneSettings)}
        values |= {"seeds": 1, "init_from": None}
        changed: dict[str, Any] = {"seed": seed, "exits": variant.trains_exits}
        if not variant.trains_exits:
            values["exit_heads"], default = "shared", FinetuneTrainSettings()
            only_with_exits = ("learned_exit", "exit_prior", "exit_prior_weight")
            changed |= {name: getattr(default, name) for name in only_with_exits}
        values["train"] = replace(self._settings.train, **changed)
        settings = FinetuneSettings(**values)
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
