"""A Slurm cluster of nodes on this machine; needs Linux, root, iproute2, and the packages of Slurm and MUNGE.

    with Nodes(2) as nodes:
        cluster = SlurmCluster(nodes, folder)
        cluster.start()
        job = cluster.submit("--nodes", "2", "recipes/slurm/train.sh", "pretrain", ...)

Its nodes are those of `nodes.py`, and its controller runs in their switch. All files are in a folder.
"""

import os
import secrets
import shutil
import socket
import time
from pathlib import Path

from nodes import Nodes

_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "scontrol", "munged")
_MUNGE_FILES = ("key-file", "socket", "pid-file", "log-file", "seed-file")
_CONFIGURATION = """\
ClusterName=local
SlurmctldHost={host}({switch})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
KillWait=20
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{nodes}
PartitionName=main Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL State=UP PriorityTier=10
"""
_NODE = "NodeName={name} NodeAddr={name} NodeHostname={host} Port=6818 CPUs={cores} RealMemory=4000"


def missing_programs() -> str:
    """Return which programs are not installed, or an empty text."""
    missing = [name for name in _PROGRAMS if not shutil.which(name)]
    return f"needs {', '.join(missing)} (Debian packages slurm-wlm and munge)" if missing else ""


class SlurmCluster:
    """A Slurm cluster whose daemons and jobs end with its nodes.

    Jobs of the partition `urgent` take the nodes of others, which get SIGTERM and 60 seconds.
    """

    def __init__(self, nodes: Nodes, folder: Path, cores: int = 1):
        """Store what to start.

        Args:
            nodes: the nodes, which are named by their addresses.
            folder: new folder for the files of the cluster; its path must be short, for a socket.
            cores: cores that Slurm assigns on each node.
        """
        self._nodes, self._folder, self._cores = nodes, folder, cores
        # The name of this machine has the address of its loopback, so processes would not find each other.
        interface = {"GLOO_SOCKET_IFNAME": "eth0"}
        self.environment = {**os.environ, **interface, "SLURM_CONF": str(folder / "slurm.conf")}

    def start(self) -> None:
        """Start the daemons, and wait until the nodes are there."""
        folder = self._folder
        for name in ("", "state", *(f"spool-{self._name(node)}" for node in range(self._nodes.count))):
            (folder / name).mkdir()
        folder.chmod(0o755)  # munged refuses a socket in a private folder
        self._write_configuration()
        self._start_daemons()
        self._wait_for_nodes()

    def submit(self, *arguments: str, folder: Path) -> str:
        """Submit a job with `sbatch` from a folder, and return its number."""
        return self.run("sbatch", "--parsable", *arguments, folder=folder).strip()

    def state(self, job: str) -> str:
        """Return the state of a job, such as RUNNING or COMPLETED."""
        return self.run("scontrol", "show", "job", job).partition("JobState=")[2].split()[0]

    def lose_node(self, node: int) -> None:
        """Kill and unplug a node, and tell the controller, which finds it itself after `SlurmdTimeout`."""
        self._nodes.kill(node)
        self.run("scontrol", "update", f"NodeName={self._name(node)}", "State=DOWN", "Reason=lost")

    def run(self, *command: str, folder: Path | None = None) -> str:
        """Run a command of Slurm in the switch, and return its output."""
        return self._nodes.run_in_switch(command, self.environment, folder)

    def _write_configuration(self) -> None:
        folder, host = self._folder, socket.gethostname().split(".")[0]
        lines = [
            _NODE.format(name=self._name(node), host=host, cores=self._cores)
            for node in range(self._nodes.count)
        ]
        configuration = _CONFIGURATION.format(
            folder=folder, host=host, switch=self._nodes.switch_address, nodes="\n".join(lines)
        )
        (folder / "slurm.conf").write_text(configuration, encoding="utf-8")
        # A network namespace has no cgroups.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n", encoding="utf-8")

    def _start_daemons(self) -> None:
        folder, environment, log = self._folder, self.environment, self._folder / "daemons.log"
        key = folder / "munge.key-file"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        files = [f"--{name}={folder}/munge.{name}" for name in _MUNGE_FILES]
        self._nodes.start_in_switch(["munged", "--foreground", "--force", *files], environment, log)
        self._nodes.start_in_switch(["slurmctld", "-D"], environment, log)
        for node in range(self._nodes.count):
            command = ["slurmd", "-D", "-N", self._name(node)]
            self._nodes.start(node, command, environment, log)

    def _name(self, node: int) -> str:
        return self._nodes.address(node)

    def _wait_for_nodes(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            states = self.run("sinfo", "--noheader", "--Node", "--format", "%T").split()
            if states and set(states) == {"idle"}:
                return
            time.sleep(0.5)
        raise SystemExit(f"{self._folder}: the nodes of Slurm did not start; its logs are there")
