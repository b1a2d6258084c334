"""What a run leaves behind and shows: checkpoints, the journal, the display, a tracker.

The first process writes and shows; the keeper of any other does nothing.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from albertine import progress
from albertine.errors import WorkError
from albertine.train.display import Display
from albertine.train.folder import publish
from albertine.train.journal import HELD_OUT, Journal
from albertine.train.settings import LoopSettings
from albertine.train.snapshots import Snapshot, Snapshots, ToWrite
from albertine.train.told import Told
from albertine.train.trackers import Tracker, make_tracker


class Keeper:
    """Keeps a run in its folder."""

    def __init__(
        self,
        run: Path,
        train: LoopSettings,
        levels: Mapping[str, tuple[str, float]],
        shows: Literal["newest", "best"] = "newest",
    ):
        self._run, self._train, self._shows = run, train, shows
        self.snapshots = Snapshots(run, train.keep, self._publish)
        self._levels = levels
        self._display = Display(train.steps, levels)
        self._journal: Journal | None = None
        self._tracker: Tracker | None = None

    @contextmanager
    def open(self, step: int, settings: dict[str, Any]) -> Iterator[None]:
        """Take up the journal after a step (-1: from nothing), and show what comes."""
        self._journal = Journal(self._run, step)
        self._tracker = make_tracker(self._train.track, self._run, step, settings)
        if step < 0:
            told = {f"{part}_{name}_loss": level for part, (name, level) in self._levels.items()}
            self._journal.write({"step": 0, **told})
        try:
            with self._display.shown():
                yield
            self._journal.finish()
        finally:
            self.snapshots.wait()  # while the folder is still ours
            self._journal.close()
            self._tracker.close()

    def step(self, told: Told) -> None:
        """Take a step's numbers."""
        line = told.to_json()
        self._note(line)
        self._display.step(told)

    def evaluation(self, step: int, scores: dict[str, float]) -> None:
        """Take the scores on held-out data."""
        self._note({"step": step, **{f"{HELD_OUT}{name}": value for name, value in scores.items()}})
        self._display.evaluation(step, scores)

    def event(self, step: int, what: str) -> None:
        """Say something, and note it."""
        progress.say(f"step {step:,}: {what}")
        if self._journal:
            self._journal.write({"step": step, "event": what})

    def _note(self, line: dict[str, Any]) -> None:
        assert self._journal is not None
        assert self._tracker is not None
        self._journal.write(line)
        numbers = {name: value for name, value in line.items() if name != "step"}
        self._tracker.log(line["step"], numbers)

    def before(self, step: int) -> Snapshot | None:
        """Return the newest checkpoint of a step or from before it; if there is none, any."""
        for upto in (step, None):
            with suppress(WorkError):  # all that old are damaged
                found = self.snapshots.newest(upto)
                if found:
                    return found
        return None

    def publish(self, newest: Snapshot, best: dict[str, float] | None) -> None:
        """Make the run's folder the model that it shows, if a break left it another."""
        folder = newest.folder
        if self._shows == "best" and best:
            folder = self.snapshots.folder_of(int(best["step"])) or folder
        publish(self._run, folder)

    def _publish(self, folder: Path, best: bool) -> None:
        if best or self._shows == "newest":
            publish(self._run, folder)

    def went_back(self, step: int) -> None:
        """Forget what came after a step."""
        self.snapshots.remove_after(step)
        assert self._journal is not None
        self._journal.cut(step)

    def save(self, what: ToWrite) -> None:
        """Write a checkpoint while training goes on."""
        if self._journal:
            self._journal.sync()
        self.snapshots.write(what)
