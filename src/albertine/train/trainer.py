"""The training loop, for pre-training and fine-tuning alike.

One step:

    get this process's part of the batch, as micro-batches
    run each micro-batch forward and backward, and accumulate the gradients
    sum the gradients over all processes
    let the doctor check loss and gradient norm: it may skip the step or roll the run back
    clip the gradient and take an optimizer step
    record the metrics; evaluate and write a checkpoint if due

A `Trainable` defines the data, the losses and the evaluation. A loss is a mean over the
whole step, over all micro-batches and processes, so it does not depend on how the step
was split.

A step depends only on the weights, the optimizer state, the `TrainerState` and the data,
all of which a checkpoint holds or identifies. So an interrupted and resumed run ends with
the same weights, bit for bit, as an uninterrupted one.
"""

import math
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from albertine.device import peak_flops, peak_memory, synchronized_time
from albertine.errors import ExitStatus, RunStopped
from albertine.randomness import random_bits
from albertine.train.checkpointing import Checkpointing
from albertine.train.distributed import Distributed
from albertine.train.gradients import Gradients
from albertine.train.metrics_log import EventType
from albertine.train.optimizers import Optimizers
from albertine.train.recorder import RunRecorder
from albertine.train.schedule import LearningRateSchedule
from albertine.train.settings import TrainerSettings
from albertine.train.shutdown import ShutdownRequested, ShutdownSignal
from albertine.train.step_metrics import StepMetrics
from albertine.train.trainable import StepBatch, Trainable
from albertine.train.trainer_state import BestEvaluation, TrainerState

# A better score always makes a model the best one. For `patience` it must be better by more than this.
_MIN_IMPROVEMENT = 1e-6


@dataclass(frozen=True)
class _StepTotals:
    """Sums over the micro-batches of a step and over all processes.

    Attributes:
        target_counts: number of targets of each objective.
        tokens: number of tokens.
        flops: number of floating-point operations.
    """

    target_counts: Sequence[float]
    tokens: float
    flops: float


