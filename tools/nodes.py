"""Nodes of a cluster as network namespaces on this machine; needs Linux, root and iproute2.

Each node has a network of its own, with one interface. The interfaces are joined by a bridge in one
more namespace, the switch, which is also where a rendezvous can be hosted that survives every node.
The network of the machine itself is not changed. All nodes see the same files.

    python tools/nodes.py --nodes 2 --processes 2 --bandwidth 100mbit -- pretrain --corpus C --out RUN

runs `albertine pretrain ...` under `torchrun` on two nodes with two processes each.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType

_PREFIX = "albertine"
_NAMESPACE = re.compile(rf"{_PREFIX}-(\d+)-\w+")
RENDEZVOUS_PORT = 29500
# Hosts the rendezvous outside of the nodes until it is killed; see docs/scale.md.
RENDEZVOUS_PROGRAM = (
    "import signal, torch.distributed as d; "
    f"s = d.TCPStore('0.0.0.0', {RENDEZVOUS_PORT}, is_master=True, wait_for_workers=False); signal.pause()"
)


def unusable_reason() -> str:
    """Return why this process cannot make nodes, or an empty text."""
    if os.name != "posix" or os.geteuid():
        return "needs Linux and root"
    if not (shutil.which("ip") and shutil.which("tc")):
        return "needs ip and tc (Debian package iproute2)"
    probe = f"{_PREFIX}-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"cannot make a network namespace: {made.stderr.strip()}"
    _run("ip", "netns", "delete", probe)
    return ""


class Nodes:
    """Nodes that are joined by a switch, while the `with` block runs; processes in them end with it.

    Attributes:
        count: number of nodes.
    """

    def __init__(self, count: int):
        self.count = count
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Nodes":
        """Make the namespaces."""
        _remove_leftovers()
        try:
            self._make_switch()
            for node in range(self.count):
                self._make_node(node)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill what still runs in the nodes, and remove them."""
        self._remove()

    def address(self, node: int) -> str:
        """Return the address of a node."""
        return f"10.0.0.{node + 1}"

    @property
    def switch_address(self) -> str:
        """Address of the switch."""
        return "10.0.0.254"

    @property
    def rendezvous(self) -> str:
        """Address and port of a rendezvous in the switch."""
        return f"{self.switch_address}:{RENDEZVOUS_PORT}"

    def start_rendezvous(self, environment: Mapping[str, str]) -> None:
        """Host the rendezvous in the switch."""
        self.start_in_switch([sys.executable, "-c", RENDEZVOUS_PROGRAM], environment)

    def start_in_switch(
        self, command: Sequence[str], environment: Mapping[str, str], log: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command in the switch; see `start`."""
        return self._start(self._switch, command, environment, log)

    def run_in_switch(
        self, command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
    ) -> str:
        """Run a command in the switch, from a folder, and return its output."""
        inside = ["ip", "netns", "exec", self._switch]
        return _run(*inside, *command, environment=environment, folder=folder)

    def start(
        self, node: int, command: Sequence[str], environment: Mapping[str, str], log: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command on a node, as the leader of a process group.

        Args:
            node: number of the node.
            command: the command.
            environment: its environment; the interface for gloo and NCCL is added.
            log: file for its output, to which it is appended; by default the output of this process.
        """
        interface = {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "eth0"}
        return self._start(self._namespace(node), command, {**environment, **interface}, log)

    def limit_bandwidth(self, rate: str | None) -> None:
        """Limit what each node sends and what it receives to a rate such as `100mbit`; None: no limit."""
        for node in range(self.count):
            for namespace, interface in ((self._namespace(node), "eth0"), (self._switch, f"port{node}")):
                inside = ["ip", "netns", "exec", namespace, "tc", "qdisc"]
                subprocess.run(
                    [*inside, "delete", "dev", interface, "root"], capture_output=True, check=False
                )
                if rate is not None:
                    limit = ["tbf", "rate", rate, "burst", _burst(rate), "latency", "50ms"]
                    _run(*inside, "add", "dev", interface, "root", *limit)

    def unplug(self, node: int) -> None:
        """Disconnect a node: packets from and to it are lost without a message."""
        _run("ip", "-n", self._switch, "link", "set", f"port{node}", "down")

    def plug_in(self, node: int) -> None:
        """Connect a node again."""
        _run("ip", "-n", self._switch, "link", "set", f"port{node}", "up")

    def processes(self, node: int) -> list[int]:
        """Return the ids of all processes of a node."""
        listed = _run("ip", "netns", "pids", self._namespace(node))
        return [int(word) for word in listed.split()]

    def kill(self, node: int) -> None:
        """Kill all processes of a node at once, as a power failure does: its peers are not told."""
        self.unplug(node)
        for pid in self.processes(node):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _namespace(self, node: int) -> str:
        return f"{_PREFIX}-{os.getpid()}-node{node}"

    @property
    def _switch(self) -> str:
        return f"{_PREFIX}-{os.getpid()}-switch"

    def _start(
        self, namespace: str, command: Sequence[str], environment: Mapping[str, str], log: Path | None
    ) -> subprocess.Popen[bytes]:
        inside = ["ip", "netns", "exec", namespace, *command]
        if log is None:
            process = subprocess.Popen(inside, env=dict(environment), start_new_session=True)
        else:
            with log.open("ab") as output:
                process = subprocess.Popen(
                    inside, env=dict(environment), stdout=output, stderr=output, start_new_session=True
                )
        self._processes.append(process)
        return process

    def _make_switch(self) -> None:
        _run("ip", "netns", "add", self._switch)
        _run("ip", "-n", self._switch, "link", "set", "lo", "up")
        _run("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", self._switch, "address", "add", f"{self.switch_address}/24", "dev", "bridge")
        _run("ip", "-n", self._switch, "link", "set", "bridge", "up")

    def _make_node(self, node: int) -> None:
        namespace, port = self._namespace(node), f"port{node}"
        _run("ip", "netns", "add", namespace)
        pair = ["type", "veth", "peer", "name", "eth0", "netns", namespace]
        _run("ip", "-n", self._switch, "link", "add", port, *pair)
        _run("ip", "-n", self._switch, "link", "set", port, "master", "bridge", "up")
        _run("ip", "-n", namespace, "address", "add", f"{self.address(node)}/24", "dev", "eth0")
        for interface in ("lo", "eth0"):
            _run("ip", "-n", namespace, "link", "set", interface, "up")

    def _remove(self) -> None:
        for name in _namespaces():
            if name.startswith(f"{_PREFIX}-{os.getpid()}-"):
                _remove_namespace(name)
        for process in self._processes:
            process.kill()  # it may not have entered its namespace yet
            process.wait()


def bits_per_second(rate: str) -> float:
    """Return the number of bits per second of a rate such as `100mbit`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg])bit", rate)
    if match is None:
        raise SystemExit(f"{rate}: no rate; give one such as 100mbit or 1gbit")
    return float(match[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[match[2]]


def _burst(rate: str) -> str:
    """Return the bytes of a token bucket for a rate: those of 2 ms, and at least those of a large packet."""
    return str(max(1 << 16, int(bits_per_second(rate) / 8 * 0.002)))


def _namespaces() -> list[str]:
    """Return the names of all namespaces that this program has made."""
    names = [line.split()[0] for line in _run("ip", "netns", "list").splitlines() if line]
    return [name for name in names if _NAMESPACE.fullmatch(name)]


def _remove_leftovers() -> None:
    """Remove the namespaces of a process of this program that was killed."""
    for name in _namespaces():
        match = _NAMESPACE.fullmatch(name)
        if match and not Path(f"/proc/{match[1]}").exists():
            _remove_namespace(name)


def _remove_namespace(name: str) -> None:
    for pid in _run("ip", "netns", "pids", name).split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _run("ip", "netns", "delete", name)


def _run(*command: str, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> str:
    """Run a command and return its output; `SystemExit` with its message if it fails."""
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def torchrun(node_counts: str, processes: int, rendezvous: str, *options: str) -> list[str]:
    """Return the start of a `torchrun` command; a script, or `-m` and a module, with its arguments follows.

    Args:
        node_counts: number of nodes, or its range, such as `1:3`.
        processes: processes per node.
        rendezvous: address and port of the rendezvous.
        options: further options of `torchrun`.
    """
    program = [sys.executable, "-m", "torch.distributed.run", "--nnodes", node_counts]
    return [
        *program, "--nproc-per-node", str(processes), "--rdzv-backend", "c10d", "--rdzv-endpoint", rendezvous,
        "--rdzv-id", "albertine", *options,
    ]  # fmt: skip


def main() -> int:
    """Run a command of Albertine on nodes; return the first exit status that is not 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=_count, default=2, help="number of nodes")
    parser.add_argument("--processes", type=_count, default=1, help="processes per node")
    parser.add_argument("--bandwidth", help="limit of each node in each direction, such as 100mbit")
    parser.add_argument("arguments", nargs="+", help="the arguments of albertine, after --")
    options = parser.parse_args()
    if reason := unusable_reason():
        parser.error(reason)
    exit_on_sigterm()
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    with Nodes(options.nodes) as nodes:
        nodes.limit_bandwidth(options.bandwidth)
        nodes.start_rendezvous(environment)
        started = [
            nodes.start(
                node,
                [
                    *torchrun(
                        str(options.nodes), options.processes, nodes.rendezvous,
                        "--local-addr", nodes.address(node),
                    ),
                    "-m", "albertine", *options.arguments,
                ],
                environment,
            )
            for node in range(options.nodes)
        ]  # fmt: skip
        statuses = [process.wait() for process in started]
    return next((status for status in statuses if status), 0)


def _count(text: str) -> int:
    """Return a number of nodes or processes; argparse prints the errors."""
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return count


def exit_on_sigterm() -> None:
    """Let the first SIGTERM leave all `with` blocks, so that the nodes are removed."""

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature of a handler
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)


if __name__ == "__main__":
    sys.exit(main())
