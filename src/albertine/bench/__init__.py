"""Benchmarks: each compares one part of Albertine with a peer on the same machine, in one run."""
