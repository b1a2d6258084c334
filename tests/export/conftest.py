from tests.export.export_fixtures import archives, classifier, data, exported
from tests.task_fixtures import checkpoint

__all__ = ["archives", "checkpoint", "classifier", "data", "exported"]
