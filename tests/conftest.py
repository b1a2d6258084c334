"""What every test may use."""

import os

from hypothesis import settings

# In CI the examples are the same at every run, and a slow machine is no failure.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")
