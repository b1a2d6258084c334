"""Where data is: a file or a folder, here or on object storage, or a data set of the hub.

Files on object storage are read by ranges. Folders are copied into the cache, because official layouts
have many small files. The name of a URL says which of the two it is, so that no request is needed to know.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from albertine.errors import InputError
from albertine.storage.cache import download_folder
from albertine.storage.urls import storage_url
from albertine.tasks.formats.conll import CONLL_SUFFIXES
from albertine.tasks.formats.data_files import TABLE_SUFFIXES, data_suffix
from albertine.text.hub_datasets import HUB_PREFIX

_FILE_SUFFIXES = {*TABLE_SUFFIXES, *CONLL_SUFFIXES, ".json", ".text"}


def is_folder(data: str) -> bool:
    """Return whether data is a folder or a data set of the hub, which have splits."""
    if storage_url(data) is not None:
        return data_suffix(Path(data)) not in _FILE_SUFFIXES
    return data.startswith(HUB_PREFIX) or Path(data).is_dir()


def check_exists(data: str) -> None:
    """Raise `InputError` if data is a local path at which there is nothing."""
    if data.startswith(HUB_PREFIX) or storage_url(data) is not None:  # reading shows whether there is any
        return
    try:
        exists = Path(data).exists()
    except OSError:  # the name is too long for a file
        exists = False
    if not exists:
        raise InputError(f"{data}: no such file or folder")


def local_data(data: str) -> str:
    """Return data as it is, or for the URL of a folder, the path of its copy in the cache."""
    url = storage_url(data)
    return data if url is None or not is_folder(data) else str(download_folder(url))


@contextmanager
def read_locally(data: str) -> Iterator[str]:
    """Yield `local_data`; errors in the block name the URL, not the copy."""
    local = local_data(data)
    try:
        yield local
    except InputError as error:
        if local == data:
            raise
        raise InputError(str(error).replace(local, data)) from None
