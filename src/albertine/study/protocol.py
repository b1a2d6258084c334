"""The protocol of a claim at a scale: text, training settings of the arms, evaluation and seeds."""

import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from albertine.errors import InputError, did_you_mean
from albertine.json_input import JsonError, dataclass_from_json
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import SettingsSource, build_settings
from albertine.study.claim import Claim, merged
from albertine.study.tasks import STUDY_TASKS

MIN_SEEDS_FOR_VERDICT = 5


@dataclass(frozen=True)
class Protocol:
    """What all runs of a claim share at a scale.

    Attributes:
        purpose: what the scale is for.
        text: "world" for the little world, or "own" for the text that the user gives.
        vocab_size: tokens of the vocabulary.
        seeds: runs of each arm.
        probe_tokens: held-out tokens of an evaluation.
        tasks: tasks of the little world for fine-tuning.
        stories: stories of the little world.
        examples: training examples of each task.
        dev_examples: examples of each task for evaluation.
        finetune_steps: steps of fine-tuning.
        pretrain: settings of `albertine pretrain`.
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


@cache
def _scale_tables() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "scales.toml").read_text(encoding="utf-8"))


def scale_names() -> tuple[str, ...]:
    """Return the names of the scales, the smallest first."""
    return tuple(_scale_tables())


def find_protocol(claim: Claim, scale: str) -> Protocol:
    """Return the protocol of a claim at a scale; raise `InputError` if its keys are wrong."""
    scales = _scale_tables()
    for name in (scale, *claim.scales):
        if name not in scales:
            raise InputError(f"{name}: unknown scale{did_you_mean(name, scales)}; known: {', '.join(scales)}")
    of_claim: dict[str, Any] = {"pretrain": claim.pretrain}
    if claim.seeds is not None and scale != "smoke":
        of_claim["seeds"] = claim.seeds
    try:
        protocol = dataclass_from_json(Protocol, merged(scales[scale], of_claim, claim.scales.get(scale, {})))
    except JsonError as error:
        raise InputError(f"{claim.name}: scales.{scale}: {error}") from None
    for task in protocol.tasks:
        if task not in STUDY_TASKS:
            raise InputError(f"{claim.name}: tasks: {task}: known: {', '.join(STUDY_TASKS)}")
    if protocol.tasks and protocol.text != "world":
        raise InputError(f'{claim.name}: tasks: only with text = "world"')
    if not 1 <= protocol.seeds <= 100:
        raise InputError(f"{claim.name}: seeds = {protocol.seeds}: must be 1 to 100")
    return protocol


def arm_values(claim: Claim, protocol: Protocol, arm: str) -> dict[str, Any]:
    """Return the settings of `albertine pretrain` that an arm sets, as nested tables."""
    return merged(protocol.pretrain, claim.arms[arm])


def check_arms(claim: Claim, protocol: Protocol) -> None:
    """Raise `InputError` if the settings of an arm are invalid."""
    for arm in claim.arms:
        source = SettingsSource(arm_values(claim, protocol, arm), f"{claim.name}, arm {arm}")
        settings = build_settings(PretrainSettings, source)
        if claim.equal_time is not None and settings.curriculum.depth is not None:
            raise InputError(
                f"{claim.name}, arm {arm}: curriculum.depth: steps with equal time need a constant depth; "
                "remove it, or equal_time"
            )
