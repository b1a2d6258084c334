"""The loop: what every kind of training does, step after step.

    take this process's share of the batch
    compute it piece by piece, adding up gradients
    add up over the processes; ask the doctor
    clip, and move the weights
    tell; now and then evaluate, now and then write a checkpoint

What is trained, on what, and what counts as right is the work's to say (`Work`). A
loss is a mean over the whole step, over all its pieces and processes, so that it is
the same however the step was cut.

Nothing in a step depends on anything but the weights, what the optimizers remember,
the step's number and the place in the data. So a run that goes on from a checkpoint
is the run that was never broken off, bit for bit.
"""

import signal
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from albertine.device import peak_flops, peak_memory, synchronized_time
from albertine.errors import ExitStatus, RunStopped, WorkError
from albertine.interop.huggingface import load_folder
from albertine.randomness import random_bits
from albertine.train.checkpoints import Checkpoint, CheckpointContents
from albertine.train.distributed import Distributed
from albertine.train.doctor import MAX_ROLLBACKS, Doctor
from albertine.train.gradients import FlatGradients
from albertine.train.optimizers import Optimizers
from albertine.train.recorder import RunRecorder
from albertine.train.schedule import LearningRateSchedule
from albertine.train.settings import TrainerSettings
from albertine.train.sharding import ShardedGradients, shard_like
from albertine.train.shutdown import ShutdownRequested, ShutdownSignal
from albertine.train.step_metrics import StepMetrics
from albertine.train.trainable import StepBatch, Trainable


