"""The network, the strip it reads, and what it costs.

Importing this package imports no torch: `parameters` and `cost` work from the
settings alone.
"""
