"""The drawing of the front page: one block applied twelve times beside twelve blocks, as SVG.

`python tools/front_drawing.py` writes the light and the dark file that the README shows. The site has the
drawing in its pages, in the colors of its style sheet.
"""

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "docs"
DESCRIPTION = (
    "ALBERT applies one block twelve times, BERT has twelve blocks. ALBERT-base has 11,683,584 parameters "
    "and token embeddings 128 wide, BERT-base 109,081,344 parameters and token embeddings 768 wide."
)
_COLORS = {
    "light": {"ink": "#1f2430", "soft": "#626876", "shared": "#1f5f8b", "own": "#c2573a"},
    "dark": {"ink": "#e6e4de", "soft": "#9aa1ae", "shared": "#6cb2e4", "own": "#ef8a6b"},
}
_SITE_COLORS = {
    "ink": "var(--md-default-fg-color)",
    "soft": "var(--md-default-fg-color--light)",
    "shared": "var(--albertine-shared)",
    "own": "var(--albertine-own)",
}
_WIDTH, _HEIGHT = 480, 384  # wide enough for the widest of the system's fonts
_NUM_LAYERS, _ROW, _GAP = 12, 15, 4
_BLOCK_WIDTH, _TOP = 160, 62
_BOTTOM = _TOP + _NUM_LAYERS * (_ROW + _GAP) - _GAP
_LEFT, _RIGHT = 2, 250  # of the two columns


def site_drawing() -> str:
    """Return the drawing for a page of the site."""
    return _drawing(_SITE_COLORS)


def file_names() -> dict[str, str]:
    """Return the content of each file, by name."""
    return {f"blocks-{scheme}.svg": _drawing(colors) + "\n" for scheme, colors in _COLORS.items()}


def _drawing(colors: dict[str, str]) -> str:
    style = (
        "text{font-family:system-ui,-apple-system,'Segoe UI',Arial,sans-serif;font-size:14px;"
        f"fill:{colors['soft']}}}"
        f".t{{font-size:19px;font-weight:700;fill:{colors['ink']}}}.n{{font-weight:600;fill:{colors['ink']}}}"
        f".s{{fill:{colors['shared']};fill-opacity:.2;stroke:{colors['shared']};stroke-width:1.6}}"
        f".o{{fill:{colors['own']};fill-opacity:.2;stroke:{colors['own']};stroke-width:1.4}}"
        f".p{{fill:none;stroke:{colors['shared']};stroke-width:1.1;stroke-dasharray:3 4;opacity:.75}}"
        f".f{{fill:none;stroke:{colors['soft']};stroke-width:1.6}}.h{{fill:{colors['soft']}}}"
    )
    parts = [
        *_captions(_LEFT, "ALBERT", "one block, 12 times", "11,683,584 parameters", "embeddings 128 wide"),
        *_captions(_RIGHT, "BERT", "twelve blocks", "109,081,344 parameters", "embeddings 768 wide"),
        *_repeated_block(),
        *(_rectangle("o", _RIGHT, _row_top(row), _BLOCK_WIDTH, _ROW) for row in range(_NUM_LAYERS)),
        _narrow_embedding(),
        _rectangle("o", _RIGHT, _BOTTOM + 18, _BLOCK_WIDTH, 28),
        *(_arrow(column + _BLOCK_WIDTH / 2, _BOTTOM + 17) for column in (_LEFT, _RIGHT)),
    ]
    return (
        f'<svg class="blocks" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{DESCRIPTION}"><style>{style}</style>{"".join(parts)}</svg>'
    )


def _captions(x: int, name: str, blocks: str, parameters: str, width: str) -> list[str]:
    y = _BOTTOM + 72
    return [
        f'<text class="t" x="{x}" y="22">{name}</text>',
        f'<text x="{x}" y="44">{blocks}</text>',
        f'<text class="n" x="{x}" y="{y}">{parameters}</text>',
        f'<text x="{x}" y="{y + 21}">{width}</text>',
    ]


def _row_top(row: int) -> int:
    return _TOP + row * (_ROW + _GAP)


def _repeated_block() -> list[str]:
    """Return one block at the bottom, outlines of its other passes, and the arrow that repeats it."""
    block_top, right = _row_top(_NUM_LAYERS - 1), _LEFT + _BLOCK_WIDTH
    middle, first = block_top + _ROW / 2, _TOP + _ROW / 2
    return [
        *(_rectangle("p", _LEFT, _row_top(row), _BLOCK_WIDTH, _ROW) for row in range(_NUM_LAYERS - 1)),
        _rectangle("s", _LEFT, block_top, _BLOCK_WIDTH, _ROW),
        f'<path class="f" d="M{right + 3} {first} h15 a9 9 0 0 1 9 9 V{middle - 9} a9 9 0 0 1 -9 9 h-8"/>',
        f'<path class="h" d="M{right + 3} {middle} l9 -5 v10 z"/>',
    ]


def _narrow_embedding() -> str:
    """Return the projection from the narrow embedding to the width of the block, as a trapezoid."""
    top, narrow = _BOTTOM + 18, _BLOCK_WIDTH * 128 / 768
    left = _LEFT + (_BLOCK_WIDTH - narrow) / 2
    sides = f"M{_LEFT} {top} h{_BLOCK_WIDTH} L{left + narrow:.1f} {top + 28} h-{narrow:.1f} z"
    return f'<path class="s" d="{sides}"/>'


def _rectangle(css_class: str, x: int, y: int, width: int, height: int) -> str:
    return f'<rect class="{css_class}" x="{x}" y="{y}" width="{width}" height="{height}" rx="3"/>'


def _arrow(x: float, y: int) -> str:
    return f'<path class="f" d="M{x} {y} v-8"/><path class="h" d="M{x} {y - 15} l-5 8 h10 z"/>'


if __name__ == "__main__":
    for name, content in file_names().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
