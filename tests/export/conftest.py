from tests.export.export_fixtures import classifier, data, exported
from tests.task_fixtures import checkpoint

__all__ = ["checkpoint", "classifier", "data", "exported"]
