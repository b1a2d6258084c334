"""What a run leaves behind and shows: checkpoints, the journal, the display, a tracker.

The first process writes and shows; the keeper of any other does nothing.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from albertine import progress
from albertine.errors import WorkError
from albertine.train.checkpoints import Checkpoint, CheckpointContents, CheckpointStore
from albertine.train.display import TrainingDisplay
from albertine.train.metrics_log import HELD_OUT_PREFIX, MetricsLog
from albertine.train.run_folder import publish_model
from albertine.train.settings import TrainerSettings
from albertine.train.step_metrics import StepMetrics
from albertine.train.trackers import Tracker, make_tracker


class RunRecorder:
    """Keeps a run in its folder."""

    def __init__(
        self,
        run: Path,
        settings: TrainerSettings,
        baselines: Mapping[str, tuple[str, float]],
        published: Literal["newest", "best"] = "newest",
    ):
        self._run, self._settings, self._published = run, settings, published
        self.checkpoints = CheckpointStore(run, settings.keep_checkpoints, self._publish_if_selected)
        self._baselines = baselines
        self._display = TrainingDisplay(settings.steps, baselines)
        self._metrics_log: MetricsLog | None = None
        self._tracker: Tracker | None = None

    @contextmanager
    def open(self, step: int, run_settings: dict[str, Any]) -> Iterator[None]:
        """Take up the journal after a step (-1: from nothing), and show what comes."""
        self._metrics_log = MetricsLog(self._run, step)
        self._tracker = make_tracker(self._settings.tracker, self._run, step, run_settings)
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
            self.checkpoints.wait()  # while the folder is still ours
            self._metrics_log.close()
            self._tracker.close()

    def record_step(self, metrics: StepMetrics) -> None:
        """Take a step's numbers."""
        line = metrics.to_json()
        self._record(line)
        self._display.update(metrics)

    def record_evaluation(self, step: int, scores: dict[str, float]) -> None:
        """Take the scores on held-out data."""
        self._record({"step": step, **{f"{HELD_OUT_PREFIX}{name}": value for name, value in scores.items()}})
        self._display.update_evaluation(step, scores)

    def record_event(self, step: int, message: str) -> None:
        """Say something, and note it."""
        progress.print_message(f"step {step:,}: {message}")
        if self._metrics_log:
            self._metrics_log.write({"step": step, "event": message})

    def _record(self, line: dict[str, Any]) -> None:
        assert self._metrics_log is not None
        assert self._tracker is not None
        self._metrics_log.write(line)
        metrics = {name: value for name, value in line.items() if name != "step"}
        self._tracker.log(line["step"], metrics)

    def newest_checkpoint_before(self, step: int) -> Checkpoint | None:
        """Return the newest checkpoint of a step or from before it; if there is none, any."""
        for last_step in (step, None):
            with suppress(WorkError):  # all that old are damaged
                found = self.checkpoints.newest_valid(last_step)
                if found:
                    return found
        return None

    def publish_model(self, newest: Checkpoint, best: dict[str, float] | None) -> None:
        """Make the run's folder the model that it shows, if a break left it another."""
        folder = newest.folder
        if self._published == "best" and best:
            folder = self.checkpoints.checkpoint_folder(int(best["step"])) or folder
        publish_model(self._run, folder)

    def _publish_if_selected(self, folder: Path, is_best: bool) -> None:
        if is_best or self._published == "newest":
            publish_model(self._run, folder)

    def discard_after(self, step: int) -> None:
        """Forget what came after a step."""
        self.checkpoints.remove_after(step)
        assert self._metrics_log is not None
        self._metrics_log.truncate(step)

    def write_checkpoint(self, contents: CheckpointContents) -> None:
        """Write a checkpoint while training goes on."""
        if self._metrics_log:
            self._metrics_log.sync()
        self.checkpoints.start_writing(contents)
