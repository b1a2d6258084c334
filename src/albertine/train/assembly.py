"""Assembles a training run from its parts, for pre-training and fine-tuning alike."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from albertine import progress
from albertine.device import choose_precision
from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.settings import Settings
from albertine.train.distributed import Distributed, broadcast_parameters
from albertine.train.gradients import make_gradients
from albertine.train.optimizers import Optimizers
from albertine.train.recorder import RunRecorder
from albertine.train.settings import TrainerSettings
from albertine.train.sharding import shard_model
from albertine.train.trainable import Trainable
from albertine.train.trainer import Trainer


def assemble_trainer(
    run: Path,
    model: Model,
    trainable: Trainable,
    settings: TrainerSettings,
    run_settings: Settings,
    distributed: Distributed,
    *,
    baselines: Mapping[str, tuple[str, float]] = MappingProxyType({}),
    published: Literal["newest", "best"] = "newest",
    lr_scales: Mapping[str, float] = MappingProxyType({}),
) -> Trainer:
    """Move a model to its device and return its trainer; `Trainer.resume` and `Trainer.train` follow.

    Args:
        run: folder of the run.
        model: the model, on the CPU.
        trainable: data, losses and evaluation.
        settings: settings with learning rate and warm-up.
        run_settings: all settings of the run, to record.
        distributed: the processes that train together.
        baselines: name and loss of the baseline of an objective, to show beside its loss.
        published: which checkpoint is copied into the folder of the run.
        lr_scales: factors on the learning rate, by name of the parameter.
    """
    dtype = choose_precision(settings.precision, distributed.device)
    model.configure(ComputeOptions(dtype, settings.recompute, settings.compile, settings.kernels))
    model.to(distributed.device)
    broadcast_parameters(model, distributed)
    if settings.shard and distributed.world_size > 1:
        shard_model(model, distributed, dtype)
    elif settings.shard:
        progress.print_message("--train.shard: has no effect with one process; start several with torchrun")
    return Trainer(
        model,
        trainable,
        Optimizers(model, settings, dtype, lr_scales),
        make_gradients(model),
        settings,
        RunRecorder(run, settings, run_settings, baselines, trainable.work, published),
        distributed,
    )
