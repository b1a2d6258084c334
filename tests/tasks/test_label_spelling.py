"""Labels that look like one label in two spellings, or like a missing value."""

import unicodedata

from albertine.tasks.label_spelling import doubtful_labels


def test_doubtful_labels_are_named() -> None:
    assert doubtful_labels(["Yes", "no", "yes", "NA"]) == [
        "labels differ only in capitals or in the form of accents: Yes and yes; write them alike if "
        "they mean the same",
        "labels that count as classes: NA; remove their rows if they mark missing labels",
    ]
    assert len(doubtful_labels([unicodedata.normalize(form, "caf\u00e9") for form in ("NFC", "NFD")])) == 1


def test_other_labels_are_not() -> None:
    assert doubtful_labels(["Masse", "Ma\u00dfe", "cafe", "caf\u00e9", "none"]) == []
    assert doubtful_labels(["NA", "null"]) == []
