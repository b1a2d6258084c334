from tests.finetune.exit_fixtures import deep_checkpoint
from tests.task_fixtures import checkpoint, finetune_settings, world

__all__ = ["checkpoint", "deep_checkpoint", "finetune_settings", "world"]
