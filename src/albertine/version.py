"""The version of Albertine, recorded in the files that it writes."""

__version__ = "0.1.0"
