"""Pages fit their window, in Chromium: nothing is wider than a phone, a tablet or a desktop."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from albertine.report.charts import Axes, Curve, Interval, interval_chart, line_chart
from albertine.report.page import Page, Section, code_block, html_paragraphs, html_table, side_by_side
from tests.export.browser import WINDOWS, Browser, missing_browser, open_browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing_browser() is not None, reason=str(missing_browser())),
]

STUDIES = sorted((Path(__file__).parents[2] / "docs" / "studies" / "claims").glob("*.html"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def page_of_everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with wide tables, long words, charts and commands."""
    header = ("", *(f"a long heading {number}" for number in range(8)))
    table = html_table(header, [("an arm with a long name", *["12.3 \u00b1 0.4"] * 8)] * 3)
    curves = [Curve(f"curve {number}", [(0, 1), (5, number)], number + 1) for number in range(4)]
    intervals = [Interval("one arm against another, a measure", 0.5, 0.2, 0.9, "+1.2")]
    blocks = [
        html_paragraphs("word" * 60),
        side_by_side([table, table]),
        side_by_side([line_chart("a chart", Axes("x", "y"), curves)] * 2),
        interval_chart("differences", intervals, 0.5),
        code_block("albertine pretrain " + "--train.some-long-option value " * 20),
    ]
    figures = [(f"a figure {number}", "1,234,567") for number in range(5)]
    file = tmp_path_factory.mktemp("pages") / "page.html"
    Page("A title", "A summary.", figures, [Section("All", blocks)]).write(file)
    return file


@pytest.mark.parametrize("window", WINDOWS)
def test_no_page_is_wider_than_the_window(window: int, browser: Browser, page_of_everything: Path) -> None:
    assert STUDIES
    widths = {file.name: browser.width_of(file, window) for file in (page_of_everything, *STUDIES)}
    assert {name: width for name, width in widths.items() if width > window} == {}


def test_a_page_that_is_too_wide_is_found(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "wide.html"
    file.write_text('<p style="width: 50rem">text</p>')
    assert browser.width_of(file, 390) > 800
