"""Records a run: checkpoints, `metrics.jsonl`, the display and a tracker.

Only the main process opens its recorder; the other processes record nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from albertine import progress
from albertine.errors import WorkError
from albertine.settings import Settings, settings_to_toml
from albertine.train.checkpoints import SETTINGS_KEY, Checkpoint, CheckpointContents, CheckpointStore
from albertine.train.display import TrainingDisplay
from albertine.train.metrics_log import HELD_OUT_PREFIX, EventType, MetricsLog
from albertine.train.run_folder import publish_model
from albertine.train.settings import TrainerSettings
from albertine.train.step_metrics import StepMetrics
from albertine.train.trackers import Tracker, make_tracker


class RunRecorder:
    """Records a run in its folder.

    Attributes:
        run: the folder of the run.
        checkpoints: the checkpoints of the run.
    """

    def __init__(
        self,
        run: Path,
        settings: TrainerSettings,
        run_settings: Settings,
        baselines: Mapping[str, tuple[str, float]],
        work: Callable[[int, int], float],
        published: Literal["newest", "best"] = "newest",
    ):
        """Store the arguments; `open` starts recording.

        Args:
            run: folder of the run.
            settings: tracker and number of checkpoints to keep.
            run_settings: all settings of the run, for its checkpoints and the tracker.
            baselines: name and loss of the baseline of an objective.
            work: `Trainable.work`, for the time left.
            published: which checkpoint is copied into the folder of the run.
        """
        self.run, self._settings, self._published = run, settings, published
        self._run_settings = run_settings
        self.checkpoints = CheckpointStore(run, settings.keep_checkpoints, self._publish_if_selected)
        self._baselines = baselines
        self._display = TrainingDisplay(settings.steps, settings.evaluation_interval, baselines, work)
        self._metrics_log: MetricsLog | None = None
        self._tracker: Tracker | None = None

    @contextmanager
    def open(self, step: int) -> Iterator[None]:
        """Record what happens while the block runs.

        Args:
            step: step of the checkpoint from which the run resumes; -1 for a new run.
        """
        self._metrics_log = MetricsLog(self.run, step)
        self._tracker = make_tracker(self._settings.tracker, self.run, step, asdict(self._run_settings))
        if step < 0:
            baseline_losses = {
                f"{objective}_{name}_loss": baseline_loss
                for objective, (name, baseline_loss) in self._baselines.items()
            }
            self._metrics_log.write({"step": 0, **baseline_losses})
        try:
            with self._display.running():
                yield
            self._metrics_log.flush_or_raise()
        finally:
            # The checkpoint thread must finish before the caller releases the lock of the folder.
            self.checkpoints.wait()
            self._metrics_log.close()
            self._tracker.close()

    def record_step(self, metrics: StepMetrics) -> None:
        """Record the metrics of a step."""
        self._record(metrics.to_json())
        self._display.update(metrics)

    def record_evaluation(self, step: int, metrics: dict[str, float], seconds: float) -> None:
        """Record the metrics of an evaluation on held-out data; `seconds` is the time of all so far."""
        self._record({"step": step, **{f"{HELD_OUT_PREFIX}{name}": value for name, value in metrics.items()}})
        self._display.update_evaluation(step, metrics, seconds)

    def record_event(self, step: int, event_type: EventType, message: str) -> None:
        """Record an event and print its message; programs use the type, people the message."""
        progress.print_message(f"step {step:,}: {message}")
        if self._metrics_log:
            self._metrics_log.write({"step": step, "event_type": event_type, "event": message})

    def _record(self, line: dict[str, Any]) -> None:
        assert self._metrics_log is not None
        assert self._tracker is not None
        self._metrics_log.write(line)
        metrics = {name: value for name, value in line.items() if name != "step"}
        self._tracker.log(line["step"], metrics)

    def newest_checkpoint(self) -> Checkpoint | None:
        """Return the newest checkpoint from which the run can resume; None if there is no checkpoint."""
        return self.checkpoints.newest_valid(needs_best=self._published == "best")

    def rollback_checkpoint(self, last_healthy_step: int) -> Checkpoint | None:
        """Return the newest undamaged checkpoint up to `last_healthy_step`, or else the newest undamaged one.

        None if there is none.
        """
        for last_step in (last_healthy_step, None):
            with suppress(WorkError):  # all of them are damaged
                checkpoint = self.checkpoints.newest_valid(last_step)
                if checkpoint:
                    return checkpoint
        return None

    def publish_model(self, newest: Checkpoint, best_step: int | None) -> None:
        """Copy the newest or best checkpoint into the folder of the run.

        A resumed run always does this, because an earlier copy may have been interrupted.
        """
        folder = newest.folder
        if self._published == "best" and best_step is not None:
            folder = self.checkpoints.checkpoint_folder(best_step) or folder
        publish_model(self.run, folder)

    def _publish_if_selected(self, folder: Path, is_best: bool) -> None:
        if is_best or self._published == "newest":
            publish_model(self.run, folder)

    def discard_after(self, step: int) -> None:
        """Remove the checkpoints and metrics of later steps."""
        self.checkpoints.remove_after(step)
        assert self._metrics_log is not None
        self._metrics_log.truncate(step)

    def start_checkpoint(self, contents: CheckpointContents) -> None:
        """Start writing a checkpoint; training continues meanwhile."""
        if self._metrics_log:
            self._metrics_log.sync()
        state = contents.state | {SETTINGS_KEY: settings_to_toml(self._run_settings)}
        self.checkpoints.start_writing(replace(contents, state=state))
