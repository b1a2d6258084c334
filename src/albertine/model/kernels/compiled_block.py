"""The part of a layer between two attentions, compiled by `torch.compile`."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor


@cache
def compiled_block(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function compiled for any number of rows.

    The result serves every layer, model, precision and mode of the process, each of which is
    a variant of its own: torch's limit on variants is raised for that.
    """
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    return torch.compile(function, dynamic=True)
