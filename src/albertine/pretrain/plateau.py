"""Detects the most common failure of pre-training: the model learns nothing from context.

If the MLM loss stays at the unigram baseline, the output does not depend on the input.
About half a nat below is the no-context baseline, of a model that recognizes the masked
tokens that are not hidden, and uses nothing around the hidden ones. A run can stay at
either for ever and looks as if it trained. The detector reports it, with the settings of
the run that differ from what usually works.
"""

from dataclasses import dataclass, field

from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.unigram_baseline import no_context_baseline
from albertine.train.schedule import LearningRateSchedule, default_lr, default_warmup
from albertine.train.step_metrics import StepMetrics, moving_average

_DECAY = 0.98
_MARGIN = 0.1  # nats below a baseline that show that the model has left it
_MIN_STEPS = 300  # steps after the warm-up before the first check


@dataclass
class PlateauDetector:
    """Watches the MLM loss of a run.

    Attributes:
        settings: settings of the run.
        unigram_baseline: MLM loss of a model that knows only token frequencies.
        unknown_share: fraction of unknown tokens in the corpus.
    """

    settings: PretrainSettings
    unigram_baseline: float
    unknown_share: float
    _average_loss: float = field(default=0.0, init=False)
    _averaged_steps: int = field(default=0, init=False)

    def diagnose(self, metrics: StepMetrics) -> str | None:
        """Return a message if the loss is at a baseline after the warm-up, halfway or at the end."""
        if not metrics.skipped:
            self._averaged_steps += 1
            self._average_loss = moving_average(
                self._average_loss, metrics.losses["mlm"], self._averaged_steps, _DECAY
            )
        is_stuck = self._average_loss > no_context_baseline(self.unigram_baseline) - _MARGIN
        return self._message() if is_stuck and metrics.step in self._steps_to_check() else None

    def _steps_to_check(self) -> tuple[int, ...]:
        train = self.settings.train
        warmup = LearningRateSchedule.from_settings(train).warmup
        early = warmup + max(_MIN_STEPS, train.steps // 20)
        return tuple(step for step in (early, train.steps // 2, train.steps) if step >= early)

    def _message(self) -> str:
        causes = self._unusual_settings() or self._usual_causes()
        no_context_loss = no_context_baseline(self.unigram_baseline)
        if self._average_loss > self.unigram_baseline - _MARGIN:
            where = (
                f"at the unigram baseline ({self.unigram_baseline:.3f}): "
                "the model has learned only token frequencies"
            )
        else:
            where = f"at the no-context baseline ({no_context_loss:.3f}): the model uses no context"
        return (
            f"the MLM loss ({self._average_loss:.3f}) is still {where}. "
            f"Usual causes, with the values of this run: {'; '.join(causes)}"
        )

    def _unusual_settings(self) -> list[str]:
        """Return the settings that differ from what usually works."""
        train, causes = self.settings.train, []
        schedule = LearningRateSchedule.from_settings(train)
        usual_lr = default_lr(train.optimizer, train.batch_tokens)
        if not usual_lr / 4 <= schedule.peak_lr <= 1.5 * usual_lr:
            how = "high" if schedule.peak_lr > usual_lr else "low"
            causes.append(
                f"the learning rate is {how}: --train.lr {schedule.peak_lr:g}; {usual_lr:g} suits the batch"
            )
        if train.batch_tokens < 1024:
            causes.append(
                f"the batch is small: --train.batch-tokens {train.batch_tokens:,}; use 1,024 or more"
            )
        if schedule.warmup < default_warmup(train.steps, train.batch_tokens) / 2:
            causes.append(f"the warm-up is short: --train.warmup {schedule.warmup:,}")
        masked = [self.settings.objective_at(step).mlm_probability for step in (0, train.steps - 1)]
        if max(masked) > 0.4 or min(masked) < 0.1:
            causes.append(f"masking is unusual: {masked[0]:.0%} of the tokens; 15% is usual")
        if self.settings.init_from is None and not self.settings.local_start:
            causes.append("no local start: --no-local-start; with it, heads attend to neighbouring tokens")
        if self.unknown_share > 0.01:
            causes.append(
                f"the tokenizer does not fit the text: {self.unknown_share:.1%} of the tokens are unknown"
            )
        return causes

    def _usual_causes(self) -> list[str]:
        """Return the usual causes with the values of this run."""
        train, schedule = self.settings.train, LearningRateSchedule.from_settings(self.settings.train)
        return [
            f"learning rate {schedule.peak_lr:g} (try half of it, or --train.optimizer muon)",
            f"batch of {train.batch_tokens:,} tokens (a larger one is more stable)",
            f"warm-up of {schedule.warmup:,} steps",
            f"masking of {self.settings.objective.mlm_probability:.0%}",
            f"{self.unknown_share:.1%} unknown tokens (is it the right tokenizer?)",
            f"{train.steps:,} steps (are they enough?)",
        ]
