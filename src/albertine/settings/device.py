"""Types of the settings that choose where and how precisely a command computes."""

from typing import Literal

DeviceName = Literal["auto", "cpu", "cuda"]
PrecisionName = Literal["auto", "fp32", "bf16"]
