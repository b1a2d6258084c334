"""Reads a claim from its file and checks that its parts fit each other.

A claim is a TOML file:

    claim = "Sentence order teaches more than next sentence."
    source = "ALBERT, Table 5"
    columns = ["mask_accuracy", "nsp_accuracy", "sop_accuracy"]
    seeds = 5

    [arms]
    NSP = { objective.pair = "nsp" }
    SOP = { objective.pair = "sop" }

    [[expectations]]
    measure = "sop_accuracy"
    arm = "SOP"
    than = "NSP"
    margin = 2

The settings of an arm are those of `albertine pretrain`. `[pretrain]` has settings of all arms, and
`[scales.NAME]` may replace `claim`, `seeds`, parts of the protocol, `pretrain` and settings of `arms` at one
scale. What belongs to a scale is checked with its protocol, see `protocol`.
"""

import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from albertine.display import counted
from albertine.errors import InputError, did_you_mean
from albertine.input_files import read_bytes
from albertine.json_input import JsonError, dataclass_from_json
from albertine.settings import settings_from_toml
from albertine.study.claim import Claim, Expectation
from albertine.study.measures import find_measure
from albertine.study.recurrence_fit import PHI_BOUNDS
from albertine.study.tasks import STUDY_TASKS

MAX_SEEDS = 100
_MAX_BYTES, _MAX_ARMS, _MAX_FINETUNING_RUNS = 1 << 20, 100, 100
_ARM_NAME = re.compile(r"[\w .+=/()%,-]{1,40}")


