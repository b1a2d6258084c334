"""Tasks: file formats, task types, metrics, the scorer; the registry lists all of them."""
