"""The errors of the object stores as `InputError`: one line with the URL, and what to do.

Of the library's message, it repeats only the kind of the error, because the rest may hold keys.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from albertine.errors import AlbertineError, InputError
from albertine.storage.urls import credentials_advice

_ERROR_NAME = re.compile(r"AWS Error ([A-Z_]+)|Status\(([A-Z_]+)")
_CURL_REASON = re.compile(r"curlCode: \d+, ([\w ,.'-]{1,80})")
_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS|SIGNATURE|TOKEN|CREDENTIALS|PERMISSION_DENIED|UNAUTH|403|401"
)


@contextmanager
def described_errors(url: str) -> Iterator[None]:
    """Raise the errors of the libraries as `InputError`, with the URL and what to do."""
    try:
        yield
    except AlbertineError:
        raise
    except FileNotFoundError:
        raise InputError(f"{url}: no such file or folder") from None
    except Exception as error:  # the libraries raise many types
        raise InputError(f"{url}: {_problem(url, error)}") from None


def _problem(url: str, error: Exception) -> str:
    """Return what is wrong and what to do, without the words of the library."""
    text = str(error)
    if "OAuth2 access token" in text:  # the kind of the error would be that of a lost connection
        return f"no valid credentials; they belong {credentials_advice(url)}"
    match = _ERROR_NAME.search(text)
    name = next(filter(None, match.groups())) if match else type(error).__name__
    if "NO_SUCH_BUCKET" in text or "bucket does not exist" in text or name == "RepositoryNotFoundError":
        return "no such bucket or repository; check the name"
    if _DENIED.search(name) or "HTTP response code 403" in text or isinstance(error, PermissionError):
        return f"access denied ({name}); check the permissions, and the credentials {credentials_advice(url)}"
    reason = _CURL_REASON.search(text)
    if reason or "NETWORK" in name or "UNAVAILABLE" in name or isinstance(error, ConnectionError):
        return f"no connection ({reason[1].strip() if reason else name}); check the network and the endpoint"
    return f"the object store reports {name}; check the URL, and run the command again"
