"""Loads and saves checkpoints of `transformers`, local or on the hub; loads Google's TensorFlow ones."""
