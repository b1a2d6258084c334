"""The readers of files: a valid file, its format, and the commands that read it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.hostile_input.formats import Format


@dataclass(frozen=True)
class Reader:
    """One file, and the commands that read it.

    Attributes:
        file: the valid file, relative to the folder of examples; a trial copies its top folder. Names of
            folders may be `*`: the first file that matches is meant.
        file_format: its format.
        commands: commands that read it; empty if the file holds the arguments of a command.
        needs: other examples that the commands need; a folder is copied without its `checkpoints`.
        correct_checksums: called with the folder of the changed file, so that commands read its content.
        resumable: files and folders that a failed command may leave, because the same command resumes.
        weight: how often it is drawn, compared with the others.
        accepted_special: key of `SPECIAL_FILES` that is no hostile input here; empty for none.
    """

    file: str
    file_format: Format
    commands: tuple[str, ...]
    needs: tuple[str, ...] = ()
    correct_checksums: Callable[[Path], None] | None = None
    resumable: tuple[str, ...] = ()
    weight: int = 2
    accepted_special: str = ""

    def path(self, folder: Path) -> Path:
        """Return the path of the file in a folder of examples."""
        return min(folder.glob(self.file), default=folder / self.file)
