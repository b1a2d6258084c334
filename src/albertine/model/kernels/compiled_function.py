"""Functions compiled by `torch.compile`, once per process."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor


@cache
def compiled_function(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the function compiled for any number of rows.

    All layers and models of the process share the result. torch recompiles it for each new
    combination of widths, precision and mode, so its limit on recompilation is raised.
    """
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    return torch.compile(function, dynamic=True)
