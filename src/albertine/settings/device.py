"""Types of the settings for device and precision, which many commands have."""

from typing import Literal

DeviceName = Literal["auto", "cpu", "cuda"]
PrecisionName = Literal["auto", "fp32", "bf16"]
