"""Hostile input: grammar-aware mutations of every file and command line that Albertine reads."""

from tests.campaign.hostile_input.campaign_part import run_part

__all__ = ["run_part"]
