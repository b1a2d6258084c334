"""Readers of examples: the official layouts of tasks, and tables of the user's own data."""
