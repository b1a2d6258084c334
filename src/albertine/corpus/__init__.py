"""Sharded corpora, and the pre-training samples drawn from them: segment pairs and n-gram masking."""
