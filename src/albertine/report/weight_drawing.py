"""Drawings of the weights of models as areas: what is stored, and what is used again without being stored.

The embeddings are at the bottom, the layers above them. All models of a page have the same scale, and all
rectangles the same width. A dashed outline is a layer whose weights are stored already.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from albertine.model.depth_plan import depth_plan
from albertine.model.parameter_counts import count_parameters
from albertine.progress import format_bytes
from albertine.report.model_charts import ChartedModel
from albertine.settings import ModelSettings

_BYTES = 4  # of a parameter in fp32
_WIDTH, _MAX_HEIGHT = 132, 240  # pixels


@dataclass(frozen=True)
class WeightPart:
    """A part of the weights.

    Attributes:
        name: name of the part; parts with the same name and number of uses are described together.
        num_bytes: stored size.
        uses: how often each token uses each byte; 0 if it uses only some rows.
        is_block: whether it belongs to the layers.
    """

    name: str
    num_bytes: int
    uses: int
    is_block: bool = False


@dataclass(frozen=True)
class AppliedPart:
    """A part in the order of computation, and whether it was used before."""

    part: WeightPart
    is_repeated: bool


def applied_parts(model: ModelSettings) -> list[AppliedPart]:
    """Return the parts of the encoder in the order in which a token passes through them."""
    count = count_parameters(model)
    norm = 2 * model.hidden_size
    embedding_norm = 2 * model.embedding_size
    attention_size = count.attention // model.attention_block_count + norm
    ffn_size = count.ffn // model.ffn_block_count + norm
    embeddings = count.token_embedding + count.position_embedding + count.segment_embedding + embedding_norm
    last_norm = norm if model.norm_first else 0
    others = (
        ("differences of the layers", count.step_differences),
        ("control of the depth", count.depth_control),
        ("pooler" if not last_norm else "pooler and last norm", count.pooler + last_norm),
    )
    return [
        AppliedPart(WeightPart("embeddings", _BYTES * embeddings, 0), is_repeated=False),
        *_once("projection", count.projection),
        *_layers(model, _BYTES * attention_size, _BYTES * ffn_size),
        *(part for name, size in others for part in _once(name, size)),
    ]


def _once(name: str, parameters: int) -> list[AppliedPart]:
    """Return a part that is used once, or nothing if it has no parameters."""
    return [AppliedPart(WeightPart(name, _BYTES * parameters, 1), is_repeated=False)] if parameters else []


def _layers(model: ModelSettings, attention_bytes: int, ffn_bytes: int) -> list[AppliedPart]:
    """Return the blocks in the order of the depth plan: whole blocks where both halves are used alike."""
    plan = depth_plan(model)
    attention_uses = Counter(blocks.attention for blocks in plan)
    ffn_uses = Counter(blocks.ffn for blocks in plan)
    are_whole = len(set(plan)) == len(attention_uses) == len(ffn_uses)
    parts: list[AppliedPart] = []
    seen: set[tuple[str, int]] = set()
    for blocks in plan:
        halves = (
            [("block", blocks.attention, attention_bytes + ffn_bytes, attention_uses[blocks.attention])]
            if are_whole
            else [
                ("attention block", blocks.attention, attention_bytes, attention_uses[blocks.attention]),
                ("feed-forward block", blocks.ffn, ffn_bytes, ffn_uses[blocks.ffn]),
            ]
        )
        for name, index, num_bytes, uses in halves:
            part = WeightPart(name, num_bytes, uses, is_block=True)
            parts.append(AppliedPart(part, is_repeated=(name, index) in seen))
            seen.add((name, index))
    return parts


def weight_drawing(models: Sequence[ChartedModel]) -> str:
    """Return a drawing of the weights of models, each with a description of its parts."""
    parts = {model.name: applied_parts(model.settings) for model in models}
    largest = max(sum(part.part.num_bytes for part in applied) for applied in parts.values())
    figures = "".join(
        _figure(model.name, parts[model.name], model.color, _MAX_HEIGHT / largest) for model in models
    )
    note = (
        "Areas are bytes in fp32, all with the same scale. A dashed outline is a layer that uses weights "
        "which are stored already."
    )
    return f'<div class="weights">{figures}</div><p class="small">{note}</p>'


def _figure(name: str, applied: Sequence[AppliedPart], color: int, pixels_per_byte: float) -> str:
    stored = [one.part for one in applied if not one.is_repeated]
    total = format_bytes(sum(part.num_bytes for part in stored))
    lines = _descriptions(stored)
    label = f"{name}, {total}: {'; '.join(text for _, text in lines)}"
    items = "".join(
        f'<li><span class="swatch {_css_class(part)} color-{color}"></span>{escape(text)}</li>'
        for part, text in reversed(lines)
    )
    return (
        f'<figure><figcaption>{escape(name)}: {total}</figcaption><div class="stack">'
        f"{_stack_svg(applied, color, pixels_per_byte, label)}<ul>{items}</ul></div></figure>"
    )


def _descriptions(stored: Sequence[WeightPart]) -> list[tuple[WeightPart, str]]:
    """Return a text for each group of like parts, in the order of computation."""
    texts = []
    for part, count in Counter(stored).items():
        size = format_bytes(part.num_bytes).replace(" ", "\u00a0")  # the unit stays in the line
        if part.is_block:
            times = "once" if part.uses == 1 else f"{part.uses} times"
            what = f"1 {part.name} of {size}" if count == 1 else f"{count} {part.name}s of {size} each"
            texts.append((part, f"{what}: a token uses every byte {times}"))
        elif part.uses:
            texts.append((part, f"{part.name}: {size}"))
        else:
            texts.append((part, f"{part.name}: {size}, of which a token uses its own rows"))
    return texts


def _css_class(part: WeightPart) -> str:
    return "whole" if part.is_block else "some-rows" if part.uses == 0 else "rest"


def _stack_svg(applied: Sequence[AppliedPart], color: int, pixels_per_byte: float, label: str) -> str:
    heights = [one.part.num_bytes * pixels_per_byte for one in applied]
    y = sum(heights)
    title = f"<title>{escape(label)}</title>"
    rectangles = []
    for one, height in zip(applied, heights, strict=True):
        y -= height
        if one.is_repeated:  # a little smaller, so that the outlines of two layers do not touch
            gap = min(1.5, height / 4)
            rectangles.append(_rectangle(f"repeated color-{color}", y + gap, height - 2 * gap, inset=0.5))
        else:
            rectangles.append(_rectangle(f"stored {_css_class(one.part)} color-{color}", y, height))
    total = sum(heights)
    return (
        f'<svg width="{_WIDTH}" height="{total:.3f}" viewBox="0 0 {_WIDTH} {total:.3f}" role="img" '
        f'aria-label="{escape(label, quote=True)}">{title}{"".join(rectangles)}</svg>'
    )


def _rectangle(css_class: str, y: float, height: float, inset: float = 0) -> str:
    return (
        f'<rect class="{css_class}" x="{inset:g}" y="{y:.3f}" width="{_WIDTH - 2 * inset:g}" '
        f'height="{height:.3f}"/>'
    )
