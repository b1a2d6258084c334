"""All reports in a folder of studies, as a page and as a list."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from albertine.display import counted
from albertine.errors import InputError
from albertine.input_files import read_json_object
from albertine.json_input import JsonError, dataclass_from_json
from albertine.report.page import Page, Section, html_table
from albertine.study.catalog import claim_names, find_claim
from albertine.study.claim import Claim, claim_version
from albertine.study.protocol import find_protocol, protocol_version
from albertine.study.verdicts import Outcome

CLAIMS_FOLDER = "claims"
_ADVICE = "remove it and run the study again"


@dataclass(frozen=True)
class ReportSummary:
    """What the list shows of a report.

    Attributes:
        claim: name of the claim.
        sentence: the claim.
        source: where it was published.
        scale: the scale.
        outcome: the verdict.
        seeds: number of seeds.
        seeds_needed: number of seeds that would decide; None if unknown or decided.
        arms: the arms, with their numbers.
        verdicts: the verdicts.
        version: checksum of the claim that was tested.
        protocol: checksum of the protocol, see `protocol_version`; None in reports of earlier versions.
        text: the user's text; None for the little world.
        data: the folder of real tasks; None without such tasks.
        page: name of the page.
        recurrence: the fits of the recurrence exponent, if there are any.
        measures: titles of the measures, with their units; empty in reports of earlier versions.
        diverged_arms: names of the arms that predict worse than a guess.
        timed_on: with equal time, the machine on which the steps were timed; None if it is unknown.
    """

    claim: str
    sentence: str
    source: str
    scale: str
    outcome: Outcome
    seeds: int
    seeds_needed: int | None
    arms: list[Any]
    verdicts: list[Any]
    version: str
    text: str | None
    page: str
    recurrence: dict[str, Any] | None = None
    data: str | None = None
    protocol: str | None = None
    measures: dict[str, str] = field(default_factory=dict)
    diverged_arms: list[str] = field(default_factory=list)
    timed_on: str | None = None

    @property
    def content(self) -> str:
        """The text, and the folder of real tasks if there are any."""
        return ", ".join((self.text or "little world", *([self.data] if self.data else [])))


def read_summaries(out: Path) -> list[ReportSummary]:
    """Return the reports in a folder of studies, by name of the claim."""
    folder = out / CLAIMS_FOLDER
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return [_read_summary(file) for file in files]


def _read_summary(file: Path) -> ReportSummary:
    try:
        return dataclass_from_json(ReportSummary, read_json_object(file, _ADVICE))
    except JsonError as error:
        raise InputError(f"{file}: {error}; {_ADVICE}") from None


def list_rows(out: Path) -> list[tuple[str, str, str, str]]:
    """Return name, source, sentence and latest verdicts of the claims of the package, and of those in OUT."""
    summaries = read_summaries(out)
    rows = []
    for name in claim_names():
        claim = find_claim(name)
        rows.append((name, claim.source, claim.claim, _verdict_text(summaries, name, claim)))
    others = {one.claim: one for one in summaries if one.claim not in claim_names()}
    rows += [(name, one.source, one.sentence, _verdict_text(summaries, name)) for name, one in others.items()]
    return rows


def _verdict_text(summaries: list[ReportSummary], name: str, claim: Claim | None = None) -> str:
    """Return the verdicts on a claim; if the claim is given, also whether another version was tested."""
    texts = []
    for one in summaries:
        if one.claim == name:
            details = [one.scale, counted(one.seeds, "seed"), *([one.content] if one.text else [])]
            if claim is not None and (changed := _what_changed(one, claim)):
                details.append(f"of another version of the {changed}")
            texts.append(f"{one.outcome} ({', '.join(details)})")
    return "; ".join(texts) or "not tested"


def _what_changed(one: ReportSummary, claim: Claim) -> str | None:
    """Return what a report has another version of, if anything: the claim, or the protocol of its runs."""
    if claim_version(claim, one.scale) != one.version:
        return "claim"
    try:
        protocol = find_protocol(claim, one.scale)
    except InputError:  # the claim no longer has this scale
        return "claim"
    return None if one.protocol in (None, protocol_version(protocol)) else "protocol"


def summary_page(summaries: list[ReportSummary]) -> Page:
    """Return the page of all reports."""
    counts = {
        outcome: sum(one.outcome == outcome for one in summaries)
        for outcome in ("confirmed", "contradicted", "undecided")
    }
    rows = [
        (
            one.claim,
            one.scale,
            str(one.seeds),
            one.outcome,
            one.content,
            one.source,
            one.sentence,
        )
        for one in summaries
    ]
    header = ("claim", "scale", "seeds", "verdict", "text and tasks", "source", "sentence")
    links = [f"{CLAIMS_FOLDER}/{one.page}" for one in summaries]
    table = html_table(header, rows, wrap_last_column=True, links=links)
    return Page(
        "Studies",
        "Claims about ALBERT, each tested by training runs with several seeds.",
        [(outcome, str(count)) for outcome, count in counts.items()],
        [Section("Claims", [table])],
    )
