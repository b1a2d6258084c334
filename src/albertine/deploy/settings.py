"""Settings of serving, in a module of their own so that `--help` does not import the server."""

import re
from dataclasses import dataclass

from albertine.settings import DeviceName, PrecisionName, SettingError, Settings, setting
from albertine.settings.engine import ENGINE_HELP, EngineName, EngineOptions
from albertine.settings.exit_rule import DEPTH_HELP, EXIT_HELP, MAX_DEPTH, make_exit_rule

_HOST_NAME = re.compile(r"[\w.-]+|[0-9a-f:.]+|\*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class ServeSettings(Settings):
    """Address, device, precision and depth of a server."""

    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 accepts requests from other machines.")
    port: int = setting(8000, "Port; 0 for a free one.", minimum=0, maximum=65_535)
    allowed_hosts: str | None = setting(
        None,
        "More host names and addresses under which clients reach the server, as behind a proxy, separated by "
        "commas; * for any.",
    )
    device: DeviceName = setting("auto", "Device; auto uses a GPU if there is one.")
    precision: PrecisionName = setting(
        "auto",
        "Precision of matrix products; auto uses fp32 if the model was fine-tuned in fp32, "
        "else bf16 if the machine computes it fast.",
    )
    engine: EngineName | None = setting(None, ENGINE_HELP)
    exit: str | None = setting(None, EXIT_HELP)
    depth: int | None = setting(None, DEPTH_HELP, minimum=1, maximum=MAX_DEPTH)

    def check(self) -> None:
        """Raise SettingError if an allowed host is no host name, or `exit` no rule."""
        make_exit_rule(self.exit, self.depth)
        for name in self.allowed_host_names():
            if not _HOST_NAME.fullmatch(name):
                raise SettingError(
                    "allowed_hosts",
                    name,
                    "must be a host name without scheme, port and path, such as example.org",
                )

    @property
    def engine_options(self) -> EngineOptions:
        """Where and how the model runs."""
        return EngineOptions(self.device, self.precision, self.engine)

    def allowed_host_names(self) -> tuple[str, ...]:
        """Return the names in `allowed_hosts`."""
        if self.allowed_hosts is None:
            return ()
        return tuple(name.strip() for name in self.allowed_hosts.split(","))
