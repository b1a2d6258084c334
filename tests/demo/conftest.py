"""Fixtures of the tests of the demo."""

from tests.task_fixtures import checkpoint

__all__ = ["checkpoint"]
