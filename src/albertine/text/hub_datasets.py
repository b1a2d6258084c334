"""Streams datasets of the Hugging Face hub, without downloading them completely.

A dataset is named `hub:OWNER/NAME[@REVISION][:CONFIG[:SPLIT]]`, with a branch, tag or commit as the revision;
OWNER/NAME may also be a local folder. Needs the extra `hub`. The environment variables and the cache of
the library `datasets` apply.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from albertine.errors import InputError, WorkError
from albertine.extras import install_command

HUB_PREFIX = "hub:"


def num_shards(name: str) -> int:
    """Return the number of shards of a dataset."""
    return int(_dataset(name).num_shards)


def hub_records(name: str, shard_index: int) -> Iterator[tuple[str, Any]]:
    """Yield the location and content of each record of one shard."""
    dataset = _dataset(name)
    shard = dataset.shard(num_shards=dataset.num_shards, index=shard_index)
    try:
        for row, record in enumerate(shard):
            yield f"{name}, shard {shard_index}, record {row}", record
    except (OSError, ValueError) as error:
        raise WorkError(f"{name}: reading failed ({_first_line(error)}); repeat the command") from None


def class_names(name: str, column: str) -> list[str]:
    """Return the class names of a column of class ids; an empty list if they have no names."""
    feature = (_dataset(name).features or {}).get(column)
    return list(getattr(feature, "names", None) or [])


def same_dataset(name: str, other: str) -> bool:
    """Return whether two names are of one split of a dataset; revisions of it count as the same."""
    (repository, _, *part), (other_repository, _, *other_part) = _parse_name(name), _parse_name(other)
    return (repository, part) == (other_repository, other_part)


def _parse_name(name: str) -> tuple[str, str, str, str]:
    """Return the repository or local folder in a name, the revision, the config and the split."""
    path, config, split = [*name.removeprefix(HUB_PREFIX).split(":"), "", ""][:3]
    repository, _, revision = (path, "", "") if Path(path).exists() else path.partition("@")
    return repository, revision, config, split or "train"


@lru_cache(maxsize=4)
def _dataset(name: str) -> Any:
    try:
        from datasets import load_dataset
    except ImportError:
        raise InputError(f"{name}: hub datasets need an extra; {install_command('hub')}") from None
    try:
        repository, revision, config, split = _parse_name(name)
        return load_dataset(
            repository, config or None, split=split, streaming=True, revision=revision or None
        )
    except Exception as error:  # the library raises many types
        raise InputError(
            f"{name}: cannot open the dataset ({type(error).__name__}: {_first_line(error)}); check the name"
            f"{' and the revision' if '@' in name else ''}"
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
