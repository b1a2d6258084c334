"""The protocol of a claim at a scale: text, training settings of the arms, evaluation and seeds."""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from albertine.checksums import json_checksum
from albertine.device import choose_device, precision_name
from albertine.errors import InputError, did_you_mean
from albertine.json_input import JsonError, dataclass_from_json
from albertine.pretrain.curriculum import GROW
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import model_from_checkpoint
from albertine.settings import ModelSettings, SettingsSource, build_settings, settings_to_toml
from albertine.study.claim import Claim, claim_at, merged
from albertine.study.claim_file import MAX_SEEDS
from albertine.study.measures import find_measure, why_impossible
from albertine.study.recurrence import check_recurrence
from albertine.study.run_identity import RESULTS_VERSION, run_identity
from albertine.study.tasks import STUDY_TASKS, FinetuningPlan
from albertine.world.stories import WORLD_VERSION

_BOUNDS = {
    "seeds": (1, MAX_SEEDS),
    "vocab_size": (50, 1_000_000),
    "probe_tokens": (64, 1_000_000_000),
    "stories": (0, 10_000_000),
    "examples": (0, 1_000_000),
    "dev_examples": (0, 1_000_000),
    "finetune_steps": (0, 1_000_000),
}
# A tenth of the stories is held out, and next-sentence prediction needs two documents.
_WORLD_MINIMUMS = {"stories": 20, "dev_examples": 1}
_TASK_MINIMUMS = {"examples": 2, "finetune_steps": 1}  # STS-B needs two different numbers
_REAL_TASK_MINIMUMS = {"examples": 20, "dev_examples": 2}  # a tenth selects rates and ensembles
# Settings that a claim cannot change: the study sets them, or they do not affect the hash of a run.
_OWN_SETTINGS = {
    "corpus", "init_from", "device", "workers", "objective.seed", "train.seed", "train.evaluate_every",
    "train.keep_checkpoints", "train.minutes",
}  # fmt: skip


@dataclass(frozen=True)
class Protocol:
    """What all runs of a claim share at a scale.

    Attributes:
        purpose: what the scale is for.
        text: "world" for the little world, or "own" for the text that the user gives.
        vocab_size: tokens of the vocabulary.
        seeds: runs of each arm.
        probe_tokens: held-out tokens of an evaluation.
        tasks: tasks for fine-tuning: of the little world, or real ones where the text is the user's.
        stories: stories of the little world.
        examples: training examples of each task.
        dev_examples: examples of each task for evaluation.
        finetune_steps: steps of fine-tuning.
        pretrain: settings of `albertine pretrain`.
        arms: additional settings of single arms, by arm.
        deviations: typical standard deviation of a difference over seeds, by measure, in the unit of
            the pages of claims, such as percentage points.
    """

    purpose: str
    text: Literal["world", "own"]
    vocab_size: int
    seeds: int
    probe_tokens: int
    tasks: tuple[str, ...] = ()
    stories: int = 0
    examples: int = 0
    dev_examples: int = 0
    finetune_steps: int = 0
    pretrain: dict[str, Any] = field(default_factory=dict)
    arms: dict[str, Any] = field(default_factory=dict)
    deviations: dict[str, float] = field(default_factory=dict)


@cache
def _scale_tables() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "scales.toml").read_text(encoding="utf-8"))


def scale_names() -> tuple[str, ...]:
    """Return the names of the scales, the smallest first."""
    return tuple(_scale_tables())


def check_other_scales(claim: Claim, scale: str) -> None:
    """Raise `InputError` for a mistake at another scale, which would otherwise be found after this one.

    A claim need not be usable at every scale, so tasks and expectations are not checked.
    """
    for other in claim.scales:
        if other != scale and (not claim.only_scales or other in claim.only_scales):
            protocol = _read_protocol(claim, other)
            for arm in claim.arms:
                _arm_settings(claim, protocol, arm, f"{claim.label}, arm {arm} at the scale {other}")
    has_tasks = any(table.get("tasks") for table in claim.scales.values())
    if claim.finetuning and not has_tasks:
        raise InputError(
            f"{claim.label}: finetuning: the claim has no tasks at any scale; name some, as in "
            f'[scales.{scale}] tasks = ["mnli"]'
        )


def find_protocol(claim: Claim, scale: str) -> Protocol:
    """Return the protocol of a claim at a scale; raise `InputError` if its keys are wrong."""
    scales = _scale_tables()
    of_expectations = (name for one in claim.expectations for name in one.only_scales)
    for name in (scale, *claim.scales, *claim.only_scales, *of_expectations):
        if name not in scales:
            known = f"known: {', '.join(scales)}"
            raise InputError(f"{claim.label}: {name}: unknown scale{did_you_mean(name, scales)}; {known}")
    if claim.only_scales and scale not in claim.only_scales:
        raise InputError(
            f"{claim.label}: its arms and tasks are meant for the scale {' or '.join(claim.only_scales)}; "
            f"give another --scale, or copy the claim to a file and change them for {scale}"
        )
    protocol = _read_protocol(claim, scale)
    if claim.recurrence is None and not claim_at(claim, scale, has_tasks=True).expectations:
        raise InputError(f"{claim.label}: expects nothing at the scale {scale}; change only_scales")
    _check_tasks(claim_at(claim, scale, has_tasks=bool(protocol.tasks)), protocol)
    return protocol


