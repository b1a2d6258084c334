"""Fixtures of the tests of reports."""

from tests.task_fixtures import checkpoint, finetune_settings

__all__ = ["checkpoint", "finetune_settings"]
