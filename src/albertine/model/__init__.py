"""ALBERT: the network, its input (the strip), and its parameter counts and costs.

Reading order: `strip`, `layers`, `attention`, `depth_plan`, `encoder`, `heads`, `model`; then
`padded` for export, and `kernels/` for speed. Importing this package does not import torch:
`parameter_counts` and `cost` need the settings only.
"""