def _read_protocol(claim: Claim, scale: str) -> Protocol:
    """Return the protocol of a claim at a scale, whose keys and numbers are valid."""
    of_claim: dict[str, Any] = {"pretrain": claim.pretrain}
    if claim.seeds is not None and scale != "smoke":
        of_claim["seeds"] = claim.seeds
    changes = {key: value for key, value in claim.scales.get(scale, {}).items() if key != "claim"}
    if fixed := {"text", "purpose"} & changes.keys():
        raise InputError(f"{claim.label}: scales.{scale}.{min(fixed)}: a claim cannot change it; remove it")
    try:
        protocol = dataclass_from_json(Protocol, merged(_scale_tables()[scale], of_claim, changes))
    except JsonError as error:
        raise InputError(f"{claim.label}: scales.{scale}: {error}") from None
    _check_arms_of_scale(claim, scale, protocol)
    _check_numbers(claim, scale, protocol)
    return protocol


def protocol_version(protocol: Protocol) -> str:
    """Return a checksum of what the numbers of a report depend on besides the claim.

    These are the protocol without its number of seeds, and the versions of the results and of the little
    world.
    """
    values = asdict(protocol)
    for name in ("purpose", "seeds", "deviations"):
        del values[name]
    world = WORLD_VERSION if protocol.text == "world" else None
    return json_checksum([RESULTS_VERSION, world, values])[:16]


def _check_arms_of_scale(claim: Claim, scale: str, protocol: Protocol) -> None:
    """Raise `InputError` if the scale changes an arm that does not exist, or not by settings."""
    for arm, settings in protocol.arms.items():
        key = f"{claim.label}: scales.{scale}.arms"
        if arm not in claim.arms:
            raise InputError(f"{key}: {arm}: no such arm{did_you_mean(arm, claim.arms)}")
        if not isinstance(settings, dict):
            raise InputError(f"{key}.{arm}: expected a table of settings, such as {{ train.steps = 500 }}")


def _check_numbers(claim: Claim, scale: str, protocol: Protocol) -> None:
    """Raise `InputError` if a number is out of bounds."""
    minimums = {
        **(_WORLD_MINIMUMS if protocol.text == "world" else {}),
        **(_TASK_MINIMUMS if protocol.tasks else {}),
        **(_REAL_TASK_MINIMUMS if protocol.tasks and protocol.text == "own" else {}),
    }
    for name, (lowest, maximum) in _BOUNDS.items():
        value, minimum = getattr(protocol, name), minimums.get(name, lowest)
        if not minimum <= value <= maximum:
            key = f"scales.{scale}.{name}" if name in claim.scales.get(scale, {}) else name
            raise InputError(f"{claim.label}: {key} = {value}: must be {minimum:,} to {maximum:,}")
    for measure, deviation in protocol.deviations.items():
        find_measure(measure)
        if not deviation > 0:
            raise InputError(f"{claim.label}: deviations.{measure} = {deviation}: must be above 0")


def _check_tasks(claim: Claim, protocol: Protocol) -> None:
    """Raise `InputError` if tasks and measures do not fit each other."""
    for task in tasks_to_finetune(claim, protocol):
        if task not in STUDY_TASKS:
            raise InputError(f"{claim.label}: tasks: {task}: known: {', '.join(STUDY_TASKS)}")
        if protocol.tasks.count(task) > 1:
            raise InputError(f"{claim.label}: tasks: {task}: named twice; remove one")
        if protocol.text == "world" and STUDY_TASKS[task].world_name is None:
            raise InputError(
                f"{claim.label}: tasks: {task}: not a task of the little world; remove it, or use a scale "
                "with a text and tasks of your own"
            )
    known = {*protocol.tasks, *(["average"] if protocol.tasks else [])}
    for expectation in claim.expectations:
        if find_measure(expectation.measure).source == "tasks" and expectation.measure not in known:
            raise InputError(
                f"{claim.label}: an expectation is about {expectation.measure}, which is not one of the "
                "tasks at this scale; give another --scale, or change tasks"
            )


def tasks_to_finetune(claim: Claim, protocol: Protocol) -> list[str]:
    """Return all tasks on which models are fine-tuned, also those from which others start."""
    starts = [plan.start for plan in claim.finetuning.values() if plan.start] if protocol.tasks else []
    return list(dict.fromkeys((*protocol.tasks, *starts)))


def arm_values(claim: Claim, protocol: Protocol, arm: str) -> dict[str, Any]:
    """Return the settings of `albertine pretrain` that an arm sets, as nested tables."""
    return merged(protocol.pretrain, claim.arms[arm], protocol.arms.get(arm, {}))


