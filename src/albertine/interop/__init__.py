"""Checkpoints of others: those of Hugging Face in and out, by folder or hub name; Google's TensorFlow files in."""
