"""Marks the wide tables of the site, so that phones show each of their rows as a list.

Each cell of such a table gets the title of its column as `data-title`, which site.css shows before it.
"""

import html
import re
from itertools import count

_MIN_COLUMNS = 6
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_TITLE = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


def with_titles_in_cells(page: str) -> str:
    """Return the HTML of a page in which each cell of a wide table has the title of its column."""
    return _TABLE.sub(_changed_table, page)


def _changed_table(table: re.Match[str]) -> str:
    titles = [html.unescape(_TAG.sub("", title)) for title in _TITLE.findall(table[0])]
    if len(titles) < _MIN_COLUMNS:
        return table[0]
    rows = _ROW.sub(lambda row: _changed_row(row[0], titles), table[0])
    return rows.replace("<table>", '<table data-layout="stacked">', 1)


def _changed_row(row: str, titles: list[str]) -> str:
    columns = count()
    return re.sub(r"<td\b", lambda _: f'<td data-title="{html.escape(titles[next(columns)])}"', row)
