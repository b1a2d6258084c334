"""How much slower lower layers move: the rate of a parameter, by the last layer that uses it.

A block that all layers share is used by the last one, so in ALBERT the decay slows the
embeddings alone; in BERT each layer is slower than the one above it.
"""

from albertine.model.network import Model
from albertine.model.plan import plan_of


def scales_for(network: Model, decay: float) -> dict[str, float]:
    """Return what the rate of each parameter is multiplied with."""
    if decay == 1.0:
        return {}
    plan = list(plan_of(network.model))
    layers = len(plan)
    last: dict[str, int] = {}
    for depth, step in enumerate(plan, start=1):
        last[f"encoder.attention.{step.attention}."] = depth
        last[f"encoder.ffn.{step.ffn}."] = depth
    scales = {}
    for name, _ in network.named_parameters():
        block = next((depth for prefix, depth in last.items() if name.startswith(prefix)), None)
        depth = block if block is not None else 0 if name.startswith("encoder.embedding.") else layers + 1
        scales[name] = decay ** (layers + 1 - depth)
    return scales
