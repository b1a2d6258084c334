"""Layer-wise learning-rate decay: the lower the layer, the lower its learning rate.

A shared block counts as part of the last layer that uses it. In ALBERT both blocks therefore
have the rate of the last layer, and only the embeddings have a much lower one. In BERT each
layer has a lower rate than the layer above it.
"""

from albertine.model.depth_plan import depth_plan
from albertine.model.model import Model


def learning_rate_scales(model: Model, decay: float) -> dict[str, float]:
    """Return the factor on the learning rate of each parameter, by its name; empty if `decay` is 1."""
    if decay == 1.0:
        return {}
    plan = depth_plan(model.settings)
    head_depth = len(plan) + 1
    depth_by_prefix = {"encoder.embedding.": 0}
    for depth, blocks in enumerate(plan, start=1):
        depth_by_prefix[f"encoder.attention.{blocks.attention}."] = depth
        depth_by_prefix[f"encoder.ffn.{blocks.ffn}."] = depth
    scales = {}
    for name, _ in model.named_parameters():
        depth = next(
            (depth for prefix, depth in depth_by_prefix.items() if name.startswith(prefix)), head_depth
        )
        scales[name] = decay ** (head_depth - depth)
    return scales
