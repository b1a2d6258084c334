"""What the campaign knows about a reader of a file."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.campaign.hostile_input.formats import Format

Seal = Callable[[Path], None]


@dataclass(frozen=True)
class Reader:
    """A reader of one file.

    Attributes:
        file: the valid file, relative to the folder of examples; its first folder is copied for a trial.
        file_format: its format.
        commands: commands that read it; empty if the file holds the arguments of a command.
        needs: other examples that the commands need; a folder is copied without its `checkpoints`.
        seal: corrects the checksums of the folder of the file, so that readers look at the content.
        resumable: what a failed command may leave, because the same command resumes.
        weight: how often it is drawn, compared with the others.
    """

    file: str
    file_format: Format
    commands: tuple[str, ...]
    needs: tuple[str, ...] = ()
    seal: Seal | None = None
    resumable: tuple[str, ...] = ()
    weight: int = 2
