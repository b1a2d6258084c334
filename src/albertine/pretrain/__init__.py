"""The pre-training run: objectives over a corpus, live telling, probing of what was learned."""