def shortest_training(claim: Claim, protocol: Protocol) -> int:
    """Return the maximum length of the samples of the arm with the shortest ones, to evaluate all arms."""
    sources = [SettingsSource(arm_values(claim, protocol, arm), arm) for arm in claim.arms]
    return min(build_settings(PretrainSettings, source).longest_sample() for source in sources)


def _changes(settings: PretrainSettings, key: str) -> bool:
    """Return whether a curriculum changes the depth or the length in the course of a run."""
    stages = settings.curriculum.stages(key)
    return getattr(settings.curriculum, key) == GROW or (stages is not None and len(stages.values) > 1)


def check_arms(claim: Claim, protocol: Protocol) -> None:
    """Raise `InputError` if the settings of an arm are invalid, or those that a study sets itself."""
    arms = {arm: _arm_settings(claim, protocol, arm, f"{claim.label}, arm {arm}") for arm in claim.arms}
    for arm, plan in claim.finetuning.items():
        with _naming(claim.label):
            plan.check(protocol.tasks, f"finetuning.{arm}")
    models = {arm: _arm_model(claim, arms, arm) for arm in claim.arms}
    if claim.recurrence is not None:
        with _naming(claim.label):
            check_recurrence(list(arms.values()))
    _check_that_arms_differ(claim, protocol, arms)
    _check_measures(claim, models)


def _arm_settings(claim: Claim, protocol: Protocol, arm: str, name: str) -> PretrainSettings:
    """Return the settings of an arm; raise `InputError`, which names it, if they do not fit a study."""
    source = SettingsSource(arm_values(claim, protocol, arm), name)
    of_arm = SettingsSource(merged(claim.arms[arm], protocol.arms.get(arm, {})), name)
    if claim.equal_time not in (None, arm) and "train.steps" in of_arm.keys:
        raise InputError(f"{name}: train.steps: its steps follow from equal_time; remove it")
    if own := _OWN_SETTINGS & source.keys:
        raise InputError(f"{name}: {min(own)}: a study sets it for all runs; remove it")
    settings = build_settings(PretrainSettings, source)
    for key in ("steps", "batch_tokens"):
        if not getattr(settings.train, key):
            raise InputError(f"{name}: train.{key} = 0: a study needs a number, so that arms can be compared")
    if "model.vocab_size" in source.keys and settings.model.vocab_size < protocol.vocab_size:
        raise InputError(
            f"{name}: model.vocab_size = {settings.model.vocab_size:,}: less than vocab_size, the "
            f"{protocol.vocab_size:,} tokens of the vocabulary; remove it"
        )
    longest = settings.longest_sample()
    if longest > settings.model.max_length:
        raise InputError(
            f"{name}: samples of {longest} tokens, but model.max_length = {settings.model.max_length}; "
            "reduce objective.max_length"
        )
    changing = next((key for key in ("depth", "length") if _changes(settings, key)), None)
    if claim.equal_time is not None and changing:
        raise InputError(
            f"{name}: curriculum.{changing}: steps with equal time need a constant cost; give one value, "
            f'such as "{settings.model.layers if changing == "depth" else longest}", or remove equal_time'
        )
    return settings


def _arm_model(claim: Claim, arms: Mapping[str, PretrainSettings], arm: str) -> ModelSettings:
    """Return the model of an arm, which may be that of the arm it starts from; raise `InputError` if not."""
    start = claim.starts.get(arm)
    if start is None:
        return arms[arm].model
    before = _arm_model(claim, arms, start)
    with _naming(f"{claim.label}, arm {arm}, which starts from {start}"):
        return model_from_checkpoint(before, arms[arm].model, arms[arm].explicit_keys)


def _check_that_arms_differ(claim: Claim, protocol: Protocol, arms: Mapping[str, PretrainSettings]) -> None:
    """Raise `InputError` if two arms would be the same runs with the same scores."""
    seen: dict[str, str] = {}
    for arm, settings in arms.items():
        plan = claim.finetuning.get(arm, FinetuningPlan()).hash if protocol.tasks else None
        precision = precision_name(settings.train.precision, choose_device(settings.device))
        # With equal time, steps follow from the other settings.
        steps = settings.train.steps if claim.equal_time is None else 0
        train = replace(settings.train, steps=steps)
        run = run_identity(replace(settings, train=train), "", claim.starts.get(arm))
        run["settings"]["train"]["precision"] = precision
        other = seen.setdefault(repr((run, plan)), arm)
        if other == arm:
            continue
        is_same = settings_to_toml(settings) == settings_to_toml(arms[other])
        same = "the same settings" if is_same else "the same runs, because what differs changes no result,"
        raise InputError(
            f"{claim.label}: arms {other} and {arm}: {same} at this scale; change one, or remove it"
        )


def _check_measures(claim: Claim, models: Mapping[str, ModelSettings]) -> None:
    """Raise `InputError` if an arm cannot have a measure that is expected of it."""
    for expectation in claim.expectations:
        measure = expectation.measure
        for arm in (expectation.arm, expectation.than):
            if isinstance(arm, str) and (problem := why_impossible(measure, models[arm])):
                raise InputError(f"{claim.label}: arm {arm}: for the measure {measure}, {problem}")


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Put a name before the message of an `InputError`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
