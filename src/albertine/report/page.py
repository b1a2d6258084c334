"""A report as one self-contained HTML file, for large and small screens, in light and dark mode."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from albertine.atomic import atomic_file
from albertine.version import __version__

_MIN_LISTED_COLUMNS = 8  # of a table whose rows are lists on a phone
_MAX_COLUMNS = 4  # of key figures in one row
# Texts of the user may have some; HTML allows none but tab and line end.
_CONTROL_CHARACTERS = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0)} - {0x09, 0x0A})


@dataclass(frozen=True)
class Section:
    """A heading and its content, as HTML."""

    title: str
    blocks: Sequence[str]


@dataclass(frozen=True)
class Page:
    """A report.

    Attributes:
        title: the heading.
        summary: the sentences below the heading.
        key_figures: name and value of each figure at the top.
        sections: the content.
        notes: a small text below each key figure, such as what to compare it with; empty for none.
    """

    title: str
    summary: str
    key_figures: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    notes: Sequence[str] = ()

    def write(self, file: Path) -> None:
        """Write the page atomically."""
        with atomic_file(file) as partial:
            # Names of files that are not UTF-8 are read with surrogates, which UTF-8 cannot encode.
            partial.write_text(self.html(), encoding="utf-8", errors="replace")

    def html(self) -> str:
        """Return the page as HTML; sections without content are left out."""
        style = (files(__package__) / "style.css").read_text(encoding="utf-8")
        body = "".join(
            f"<section><h2>{escape(section.title)}</h2>{''.join(section.blocks)}</section>"
            for section in self.sections
            if any(section.blocks)
        )
        content = (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{style}</style></head><body>"
            f'<header><h1>{escape(self.title)}</h1><p class="lead">{escape(self.summary)}</p></header>'
            f"{self._key_figures_html()}<main>{body}</main>"
            f"<footer>Written by Albertine {__version__}.</footer></body></html>\n"
        )
        return content.translate(_CONTROL_CHARACTERS)

    def _key_figures_html(self) -> str:
        """Return the key figures as tiles, in rows without gaps: one row, or two of the same length."""
        count = len(self.key_figures)
        if not count:
            return ""
        notes = [f"<small>{escape(note)}</small>" if note else "" for note in self.notes] or [""] * count
        tiles = "".join(
            f'<div class="fact"><b>{escape(value)}</b>{escape(name)}{note}</div>'
            for (name, value), note in zip(self.key_figures, notes, strict=True)
        )
        columns = count if count <= _MAX_COLUMNS else -(-count // 2)
        css_class = f"facts{' odd' if count % 2 else ''}{' two-rows' if count > _MAX_COLUMNS else ''}"
        return f'<div class="{css_class}" style="--columns:{columns}">{tiles}</div>'


def html_paragraphs(*texts: str) -> str:
    """Return texts as HTML paragraphs."""
    return "".join(f"<p>{escape(text)}</p>" for text in texts)


def side_by_side(blocks: Iterable[str]) -> str:
    """Return blocks side by side where they fit, else below each other."""
    return f'<div class="pair">{"".join(blocks)}</div>'


def html_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    wrap_last_column: bool = False,
    links: Sequence[str] | None = None,
) -> str:
    """Return a table; a phone shows each row of one with many columns as a list.

    Args:
        header: headings of the columns.
        rows: texts of the cells.
        wrap_last_column: whether text in the last column wraps; it never does in the others.
        links: addresses to which the first cells of the rows link.
    """
    header_html = "".join(f"<th>{_cell_html(cell)}</th>" for cell in header)
    cells = [[_cell_html(cell) for cell in row] for row in rows]
    for row, link in zip(cells, links or (), strict=False):
        row[0] = f'<a href="{escape(link, quote=True)}">{row[0]}</a>'
    is_listed = len(header) >= _MIN_LISTED_COLUMNS
    titles = [f' data-title="{escape(cell, quote=True)}"' if is_listed else "" for cell in header]
    rows_html = "".join(
        f"<tr>{''.join(f'<td{title}>{cell}</td>' for title, cell in zip(titles, row, strict=True))}</tr>"
        for row in cells
    )
    classes = [*(["prose"] if wrap_last_column else []), *(["listed"] if is_listed else [])]
    class_attribute = f' class="{" ".join(classes)}"' if classes else ""
    return (
        f'<div class="wide"><table{class_attribute}><thead><tr>{header_html}</tr></thead>'
        f"<tbody>{rows_html}</tbody></table></div>"
    )


def _cell_html(text: str) -> str:
    """Return the text of a cell, in which the paths of runs may be divided on a narrow screen."""
    return escape(text).replace("/", "/<wbr/>")


def code_block(*lines: str) -> str:
    """Return lines as a code block."""
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"
