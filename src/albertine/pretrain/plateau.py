"""The commonest failure of pre-training, told by name: nothing is learned of context.

A run whose MLM loss stays at the unigram entropy of the corpus has a network whose
output does not depend on its input. Half a nat below there is another level, of a network
that tells the pieces that are not hidden and looks at nothing around the hidden ones. A run
can sit at either for ever, and looks as if it trained. So it is said, with what in this run
departs from what usually works.
"""

from dataclasses import dataclass, field

from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.unigram import without_context
from albertine.train.schedule import Schedule, rate_for, warmup_for
from albertine.train.told import Told

_MEMORY = 0.98
_BELOW = 0.1  # nats under a level at which something else has been learned
_LEAST_STEPS = 300


@dataclass
class Plateau:
    """Watches the MLM loss of a run.

    Attributes:
        level: the loss of who knows frequencies alone.
        unknown: share of the corpus that its tokenizer has no piece for.
    """

    settings: PretrainSettings
    level: float
    unknown: float
    _loss: float = field(default=float("nan"), init=False)
    _seen: int = field(default=0, init=False)

    def look(self, told: Told) -> str | None:
        """Look at a step; speak up a while after the warm-up, and again at half of the run and at its end."""
        loss = told.losses["mlm"]
        if not told.left_out:
            self._seen += 1
            weight = max(1 - _MEMORY, 1 / self._seen)
            self._loss = loss if self._seen == 1 else self._loss + weight * (loss - self._loss)
        if told.step not in self._moments() or not self._loss > without_context(self.level) - _BELOW:
            return None
        return self._diagnosis()

    def _moments(self) -> tuple[int, ...]:
        train = self.settings.train
        warmup = Schedule.of(train).warmup
        early = warmup + max(_LEAST_STEPS, train.steps // 20)
        return tuple(step for step in (early, train.steps // 2, train.steps) if step >= early)

    def _diagnosis(self) -> str:
        causes = self._suspects() or self._usual()
        blind = without_context(self.level)
        if self._loss > self.level - _BELOW:
            where = (
                f"at the level of piece frequencies ({self.level:.3f}): nothing but those has been learned"
            )
        else:
            where = f"at the level of one who sees no context ({blind:.3f}): nothing around a piece is used"
        return (
            f"the MLM loss ({self._loss:.3f}) is still {where}. "
            f"Usual causes, as they are here: {'; '.join(causes)}"
        )

    def _suspects(self) -> list[str]:
        """Name what departs from what usually works."""
        train, found = self.settings.train, []
        schedule = Schedule.of(train)
        usual = rate_for(train.optimizer, train.batch_tokens)
        if not usual / 4 <= schedule.lr <= 1.5 * usual:
            how = "high" if schedule.lr > usual else "low"
            found.append(f"the rate is {how}: --train.lr {schedule.lr:g}, where {usual:g} suits the batch")
        if train.batch_tokens < 1024:
            found.append(
                f"the batch is small: --train.batch-tokens {train.batch_tokens:,}; take 1,024 or more"
            )
        if schedule.warmup < warmup_for(train.steps, train.batch_tokens) / 2:
            found.append(f"the warm-up is short: --train.warmup {schedule.warmup:,}")
        masked = [self.settings.objective_at(step).masked for step in (0, train.steps - 1)]
        if max(masked) > 0.4 or min(masked) < 0.1:
            found.append(f"masking is unusual: {masked[0]:.0%} of the pieces, where 15% is usual")
        if self.settings.init is None and not self.settings.local_start:
            found.append("the start is not local: --no-local-start, where heads would look at neighbours")
        if self.unknown > 0.01:
            found.append(
                f"the tokenizer does not fit the text: {self.unknown:.1%} of its pieces are unknown ones"
            )
        return found

    def _usual(self) -> list[str]:
        """Name the usual causes with what this run has of each."""
        train, schedule = self.settings.train, Schedule.of(self.settings.train)
        return [
            f"rate {schedule.lr:g} (try half, or --train.optimizer muon)",
            f"batch {train.batch_tokens:,} tokens (a larger one is steadier)",
            f"warm-up {schedule.warmup:,} steps",
            f"masking {self.settings.objective.masked:.0%}",
            f"unknown pieces {self.unknown:.1%} (is it the right tokenizer?)",
            f"{train.steps:,} steps (are they enough?)",
        ]
