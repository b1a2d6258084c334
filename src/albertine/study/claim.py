"""A claim: one sentence, the arms that test it, and what is expected of them.

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
scale.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from albertine.checksums import json_checksum
from albertine.display import counted
from albertine.errors import InputError, did_you_mean
from albertine.input_files import read_bytes
from albertine.json_input import JsonError, dataclass_from_json
from albertine.settings import settings_from_toml
from albertine.study.measures import find_measure
from albertine.study.recurrence_fit import PHI_BOUNDS
from albertine.study.tasks import STUDY_TASKS, FinetuningPlan

Relation = Literal["better", "equal", "not worse"]
_MAX_BYTES, _MAX_ARMS, _MAX_FINETUNING_RUNS = 1 << 20, 100, 100
MAX_SEEDS = 100
_ARM_NAME = re.compile(r"[\w .+=/()%,-]{1,40}")


@dataclass(frozen=True)
class Expectation:
    """What a claim expects of two arms.

    Attributes:
        measure: name of the measure.
        arm: the arm that is better, or one of two that are equal.
        than: the other arm, or a number.
        margin: smallest difference that matters, in the unit of the measure on pages.
        only_scales: scales at which it is expected; empty for all.
        relation: whether `arm` is better, equal to within the margin, or not worse by the margin.
    """

    measure: str
    arm: str
    than: str | float
    margin: float
    relation: Relation = "better"
    only_scales: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The expectation in words."""
        measure = find_measure(self.measure)
        margin = f"{self.margin:g}"
        if self.relation == "equal":
            return f"{measure.title}: {self.arm} as {self.than}, to within {margin}"
        direction = "above" if measure.is_higher_better else "below"
        if self.relation == "not worse":
            worse = "below" if measure.is_higher_better else "above"
            return f"{measure.title}: {self.arm} not {worse} {self.than} by {margin}"
        return f"{measure.title}: {self.arm} {direction} {self.than} by {margin} or more"


@dataclass(frozen=True)
class ExponentRange:
    """Where a claim expects the recurrence exponent; see `recurrence_fit`."""

    above: float
    below: float


