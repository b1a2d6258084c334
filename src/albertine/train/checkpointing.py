"""Saving, resuming and rolling back a run: what a checkpoint contains, and when one is written."""

import time

import torch
from torch import Tensor, nn

from albertine import progress
from albertine.display import counted
from albertine.errors import Diverged, InputError
from albertine.json_input import JsonError
from albertine.train.checkpoints import STATE_FILE, Checkpoint, CheckpointContents
from albertine.train.distributed import Distributed
from albertine.train.doctor import MAX_ROLLBACKS
from albertine.train.optimizers import Optimizers
from albertine.train.recorder import RunRecorder
from albertine.train.settings import TrainerSettings
from albertine.train.sharding import is_sharded, shard_like
from albertine.train.trainable import Trainable
from albertine.train.trainer_state import TrainerState


class Checkpointing:
    """Writes and restores the checkpoints of one run.

    Attributes:
        last_step: step of the last checkpoint; -1 if there is none.
    """

    def __init__(
        self,
        model: nn.Module,
        trainable: Trainable,
        optimizers: Optimizers,
        settings: TrainerSettings,
        recorder: RunRecorder,
        distributed: Distributed,
    ):
        self._model, self._trainable, self._optimizers = model, trainable, optimizers
        self._settings, self._recorder, self._distributed = settings, recorder, distributed
        self._saved_version: tuple[int, ...] | None = None
        # Read before the first pass: after a forward pass, FSDP2 leaves the parameters unsharded for a while.
        self._is_sharded = is_sharded(model)
        self._timer_started = 0.0
        self.last_step = -1

    def start_timer(self) -> None:
        """Start counting the minutes to the next checkpoint."""
        self._timer_started = time.monotonic()

    @property
    def is_timed_save_due(self) -> bool:
        """Whether `save_minutes` have passed since the last checkpoint."""
        return time.monotonic() - self._timer_started >= 60 * self._settings.save_minutes

    def save(self, state: TrainerState) -> None:
        """Start writing a checkpoint, unless the last one has the same content."""
        if self._saved_version == _version(state):
            return
        self._saved_version, self.last_step = _version(state), state.step
        self.start_timer()
        if not (self._distributed.is_main or self._is_sharded):  # shards are gathered by all processes
            return
        optimizer_state = self._optimizers.state_tensors()
        write_model = self._trainable.checkpoint_writer(self._model, state.step)
        if not self._distributed.is_main:
            return
        values = state.to_json() | {
            "steps": self._settings.steps,
            "threads": torch.get_num_threads(),
            "data_fingerprint": self._trainable.data_fingerprint,
        }
        self._recorder.start_checkpoint(
            CheckpointContents(
                write_model,
                optimizer_state,
                values,
                best_step=None if state.best is None else state.best.step,
                last_healthy_step=state.doctor.last_healthy_step,
            )
        )

    def restore_newest(self) -> TrainerState | None:
        """Restore the newest checkpoint and return its state; None if there is no checkpoint."""
        checkpoint = self._distributed.run_on_main(self._recorder.newest_checkpoint)
        if not self._distributed.broadcast(checkpoint is not None):
            return None
        state = self._restore(checkpoint)
        self._saved_version, self.last_step = _version(state), state.step
        if checkpoint:
            if state.step < self._settings.steps:
                self._report_resumption(state.step, checkpoint.state.get("threads"))
            self._recorder.publish_model(checkpoint, None if state.best is None else state.best.step)
        return state

    def _report_resumption(self, step: int, threads: int | None) -> None:
        """Say from where a run resumes, and if the number of threads, and so the order of sums, differs."""
        if step:
            progress.print_message(f"resuming after step {step:,} of {self._settings.steps:,}")
        current = torch.get_num_threads()
        if self._distributed.device.type == "cpu" and threads not in (None, current):
            progress.print_message(
                f"resuming with {counted(current, 'thread')}, not {threads}: the weights will not be bit for "
                f"bit those of an uninterrupted run; for that, set OMP_NUM_THREADS={threads}"
            )

    def roll_back(self, state: TrainerState, loss: float) -> TrainerState:
        """Restore the last checkpoint before the loss diverged; return its state, at half the learning rate.

        Args:
            state: the state before the step that failed.
            loss: the loss of that step.
        """
        failure, doctor = f"the loss diverged at step {state.step + 1:,} (it is {loss:.3g})", state.doctor
        advice = "lower --train.lr or lengthen --train.warmup"
        doctor.record_rollback()
        if doctor.rollbacks > MAX_ROLLBACKS:
            raise Diverged(f"{failure}, after {MAX_ROLLBACKS} rollbacks, each at half the rate; {advice}")
        checkpoint = self._distributed.run_on_main(
            lambda: self._recorder.rollback_checkpoint(doctor.last_healthy_step)
        )
        if not self._distributed.broadcast(checkpoint is not None):
            raise Diverged(f"{failure}, before the first checkpoint; {advice}")
        restored = self._restore(checkpoint)
        restored.doctor = doctor  # it has counted this rollback
        if restored.best and restored.best.step > restored.step:
            restored.best = None
        if self._distributed.is_main:
            self._recorder.discard_after(restored.step)
            # The best model so far may be among those that were discarded.
            assert checkpoint is not None
            self._recorder.publish_model(checkpoint, None if restored.best is None else restored.best.step)
        return restored

    def _restore(self, checkpoint: Checkpoint | None) -> TrainerState:
        """Load a checkpoint into the model and the optimizers of all processes; return its state.

        Args:
            checkpoint: the checkpoint in the main process; None in the others, which receive its content.
        """
        values = self._distributed.broadcast(checkpoint.state if checkpoint else None)
        try:
            self._trainable.check_same_data(values.get("data_fingerprint"))
        except JsonError as error:
            raise _unusable_state("data_fingerprint", error) from None
        except InputError as error:
            raise InputError(f"{self._recorder.run}: {error}") from None
        weights = self._distributed.broadcast_tensors(checkpoint.load_weights() if checkpoint else {})
        self._load_weights(weights)
        optimizer_state = checkpoint.load_optimizer_state() if checkpoint else {}
        self._optimizers.load_state_tensors(self._distributed.broadcast_tensors(optimizer_state))
        state = TrainerState.from_json(values)
        try:
            self._trainable.seek(state.step, state.data_position)
        except JsonError as error:
            raise _unusable_state("data_position", error) from None
        return state

    def _load_weights(self, weights: dict[str, Tensor]) -> None:
        """Copy the weights of a checkpoint; raise `InputError` if the model has other ones."""
        for name, parameter in self._model.named_parameters():
            if name not in weights or weights[name].shape != parameter.shape:
                raise InputError(
                    f"the newest checkpoint is of another model than the settings of the run: {name} does "
                    "not fit; restore the settings, or start a new run with another --out"
                )
        with torch.no_grad():
            for name, parameter in self._model.named_parameters():
                parameter.copy_(shard_like(weights[name].to(parameter.device), parameter))


def _unusable_state(name: str, error: JsonError) -> InputError:
    return InputError(f"{STATE_FILE} of the newest checkpoint: {name}: {error}; remove that checkpoint")


def _version(state: TrainerState) -> tuple[int, ...]:
    """Return numbers that change whenever a step, an evaluation or a rollback changes the state."""
    return state.step, state.last_evaluated_step, state.doctor.rollbacks
