"""Pre-training: masked-language modelling and sentence pairs on a corpus, and probing of the result."""
