"""Serves a model, sends the bytes of a file to it over one connection, and prints what it sends back.

python -m tests.campaign.server_load.replay build/campaign/examples/classify FINDING.http
"""

import socket
import sys
import tempfile
from pathlib import Path

from tests.campaign.server_load.client import RESPONSE_SECONDS
from tests.campaign.server_load.process import ServerProcess


def replay(model: Path, data: bytes) -> str:
    """Return what a server sends back, what it prints, and what is wrong with its end."""
    with tempfile.TemporaryDirectory() as folder:
        server = ServerProcess(model.name, model.parent, Path(folder) / "log")
        try:
            server.wait_until_ready()
            received = _exchange(server.port, data)
            server.terminate()
            problem = server.wait_until_stopped()
            return "\n".join([received.decode("utf-8", "replace"), server.log.read_text(), problem])
        finally:
            server.kill()


def _exchange(port: int, data: bytes) -> bytes:
    """Send bytes; return what comes back until the connection closes, or nothing comes for a while."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), RESPONSE_SECONDS) as connection:
        try:
            connection.sendall(data)
            while chunk := connection.recv(1 << 16):
                received += chunk
        except TimeoutError:
            received += b"\n(the connection is still open)"
        except OSError as error:
            received += f"\n({error})".encode()
    return received


if __name__ == "__main__":
    print(replay(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).read_bytes()))