class Trainer:
    """Trains a model.

    `resume` restores the newest checkpoint, if there is one; `train` runs to the last step, or until
    evaluations stop improving (`patience`).

    Attributes:
        model: the model, on its device.
        trainable: the data, the losses and the evaluation.
        recorder: writes checkpoints and metrics, and shows progress.
        state: the progress of the run.
    """

    def __init__(
        self,
        model: Any,
        trainable: Trainable,
        optimizers: Optimizers,
        gradients: Gradients,
        settings: TrainerSettings,
        recorder: RunRecorder,
        distributed: Distributed,
    ):
        self.model, self.trainable, self.recorder = model, trainable, recorder
        self.state = TrainerState(data_position=trainable.data_position)
        self._optimizers, self._gradients = optimizers, gradients
        self._settings, self._distributed = settings, distributed
        self._schedule = LearningRateSchedule.from_resolved_settings(settings)
        self._evaluate_every = settings.evaluation_interval
        self._shutdown = ShutdownSignal()
        self._checkpointing = Checkpointing(model, trainable, optimizers, settings, recorder, distributed)
        self._is_timed_save_due, self._peak_flops = False, math.inf

    def resume(self) -> bool:
        """Restore the newest checkpoint; return whether there is one."""
        state = self._checkpointing.restore_newest()
        if state is None:
            return False
        self.state = state
        return True

    @property
    def last_saved_step(self) -> int:
        """Step of the last checkpoint; -1 if there is none."""
        return self._checkpointing.last_step

    @property
    def is_finished(self) -> bool:
        """Whether the last step, or the one at which the run stops early, has been taken and evaluated."""
        all_steps_taken = self.state.step >= self._settings.steps
        return (all_steps_taken or self._is_out_of_patience) and not self._is_evaluation_due

    @property
    def is_last_evaluation_best(self) -> bool:
        """Whether the model is the one of the best evaluation, and was evaluated after its last step."""
        best = self.state.best
        return best is not None and best.step == self.state.last_evaluated_step == self.state.step

    @property
    def _is_interruptible(self) -> bool:
        """Whether a signal may interrupt a step or an evaluation; several processes must complete it."""
        return self._distributed.world_size == 1

    def train(self) -> None:
        """Train to the last step or until early stopping.

        If a shutdown signal arrives, write a checkpoint and raise `RunStopped`.
        """
        self._peak_flops = (
            peak_flops(self._optimizers.dtype, self._distributed.device) * self._distributed.world_size
        )
        self.model.train()
        self._checkpointing.start_timer()
        with self._shutdown.handlers_installed():
            try:
                if self._is_evaluation_due:  # at the start of a run, or if the evaluation was interrupted
                    self._evaluate()
                    self._record_early_stop()
                    self._checkpointing.save(self.state)
                while not self.is_finished:
                    self._advance()
            except ShutdownRequested:
                self._save_and_stop()
            finally:
                self.trainable.close()
            self._checkpointing.save(self.state)
            self.recorder.checkpoints.wait_or_raise()  # a thread writes the checkpoint

    def time_step(self, step: int) -> float:
        """Take one step with the schedule and curriculum of step `step`; return its tokens per second.

        For measurements only. It replaces the state, so the trainer cannot train a run afterwards.
        """
        self.model.train()
        self.state = TrainerState(step=step, data_position=self.trainable.data_position)
        metrics = self._train_step()
        assert metrics is not None  # a new state has no average that the loss could exceed
        return metrics.tokens_per_second

    def _advance(self) -> None:
        """Take a step, then evaluate and write a checkpoint if due."""
        metrics = self._train_step()
        if metrics is None:
            return
        if self._distributed.is_main:
            self.recorder.record_step(metrics)
        # Only a message, such as that the loss is still at a baseline. The doctor acts in `_train_step`.
        diagnosis = self.trainable.diagnose(metrics)
        if diagnosis:
            self._record_event("diagnosis", diagnosis)
        is_best = self._is_evaluation_due and self._evaluate()
        self._record_early_stop()
        step, save_every = self.state.step, self._settings.save_every
        is_save_due = self._is_timed_save_due or (save_every and step % save_every == 0)
        if self.is_finished or is_best or is_save_due:
            self._checkpointing.save(self.state)

    # One step, top-down.

    def _train_step(self) -> StepMetrics | None:
        """Take an optimizer step and return its metrics; None if the run rolled back instead."""
        state, started = self.state, synchronized_time(self._distributed.device)
        with self._shutdown.interruptible(when=self._is_interruptible):
            batch = self._next_batch()
            totals = self._reduce_totals(batch)
            sums = self._accumulate_gradients(batch, totals.target_counts)
        self._gradients.all_reduce(self._distributed)
        self._distributed.all_reduce(sums)
        gradient_norm = float(self._gradients.norm())
        losses, accuracies = _means(sums, totals.target_counts)
        loss = sum(losses)

        ceiling = self.trainable.loss_ceiling
        verdict = state.doctor.check_step(state.step + 1, loss, gradient_norm, ceiling)
        if verdict == "rollback":
            self._roll_back(loss)
            return None
        lr = self._schedule.lr_at(state.step) * state.doctor.lr_factor
        if verdict == "ok":
            self._gradients.clip(gradient_norm, self._settings.max_gradient_norm)
            self._optimizers.step(lr)
            self.trainable.after_step(self.model, state.step + 1)
        elif state.doctor.nonfinite_steps == 1:  # reports only the first of several skipped steps in a row
            message = f"loss {loss:.3g}, gradient norm {gradient_norm:.3g}: not finite; the step is skipped"
            self._record_event("skipped", message, state.step + 1)

        seconds = synchronized_time(self._distributed.device) - started
        state.step, state.data_position = state.step + 1, self.trainable.data_position
        state.seconds, state.tokens = state.seconds + seconds, state.tokens + int(totals.tokens)
        return StepMetrics(
            step=state.step,
            tokens=state.tokens,
            seconds=state.seconds,
            loss=loss,
            losses=dict(zip(self.trainable.objectives, losses, strict=True)),
            accuracies=dict(zip(self.trainable.objectives, accuracies, strict=True)),
            lr=lr,
            gradient_norm=gradient_norm,
            tokens_per_second=totals.tokens / seconds,
            utilization=totals.flops / seconds / self._peak_flops,
            peak_memory=peak_memory(self._distributed.device),
            skipped=verdict == "skip",
        )

    def _next_batch(self) -> StepBatch:
        """Return this process's part of the next batch."""
        if self.trainable.objective_changes(self.state.step):  # earlier losses are not comparable
            self.state.doctor.change_objective(self.trainable.loss_ceiling)
            self.state.best = None
        batch = self.trainable.next_batch(self.state.step)
        if self._gradients.is_sharded:
            # The passes of a micro-batch gather the weights from all processes, so every process needs the
            # same number of micro-batches.
            batch = batch.extended_to(self._distributed.all_reduce_max(len(batch.micro_batches)))
        return batch

    def _reduce_totals(self, batch: StepBatch) -> _StepTotals:
        """Return the totals of a step; raise `ShutdownRequested` if any process received a signal."""
        target_counts = [0.0] * len(self.trainable.objectives)
        for micro_batch in batch.micro_batches:
            target_counts = [
                total + count for total, count in zip(target_counts, micro_batch.target_counts, strict=True)
            ]
        # A signal may reach only some processes, and only the main one has a timer: all learn of both here.
        is_timed_save_due = self._distributed.is_main and self._checkpointing.is_timed_save_due
        flags = [float(self._shutdown.received != 0), float(is_timed_save_due)]
        *totals, shutdown_requests, save_requests = self._distributed.all_reduce_sum(
            [*target_counts, batch.tokens, batch.flops, *flags]
        )
        self._is_timed_save_due = bool(save_requests)
        if shutdown_requests:
            raise ShutdownRequested
        return _StepTotals(totals[:-2], tokens=totals[-2], flops=totals[-1])

    def _accumulate_gradients(self, batch: StepBatch, target_counts: Sequence[float]) -> Tensor:
        """Run the micro-batches forward and backward.

        Returns:
            Sums of losses and of correct predictions over the targets, `[2, objectives]`, in fp64.
        """
        self._gradients.zero()
        sums = torch.zeros(2, len(target_counts), dtype=torch.float64, device=self._distributed.device)
        for index, micro_batch in enumerate(batch.micro_batches):
            dropout_seed = random_bits(self._settings.seed, self.state.step, self._distributed.rank, index)
            torch.manual_seed(int(dropout_seed[0]))
            objective_losses = self.trainable.compute_losses(
                self.model, micro_batch.to(self._distributed.device), self.state.step
            )
            # The mean over the step is the mean of the micro-batch means, weighted by their target counts.
            losses = [
                objective.loss * (count / total)
                for objective, count, total in zip(
                    objective_losses, micro_batch.target_counts, target_counts, strict=True
                )
                if total
            ]
            if losses:
                sum(losses[1:], start=losses[0]).backward()
            counts = sums.new_tensor(micro_batch.target_counts)
            mean_losses = torch.stack([objective.loss.detach().double() for objective in objective_losses])
            sums[0] += mean_losses * counts
            sums[1] += torch.stack([objective.correct for objective in objective_losses])
        return sums

    # Evaluation.

    @property
    def _is_evaluation_due(self) -> bool:
        """Whether an evaluation is due at the current step and has not been completed."""
        step = self.state.step
        due = step % self._evaluate_every == 0 or step >= self._settings.steps
        return due and self.state.last_evaluated_step != step

    @property
    def _is_out_of_patience(self) -> bool:
        """Whether none of the last `patience` evaluations was clearly better than those before it."""
        patience, steps_since = self._settings.patience, self.state.step - self.state.last_improved_step
        return bool(patience and self.state.best and steps_since >= patience * self._evaluate_every)

    def _evaluate(self) -> bool:
        """Evaluate on held-out data; return whether this is the best evaluation so far."""
        self.model.eval()
        started = synchronized_time(self._distributed.device)
        with self._shutdown.interruptible(when=self._is_interruptible):
            metrics = self.trainable.evaluate(self.model, self.state.step)
        self.model.train()
        self.state.evaluation_seconds += synchronized_time(self._distributed.device) - started
        self.state.metrics, self.state.last_evaluated_step = metrics, self.state.step
        self.state.data_position = self.trainable.data_position  # it may include results of evaluations
        if not metrics:
            return False
        if self._distributed.is_main:
            self.recorder.record_evaluation(self.state.step, metrics, self.state.evaluation_seconds)
        score, best = self.trainable.score_to_minimize(metrics, self.state.step), self.state.best
        if best and math.isnan(best.score_to_minimize):
            best = None
        if best and not score < best.score_to_minimize:  # also if it is NaN
            return False
        if best is None or best.score_to_minimize - score > _MIN_IMPROVEMENT:
            self.state.last_improved_step = self.state.step
        self.state.best = BestEvaluation(self.state.step, score)
        return True

    # Checkpoints and events.

    def _roll_back(self, loss: float) -> None:
        """Restore the last checkpoint before the loss diverged, and halve the learning rate."""
        failed_step = self.state.step + 1
        self.state = self._checkpointing.roll_back(self.state, loss)
        self._record_event(
            "rollback",
            f"the loss diverged at step {failed_step:,} (it was {loss:.3g}); rolled back to step "
            f"{self.state.step:,}, continuing at {self.state.doctor.lr_factor:g} of the learning rate",
        )
        self._checkpointing.save(self.state)  # keeps the count of rollbacks if the run is interrupted

    def _record_early_stop(self) -> None:
        """Record that the run ends before its last step, if its last evaluation ends the patience."""
        if self._is_out_of_patience and self.state.step < self._settings.steps:
            message = (
                f"no better evaluation since step {self.state.last_improved_step:,}; the run stops early"
            )
            self._record_event("stopped early", message)

    def _record_event(self, event_type: EventType, message: str, step: int | None = None) -> None:
        if self._distributed.is_main:
            self.recorder.record_event(self.state.step if step is None else step, event_type, message)

    def _save_and_stop(self) -> None:
        """Write a checkpoint and raise `RunStopped`."""
        self._checkpointing.save(self.state)
        self.recorder.checkpoints.wait_or_raise()  # a thread writes the checkpoint
        is_interrupted = self._shutdown.received == signal.SIGINT
        raise RunStopped(
            f"stopped on request at step {self.state.step:,} of {self._settings.steps:,}; "
            "run the same command again to resume",
            ExitStatus.INTERRUPTED if is_interrupted else ExitStatus.TERMINATED,
        )


def _means(sums: Tensor, counts: Sequence[float]) -> list[list[float]]:
    """Return each row of sums `[rows, objectives]` divided by the counts; 0 where a count is 0."""
    return [
        [total / count if count else 0.0 for total, count in zip(row, counts, strict=True)]
        for row in sums.tolist()
    ]
