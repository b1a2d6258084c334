"""What can be set of pre-training; apart, for the help page."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from albertine.corpus.settings import ObjectiveSettings
from albertine.pretrain.curriculum import CurriculumSettings
from albertine.settings import ModelSettings, SettingError, Settings, setting
from albertine.train.settings import PretrainTrainSettings

DeviceName = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class PretrainSettings(Settings):
    """A pre-training run: on what, from what, how."""

    corpus: Path | None = setting(None, "A corpus, as `albertine corpus build` makes it.")
    init_from: str | None = setting(
        None, "A checkpoint to start from (folder or hub name), deeper or not; else fresh weights."
    )
    device: DeviceName = setting("auto", "Where; auto is a GPU where there is one.")
    workers: int = setting(
        0, "Processes that draw samples, beside the one that trains.", minimum=0, maximum=256
    )
    unigram_start: bool = setting(
        True, "Let fresh weights know how frequent each piece is (the bias of the MLM head)."
    )
    local_start: bool = setting(
        True, "Let fresh weights look at neighbours: a head for each of the places around a piece."
    )
    model: ModelSettings = setting(ModelSettings(), "The network.")
    objective: ObjectiveSettings = setting(ObjectiveSettings(), "What is asked of the network.")
    curriculum: CurriculumSettings = setting(CurriculumSettings(), "What changes during the run.")
    train: PretrainTrainSettings = setting(PretrainTrainSettings(), "How it is trained.")

    def check(self) -> None:
        """Refuse stages that the model cannot take."""
        depth = self.curriculum.stages("depth")
        if depth and not (self.model.share == "all" and self.model.groups == 1):
            raise SettingError(
                "curriculum", self.curriculum.depth, 'depth can only grow where share = "all" and groups = 1'
            )

    @property
    def uses_local_start(self) -> bool:
        """Whether the network began with the local start."""
        return self.local_start and self.init_from is None

    def objective_at(self, step: int) -> ObjectiveSettings:
        """Return what is asked of the network at a step, counted from 0."""
        length, masked = self.curriculum.stages("length"), self.curriculum.stages("masked")
        objective = self.objective
        if length:
            objective = replace(objective, max_length=int(length.value_at(step, self.train.steps)))
        if masked:
            objective = replace(objective, mlm_probability=masked.value_at(step, self.train.steps))
        return objective

    def depth_at(self, step: int) -> int:
        """Return how many layers the network has at a step."""
        depth = self.curriculum.stages("depth")
        return int(depth.value_at(step, self.train.steps)) if depth else self.model.layers

    def longest_sample(self, steps: int | None = None) -> int:
        """Return the longest sample of the first steps, or of the whole run."""
        stages = self.curriculum.stages("length")
        if not stages:
            return self.objective.max_length
        share = 1.0 if steps is None else max(0, steps - 1) / self.train.steps
        reached = [value for value, start in zip(stages.values, stages.starts, strict=True) if start <= share]
        return int(max(reached))


@dataclass(frozen=True)
class FillMaskSettings(Settings):
    """What to fill, and how much to tell."""

    corpus: Path | None = setting(None, "A corpus, to fill the masks of its held-out samples.")
    samples: int = setting(3, "How many of them.", minimum=1, maximum=10_000)
    first: int = setting(0, "The first of them.", minimum=0, maximum=1 << 53)
    top_k: int = setting(5, "How many guesses to tell for each mask.", minimum=1, maximum=1_000)
    max_length: int | None = setting(
        None, "Longest of the samples, in pieces; 128 or what the model takes if not set.", minimum=8
    )
    seed: int = setting(0, "What they are drawn from.", minimum=0)
    device: DeviceName = setting("auto", "Where; auto is a GPU where there is one.")


@dataclass(frozen=True)
class ProbeSettings(Settings):
    """What to measure."""

    corpus: Path | None = setting(None, "A corpus with held-out documents.")
    device: DeviceName = setting("auto", "Where; auto is a GPU where there is one.")
    tokens: int = setting(200_000, "How many held-out tokens to measure on, at most.", minimum=64)
    max_length: int | None = setting(
        None, "Longest sample, in pieces; 512 or what the model takes if not set.", minimum=8
    )
    seed: int = setting(0, "What the samples are drawn from.", minimum=0)
