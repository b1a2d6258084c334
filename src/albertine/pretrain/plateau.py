"""The commonest failure of pre-training, told by name: nothing is learned of context.

A run whose MLM loss stays at the unigram entropy of the corpus has a network whose
output does not depend on its input. Half a nat below there is another level, of a network
that tells the pieces that are not hidden and looks at nothing around the hidden ones. A run
can sit at either for ever, and looks as if it trained. So it is said, with what in this run
departs from what usually works.
"""

from dataclasses import dataclass, field

from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.unigram_baseline import no_context_baseline
from albertine.train.schedule import LearningRateSchedule, default_lr, default_warmup
from albertine.train.step_metrics import StepMetrics

_DECAY = 0.98
_MARGIN = 0.1  # nats under a level at which something else has been learned
_MIN_STEPS = 300


@dataclass
class PlateauDetector:
    """Watches the MLM loss of a run.

    Attributes:
        unigram_baseline: the loss of who knows frequencies alone.
        unknown_share: share of the corpus that its tokenizer has no piece for.
    """

    settings: PretrainSettings
    unigram_baseline: float
    unknown_share: float
    _average_loss: float = field(default=float("nan"), init=False)
    _averaged_steps: int = field(default=0, init=False)

    def diagnose(self, metrics: StepMetrics) -> str | None:
        """Look at a step; speak up a while after the warm-up, and again at half of the run and at its end."""
        loss = metrics.losses["mlm"]
        if not metrics.skipped:
            self._averaged_steps += 1
            weight = max(1 - _DECAY, 1 / self._averaged_steps)
            self._average_loss = (
                loss
                if self._averaged_steps == 1
                else self._average_loss + weight * (loss - self._average_loss)
            )
        if (
            metrics.step not in self._steps_to_check()
            or not self._average_loss > no_context_baseline(self.unigram_baseline) - _MARGIN
        ):
            return None
        return self._message()

    def _steps_to_check(self) -> tuple[int, ...]:
        train = self.settings.train
        warmup = LearningRateSchedule.from_settings(train).warmup
        early = warmup + max(_MIN_STEPS, train.steps // 20)
        return tuple(step for step in (early, train.steps // 2, train.steps) if step >= early)

    def _message(self) -> str:
        causes = self._unusual_settings() or self._usual_causes()
        no_context_loss = no_context_baseline(self.unigram_baseline)
        if self._average_loss > self.unigram_baseline - _MARGIN:
            where = f"at the level of piece frequencies ({self.unigram_baseline:.3f}): nothing but those has been learned"
        else:
            where = f"at the level of one who sees no context ({no_context_loss:.3f}): nothing around a piece is used"
        return (
            f"the MLM loss ({self._average_loss:.3f}) is still {where}. "
            f"Usual causes, as they are here: {'; '.join(causes)}"
        )

    def _unusual_settings(self) -> list[str]:
        """Name what departs from what usually works."""
        train, causes = self.settings.train, []
        schedule = LearningRateSchedule.from_settings(train)
        usual_lr = default_lr(train.optimizer, train.batch_tokens)
        if not usual_lr / 4 <= schedule.peak_lr <= 1.5 * usual_lr:
            how = "high" if schedule.peak_lr > usual_lr else "low"
            causes.append(
                f"the rate is {how}: --train.lr {schedule.peak_lr:g}, where {usual_lr:g} suits the batch"
            )
        if train.batch_tokens < 1024:
            causes.append(
                f"the batch is small: --train.batch-tokens {train.batch_tokens:,}; take 1,024 or more"
            )
        if schedule.warmup < default_warmup(train.steps, train.batch_tokens) / 2:
            causes.append(f"the warm-up is short: --train.warmup {schedule.warmup:,}")
        masked = [self.settings.objective_at(step).mlm_probability for step in (0, train.steps - 1)]
        if max(masked) > 0.4 or min(masked) < 0.1:
            causes.append(f"masking is unusual: {masked[0]:.0%} of the pieces, where 15% is usual")
        if self.settings.init_from is None and not self.settings.local_start:
            causes.append("the start is not local: --no-local-start, where heads would look at neighbours")
        if self.unknown_share > 0.01:
            causes.append(
                f"the tokenizer does not fit the text: {self.unknown_share:.1%} of its pieces are unknown ones"
            )
        return causes

    def _usual_causes(self) -> list[str]:
        """Name the usual causes with what this run has of each."""
        train, schedule = self.settings.train, LearningRateSchedule.from_settings(self.settings.train)
        return [
            f"rate {schedule.peak_lr:g} (try half, or --train.optimizer muon)",
            f"batch {train.batch_tokens:,} tokens (a larger one is steadier)",
            f"warm-up {schedule.warmup:,} steps",
            f"masking {self.settings.objective.mlm_probability:.0%}",
            f"unknown pieces {self.unknown_share:.1%} (is it the right tokenizer?)",
            f"{train.steps:,} steps (are they enough?)",
        ]
