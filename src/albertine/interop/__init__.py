"""Checkpoints of others: Hugging Face's in and out, by folder or hub name; Google's TensorFlow files in."""
