"""Evaluation metrics as the official scripts of the tasks compute them."""
