"""The kinds of stories. Each is one file with a `plan` that lets events happen in a scene."""
