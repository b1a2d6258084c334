"""Loads checkpoints of `transformers`, from a folder or the hub, and of Google; saves for `transformers`."""
