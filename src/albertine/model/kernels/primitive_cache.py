"""Limits of the caches of prepared matrix products, so that memory does not grow with new strip lengths.

oneDNN caches a prepared product (a primitive) for each of the last 1,024 shapes, and torch
caches its own copies. Strips have many lengths, so the caches grow to gigabytes. See
docs/decisions/primitive-cache-limit.md.
"""

import os

# A training step has some dozens of shapes; with many long sequences it can have more than 64.
_CACHE_SIZES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128", "LRU_CACHE_CAPACITY": "128"}


def limit_primitive_cache() -> None:
    """Limit both caches to 128 shapes, unless the user has set their size.

    The libraries read the environment at the first matrix product, so call this before it.
    """
    for name, size in _CACHE_SIZES.items():
        os.environ.setdefault(name, size)


def restore_primitive_cache() -> None:
    """Remove the limits from the environment; effective only before the first matrix product."""
    for name, size in _CACHE_SIZES.items():
        if os.environ.get(name) == size:
            del os.environ[name]
