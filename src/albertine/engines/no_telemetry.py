"""Keeps OpenVINO and nncf from sending usage data."""

import sys


def disable_telemetry() -> None:
    """Make the package `openvino_telemetry` unavailable; call it before OpenVINO or nncf is imported.

    It sends an event to a web service for every conversion and quantization, without asking. Both libraries
    work without it.
    """
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # its import raises then
