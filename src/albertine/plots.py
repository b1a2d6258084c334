"""Colors and axes that all plots share; the colors are those of the light pages."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, RED, GREEN, PURPLE, OCHRE = "#1f5f8b", "#c2573a", "#3d7a4e", "#7a4f9a", "#a07818"
PALE_BLUE = "#9db7d5"
INK, GRAY, PALE_GRAY = "#1f2430", "#6b6b6b", "#e6e6e6"


def style_axes(axes: "Axes", *, grid: bool = False) -> None:
    """Remove the frame above and to the right, and draw pale horizontal lines behind the data if wanted."""
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(axis="y", color=PALE_GRAY, linewidth=0.8)
        axes.set_axisbelow(True)