def read_claim(file: Path) -> Claim:
    """Return the claim in a file; raise `InputError` if it is not one."""
    try:
        text = read_bytes(file, _MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    return replace(parse_claim(text, file.stem, str(file)), file=str(file))


def parse_claim(text: str, name: str, file_name: str) -> Claim:
    """Return the claim in TOML text; messages name the file."""
    values = dict(settings_from_toml(text, file_name).values)
    if own := {"name", "file"} & values.keys():
        raise InputError(f"{file_name}: {min(own)}: not a key of a claim; the name is that of the file")
    try:
        claim = dataclass_from_json(Claim, {**values, "name": name})
    except JsonError as error:
        raise InputError(
            f"{file_name}: {error}; see docs/studies/README.md for the keys of a claim"
        ) from None
    try:
        _check(claim)
    except InputError as error:
        raise InputError(f"{file_name}: {error}") from None
    return claim


def _check(claim: Claim) -> None:
    """Raise `InputError` if a part of a claim is invalid, or names another part that does not exist."""
    if not re.fullmatch(r"[\w.-]{1,60}", claim.name):
        raise InputError(
            f"{claim.name}: a claim has a name of letters, digits, dots, dashes and underscores; rename it"
        )
    if claim.seeds is not None and not 1 <= claim.seeds <= MAX_SEEDS:
        raise InputError(f"seeds = {claim.seeds}: must be 1 to {MAX_SEEDS}")
    for measure in claim.columns:
        find_measure(measure)
    _check_arms(claim)
    _check_recurrence(claim)
    _check_expectations(claim)
    _check_scales(claim)
    _check_starts(claim)
    _check_finetuning(claim)
    if claim.equal_time is not None and claim.equal_time not in claim.arms:
        raise InputError(
            f"equal_time: {claim.equal_time}: no such arm{did_you_mean(claim.equal_time, claim.arms)}"
        )
    for name, row in claim.published.rows.items():
        if len(row) != len(claim.published.columns):
            raise InputError(
                f"published.rows.{name}: {counted(len(row), 'number')} for "
                f"{counted(len(claim.published.columns), 'column')}"
            )


def _check_arms(claim: Claim) -> None:
    if not 1 <= len(claim.arms) <= _MAX_ARMS:
        raise InputError(f"arms: {len(claim.arms)}; a claim needs 1 to {_MAX_ARMS}")
    for name, settings in claim.arms.items():
        if not _ARM_NAME.fullmatch(name):
            raise InputError(
                f"arms: {ascii(name)[:60]}: use up to 40 letters, digits and signs of ' .+=/()%,-'"
            )
        if not isinstance(settings, dict):
            raise InputError(
                f'arms.{name}: expected a table of settings, such as {{ objective.pair = "sop" }}'
            )


def _check_recurrence(claim: Claim) -> None:
    expected = claim.recurrence
    if expected is not None and not PHI_BOUNDS[0] <= expected.above < expected.below <= PHI_BOUNDS[1]:
        raise InputError(
            f"recurrence: above = {expected.above:g}, below = {expected.below:g}: must be an interval within "
            f"{PHI_BOUNDS[0]:g} and {PHI_BOUNDS[1]:g}"
        )


def _check_expectations(claim: Claim) -> None:
    if not claim.expectations and claim.recurrence is None:
        raise InputError("expectations: missing; a claim expects something")
    for expectation in claim.expectations:
        find_measure(expectation.measure)
        compared = [one for one in (expectation.arm, expectation.than) if isinstance(one, str)]
        for arm in compared:
            if arm not in claim.arms:
                raise InputError(f"expectations: {arm}: no such arm{did_you_mean(arm, claim.arms)}")
        if expectation.arm == expectation.than:
            raise InputError(f"expectations: {expectation.arm}: compared with itself; name another arm")
        if expectation.margin < 0:
            raise InputError(f"expectations: margin = {expectation.margin}: must not be negative")
    for one, other in combinations(claim.expectations, 2):
        if _is_same(one, other):
            raise InputError(f"expectations: {one.text}: another one is about the same; remove one")


def _is_same(one: Expectation, other: Expectation) -> bool:
    """Return whether two expectations make the same comparison at some scale, whatever their margins."""
    at_all_scales = not one.only_scales or not other.only_scales
    share_scales = at_all_scales or not set(one.only_scales).isdisjoint(other.only_scales)
    return share_scales and replace(one, margin=0, only_scales=()) == replace(other, margin=0, only_scales=())


def _check_scales(claim: Claim) -> None:
    for name, changes in claim.scales.items():
        if not isinstance(changes, dict):
            raise InputError(f"scales.{name}: expected a table, such as {{ seeds = 10 }}")
        if not isinstance(changes.get("claim", ""), str):
            raise InputError(f"scales.{name}.claim: expected a sentence")


def _check_starts(claim: Claim) -> None:
    """Raise `InputError` if an arm starts from one that does not exist, or from itself."""
    for arm in claim.starts:
        visited = [arm]
        while (start := claim.starts.get(visited[-1])) is not None:
            for name in (visited[-1], start):
                if name not in claim.arms:
                    raise InputError(f"starts: {name}: no such arm{did_you_mean(name, claim.arms)}")
            if start in visited:
                cycle = " -> ".join([*visited[visited.index(start) :], start])
                raise InputError(f"starts: {cycle}: an arm cannot start from itself")
            visited.append(start)
    if claim.starts and claim.recurrence is not None:
        raise InputError(
            "recurrence and starts: the tokens of an arm would lack those of its start; remove one of the two"
        )
    if claim.starts and claim.equal_time is not None:
        raise InputError(
            "equal_time and starts: the time of an arm would contain that of its start; remove one of the two"
        )


def _check_finetuning(claim: Claim) -> None:
    """Raise `InputError` if a plan of fine-tuning is for no arm, or cannot be followed."""
    for name, plan in claim.finetuning.items():
        if name not in claim.arms:
            raise InputError(f"finetuning: {name}: no such arm{did_you_mean(name, claim.arms)}")
        if plan.start is not None and plan.start not in STUDY_TASKS:
            raise InputError(f"finetuning.{name}: start = {plan.start}: known: {', '.join(STUDY_TASKS)}")
        least = 2 if plan.ensemble else 1
        if not plan.rates or not all(0 < rate <= 1_000 for rate in plan.rates):
            raise InputError(
                f"finetuning.{name}: rates: must be factors of the learning rate above 0, to 1,000"
            )
        if len(set(plan.rates)) < len(plan.rates):
            raise InputError(f"finetuning.{name}: rates: a factor twice; remove one")
        if not least <= plan.runs <= _MAX_FINETUNING_RUNS:
            raise InputError(
                f"finetuning.{name}: runs = {plan.runs}: must be {least} to {_MAX_FINETUNING_RUNS}"
                + (" for an ensemble" if plan.ensemble else "")
            )
