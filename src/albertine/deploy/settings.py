"""Settings of serving, in a module of their own so that `--help` does not import the server."""

from dataclasses import dataclass

from albertine.settings import DeviceName, PrecisionName, Settings, setting


@dataclass(frozen=True)
class ServeSettings(Settings):
    """Address, device and precision of a server."""

    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 accepts requests from other machines.")
    port: int = setting(8000, "Port; 0 for a free one.", minimum=0, maximum=65_535)
    device: DeviceName = setting("auto", "Device; auto uses a GPU if there is one.")
    precision: PrecisionName = setting(
        "auto",
        "Precision of matrix products; auto uses fp32 if the model was fine-tuned in fp32, "
        "else bf16 if the machine computes it fast.",
    )
