"""Diagrams of a model as SVG: embedding, projection, and layers, with a loop where one layer repeats."""

from collections import Counter
from html import escape

from albertine.model.depth_plan import BlockIndices, depth_plan
from albertine.settings import ModelSettings

_MAX_BLOCKS = 6
_BOX_LEFT, _BOX_RIGHT = 8, 320
_BOX_CENTER = (_BOX_LEFT + _BOX_RIGHT) // 2
_BOX_SPACING = 52  # from the top of one box to the top of the next


def architecture_name(model: ModelSettings) -> str:
    """Return the name of an architecture, by its depth rule and its shared weights."""
    if model.depth_rule == "halting":
        return "ALBERT with halting"
    if model.depth_rule == "equilibrium":
        return "ALBERT as an equilibrium"
    if model.has_step_differences:
        return "ALBERT with differences by step"
    if model.shares_all_layers:
        return "ALBERT"
    return "BERT" if model.share == "none" else "Between ALBERT and BERT"


def architecture_diagram(model: ModelSettings, title: str, output_label: str) -> str:
    """Return a diagram of a model: its embedding, its layers and its output."""
    plan = depth_plan(model)
    is_fully_shared = len(set(plan)) == 1 < len(plan)
    boxes = [
        (
            "box",
            f"{model.vocab_size:,} tokens, {model.embedding_size} wide",
            "token and segment embeddings" if model.rotary else "token, position and segment embeddings",
        )
    ]
    if model.has_projection:
        boxes.append(("box", f"projection from {model.embedding_size} to {model.hidden_size}", "one matrix"))
    width_label = f"{model.hidden_size} wide, {model.heads} heads" + (
        ", rotary positions" if model.rotary else ""
    )
    if is_fully_shared:
        boxes.append(("block", "attention + feed-forward", width_label))
    else:
        boxes += [("block other", label, width_label) for label in _layer_labels(plan)]
    boxes.append(("box", output_label, "output"))
    parts = []
    for number, (css_class, label, detail) in enumerate(boxes):
        y = -_BOX_SPACING * number  # y grows downwards
        parts += [
            _box_svg(y, label, detail, css_class),
            *([_arrow_svg(y + _BOX_SPACING - 14)] if number else []),
        ]
    if is_fully_shared:
        parts.append(_loop_svg(-_BOX_SPACING * (len(boxes) - 2), len(plan)))
    top = -_BOX_SPACING * (len(boxes) - 1)
    return (
        f'<figure class="picture"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 {top - 8} 460 {54 - top}" role="img" aria-label="{escape(title, quote=True)}">'
        f"{''.join(parts)}</svg>"
        "</figure>"
    )


def _layer_labels(plan: tuple[BlockIndices, ...]) -> list[str]:
    """Return a label per layer that names its weights; of many layers, only the first ones and the last."""
    attentions, ffns = (Counter(row) for row in zip(*plan, strict=True))
    labels = []
    for number, blocks in enumerate(plan, 1):
        if attentions[blocks.attention] == ffns[blocks.ffn] == 1:
            labels.append(f"layer {number}: own weights")
        else:
            labels.append(f"layer {number}: attention {blocks.attention + 1}, feed-forward {blocks.ffn + 1}")
    return labels if len(labels) <= _MAX_BLOCKS else [*labels[: _MAX_BLOCKS - 1], f"... {labels[-1]}"]


def _box_svg(y: int, label: str, detail: str, css_class: str) -> str:
    return (
        f'<rect class="{css_class}" x="{_BOX_LEFT}" y="{y}" width="{_BOX_RIGHT - _BOX_LEFT}" '
        'height="38" rx="7"/>'
        f'<text class="strong mid" x="{_BOX_CENTER}" y="{y + 17}">{escape(label)}</text>'
        f'<text class="mid" x="{_BOX_CENTER}" y="{y + 32}">{escape(detail)}</text>'
    )


def _arrow_svg(y: int) -> str:
    """Return an arrow from the box below to the box that ends at `y`."""
    return (
        f'<line class="flow" x1="{_BOX_CENTER}" y1="{y + 14}" x2="{_BOX_CENTER}" y2="{y + 5}"/>'
        f'<path class="tip" d="M{_BOX_CENTER} {y + 1} l-4 6 h8 z"/>'
    )


def _loop_svg(y: int, times: int) -> str:
    """Return an arrow from the top of a box back to its bottom, with the number of repetitions."""
    return (
        f'<path class="flow" d="M{_BOX_RIGHT} {y + 9} h22 a7 7 0 0 1 7 7 v6 a7 7 0 0 1 -7 7 h-17"/>'
        f'<path class="tip" d="M{_BOX_RIGHT + 1} {y + 29} l7 -4 v8 z"/>'
        f'<text class="strong" x="358" y="{y + 18}">{times} times,</text>'
        f'<text x="358" y="{y + 33}">same weights</text>'
    )
