"""Smaller caches of prepared matrix products, so that a process does not grow with the lengths it has seen.

oneDNN keeps what it prepared for each shape of a product, for the last 1,024 shapes, and
torch keeps the same again. Strips have many lengths, so the caches fill with gigabytes.
See docs/decisions/primitive-cache-limit.md.
"""

import os

# A training step has some dozens of shapes, and more if its sequences are long and many.
_CACHE_SIZES = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128", "LRU_CACHE_CAPACITY": "128"}


def limit_primitive_cache() -> None:
    """Limit both caches to 128 shapes, unless the user has set their size.

    The libraries read the environment at their first product, so call this before it.
    """
    for name, size in _CACHE_SIZES.items():
        os.environ.setdefault(name, size)


def restore_primitive_cache() -> None:
    """Remove the limits from the environment of this process, before its first product."""
    for name, size in _CACHE_SIZES.items():
        if os.environ.get(name) == size:
            del os.environ[name]
