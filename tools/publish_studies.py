"""Publish the reports of studies in the documentation, with the table of their verdicts.

    python tools/publish_studies.py studies/ "two cores of an AMD EPYC with AVX2, 2026-11-25"

docs/studies/claims/    the pages and their numbers, as JSON
docs/studies/README.md  gets a row for each report; rows of earlier calls stay as they are

The runs stay where they are: only the reports are copied.
"""

import itertools
import shlex
import sys
from html import escape
from pathlib import Path

from albertine.study.summary import CLAIMS_FOLDER, ReportSummary, read_summaries
from albertine.study.verdicts import outcomes_text, seeds_needed_text

DOCS = Path(__file__).parent.parent / "docs" / "studies"
_HEADER = "| claim | scale | seeds | verdict | the claim in a sentence | measured on |"


def publish(out: Path, docs: Path, measured_on: str) -> list[ReportSummary]:
    """Copy the reports in `out` to `docs`, and update its table; return their summaries."""
    published = docs / CLAIMS_FOLDER
    published.mkdir(exist_ok=True)
    summaries = read_summaries(out)
    for one in summaries:
        page = Path(one.page)
        for file in (page, page.with_suffix(".json")):
            text = (out / CLAIMS_FOLDER / file).read_text(encoding="utf-8")
            # Where the runs were on this machine means nothing to others.
            text = text.replace(f"--out {shlex.quote(str(out))}", "--out studies")
            if file == page:
                text = with_machine(text, measured_on)
            (published / file).write_text(text, encoding="utf-8")
    readme = docs / "README.md"
    rows = {_link(one): _row(one, measured_on) for one in summaries}
    readme.write_text(with_rows(readme.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return summaries


def with_machine(page: str, measured_on: str) -> str:
    """Return the HTML of a page that says in its head where and when its runs were measured."""
    if page.count("</header>") != 1:
        raise ValueError("the page has no head, or more than one")
    return page.replace("</header>", f"<p>Measured on {escape(measured_on)}.</p></header>")


def with_rows(text: str, rows: dict[str, str]) -> str:
    """Return a page with rows of the table of verdicts added or replaced; `rows` has them by their link."""
    before, header, after = text.partition(_HEADER + "\n|---|---|---|---|---|---|\n")
    if not header:
        raise ValueError(f"the page has no table with the header {_HEADER}")
    lines = after.splitlines(keepends=True)
    table = list(itertools.takewhile(lambda line: line.startswith("|"), lines))
    former = {line.split(" | ")[0].removeprefix("| "): line for line in table}
    added = {link: f"{row}\n" for link, row in rows.items()}
    merged = [line for _, line in sorted({**former, **added}.items())]
    return before + header + "".join([*merged, *lines[len(table) :]])


def _link(one: ReportSummary) -> str:
    return f"[`{one.claim}`]({CLAIMS_FOLDER}/{one.page})"


def _row(one: ReportSummary, measured_on: str) -> str:
    verdict: str = one.outcome
    counts = outcomes_text([expected["outcome"] for expected in one.verdicts])
    if counts:
        verdict += f": {counts}"
    if one.seeds_needed is not None:
        verdict += f"; {seeds_needed_text(one.seeds_needed)}"
    return f"| {_link(one)} | {one.scale} | {one.seeds} | {verdict} | {one.sentence} | {measured_on} |"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print('usage: publish_studies.py STUDIES "MACHINE, DATE"', file=sys.stderr)
        sys.exit(2)
    for report in publish(Path(sys.argv[1]), DOCS, sys.argv[2]):
        print(f"{report.claim} ({report.scale}): {report.outcome}")
