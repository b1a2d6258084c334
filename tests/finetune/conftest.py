from tests.task_fixtures import checkpoint, finetune_settings, world

__all__ = ["checkpoint", "finetune_settings", "world"]
