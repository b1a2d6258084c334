"""Text and tokens: tokenizers (training, loading, showing) and sentence splitting."""
