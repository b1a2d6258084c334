"""The genres. Each is one module with a function `plan` that adds events to a scene."""