@dataclass(frozen=True)
class Published:
    """The published table: a row of numbers for each arm, None where it has none."""

    columns: tuple[str, ...] = ()
    rows: dict[str, tuple[float | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A claim; see the module for its file.

    Attributes:
        claim: the claim in a sentence.
        source: where it was published, or who makes it.
        arms: settings of `albertine pretrain` by name of the arm.
        columns: measures of the table.
        expectations: what must hold of two arms.
        recurrence: what must hold of the recurrence exponent, if it is to be fitted to all arms.
        seeds: runs of each arm; by default those of the scale.
        only_scales: the scales for which the sizes of the arms are meant; empty for all.
        starts: for arms that start from the weights of another arm, with the same seed: its name.
        finetuning: how arms are fine-tuned, and scored on other examples; if it is not empty, arms that it
            does not name are fine-tuned once on each task.
        equal_time: the arm whose time all arms train for; None if each arm has its own number of steps.
        note: what a reader should know, such as how the arms stand for larger ones.
        pretrain: settings of all arms.
        scales: changes to the protocol by scale; `pretrain` and `arms` inside them are merged. A `claim` in
            them is the sentence for a scale that tests less.
        published: the published table.
        name: name of the file without its suffix.
        file: path of the user's file; None for a claim of the package.
    """

    claim: str
    source: str
    arms: dict[str, Any]
    columns: tuple[str, ...]
    expectations: tuple[Expectation, ...] = ()
    recurrence: ExponentRange | None = None
    starts: dict[str, str] = field(default_factory=dict)
    finetuning: dict[str, FinetuningPlan] = field(default_factory=dict)
    equal_time: str | None = None
    note: str = ""
    seeds: int | None = None
    only_scales: tuple[str, ...] = ()
    pretrain: dict[str, Any] = field(default_factory=dict)
    scales: dict[str, Any] = field(default_factory=dict)
    published: Published = Published()
    name: str = ""
    file: str | None = None

    @property
    def label(self) -> str:
        """The claim as on the command line: the user's file, or the name of a claim of the package."""
        return self.file or self.name


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
    """Raise `InputError` if names do not fit each other."""
    if not re.fullmatch(r"[\w.-]{1,60}", claim.name):
        raise InputError(
            f"{claim.name}: a claim has a name of letters, digits, dots, dashes and underscores; rename it"
        )
    if not 1 <= len(claim.arms) <= _MAX_ARMS:
        raise InputError(f"arms: {len(claim.arms)}; a claim needs 1 to {_MAX_ARMS}")
    expected = claim.recurrence
    if expected is not None and not PHI_BOUNDS[0] <= expected.above < expected.below <= PHI_BOUNDS[1]:
        raise InputError(
            f"recurrence: above = {expected.above:g}, below = {expected.below:g}: must be an interval within "
            f"{PHI_BOUNDS[0]:g} and {PHI_BOUNDS[1]:g}"
        )
    if not claim.expectations and claim.recurrence is None:
        raise InputError("expectations: missing; a claim expects something")
    for name, settings in claim.arms.items():
        if not _ARM_NAME.fullmatch(name):
            raise InputError(
                f"arms: {ascii(name)[:60]}: use up to 40 letters, digits and signs of ' .+=/()%,-'"
            )
        if not isinstance(settings, dict):
            raise InputError(
                f'arms.{name}: expected a table of settings, such as {{ objective.pair = "sop" }}'
            )
    for name, changes in claim.scales.items():
        if not isinstance(changes, dict):
            raise InputError(f"scales.{name}: expected a table, such as {{ seeds = 10 }}")
        if not isinstance(changes.get("claim", ""), str):
            raise InputError(f"scales.{name}.claim: expected a sentence")
    if claim.seeds is not None and not 1 <= claim.seeds <= MAX_SEEDS:
        raise InputError(f"seeds = {claim.seeds}: must be 1 to {MAX_SEEDS}")
    for measure in (*claim.columns, *(one.measure for one in claim.expectations)):
        find_measure(measure)
    for expectation in claim.expectations:
        compared = [one for one in (expectation.arm, expectation.than) if isinstance(one, str)]
        for arm in compared:
            if arm not in claim.arms:
                raise InputError(f"expectations: {arm}: no such arm{did_you_mean(arm, claim.arms)}")
        if expectation.arm == expectation.than:
            raise InputError(f"expectations: {expectation.arm}: compared with itself; name another arm")
        if expectation.margin < 0:
            raise InputError(f"expectations: margin = {expectation.margin}: must not be negative")
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


def claim_version(claim: Claim, scale: str) -> str:
    """Return a checksum of what a claim tests at a scale; other scales and the note do not change it."""
    values = asdict(claim_at(claim, scale, has_tasks=True))
    values["scales"] = {scale: claim.scales.get(scale, {})}
    for name in ("file", "only_scales", "note"):
        del values[name]
    for plan in values["finetuning"].values():
        if plan["rates"] == (1.0,):  # claims of earlier versions have none; their reports stay valid
            del plan["rates"]
    return json_checksum(values)[:16]


def claim_at(claim: Claim, scale: str, *, has_tasks: bool) -> Claim:
    """Return a claim with the sentence, expectations and columns that it has at a scale."""
    expectations = [one for one in claim.expectations if not one.only_scales or scale in one.only_scales]
    columns = [name for name in claim.columns if has_tasks or find_measure(name).source != "tasks"]
    sentence = claim.scales.get(scale, {}).get("claim", claim.claim)
    return replace(claim, claim=sentence, expectations=tuple(expectations), columns=tuple(columns))


def merged(*tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables merged; later ones override earlier ones."""
    result: dict[str, Any] = {}
    for table in tables:
        for key, value in table.items():
            before = result.get(key)
            if isinstance(before, dict) and isinstance(value, Mapping):
                result[key] = merged(before, value)
            else:
                result[key] = value
    return result
