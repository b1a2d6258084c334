"""IP addresses as text; an IPv6 address has several spellings."""

import ipaddress
from typing import TypeAlias

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse_address(host: str) -> IpAddress | None:
    """Return the IP address that a host is; None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
