"""Settings of serving, in a module of their own so that `--help` does not import the server."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from albertine.deploy.addresses import parse_address
from albertine.settings import DeviceName, PrecisionName, SettingError, Settings, setting
from albertine.settings.engine import ENGINE_HELP, EngineName, EngineOptions
from albertine.settings.exit_rule import DEPTH_HELP, EXIT_HELP, MAX_DEPTH, make_exit_rule

_HOST_NAME = re.compile(r"[\w.-]+|\*", re.ASCII)
# Scheme, host and port, as browsers write an origin: in lower case, without a slash at the end.
_ORIGIN = re.compile(r"https?://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?|\*", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}  # which browsers leave out


@dataclass(frozen=True)
class ServeSettings(Settings):
    """Address, access, processes and log of a server; device, precision and depth of its model."""

    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 accepts requests from other machines.")
    port: int = setting(8000, "Port; 0 for a free one.", minimum=0, maximum=65_535)
    allowed_hosts: str | None = setting(
        None,
        "Host names and addresses that clients may use besides those of this machine, such as the name of a "
        "proxy, separated by commas; * for any.",
    )
    cors_origins: str | None = setting(
        None,
        "Origins of other sites whose pages may use the server, such as https://example.org, separated by "
        "commas; * for any.",
    )
    token_file: Path | None = setting(
        None,
        "File with the token that requests must send, in the header Authorization: Bearer TOKEN. The "
        "environment variable ALBERTINE_TOKEN can hold the token instead.",
    )
    workers: int = setting(
        1, "Processes, each with a copy of the model and its share of the threads.", minimum=1, maximum=256
    )
    log_format: Literal["text", "json"] = setting("text", "Format of the log on standard error.")
    device: DeviceName = setting("auto", "Device; auto uses a GPU if there is one.")
    precision: PrecisionName = setting(
        "auto",
        "Precision of matrix products; auto uses fp32 if the model is pre-trained or was fine-tuned in fp32, "
        "else bf16 if the machine computes it fast.",
    )
    engine: EngineName | None = setting(None, ENGINE_HELP)
    task: str | None = setting(
        None,
        "Task of a fine-tuned model from other programs, whose folder does not name it, such as squad-2.0 if "
        "a question may have no answer; by default that of the fine-tuning.",
    )
    exit: str | None = setting(None, EXIT_HELP)
    depth: int | None = setting(None, DEPTH_HELP, minimum=1, maximum=MAX_DEPTH)

    def check(self) -> None:
        """Raise `SettingError` if a host or an origin is malformed, or `exit` no rule."""
        make_exit_rule(self.exit, self.depth)
        for key, value in (("allowed_hosts", self.allowed_hosts), ("cors_origins", self.cors_origins)):
            if "" in _comma_separated(value):
                raise SettingError(key, value, "has an empty name; separate names by one comma")
        for name in self.allowed_host_names():
            if not _HOST_NAME.fullmatch(name) and parse_address(name) is None:
                raise SettingError(
                    "allowed_hosts",
                    name,
                    "must be a host name without scheme, port and path, such as example.org",
                )
        for origin in self.allowed_origins():
            _check_origin(origin)

    @property
    def engine_options(self) -> EngineOptions:
        """Where and how the model runs."""
        return EngineOptions(self.device, self.precision, self.engine)

    def allowed_host_names(self) -> tuple[str, ...]:
        """Return the names in `allowed_hosts`."""
        return _comma_separated(self.allowed_hosts)

    def allowed_origins(self) -> tuple[str, ...]:
        """Return the origins in `cors_origins`."""
        return _comma_separated(self.cors_origins)


def _check_origin(origin: str) -> None:
    """Raise `SettingError` unless a browser can send an origin that is written like this one."""
    match = _ORIGIN.fullmatch(origin)
    if not match:
        raise SettingError(
            "cors_origins",
            origin,
            "must be scheme, host and port in lower case without a path, such as https://example.org",
        )
    port = match[1]
    if port is None:
        return
    if port != str(int(port)) or not 0 < int(port) < 1 << 16:
        raise SettingError("cors_origins", origin, "port must be from 1 to 65535, without leading zeros")
    if int(port) == _DEFAULT_PORTS[origin.partition(":")[0]]:
        shorter = origin.removesuffix(f":{port}")
        raise SettingError("cors_origins", origin, f"browsers omit :{port}; write {shorter}")


def _comma_separated(value: str | None) -> tuple[str, ...]:
    return () if value is None else tuple(part.strip() for part in value.split(","))
