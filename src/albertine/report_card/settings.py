"""Settings of the report card, in a module of their own so that the help page loads fast."""

from dataclasses import dataclass
from pathlib import Path

from albertine.settings import DeviceName, SettingError, Settings, setting


@dataclass(frozen=True)
class ReportCardSettings(Settings):
    """What a report card is made from; the recipe is fixed, so that cards can be compared."""

    corpus: Path | None = setting(
        None, "Folder of a corpus with held-out documents, for [MASK] tokens and sentence order."
    )
    data: Path | None = setting(
        None, "Folder with the folders and files of BLiMP, SST-2, CoLA, MNLI, QQP and XQuAD, or some of them."
    )
    seeds: int = setting(
        1,
        "Fine-tuning runs per task and start, with different seeds; the median counts.",
        minimum=1,
        maximum=1000,
    )
    device: DeviceName = setting("auto", "Device; auto is a GPU if there is one.")

    def check(self) -> None:
        """Raise `SettingError` if there are seeds and no data of tasks to fine-tune on."""
        if self.data is None and self.seeds > 1:
            raise SettingError("seeds", self.seeds, "needs data: only tasks take several seeds", ("data",))
