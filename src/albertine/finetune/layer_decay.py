"""Layer-wise learning-rate decay: lower layers get a lower rate, by the last layer that uses a parameter.

A block that all layers share is used by the last one, so in ALBERT the decay affects only
the embeddings; in BERT each layer has a lower rate than the one above it.
"""

from albertine.model.depth_plan import depth_plan
from albertine.model.model import Model


def learning_rate_scales(model: Model, decay: float) -> dict[str, float]:
    """Return the factor of the learning rate of each parameter; empty without decay."""
    if decay == 1.0:
        return {}
    plan = list(depth_plan(model.settings))
    layers = len(plan)
    last_use: dict[str, int] = {}
    for depth, step in enumerate(plan, start=1):
        last_use[f"encoder.attention.{step.attention}."] = depth
        last_use[f"encoder.ffn.{step.ffn}."] = depth
    scales = {}
    for name, _ in model.named_parameters():
        block_depth = next((depth for prefix, depth in last_use.items() if name.startswith(prefix)), None)
        depth = (
            block_depth
            if block_depth is not None
            else 0
            if name.startswith("encoder.embedding.")
            else layers + 1
        )
        scales[name] = decay ** (layers + 1 - depth)
    return scales
