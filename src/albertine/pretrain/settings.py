"""The settings of pre-training and of the probe."""

from dataclasses import dataclass, replace
from pathlib import Path

from albertine.corpus.settings import ObjectiveSettings
from albertine.pretrain.curriculum import GROW, CurriculumSettings
from albertine.settings import DeviceName, ModelSettings, SettingError, Settings, setting
from albertine.settings.exit_rule import MAX_DEPTH, PRETRAINED_DEPTH_HELP
from albertine.train.settings import PretrainTrainSettings

_MAX_EXIT_DEPTHS = 6  # each costs a pass of the MLM head; see docs/decisions/exits.md


@dataclass(frozen=True)
class PretrainSettings(Settings):
    """Settings of a pre-training run."""

    corpus: Path | None = setting(None, "Folder of a corpus (albertine corpus build).")
    init_from: str | None = setting(
        None,
        "Checkpoint to start from (folder or hub name), maybe with more layers; by default random weights.",
    )
    device: DeviceName = setting("auto", "Device; auto is a GPU if there is one.")
    workers: int = setting(
        0, "Number of processes that prepare samples, besides the one that trains.", minimum=0, maximum=256
    )
    unigram_start: bool = setting(True, "Initialize the bias of the MLM head with token frequencies.")
    local_start: bool = setting(
        True, "Initialize attention heads to attend to neighbouring tokens; not with rotary positions."
    )
    model: ModelSettings = setting(ModelSettings(), "The model.")
    objective: ObjectiveSettings = setting(ObjectiveSettings(), "The training objective.")
    curriculum: CurriculumSettings = setting(CurriculumSettings(), "What changes during the run.")
    train: PretrainTrainSettings = setting(PretrainTrainSettings(), "The training.")

    def check(self) -> None:
        """Raise `SettingError` if the depth grows and the model does not share all layers."""
        if self.curriculum.depth not in (None, GROW) and not self.model.shares_all_layers:
            raise SettingError(
                "curriculum", self.curriculum.depth, 'depth can only grow where share = "all" and groups = 1'
            )

    @property
    def uses_local_start(self) -> bool:
        """Whether the run starts with the local start."""
        return self.local_start and self.init_from is None and not self.model.rotary

    def objective_at(self, step: int) -> ObjectiveSettings:
        """Return the objective at a step, counted from 0."""
        length = self.curriculum.stages("length")
        mlm_probability = self.curriculum.stages("mlm_probability")
        objective = self.objective
        if length:
            objective = replace(objective, max_length=int(length.value_at(step, self.train.steps)))
        if mlm_probability:
            objective = replace(objective, mlm_probability=mlm_probability.value_at(step, self.train.steps))
        return objective

    def depth_at(self, step: int) -> int:
        """Return the number of layers at a step, counted from 0."""
        depth = self.curriculum.stages("depth")
        return int(depth.value_at(step, self.train.steps)) if depth else self.model.layers

    def exit_depths_at(self, step: int) -> tuple[int, ...]:
        """Return the depths over which the loss of a step, counted from 0, is a mean.

        Without exits, it is the depth of the step alone. With them, these are all depths up to it, or
        `_MAX_EXIT_DEPTHS` evenly spaced ones if there are more.
        """
        depth = self.depth_at(step)
        if not self.train.exits:
            return (depth,)
        count = min(depth, _MAX_EXIT_DEPTHS)
        return tuple(depth * number // count for number in range(1, count + 1))

    def longest_sample(self, steps: int | None = None) -> int:
        """Return the maximum length of samples in the first `steps` steps, or in the whole run."""
        stages = self.curriculum.stages("length")
        if not stages:
            return self.objective.max_length
        progress = 1.0 if steps is None else max(0, steps - 1) / self.train.steps
        return int(
            max(value for value, start in zip(stages.values, stages.starts, strict=True) if start <= progress)
        )


@dataclass(frozen=True)
class ProbeSettings(Settings):
    """Settings of `albertine probe`."""

    corpus: Path | None = setting(None, "Folder of a corpus with held-out documents.")
    device: DeviceName = setting("auto", "Device; auto is a GPU if there is one.")
    tokens: int = setting(200_000, "Maximum number of held-out tokens.", minimum=64)
    max_length: int | None = setting(
        None,
        "Maximum length of samples in tokens; by default that of the samples of the run, and for other "
        "checkpoints that of the model, at most 512.",
        minimum=8,
    )
    seed: int = setting(0, "Random seed of the samples.", minimum=0)
    depth: int | None = setting(None, PRETRAINED_DEPTH_HELP, minimum=1, maximum=MAX_DEPTH)
    original: str | None = setting(
        None,
        "A larger model from which this one was made: the probe says how much of its gain over token "
        "frequencies this model keeps, and how much that is per byte. Both get samples that the shorter "
        "one takes, and --depth is for this model only.",
    )
