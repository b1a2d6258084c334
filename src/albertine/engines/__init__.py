"""Engines, which run a model for inference.

`engine` has the interface, `torch_engine` and `exported_engine` its implementations (torch; ONNX Runtime and
OpenVINO), and `conversion` what makes the second from a model.
"""