class Trainer:
    """A training run.

    Attributes:
        network: what is trained.
        step: how many steps have been taken.
        scores: the last ones on held-out data.
        best: step of the best checkpoint, and its loss or what its work has in place of one.
        last_saved_step: the step of the last checkpoint; -1 where there is none.
    """

    def __init__(
        self,
        network: Any,
        trainable: Trainable,
        settings: TrainerSettings,
        recorder: RunRecorder,
        distributed: Distributed,
        dtype: torch.dtype,
        lr_scales: Mapping[str, float] = MappingProxyType({}),
    ):
        self.network, self._trainable, self._settings = network, trainable, settings
        self._recorder, self._distributed = recorder, distributed
        self._schedule = LearningRateSchedule.from_resolved_settings(settings)
        self._optimizers = Optimizers(network, settings, dtype, lr_scales)
        self._is_sharded = settings.shard and distributed.world_size > 1
        self._gradients = ShardedGradients(network) if self._is_sharded else FlatGradients(network)
        self._doctor, self._shutdown = Doctor(), ShutdownSignal()
        self._peak_flops = peak_flops(dtype, distributed.device) * distributed.world_size
        self._evaluate_every = settings.evaluate_every or max(1, settings.steps // 40)
        self._data_position = trainable.data_position
        self.last_saved_step, self._last_saved_time, self._save_due = -1, time.monotonic(), False
        self._last_evaluated_step, self._has_unsaved_changes = -1, True
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.scores: dict[str, float] = {}
        self.best: dict[str, float] | None = None
        self._resume()

    @property
    def is_finished(self) -> bool:
        """Whether the last step has been taken, and looked at."""
        return (
            self.step >= self._settings.steps or self._is_out_of_patience()
        ) and not self._is_evaluation_due()

    def _is_out_of_patience(self) -> bool:
        """Tell whether it has been long enough without getting better."""
        patience = self._settings.patience
        return bool(
            patience and self.best and self.step - self.best["step"] >= patience * self._evaluate_every
        )

    def run(self) -> None:
        """Train to the last step."""
        self.network.train()
        with self._shutdown.handlers_installed():
            try:
                if self._is_evaluation_due():  # at the start, or where it was broken off
                    self._evaluate()
                    self._save_checkpoint()
                while not self.is_finished:
                    self._advance()
            except ShutdownRequested:
                self._save_and_stop()
            finally:
                self._trainable.close()
            self._save_checkpoint()
            self._recorder.checkpoints.wait_or_raise()

    def _is_evaluation_due(self) -> bool:
        """Tell whether the weights of this step are to be measured and have not been."""
        due = self.step % self._evaluate_every == 0 or self.step >= self._settings.steps
        return due and self._last_evaluated_step != self.step

    def _advance(self) -> None:
        """Take a step, and do what is due after it."""
        metrics = self._train_step()
        if metrics is None:
            return
        if self._distributed.is_main:
            self._recorder.record_step(metrics)
        diagnosis = self._trainable.diagnose(metrics)
        if diagnosis:
            self._record_event(diagnosis)
        is_best = self._is_evaluation_due() and self._evaluate()
        if self._is_out_of_patience() and self.step < self._settings.steps:
            assert self.best
            self._record_event(
                f"no better than at step {self.best['step']:,} for long enough; the run ends here"
            )
        save_every = self._settings.save_every
        if self.is_finished or is_best or self._save_due or (save_every and self.step % save_every == 0):
            self._save_checkpoint()

    def _train_step(self) -> StepMetrics | None:
        """Compute a step and move the weights; None if the run went back instead."""
        started = synchronized_time(self._distributed.device)
        with self._shutdown.interruptible(self._distributed.world_size == 1):
            if self._trainable.objective_changes(self.step):  # losses from here on compare with none before
                self._doctor.reset_average()
                self.best = None
            batch = self._trainable.next_batch(self.step)
            if self._is_sharded:  # gathering weights takes all processes, as often as any of them
                batch = batch.padded_to(self._distributed.all_reduce_max(len(batch.micro_batches)))
            local_counts = [
                sum(counts)
                for counts in zip(*(piece.target_counts for piece in batch.micro_batches), strict=True)
            ]
            local_counts = local_counts or [0] * len(self._trainable.objectives)
            shutdown_requested = float(self._shutdown.received != 0)
            save_due = float(self._distributed.is_main and self._is_save_due())
            *global_counts, tokens, flops, shutdown_requested, save_due = self._distributed.all_reduce_sum(
                [*local_counts, batch.tokens, batch.flops, shutdown_requested, save_due]
            )
            self._save_due = bool(save_due)
            if shutdown_requested:
                raise ShutdownRequested
            sums = self._accumulate_gradients(batch, global_counts)
        self._gradients.all_reduce(self._distributed)
        self._distributed.all_reduce(sums)
        gradient_norm = float(self._gradients.norm())
        losses, accuracies = (
            [one / total if total else 0.0 for one, total in zip(row, global_counts, strict=True)]
            for row in sums.tolist()
        )
        verdict = self._doctor.check_step(self.step + 1, sum(losses), gradient_norm)
        if verdict == "go back":
            self._roll_back(sum(losses))
            return None
        lr = self._schedule.lr_at(self.step) * self._doctor.lr_factor
        if verdict == "fine":
            self._gradients.clip(gradient_norm, self._settings.max_gradient_norm)
            self._optimizers.step(lr)
            self._trainable.after_step(self.network, self.step + 1)
        elif self._doctor.nonfinite_steps == 1:
            self._record_event(
                f"loss {sum(losses):.3g}, gradient {gradient_norm:.3g}: not finite; the step is left out",
                self.step + 1,
            )
        self.step, self._data_position, self._has_unsaved_changes = (
            self.step + 1,
            self._trainable.data_position,
            True,
        )
        seconds = synchronized_time(self._distributed.device) - started
        self.seconds, self.tokens = self.seconds + seconds, self.tokens + int(tokens)
        return StepMetrics(
            step=self.step,
            tokens=self.tokens,
            seconds=self.seconds,
            loss=sum(losses),
            losses=dict(zip(self._trainable.objectives, losses, strict=True)),
            accuracies=dict(zip(self._trainable.objectives, accuracies, strict=True)),
            lr=lr,
            gradient_norm=gradient_norm,
            tokens_per_second=tokens / seconds,
            utilization=flops / seconds / self._peak_flops,
            peak_memory=peak_memory(self._distributed.device),
            skipped=verdict == "leave out",
        )

    def _accumulate_gradients(self, batch: StepBatch, global_counts: Sequence[float]) -> Tensor:
        """Compute a share's gradients; return the sums of losses and of right answers, by objective."""
        self._gradients.zero()
        sums = torch.zeros(2, len(global_counts), dtype=torch.float64, device=self._distributed.device)
        for index, micro_batch in enumerate(batch.micro_batches):
            random_key = random_bits(self._settings.seed, self.step, self._distributed.rank, index)
            torch.manual_seed(int(random_key[0]))
            objective_losses = self._trainable.compute_losses(
                self.network, micro_batch.to(self._distributed.device), self.step
            )
            # A mean over everything, of means over pieces: each weighs as much as it has of the whole.
            losses = [
                objective.loss * (count / total)
                for objective, count, total in zip(
                    objective_losses, micro_batch.target_counts, global_counts, strict=True
                )
                if total
            ]
            if losses:
                sum(losses[1:], start=losses[0]).backward()
            counts = sums.new_tensor(micro_batch.target_counts)
            sums[0] += (
                torch.stack([objective.loss.detach().double() for objective in objective_losses]) * counts
            )
            sums[1] += torch.stack([objective.correct for objective in objective_losses])
        return sums

    def _evaluate(self) -> bool:
        """Measure on held-out data; tell whether this is the best so far."""
        self.network.eval()
        with self._shutdown.interruptible(self._distributed.world_size == 1):
            self.scores = self._trainable.evaluate(self.network, self.step)
        self.network.train()
        self._last_evaluated_step, self._has_unsaved_changes = self.step, True
        if not self.scores:
            return False
        if self._distributed.is_main:
            self._recorder.record_evaluation(self.step, self.scores)
        score = self._trainable.score_to_minimize(self.scores)
        if self.best and score >= self.best["loss"]:
            return False
        self.best = {"step": self.step, "loss": score}
        return True

    def _is_save_due(self) -> bool:
        return time.monotonic() - self._last_saved_time >= 60 * self._settings.save_minutes

    def _save_checkpoint(self) -> None:
        """Write a checkpoint of where the run is, if there is none of it yet."""
        if not self._has_unsaved_changes:
            return
        self.last_saved_step, self._last_saved_time, self._has_unsaved_changes = (
            self.step,
            time.monotonic(),
            False,
        )
        if not (self._distributed.is_main or self._is_sharded):  # spread tensors are gathered by all
            return
        optimizer_state = self._optimizers.state_tensors()
        write_model = self._trainable.checkpoint_writer(self.network, self.step)
        if not self._distributed.is_main:
            return
        state = {
            "step": self.step,
            "steps": self._settings.steps,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "position": self._data_position,
            "data": self._trainable.data_fingerprint,
            "doctor": self._doctor.state_dict(),
            "scores": self.scores,
            "evaluated": self._last_evaluated_step,
            "best": self.best,
        }
        best_step = None if self.best is None else int(self.best["step"])
        self._recorder.write_checkpoint(
            CheckpointContents(write_model, optimizer_state, state, best_step, self._doctor.last_healthy_step)
        )

    def _resume(self) -> None:
        """Go on from the newest checkpoint, if there is one."""
        checkpoint = self._distributed.run_on_main(self._recorder.checkpoints.newest_valid)
        if self._distributed.broadcast(checkpoint is not None):
            self._load_checkpoint(checkpoint)
            self.last_saved_step, self._has_unsaved_changes = self.step, False
            if checkpoint:
                self._recorder.publish_model(checkpoint, self.best)

    def _load_checkpoint(self, checkpoint: Checkpoint | None) -> None:
        """Be where a checkpoint was; only the first process has it, and tells the others."""
        state = self._distributed.broadcast(checkpoint.state if checkpoint else None)
        self._trainable.check_same_data(state["data"])
        stored = dict(load_folder(checkpoint.folder).named_parameters()) if checkpoint else {}
        weights = self._distributed.broadcast_tensors({name: one.detach() for name, one in stored.items()})
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                parameter.copy_(shard_like(weights[name].to(parameter.device), parameter))
        optimizer_state = self._distributed.broadcast_tensors(
            checkpoint.load_optimizer_state() if checkpoint else {}
        )
        self._optimizers.load_state_tensors(optimizer_state)
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
        self._doctor = Doctor(**state["doctor"])
        self.scores, self.best, self._data_position = state["scores"], state["best"], state["position"]
        self._last_evaluated_step = state["evaluated"]
        self._trainable.seek(self.step, self._data_position)

    def _roll_back(self, loss: float) -> None:
        """Take the last checkpoint from before the trouble, and go on at half the rate."""
        failed_step, doctor = self.step + 1, self._doctor
        doctor.record_rollback()
        advice = "lower --train.lr or lengthen --train.warmup"
        if doctor.rollbacks > MAX_ROLLBACKS:
            raise WorkError(
                f"the loss ran away at step {failed_step:,} (it is {loss:.3g}), after {MAX_ROLLBACKS} returns, "
                f"each at half the rate; {advice}"
            )
        checkpoint = self._distributed.run_on_main(
            lambda: self._recorder.newest_checkpoint_before(doctor.last_healthy_step)
        )
        if not self._distributed.broadcast(checkpoint is not None):
            raise WorkError(
                f"the loss ran away at step {failed_step:,} (it is {loss:.3g}) with no checkpoint before; {advice}"
            )
        self._load_checkpoint(checkpoint)
        self._doctor = doctor
        if self.best and self.best["step"] > self.step:
            self.best = None
        if self._distributed.is_main:
            self._recorder.discard_after(self.step)
        self._record_event(
            f"the loss ran away at step {failed_step:,} (it was {loss:.3g}); went back to this step, "
            f"on at {doctor.lr_factor:g} of the rate"
        )
        self._has_unsaved_changes = True  # the same weights, but the doctor knows more
        self._save_checkpoint()

    def _record_event(self, message: str, step: int | None = None) -> None:
        if self._distributed.is_main:
            self._recorder.record_event(self.step if step is None else step, message)

    def _save_and_stop(self) -> None:
        """Keep what there is, and end."""
        self._save_checkpoint()
        self._recorder.checkpoints.wait_or_raise()
        is_interrupted = self._shutdown.received == signal.SIGINT
        raise RunStopped(
            f"asked to end at step {self.step:,} of {self._settings.steps:,}; "
            "it is kept, and the same command goes on from there",
            ExitStatus.INTERRUPTED if is_interrupted else ExitStatus.TERMINATED,
        )
