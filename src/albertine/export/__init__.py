"""Exports models to ONNX and OpenVINO, in fp32 and int8, verified against their source."""
