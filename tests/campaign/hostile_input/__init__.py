"""Hostile input: changed files and command lines, for every command that reads them."""

from tests.campaign.hostile_input.campaign_part import run_part

__all__ = ["run_part"]
