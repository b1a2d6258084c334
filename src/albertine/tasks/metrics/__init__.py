"""Metrics as the official scripts of the tasks compute them, and how they are printed."""
