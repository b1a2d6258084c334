"""Into use: a model behind HTTP, and the page on which people try it."""
