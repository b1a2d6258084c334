"""Checkpoints of others: Hugging Face folders and hub names, Google's TensorFlow files, both ways."""
