"""The version, which what is written down names."""

__version__ = "0.1.0"
