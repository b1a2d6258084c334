"""URLs of object storage: `s3://BUCKET/PATH`, `gs://BUCKET/PATH` and `hf://OWNER/NAME/PATH`.

A URL never holds a secret. One with a user, a password or a query is refused, and the message does not
repeat it.
"""

import re
from pathlib import Path

from albertine.errors import InputError

# `Path` keeps only one of the two slashes; settings and options that are paths come in that form.
_URL = re.compile(r"(s3|gs|hf):(?:/{1,2}(?!/)(.*))?", re.DOTALL)
_HUB_REPOSITORY = re.compile(r"((datasets|spaces)/)?(?!(datasets|spaces)/)[^/]+/[^/]+")
_OTHER_SCHEME = re.compile(r"(https?|ftp|file|s3a|s3n|gcs|az|abfss?|wasbs?|hdfs|memory)://?[^/]")


def storage_url(path: str | Path) -> str | None:
    """Return the URL that a path names, without a slash at its end; None if it is a local path.

    Raises `InputError` for a URL that is not supported or not safe to use.
    """
    text = str(path)
    match = _URL.fullmatch(text)
    if match is None:
        if other := _OTHER_SCHEME.match(text):
            raise InputError(f"{other[1]}://...: not supported; expected a local path, s3://, gs:// or hf://")
        return None
    scheme, rest = match[1], (match[2] or "").rstrip("/")
    if scheme == "hf":
        rest = rest.removeprefix("models/")  # the kind of repository that needs no name
    _refuse_secrets(scheme, rest)
    if not rest.isprintable() or not is_safe_name(rest):
        raise InputError(
            f"{scheme}://{ascii(rest)[1:-1][:80]}: not a valid URL; expected {scheme}://{_PATTERNS[scheme]}"
        )
    if scheme == "hf" and not _HUB_REPOSITORY.match(rest):
        raise InputError(f"hf://{rest}: not a repository; expected hf://{_PATTERNS[scheme]}")
    return f"{scheme}://{rest}"


_PATTERNS = {"s3": "BUCKET/PATH", "gs": "BUCKET/PATH", "hf": "OWNER/NAME/PATH"}
_CREDENTIALS = {
    "s3": "in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in ~/.aws",
    "gs": "in GOOGLE_APPLICATION_CREDENTIALS, or by `gcloud auth application-default login`",
    "hf": "in HF_TOKEN, or by `hf auth login`",
}


def credentials_advice(url: str) -> str:
    """Return where the credentials for a URL belong."""
    return _CREDENTIALS[url.partition(":")[0]]


def private_advice(url: str) -> str:
    """Return the end of a message about something that is not found: the hub hides what is private."""
    return (
        f"; if it is private, credentials belong {credentials_advice(url)}" if url.startswith("hf:") else ""
    )


def _refuse_secrets(scheme: str, rest: str) -> None:
    host = rest.partition("/")[0]
    if "?" in rest or "@" in host or ":" in host or (scheme != "hf" and "@" in rest and ":" in rest):
        raise InputError(
            f"{scheme}://...: a URL with a user, a password or a query, which may be secret; give "
            f"{scheme}://{_PATTERNS[scheme]} alone, and credentials {_CREDENTIALS[scheme]}"
        )


def is_safe_name(name: str) -> bool:
    """Return whether a name is a relative path of plain components, which stays inside its folder."""
    components = name.split("/")
    return (
        len(name) < 1024
        and "\\" not in name
        and name.isprintable()
        and all(component not in ("", ".", "..") for component in components)
    )


def join_url(url: str, name: str) -> str:
    """Return the URL of a name in a folder."""
    return f"{url}/{name}"


def url_name(url: str) -> str:
    """Return the last component of a URL."""
    return url.rpartition("/")[2]
