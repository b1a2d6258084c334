"""The command that installs an extra of this package."""

import json
import shlex
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit


def install_command(extra: str) -> str:
    """Return the command; with an installation from a folder of the source, it installs from there."""
    with suppress(PackageNotFoundError, ValueError):
        origin = json.loads(distribution("albertine").read_text("direct_url.json") or "{}")
        url = urlsplit(origin.get("url", ""))
        if url.scheme == "file" and origin.get("dir_info", {}).get("editable"):
            return f"pip install -e {shlex.quote(f'{unquote(url.path)}[{extra}]')}"
    return f"pip install 'albertine[{extra}]'"
