"""Data sets of the Hugging Face hub as text, streamed: nothing is downloaded whole.

Named `hub:OWNER/NAME`, with a configuration and a split where they are needed:
`hub:OWNER/NAME:CONFIG:SPLIT`. A folder may stand in place of OWNER/NAME. Needs the
extra `hub`; the library's own environment variables and cache apply.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from albertine.errors import InputError, WorkError

HUB_PREFIX = "hub:"


def num_shards(name: str) -> int:
    """Return how many files a data set comes in."""
    return int(_dataset(name).num_shards)


def hub_records(name: str, index: int) -> Iterator[tuple[str, Any]]:
    """Yield the records of one shard, and where each is."""
    data = _dataset(name)
    shard = data.shard(num_shards=data.num_shards, index=index)
    try:
        for row, record in enumerate(shard):
            yield f"{name}, shard {index}, record {row}", record
    except (OSError, ValueError) as error:
        raise WorkError(f"{name}: reading broke off ({_first_line(error)}); run the same again") from None


def class_names(name: str, column: str) -> list[str]:
    """Return what the numbers of a column stand for; nothing if they are just numbers."""
    feature = (_dataset(name).features or {}).get(column)
    return list(getattr(feature, "names", None) or [])


@lru_cache(maxsize=4)
def _dataset(name: str) -> Any:
    try:
        from datasets import load_dataset
    except ImportError:
        raise InputError(f"{name}: data sets need an extra; pip install 'albertine[hub]'") from None
    path, config, split = [*name.removeprefix(HUB_PREFIX).split(":"), "", ""][:3]
    try:
        return load_dataset(path, config or None, split=split or "train", streaming=True)
    except Exception as error:  # the library raises many kinds, all of them about what was named
        raise InputError(f"{name}: no such data set ({type(error).__name__}: {_first_line(error)})") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
