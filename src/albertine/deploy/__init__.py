"""Serving: a model behind HTTP, with a web page for trying it."""
