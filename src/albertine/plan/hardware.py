"""The devices that can be planned with, from a table of public data sheets, `hardware.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from albertine.display import display_text
from albertine.errors import InputError, did_you_mean
from albertine.model.cost import Precision
from albertine.plan.settings import THIS_MACHINE, parse_hardware
from albertine.settings import PrecisionName

_TABLE = Path(__file__).with_name("hardware.toml")


@dataclass(frozen=True)
class Device:
    """The data sheet of a device; all rates are peaks.

    Attributes:
        name: its name.
        flops: FLOP per second of matrix products, by precision, without those that have no fast units.
        memory: memory in bytes.
        bandwidth: bytes per second from and to its memory.
        link: bytes per second to the other devices of its node, in one direction.
        node_devices: number of devices in a node.
        network: bytes per second from one node to the others, in one direction.
        efficiency: fraction of the peak rate that matrix products reach; None if it was not measured.
        keeps_attention_scores: whether its usual software stores attention scores for the backward pass.
        waits_for_python: whether Python starts each operation, and prepares batches while the device waits.
        source: where the numbers are from.
    """

    name: str
    flops: dict[str, float]
    memory: float
    bandwidth: float
    link: float
    node_devices: int
    network: float
    efficiency: float | None
    keeps_attention_scores: bool
    waits_for_python: bool
    source: str


@dataclass(frozen=True)
class Hardware:
    """Devices of one kind that train together.

    Attributes:
        count: number of devices.
        device: the data sheet; None for this machine.
    """

    count: int
    device: Device | None

    @property
    def link_rate(self) -> float:
        """Bytes per second from each device to the next in a ring over all of them."""
        assert self.device is not None
        is_one_node = self.count <= self.device.node_devices
        return self.device.link if is_one_node else min(self.device.link, self.device.network)

    @property
    def name(self) -> str:
        """Name in tables."""
        return "this machine" if self.device is None else f"{self.count:,} x {self.device.name}"


@cache
def known_devices() -> dict[str, Device]:
    """Return the devices of the table by name."""
    with _TABLE.open("rb") as file:
        rows = tomllib.load(file)
    return {
        name: Device(
            name,
            {precision: row[precision] * 1e12 for precision in ("bf16", "fp32") if precision in row},
            memory=row["memory"] * 1e9,
            bandwidth=row["bandwidth"] * 1e9,
            link=row["link"] * 1e9,
            node_devices=row["node_devices"],
            network=row["network"] * 1e9,
            efficiency=row.get("efficiency"),
            keeps_attention_scores=row.get("keeps_attention_scores", False),
            waits_for_python=row.get("waits_for_python", True),
            source=row["source"],
        )
        for name, row in rows.items()
    }


def find_hardware(text: str) -> Hardware:
    """Return the hardware of a text such as "8 x H100"; raise `InputError` if it is unknown."""
    count, name = parse_hardware(text)
    if _normalized(name) == THIS_MACHINE:
        if count != 1:
            raise InputError(f"--hardware {display_text(text)}: it is one device; leave the number out")
        return Hardware(1, None)
    devices = {_normalized(known): device for known, device in known_devices().items()}
    device = devices.get(_normalized(name))
    if device is None:
        known = {_normalized(device): device for device in (THIS_MACHINE, *known_devices())}
        suggestion = did_you_mean(_normalized(name), known)
        for short, device_name in known.items():
            suggestion = suggestion.replace(f" {short}?", f" {device_name}?")
        raise InputError(
            f"--hardware {display_text(text)}: unknown device{suggestion}; write COUNT x DEVICE, as in "
            f"8 x H100; known: {', '.join(known.values())}"
        )
    return Hardware(count, device)


def _normalized(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def device_precision(device: Device, name: PrecisionName) -> Precision:
    """Return the precision of a run on a device; "auto" is bf16 where the device has it."""
    if name == "auto":
        return "bf16" if "bf16" in device.flops else "fp32"
    if name not in device.flops:
        raise InputError(f"--train.precision {name}: {device.name} has no fast {name}; use fp32")
    return name
