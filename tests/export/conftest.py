from tests.task_fixtures import checkpoint

__all__ = ["checkpoint"]
