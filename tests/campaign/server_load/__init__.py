"""Load and malformed, slow, abandoned and too many requests, for servers of several models."""

from tests.campaign.server_load.run import run_part as run_part
