"""Server load: valid requests under load, and malformed, slow, abandoned and too many requests."""

from tests.campaign.server_load.run import run_part

__all__ = ["run_part"]
