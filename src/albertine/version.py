"""The version of Albertine, recorded in the files that it writes."""

__version__ = "0.2.0.dev0"
