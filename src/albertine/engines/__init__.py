"""Engines, which run a model for inference: the interface and its implementation with torch."""
