"""Engines run a model for inference: one interface, and an implementation in torch."""
