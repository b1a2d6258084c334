"""Where else the numbers go: TensorBoard and Weights & Biases, each if asked for."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from albertine.errors import InputError
from albertine.train.settings import TrackerName


class Tracker(Protocol):
    """Takes numbers by name."""

    def log(self, step: int, metrics: dict[str, float]) -> None:
        """Note the numbers of a step."""

    def close(self) -> None:
        """Bring everything to where it goes."""


class _NoTracker:
    def log(self, step: int, metrics: dict[str, float]) -> None:
        pass

    def close(self) -> None:
        pass


class _TensorBoardTracker:
    def __init__(self, run: Path, step: int):
        from torch.utils.tensorboard import SummaryWriter

        # What a broken-off run wrote beyond its checkpoint is hidden by what comes now.
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
        id_file = run / "wandb" / "id"  # a name may be that of many runs
        if not id_file.exists():
            id_file.write_text(uuid4().hex, encoding="utf-8")
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
            raise InputError(f"train.track = wandb: {reason}") from None

    def log(self, step: int, metrics: dict[str, float]) -> None:
        self._run.log(metrics, step=step)

    def close(self) -> None:
        self._run.finish()


def check_tracker_installed(name: TrackerName) -> None:
    """Refuse a tracker that is not installed."""
    if name != "none" and find_spec(name) is None:
        raise InputError(f"train.track = {name}: it is not installed; pip install 'albertine[track]'")


def make_tracker(name: TrackerName, run: Path, step: int, settings: dict[str, Any]) -> Tracker:
    """Make the tracker that was asked for; `step` is where the run goes on."""
    match name:
        case "tensorboard":
            return _TensorBoardTracker(run, step)
        case "wandb":
            return _WandbTracker(run, settings)
        case "none":
            return _NoTracker()
