"""The published studies that test ALBERT's claim; the report links to copies of their pages in its folder."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import albertine
from albertine.atomic import atomic_file

_FOLDER = "studies"


@dataclass(frozen=True)
class PublishedStudy:
    """A study of ALBERT's claim at the scale minutes, with five seeds.

    Attributes:
        claim: Name of the claim.
        title: What it compares.
        verdict: Its published verdict.
    """

    claim: str
    title: str
    verdict: str

    @property
    def page(self) -> str:
        """Path of the page in the folder of the demo."""
        return f"{_FOLDER}/{self.claim}.minutes.html"


PUBLISHED_STUDIES = (
    PublishedStudy("table-2", "ALBERT and BERT after equal steps (Table 2 of the paper)", "undecided"),
    PublishedStudy("table-6", "ALBERT and BERT after equal time (Table 6)", "contradicted"),
)


def copy_study_pages(out: Path) -> None:
    """Copy the pages of the studies into a demo's folder; an installed package does not have them."""
    published = Path(albertine.__file__).parents[2] / "docs" / "studies" / "claims"
    for study in PUBLISHED_STUDIES:
        source = published / Path(study.page).name
        if source.is_file():
            (out / _FOLDER).mkdir(exist_ok=True)
            with atomic_file(out / study.page) as partial:
                shutil.copyfile(source, partial)
