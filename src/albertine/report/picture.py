"""What ALBERT is, as a drawing: pieces through a narrow table, then one block again and again."""

from html import escape

from albertine.settings import ModelSettings

_MOST_BLOCKS = 6  # that are drawn


def picture(model: ModelSettings, title: str) -> str:
    """Draw a network: its embedding, its blocks with what repeats, and its two objectives."""
    shared = model.attention_blocks == 1 and model.ffn_blocks == 1
    drawn = 1 if shared else min(_MOST_BLOCKS, model.layers)
    height = 150 + 44 * (drawn + 1)
    y = height - 40
    parts = [
        _box(y, f"{model.vocab_size:,} pieces, each {model.embedding_size} wide", "token, position, segment")
    ]
    if model.projects:
        y -= 52
        parts += [
            _arrow(y + 38),
            _box(y, f"widened from {model.embedding_size} to {model.hidden_size}", "one matrix"),
        ]
    top = y
    for number in range(drawn):
        y -= 52
        kind = "block" if shared else "block other"
        name = "attention + feed-forward" if shared else f"layer {number + 1}: weights of its own"
        if not shared and number == drawn - 1 and drawn < model.layers:
            name = f"... layer {model.layers}"
        parts += [_arrow(y + 38), _box(y, name, f"{model.hidden_size} wide, {model.heads} heads", kind)]
    if shared:
        parts.append(_loop(y, model.layers))
    y -= 52
    parts += [_arrow(y + 38), _box(y, "hidden pieces, and order", "the two objectives")]
    low, tall = y - 8, top - y + 60 + (52 if model.projects else 0)
    return (
        f'<figure class="picture"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 {low} 460 {tall}" role="img" aria-label="{escape(title, quote=True)}">'
        f"{''.join(parts)}</svg>"
        "</figure>"
    )


def _box(y: int, said: str, more: str, kind: str = "box") -> str:
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


def _loop(y: int, layers: int) -> str:
    """Lead from the top of a block back to its bottom, so many times."""
    return (
        f'<path class="flow" d="M320 {y + 9} h22 a7 7 0 0 1 7 7 v6 a7 7 0 0 1 -7 7 h-17"/>'
        f'<path class="tip" d="M321 {y + 29} l7 -4 v8 z"/>'
        f'<text class="said" x="358" y="{y + 18}">{layers} times,</text>'
        f'<text x="358" y="{y + 33}">same weights</text>'
    )
