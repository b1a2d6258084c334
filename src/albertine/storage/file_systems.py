"""The file systems of the object stores: Amazon's, Google's and the hub of Hugging Face.

Credentials come from the places where the libraries of the stores look for them, and from nowhere else.
"""

import os
import socket
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.storage.urls import credentials_advice

_CONNECT_SECONDS, _REQUEST_SECONDS, _ATTEMPTS = 10, 60, 4
_METADATA_SECONDS = 3.0
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_EMULATOR_VARIABLES = ("STORAGE_EMULATOR_HOST",)


def find_file_system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    scheme, _, path = url.partition("://")
    bucket = path.partition("/")[0]
    if scheme == "s3":
        return _s3(bucket, *(_environment(names) for names in (_ENDPOINT_VARIABLES, _REGION_VARIABLES))), path
    if scheme != "gs":
        return _hf(), path
    emulator = _environment(_EMULATOR_VARIABLES)
    if not emulator and not _has_google_credentials():
        raise InputError(f"gs://{bucket}: no credentials; they belong {credentials_advice(url)}")
    return _gs(emulator), path


def _environment(names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := os.environ.get(name))), "")


@lru_cache(maxsize=16)
def _s3(bucket: str, endpoint: str, region: str) -> Any:
    """Return the file system for a bucket; credentials come from the environment, ~/.aws or the machine."""
    from pyarrow import fs

    scheme, _, host = endpoint.rpartition("://")
    if endpoint and scheme not in ("", "http", "https"):
        raise InputError(f"{_ENDPOINT_VARIABLES[1]}: not a URL; expected http:// or https:// and a host")
    if not endpoint and not region:
        region = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        region=region or None,
        endpoint_override=host.rstrip("/") or None,
        scheme=scheme or None,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        allow_delayed_open=True,  # a small object needs one request, not three
    )


@lru_cache(maxsize=4)
def _gs(emulator: str) -> Any:
    """Return the file system of Google, or of an emulator, which asks for no credentials."""
    from pyarrow import fs

    limit = timedelta(seconds=_REQUEST_SECONDS)
    if not emulator:
        return fs.GcsFileSystem(retry_time_limit=limit)
    scheme, _, host = emulator.rpartition("://")
    if scheme not in ("", "http", "https") or not host.strip("/"):
        raise InputError(f"{_EMULATOR_VARIABLES[0]}: not a URL; expected http:// or https:// and a host")
    return fs.GcsFileSystem(
        anonymous=True,
        scheme=scheme or "http",
        endpoint_override=host.rstrip("/"),
        retry_time_limit=limit,
    )


def _has_google_credentials() -> bool:
    """Return whether there are credentials, valid or not: without any, the library tries for 100 seconds."""
    if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return True
    override = os.environ.get("GOOGLE_GCLOUD_ADC_PATH_OVERRIDE")  # as in the library that pyarrow uses
    file = override or Path.home() / ".config" / "gcloud" / "application_default_credentials.json"
    return Path(file).exists() or _is_google_machine()


@lru_cache(maxsize=1)
def _is_google_machine() -> bool:
    """Return whether the server answers that has the role of a machine of Google Cloud."""
    host, _, port = (os.environ.get("GCE_METADATA_ROOT") or "metadata.google.internal").partition(":")
    try:
        socket.create_connection((host, int(port or 80)), _METADATA_SECONDS).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


@lru_cache(maxsize=1)
def _hf() -> Any:
    from huggingface_hub import HfFileSystem
    from pyarrow import fs

    return fs.PyFileSystem(fs.FSSpecHandler(HfFileSystem()))
