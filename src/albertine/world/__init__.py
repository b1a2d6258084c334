"""The little world: generated stories with state, and tasks in official file layouts with gold answers."""
