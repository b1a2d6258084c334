"""The generated little world: stories with state, and tasks in the official layouts with true answers."""
