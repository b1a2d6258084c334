"""A claim: one sentence, the arms that test it, and what is expected of them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from albertine.checksums import json_checksum
from albertine.study.measures import find_measure
from albertine.study.tasks import FinetuningPlan

Relation = Literal["better", "equal", "not worse"]


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
    """A claim; see `claim_file` for its file.

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
