"""The bag-of-words baseline: linear models on TF-IDF, with which every fine-tuned model is compared."""
