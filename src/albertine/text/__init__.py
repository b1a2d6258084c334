"""Reading text as documents of sentences, and tokenizers: training, loading and encoding."""
