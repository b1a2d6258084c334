"""Readers of examples: the official layouts of tasks, and tables and CoNLL files of the user's own data."""
