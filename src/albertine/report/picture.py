"""A network as a drawing: pieces through a narrow table, then blocks, which may be one again and again."""

from collections import Counter
from html import escape

from albertine.model.plan import Step, plan_of
from albertine.settings import ModelSettings

_MOST_BLOCKS = 6  # that are drawn
_STEP = 52  # from one box to the next


def kind_of(model: ModelSettings) -> str:
    """Return what a network is called, by what its layers share."""
    whole = model.share == "all" and model.groups == 1
    return "ALBERT" if whole else "BERT" if model.share == "none" else "Between ALBERT and BERT"


def picture(model: ModelSettings, title: str, answers: str) -> str:
    """Draw a network: its embedding, its blocks with what repeats, and what it answers."""
    plan = plan_of(model)
    shared = len(set(plan)) == 1 < len(plan)
    boxes = [
        ("box", f"{model.vocab_size:,} pieces, each {model.embedding_size} wide", "token, position, segment")
    ]
    if model.projects:
        boxes.append(("box", f"widened from {model.embedding_size} to {model.hidden_size}", "one matrix"))
    wide = f"{model.hidden_size} wide, {model.heads} heads"
    if shared:
        boxes.append(("block", "attention + feed-forward", wide))
    else:
        boxes += [("block other", said, wide) for said in _layers(plan)]
    boxes.append(("box", answers, "what it answers"))
    parts = []
    for number, (kind, said, more) in enumerate(boxes):
        y = -_STEP * number  # upwards
        parts += [_box(y, said, more, kind), *([_arrow(y + _STEP - 14)] if number else [])]
    if shared:
        parts.append(_loop(-_STEP * (len(boxes) - 2), len(plan)))
    top = -_STEP * (len(boxes) - 1)
    return (
        f'<figure class="picture"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 {top - 8} 460 {54 - top}" role="img" aria-label="{escape(title, quote=True)}">'
        f"{''.join(parts)}</svg>"
        "</figure>"
    )


def _layers(plan: tuple[Step, ...]) -> list[str]:
    """Say of each layer which weights it uses; of many, the first ones and the last."""
    attentions, ffns = (Counter(row) for row in zip(*plan, strict=True))
    said = []
    for number, step in enumerate(plan, 1):
        if attentions[step.attention] == ffns[step.ffn] == 1:
            said.append(f"layer {number}: weights of its own")
        else:
            said.append(f"layer {number}: attention {step.attention + 1}, feed-forward {step.ffn + 1}")
    return said if len(said) <= _MOST_BLOCKS else [*said[: _MOST_BLOCKS - 1], f"... {said[-1]}"]


def _box(y: int, said: str, more: str, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="40" y="{y}" width="280" height="38" rx="7"/>'
        f'<text class="said mid" x="180" y="{y + 17}">{escape(said)}</text>'
        f'<text class="mid" x="180" y="{y + 32}">{escape(more)}</text>'
    )


def _arrow(y: int) -> str:
    """Point from the box below to the one that ends at `y`."""
    return (
        f'<line class="flow" x1="180" y1="{y + 14}" x2="180" y2="{y + 5}"/>'
        f'<path class="tip" d="M180 {y + 1} l-4 6 h8 z"/>'
    )


def _loop(y: int, times: int) -> str:
    """Lead from the top of a block back to its bottom, so many times."""
    return (
        f'<path class="flow" d="M320 {y + 9} h22 a7 7 0 0 1 7 7 v6 a7 7 0 0 1 -7 7 h-17"/>'
        f'<path class="tip" d="M321 {y + 29} l7 -4 v8 z"/>'
        f'<text class="said" x="358" y="{y + 18}">{times} times,</text>'
        f'<text x="358" y="{y + 33}">same weights</text>'
    )
