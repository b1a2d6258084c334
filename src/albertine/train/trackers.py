"""Experiment trackers: TensorBoard and Weights & Biases, imported only if a run uses them."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from albertine.errors import InputError
from albertine.extras import install_command
from albertine.input_files import check_regular_file
from albertine.train.settings import TrackerName


class Tracker(Protocol):
    """Records metrics by name."""

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Record the metrics of a step."""

    def close(self) -> None:
        """Write everything that is buffered, and close."""


class _NoTracker:
    def log(self, step: int, metrics: dict[str, float]) -> None:
        pass

    def close(self) -> None:
        pass


class _TensorBoardTracker:
    def __init__(self, run: Path, step: int):
        from torch.utils.tensorboard import SummaryWriter

        # `purge_step` hides the steps after the checkpoint; the resumed run records them again.
        self._writer = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)

    def log(self, step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _WandbTracker:
    def __init__(self, run: Path, settings: dict[str, Any]):
        import wandb

        (run / "wandb").mkdir(exist_ok=True)
        id_file = run / "wandb" / "id"  # several runs may have the same name
        if not id_file.exists():
            id_file.write_text(uuid4().hex, encoding="utf-8")
        check_regular_file(id_file)
        try:
            self._run = wandb.init(
                project="albertine",
                name=run.resolve().name,
                id=id_file.read_text(encoding="utf-8"),
                dir=run,
                resume="allow",
                config=settings,
            )
        except wandb.Error as error:
            reason = " ".join(str(error).split())
            raise InputError(f"train.tracker = wandb: {reason}") from None

    def log(self, step: int, metrics: dict[str, float]) -> None:
        self._run.log(metrics, step=step)

    def close(self) -> None:
        self._run.finish()


def check_tracker_installed(name: TrackerName) -> None:
    """Raise `InputError` if a tracker is not installed."""
    if name != "none" and find_spec(name) is None:
        raise InputError(f"train.tracker = {name}: it is not installed; {install_command('track')}")


def make_tracker(name: TrackerName, run: Path, step: int, settings: dict[str, Any]) -> Tracker:
    """Return the tracker of this name.

    Args:
        name: name of the tracker.
        run: folder of the run.
        step: step of the checkpoint from which the run resumes; -1 for a new run.
        settings: settings of the run, to show beside its metrics.
    """
    match name:
        case "tensorboard":
            return _TensorBoardTracker(run, step)
        case "wandb":
            return _WandbTracker(run, settings)
        case "none":
            return _NoTracker()
