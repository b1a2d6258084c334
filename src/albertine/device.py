"""What this machine is good at: how fast it multiplies matrices, and in which precision.

Read off once when training starts. The rate of large products is the roof over every
training step, and a step's share of it says how well the machine is used.
"""

import resource
import sys
import time
from functools import cache

import torch

from albertine.errors import InputError


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """Return the precision that was asked for; `auto` is bf16 where that is faster."""
    if name == "auto":
        return torch.bfloat16 if has_fast_bf16(device) else torch.float32
    if name == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise InputError("precision bf16: this GPU has none; take fp32")
    return torch.bfloat16 if name == "bf16" else torch.float32


def has_fast_bf16(device: torch.device) -> bool:
    """Tell whether the device has instructions for bf16; without them it is much slower than fp32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    known = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return any(known.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


@cache
def peak_flops(dtype: torch.dtype, device: torch.device) -> float:
    """Return the rate of dense matrix products on this machine, in operations per second: the roof."""
    size = 8192 if device.type == "cuda" else 2048
    left, right = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
    seconds = []
    for _ in range(4):
        started = synchronized_time(device)
        left @ right.T
        seconds.append(synchronized_time(device) - started)
    return 2 * size**3 / min(seconds)  # a roof is the best the machine does


def synchronized_time(device: torch.device) -> float:
    """Return the time, when the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def peak_memory(device: torch.device) -> int:
    """Return the most bytes that the GPU, or the process, has held."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
