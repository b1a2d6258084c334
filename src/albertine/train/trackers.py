"""Where else the numbers go: TensorBoard and Weights & Biases, each if asked for."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from albertine.errors import InputError
from albertine.train.settings import TrackName


class Tracker(Protocol):
    """Takes numbers by name."""

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Note the numbers of a step."""

    def close(self) -> None:
        """Bring everything to where it goes."""


class _Nowhere:
    def log(self, step: int, numbers: dict[str, float]) -> None:
        pass

    def close(self) -> None:
        pass


class _TensorBoard:
    def __init__(self, run: Path, step: int):
        from torch.utils.tensorboard import SummaryWriter

        # What a broken-off run wrote beyond its checkpoint is hidden by what comes now.
        self._writer = SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)

    def log(self, step: int, numbers: dict[str, float]) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    def __init__(self, run: Path, settings: dict[str, Any]):
        import wandb

        (run / "wandb").mkdir(exist_ok=True)
        known = run / "wandb" / "id"  # a name may be that of many runs
        if not known.exists():
            known.write_text(uuid4().hex, encoding="utf-8")
        try:
            self._run = wandb.init(
                project="albertine",
                name=run.resolve().name,
                id=known.read_text(encoding="utf-8"),
                dir=run,
                resume="allow",
                config=settings,
            )
        except wandb.Error as error:
            reason = " ".join(str(error).split())
            raise InputError(f"train.track = wandb: {reason}") from None

    def log(self, step: int, numbers: dict[str, float]) -> None:
        self._run.log(numbers, step=step)

    def close(self) -> None:
        self._run.finish()


def refuse_missing(track: TrackName) -> None:
    """Refuse a tracker that is not installed."""
    if track != "none" and find_spec(track) is None:
        raise InputError(f"train.track = {track}: it is not installed; pip install 'albertine[track]'")


def make_tracker(track: TrackName, run: Path, step: int, settings: dict[str, Any]) -> Tracker:
    """Make the tracker that was asked for; `step` is where the run goes on."""
    match track:
        case "tensorboard":
            return _TensorBoard(run, step)
        case "wandb":
            return _Wandb(run, settings)
        case "none":
            return _Nowhere()
