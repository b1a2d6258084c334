"""Faster versions of operations for specific machines.

Each of the other files has one kernel. `selection.py` chooses between a kernel and plain PyTorch;
`ComputeOptions(kernels=False)` switches all kernels off.
"""
