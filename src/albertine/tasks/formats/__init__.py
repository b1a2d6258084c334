"""The layouts that examples come in: official ones, and a person's own tables."""
