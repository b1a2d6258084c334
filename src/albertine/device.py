"""The device: which one to use, its precision, its peak throughput and its memory.

The throughput of large matrix products is measured once, when training starts. No
training step can exceed it; the fraction that a step reaches is its utilization.
"""

import os
import platform
import resource
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from albertine.display import counted
from albertine.errors import InputError, did_you_mean


def choose_device(name: str) -> torch.device:
    """Return the device of a device setting; "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda: torch sees no GPU here; leave the device out, or install torch for it")
    try:
        return torch.device(name)
    except RuntimeError:  # only in Python: commands check the name before
        known = ("auto", "cpu", "cuda")
        raise InputError(
            f"device {name}: unknown{did_you_mean(name, known)}; known: {', '.join(known)}"
        ) from None


def default_micro_batch_tokens(device: torch.device) -> int:
    """Return the default maximum of tokens per micro-batch: for inference, and for training on a CPU."""
    return 32_768 if device.type == "cuda" else 4_096


def choose_precision(name: str, device: torch.device) -> torch.dtype:
    """Return the dtype of a precision setting; "auto" is bf16 where the device computes it fast."""
    if name == "auto":
        return torch.bfloat16 if has_fast_bf16(device) else torch.float32
    if name == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise InputError("precision = bf16: this GPU does not support bf16; use fp32")
    return torch.bfloat16 if name == "bf16" else torch.float32


def precision_name(name: str, device: torch.device) -> str:
    """Return the name of a precision, with that of the device in place of "auto"."""
    return "bf16" if choose_precision(name, device) == torch.bfloat16 else "fp32"


def has_fast_bf16(device: torch.device) -> bool:
    """Return whether the device has instructions for bf16; without them it is much slower than fp32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))


def machine_name(device: torch.device) -> str:
    """Return on what this process computes, such as "AMD EPYC (AVX512, bf16), 8 threads".

    Times are comparable where it is the same. Virtual machines hide the model of a processor, so its
    instructions are named too.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu_name()
    return f"{name}, {counted(torch.get_num_threads(), 'thread')}"


@cache
def _cpu_name() -> str:
    name = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    bf16 = ", bf16" if has_fast_bf16(torch.device("cpu")) else ""
    return f"{name} ({torch.backends.cpu.get_cpu_capability()}{bf16})"


@cache
def peak_flops(dtype: torch.dtype, device: torch.device) -> float:
    """Return the measured throughput of large matrix products on this machine, in FLOP per second."""
    size = 8192 if device.type == "cuda" else 2048
    left, right = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
    seconds = []
    for _ in range(4):
        started = synchronized_time(device)
        left @ right.T
        seconds.append(synchronized_time(device) - started)
    return 2 * size**3 / min(seconds)  # the fastest run is the least disturbed one


def synchronized_time(device: torch.device) -> float:
    """Return the time in seconds after the device has finished all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@cache
def total_memory() -> int:
    """Return the memory of this machine in bytes, or the limit of its container if that is lower."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # no such limit
            total = min(total, int((Path("/sys/fs/cgroup") / name).read_text()))
    return total


def peak_memory(device: torch.device) -> int:
    """Return the peak memory in bytes: allocated on the GPU, or resident memory of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    # On Linux, `getrusage` also counts what the parent process had when it started this one.
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
