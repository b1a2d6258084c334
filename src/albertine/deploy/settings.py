"""What can be set of serving; apart from the server, since the help page needs it at once."""

from dataclasses import dataclass

from albertine.settings import Settings, setting
from albertine.tasks.settings import Device, Precision


@dataclass(frozen=True)
class ServeSettings(Settings):
    """Where a model is served, and how it computes."""

    host: str = setting("127.0.0.1", "The address to listen at; 0.0.0.0 lets other machines in.")
    port: int = setting(8000, "The port; 0 takes a free one.", minimum=0, maximum=65_535)
    device: Device = setting("auto", "Where; auto is a GPU where there is one.")
    precision: Precision = setting(
        "auto", "Of the matrix products; auto takes bf16 where the machine is fast at it."
    )
