"""Names of the formats and precisions of exported models."""

from typing import Literal

ExportFormat = Literal["onnx", "openvino", "web"]
ExportPrecision = Literal["fp32", "int8"]
