"""Detects the most common failure of pre-training: the model learns nothing from context.

If the MLM loss stays at the unigram baseline, the output does not depend on the input.
The no-context baseline is about half a nat lower: there the model copies the masked tokens
that are not hidden, and uses nothing around the hidden ones. A run can stay at either
baseline forever and look as if it trained. The detector reports this, with the settings
of the run that differ from what usually works.
"""

from dataclasses import dataclass, field

from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.unigram_baseline import no_context_baseline
from albertine.train.schedule import LearningRateSchedule, default_lr, default_warmup
from albertine.train.step_metrics import StepMetrics, moving_average

_DECAY = 0.98
_MARGIN = 0.1  # a loss that is lower than a baseline by this many nats has left it
_MIN_STEPS = 300  # steps after the warm-up before the first check


@dataclass
class PlateauDetector:
    """Watches the MLM loss of a run.

    Attributes:
        settings: settings of the run.
        unigram_baseline: MLM loss of a model that knows only token frequencies.
        unknown_fraction: fraction of unknown tokens in the corpus.
    """

    settings: PretrainSettings
    unigram_baseline: float
    unknown_fraction: float
    _average_loss: float = field(default=0.0, init=False)
    _averaged_steps: int = field(default=0, init=False)

    def diagnose(self, metrics: StepMetrics) -> str | None:
        """Return a message if the loss is at a baseline after the warm-up, halfway or at the end.

        A run that ends before the first check is compared with the unigram baseline only.
        """
        if not metrics.skipped:
            self._averaged_steps += 1
            self._average_loss = moving_average(
                self._average_loss, metrics.losses["mlm"], self._averaged_steps, _DECAY
            )
        is_stuck = self._average_loss > no_context_baseline(self.unigram_baseline) - _MARGIN
        if is_stuck and metrics.step in self._steps_to_check():
            return self._message()
        is_early_end = metrics.step == self.settings.train.steps < self._first_step_to_check
        # Not the average, which contains the first losses of such a short run.
        loss = metrics.losses["mlm"]
        if is_early_end and not metrics.skipped and loss > self.unigram_baseline - _MARGIN:
            return (
                f"the MLM loss of the last step ({loss:.3f}) is not clearly below the unigram baseline "
                f"({self.unigram_baseline:.3f}): {metrics.step:,} steps are not enough to learn more than "
                "token frequencies; train longer (--train.minutes or --train.steps, with another --out)"
            )
        return None

    @property
    def _first_step_to_check(self) -> int:
        train = self.settings.train
        return LearningRateSchedule.from_settings(train).warmup + max(_MIN_STEPS, train.steps // 20)

    def _steps_to_check(self) -> tuple[int, ...]:
        steps, first = self.settings.train.steps, self._first_step_to_check
        return tuple(step for step in (first, steps // 2, steps) if step >= first)

    def _message(self) -> str:
        causes = self._unusual_settings() or self._usual_causes()
        no_context_loss = no_context_baseline(self.unigram_baseline)
        if self._average_loss > self.unigram_baseline + _MARGIN:
            where = (
                f"above the unigram baseline ({self.unigram_baseline:.3f}): "
                "the model predicts worse than by token frequencies alone"
            )
        elif self._average_loss > self.unigram_baseline - _MARGIN:
            where = (
                f"still at the unigram baseline ({self.unigram_baseline:.3f}): "
                "the model has learned only token frequencies"
            )
        else:
            where = f"still at the no-context baseline ({no_context_loss:.3f}): the model uses no context"
        return (
            f"the MLM loss ({self._average_loss:.3f}) is {where}. "
            f"Usual causes, with the values of this run: {'; '.join(causes)}"
        )

    def _unusual_settings(self) -> list[str]:
        """Return a cause for each setting that differs from what usually works."""
        train, causes = self.settings.train, []
        schedule = LearningRateSchedule.from_settings(train)
        usual_lr = default_lr(train.optimizer, train.batch_tokens)
        if not usual_lr / 4 <= schedule.peak_lr <= 1.5 * usual_lr:
            level = "high" if schedule.peak_lr > usual_lr else "low"
            causes.append(
                f"the learning rate is {level}: --train.lr {schedule.peak_lr:g}; {usual_lr:g} suits the batch"
            )
        if train.batch_tokens < 1024:
            causes.append(
                f"the batch is small: --train.batch-tokens {train.batch_tokens:,}; use 1,024 or more"
            )
        if schedule.warmup < default_warmup(train.steps, train.batch_tokens) / 2:
            causes.append(f"the warm-up is short: --train.warmup {schedule.warmup:,}")
        stages = self.settings.curriculum.stages("mlm_probability")
        fractions = stages.values if stages else (self.settings.objective.mlm_probability,)
        if unusual := next((fraction for fraction in fractions if not 0.1 <= fraction <= 0.4), None):
            causes.append(f"masking is unusual: {unusual:.0%} of the tokens; 15% is usual")
        has_positions = not self.settings.model.rotary  # without them, there is no local start
        if self.settings.init_from is None and has_positions and not self.settings.local_start:
            causes.append("no local start: --no-local-start; with it, heads attend to neighbouring tokens")
        if self.unknown_fraction > 0.01:
            causes.append(
                f"the tokenizer does not fit the text: {self.unknown_fraction:.1%} of the tokens are unknown"
            )
        return causes

    def _usual_causes(self) -> list[str]:
        """Return the usual causes, for a run without unusual settings."""
        train, schedule = self.settings.train, LearningRateSchedule.from_settings(self.settings.train)
        return [
            f"learning rate {schedule.peak_lr:g} (try half of it, or --train.optimizer muon)",
            f"batch of {train.batch_tokens:,} tokens (a larger one is more stable)",
            f"warm-up of {schedule.warmup:,} steps",
            f"masking of {self.settings.objective.mlm_probability:.0%}",
            f"{self.unknown_fraction:.1%} unknown tokens (is it the right tokenizer?)",
            f"{train.steps:,} steps (are they enough?)",
        ]
