"""The address of the Ray cluster to join."""

import os
import socket
from contextlib import suppress
from pathlib import Path

from albertine import progress
from albertine.errors import InputError

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_HTTP_1 = b"HTTP/1"  # start of an answer from a proxy or a dashboard, which are not the cluster
# The first bytes of a gRPC client: the preface of HTTP/2 and empty settings. A gRPC server answers with its
# own settings at once.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


def running_cluster() -> str | None:
    """Return the cluster to join: HOST:PORT of the environment, "auto" for that of `ray start`, or None."""
    address = os.environ.get("RAY_ADDRESS", "")
    if address == "local":
        return None
    if address not in ("", "auto"):
        _check_answers(f"RAY_ADDRESS={address}", address, "start it")
        return address
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    file = Path(folder, "ray", "ray_current_cluster")
    if not file.exists():
        return None
    address = file.read_text(encoding="utf-8").strip()
    try:
        _check_answers(f"{file}: {address}", address, "start it, run ray stop to forget it")
    except _NoListenerError:
        progress.print_message(
            f"{file}: {address}: that cluster has ended without ray stop; starting one on this machine"
        )
        return None
    return "auto"


class _NoListenerError(InputError):
    """An address is of this machine, and no process has it."""


def _check_answers(place: str, address: str, advice: str) -> None:
    """Raise `InputError` unless something answers at an address; Ray would try for up to 14 minutes.

    Args:
        place: where the address was found, and the address.
        address: the address.
        advice: what to do if nothing answers.
    """
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise InputError(
            f"{place}: expected HOST:PORT, or local for this machine; run the command on a node of the "
            "cluster"
        )
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), _CONNECT_SECONDS) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            connection.sendall(_GREETING)
            answer = b""
            with suppress(ConnectionError):  # such as of a server that expects TLS
                answer = connection.recv(len(_HTTP_1))
            if answer.startswith(_HTTP_1):
                raise OSError("an HTTP server answers")
    except (OSError, OverflowError, UnicodeError) as error:  # of the network, of a port, of a host name
        has_ended = isinstance(error, ConnectionRefusedError) and _is_this_machine(host)
        kind = _NoListenerError if has_ended else InputError
        raise kind(
            f"{place}: no cluster answers ({error}); {advice}, or set RAY_ADDRESS=local to use this machine"
        ) from None


def _is_this_machine(host: str) -> bool:
    try:
        socket.create_server((host, 0)).close()  # possible for its own addresses only
    except OSError:
        return False
    return True
