"""What exists only because a machine computes faster that way.

Each file holds one kernel; `selection.py` decides which kernel runs where, with the plain
version beside it. `ComputeOptions(kernels=False)` switches all of them off.
"""
