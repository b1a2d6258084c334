"""The address of the Ray cluster to join."""

import os
import socket
from pathlib import Path

from albertine.errors import InputError

_CONNECT_SECONDS = 5.0


def running_cluster() -> str | None:
    """Return the cluster to join: HOST:PORT of the environment, "auto" for that of `ray start`, or None."""
    address = os.environ.get("RAY_ADDRESS", "")
    if address == "local":
        return None
    if address not in ("", "auto"):
        _check_answers(f"RAY_ADDRESS={address}", address)
        return address
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    file = Path(folder, "ray", "ray_current_cluster")
    if not file.exists():
        return None
    address = file.read_text(encoding="utf-8").strip()
    _check_answers(f"{file}: {address}", address)
    return "auto"


def _check_answers(place: str, address: str) -> None:
    """Raise `InputError` unless something listens at an address; Ray would try for two minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise InputError(f"{place}: expected HOST:PORT; run the command on a node of the cluster")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"{place}: no cluster answers ({error}); start it, or set RAY_ADDRESS=local to use this machine"
        ) from None
