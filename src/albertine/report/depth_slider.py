"""A slider over the depth of a model: what it predicts after each step.

The page contains the predictions of every depth. Without JavaScript it shows those of the last one.
"""

from collections.abc import Sequence

_SCRIPT = """
document.querySelectorAll(".depth-slider").forEach((slider) => {
  const input = slider.querySelector("input"), output = slider.querySelector("output");
  const show = () => {
    output.value = `${input.value} of ${input.max}`;
    slider.parentElement.querySelectorAll("[data-depth]").forEach((block) => {
      block.hidden = block.dataset.depth !== input.value;
    });
  };
  slider.hidden = false;
  input.addEventListener("input", show);
  show();
});
"""


def depth_slider(num_depths: int, *, shares_layers: bool) -> str:
    """Return the slider, which switches the blocks of `at_each_depth` in its parent element.

    Args:
        num_depths: number of layers.
        shares_layers: whether all layers have the same weights.
    """
    label = "Times that the shared layer is applied" if shares_layers else "Layers"
    return (
        f'<p class="depth-slider" hidden="hidden"><label>{label}: '
        f'<input type="range" min="1" max="{num_depths}" value="{num_depths}"/></label> '
        f"<output>{num_depths} of {num_depths}</output></p>"
    )


def depth_slider_script() -> str:
    """Return the script of all sliders of a page; it follows the blocks that they switch."""
    return f"<script>{_SCRIPT}</script>"


def at_each_depth(blocks: Sequence[str]) -> str:
    """Return blocks, one for each depth, of which the slider shows one at a time."""
    opening = [f'<div data-depth="{depth}" hidden="hidden">' for depth in range(1, len(blocks))]
    opening.append(f'<div data-depth="{len(blocks)}">')
    return "".join(f"{tag}{block}</div>" for tag, block in zip(opening, blocks, strict=True))
