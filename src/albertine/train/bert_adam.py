"""AdamW as in Google's BERT and ALBERT code: without bias correction, and with an epsilon of 1e-6.

    m <- b1 m + (1 - b1) g            v <- b2 v + (1 - b2) g^2
    w <- w - rate * (m / (sqrt(v) + eps) + decay w)

Both averages start at 0 and are not corrected for it. So the first updates are larger than those
of AdamW: about six times after ten steps, and still by a quarter after a thousand.
"""

from typing import Any

import torch
from torch.optim import AdamW

_BETAS, _EPSILON = (0.9, 0.999), 1e-6
# From this step on, both corrections of AdamW, 1 - b^step, are exactly 1 in fp64. In fp32, adding 1 is
# still exact for 15 million steps.
_UNCORRECTED_STEP = 2.0**20


def make_bert_adam(groups: list[dict[str, Any]]) -> AdamW:
    """Return torch's AdamW with a step counter that starts where the bias correction has no effect."""
    optimizer = AdamW(groups, 0.0, _BETAS, _EPSILON, fused=True)
    for group in optimizer.param_groups:
        for weight in group["params"]:
            optimizer.state[weight] = {
                "step": torch.tensor(_UNCORRECTED_STEP, device=weight.device),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }
    return optimizer
