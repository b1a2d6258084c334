"""The report card of a pre-trained model: held-out text, minimal pairs, and small fine-tuning runs."""
