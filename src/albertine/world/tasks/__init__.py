"""Tasks on stories: examples with gold answers from the world's state, and the files they are written to."""
