"""Reports of studies are copied into the documentation, and its table of verdicts has a row for each."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

from albertine.study.summary import ReportSummary
from albertine.study.verdicts import Outcome

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from publish_studies import DOCS, publish, with_rows

HEADER = (
    "| claim | scale | seeds | verdict | the claim in a sentence | measured on |\n|---|---|---|---|---|---|\n"
)


def write_report(
    out: Path, claim: str, outcome: Outcome, needed: int | None = None, outcomes: Sequence[Outcome] = ()
) -> None:
    """Write the files of a report as a study does."""
    verdicts = [{"outcome": one} for one in outcomes]
    folder = out / "claims"
    folder.mkdir(parents=True, exist_ok=True)
    page = f"{claim}.minutes.html"
    summary = ReportSummary(
        claim, "It holds.", "paper", "minutes", outcome, 5, needed, [], verdicts, "1", None, page
    )
    (folder / page).write_text(f"<header>{claim}</header>{outcome}<code>albertine study --out {out}</code>")
    (folder / page).with_suffix(".json").write_text(json.dumps(asdict(summary)))


def test_published_reports_have_pages_and_rows(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "README.md").write_text(f"# Studies\n\n{HEADER}\nAfter the table.\n")

    write_report(tmp_path / "first", "table-5", "undecided", 12)
    publish(tmp_path / "first", docs, "there")
    write_report(tmp_path / "second", "table-5", "confirmed")
    write_report(tmp_path / "second", "n-grams", "contradicted")
    publish(tmp_path / "second", docs, "here")

    text = (docs / "README.md").read_text()
    assert text == (
        f"# Studies\n\n{HEADER}"
        "| [`n-grams`](claims/n-grams.minutes.html) | minutes | 5 | contradicted | It holds. | here |\n"
        "| [`table-5`](claims/table-5.minutes.html) | minutes | 5 | confirmed | It holds. | here |\n\n"
        "After the table.\n"
    )
    assert (docs / "claims" / "table-5.minutes.html").read_text() == (
        "<header>table-5<p>Measured on here.</p></header>confirmed<code>albertine study --out studies</code>"
    )
    assert json.loads((docs / "claims" / "n-grams.minutes.json").read_text())["outcome"] == "contradicted"


def test_an_undecided_claim_says_how_many_seeds_may_decide(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "README.md").write_text(HEADER)
    write_report(tmp_path, "table-5", "undecided", 12)
    publish(tmp_path, docs, "there")
    assert "| undecided; about 12 seeds would decide |" in (docs / "README.md").read_text()


def test_the_row_of_a_mixed_verdict_counts_the_expectations(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "README.md").write_text(HEADER)
    outcomes: list[Outcome] = ["confirmed", "undecided", "confirmed"]
    write_report(tmp_path, "table-5", "undecided", 12, outcomes)
    publish(tmp_path, docs, "there")
    counts = "of 3 expectations, 2 confirmed, 1 undecided"
    assert f"| undecided: {counts}; about 12 seeds would decide |" in (docs / "README.md").read_text()


def test_every_published_page_says_where_it_was_measured() -> None:
    for page in (DOCS / "claims").glob("*.html"):
        assert page.read_text(encoding="utf-8").count("<p>Measured on ") == 1, page


def test_a_page_without_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="has no table"):
        with_rows("# Studies\n", {})


def test_every_published_row_has_its_files() -> None:
    rows = [
        line for line in (DOCS / "README.md").read_text(encoding="utf-8").splitlines() if "](claims/" in line
    ]
    pages = {line.partition("](")[2].partition(")")[0] for line in rows}
    files = {f"claims/{file.name}" for file in (DOCS / "claims").glob("*.html")}
    assert pages == files
    assert all((DOCS / page).with_suffix(".json").is_file() for page in pages)
