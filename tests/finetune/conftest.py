from tests.finetune.exit_fixtures import deep_checkpoint
from tests.finetune.pair_fixtures import data
from tests.task_fixtures import checkpoint, finetune_settings, world

__all__ = ["checkpoint", "data", "deep_checkpoint", "finetune_settings", "world"]
