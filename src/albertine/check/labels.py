"""Labels: missing, rare or unbalanced ones, and labels of dev that train lacks."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable

from albertine.check.findings import DataItem, Finding
from albertine.display import display_text, percent
from albertine.tasks.card import has_too_many_labels
from albertine.tasks.formats.cells import joined_label
from albertine.tasks.formats.decimals import has_decimal_comma
from albertine.tasks.formats.headers import is_number
from albertine.tasks.label_spelling import is_number_of_name, labels_alike, missing_marks

_MAX_LABELS = 10_000  # distinct ones that are counted, and as many more that are not numbers
_MAX_CLASSES = 50  # more numbers than that are values, not classes
_MIN_EXAMPLES = 10  # a label with fewer is rare
_MAX_COMMON_SHARE = 0.9
_MIN_NUMBER_SHARE = 0.9  # of the labels in a column of numbers
_LISTED = 5
_NUMBER_ADVICE = "numbers are read without currency signs and separators of thousands"
_COLUMN_ADVICE = f"name another column with --label; {_NUMBER_ADVICE}"
_COMMA_ADVICE = 'write a decimal point; for several labels in a cell, give --label-separator ","'
_AMOUNT = re.compile(r"[+-]?\d[\d.,' ]*")


class LabelCheck:
    """Counts the labels of both splits; in multi-label data, each label by itself.

    Args:
        are_numbers: whether the labels are numbers to predict. If not, they may be so all the same: the check
            then decides by how many distinct numbers there are.
    """

    def __init__(self, *, are_numbers: bool = False) -> None:
        self._are_numbers = are_numbers
        self._counts: dict[str, Counter[str]] = {"train": Counter(), "dev": Counter()}
        self._rows, self._missing = Counter[str](), Counter[str]()
        self._num_labels = self._num_numbers = 0  # in train
        self._is_multi_label = self._are_tags = False
        self._first_locations: dict[tuple[str, str], str] = {}  # by split and label
        self._missing_location = ""
        self._is_full = self._has_decimal_commas = self._has_train = False

    def observe(self, item: DataItem) -> None:
        """Look at an item."""
        self._has_train |= item.split == "train"
        if not item.has_label:
            return
        if item.labels is None:
            self._missing_location = self._missing_location or item.location
            self._missing[item.split] += 1
            return
        self._rows[item.split] += 1
        self._is_multi_label |= item.is_multi_label
        self._are_tags |= item.are_tags
        self._has_decimal_commas |= item.has_decimal_commas
        for label in item.labels:
            self._count(label, item)

    def _count(self, label: str, item: DataItem) -> None:
        counts, has_point = self._counts[item.split], is_number(label)
        if item.split == "train":
            self._num_labels += 1
            self._num_numbers += has_point or has_decimal_comma(label)
        if label not in counts and len(counts) >= _MAX_LABELS:
            self._is_full = True
            if has_point or len(counts) >= 2 * _MAX_LABELS:
                return
        counts[label] += 1
        if len(self._first_locations) < 4 * _MAX_LABELS:
            self._first_locations.setdefault((item.split, label), item.location)

    def findings(self) -> Iterable[Finding]:
        """Yield what was found."""
        train, dev = self._counts["train"], self._counts["dev"]
        missing = self._missing.total()
        if self._is_multi_label:  # a row without a list has no labels, as one with an empty list
            self._rows, missing = self._rows + self._missing, 0
        if missing:
            yield Finding(
                "error", "missing-label", "rows without a label", missing, "", self._missing_location,
                "label or remove them; --on-error skip of finetune leaves them out",
            )  # fmt: skip
        if self._has_train and not train and dev and not missing:
            label = next(iter(dev))
            yield Finding(
                "error", "labels-only-in-dev", "labels of dev, and train has no such column", len(dev),
                display_text(label), self._first_location("dev", label), "name the column with --label",
            )  # fmt: skip
        if not train:
            return
        num_labels, num_rows = len(train.keys() | dev.keys()), sum(self._rows.values())
        is_refused = not self._is_multi_label and has_too_many_labels(num_labels, num_rows)
        is_quantity = (len(train) > _MAX_CLASSES or is_refused) and self._are_quantities()
        if self._are_numbers or is_quantity or self._are_unreadable_numbers():
            yield from self._number_findings()
            return
        if self._is_full:
            yield Finding(
                "warning", "too-many-labels", "distinct labels or more, too many for classes", _MAX_LABELS,
                display_text(next(iter(train))), advice=_COLUMN_ADVICE,
            )  # fmt: skip
            return
        if is_refused:
            yield Finding(
                "error", "labels-as-texts", f"labels in {num_rows:,} rows, too many for classes",
                num_labels, display_text(next(iter(train))), advice=_COLUMN_ADVICE,
            )  # fmt: skip
            return
        joined = self._joined_label(train)
        yield from self._class_findings(train, separator=None if joined is None else joined[1])
        if joined is not None:
            yield self._joined_finding(train, *joined)
        yield from _spelling_findings(train.keys() | dev.keys())
        if new := [label for label in dev if label not in train]:
            advice = "add examples to train, or fix the spelling"
            if all(is_number_of_name(label, train) for label in new):
                advice = "write the names of train in place of numbers"
            yield Finding(
                "error", "labels-only-in-dev", "labels of dev that are not in train", len(new),
                ", ".join(map(display_text, new[:_LISTED])), self._first_location("dev", new[0]),
                advice,
            )  # fmt: skip

    def _first_location(self, split: str, label: str) -> str:
        """Return the location of the first row with a label; empty if there were too many labels."""
        return self._first_locations.get((split, label), "")

    def _number_findings(self) -> Iterable[Finding]:
        count, more = len(self._counts["train"]), ""
        if count >= _MAX_LABELS:
            count, more = _MAX_LABELS, "or more "
        noun = "number as label in all rows" if count == 1 else "distinct numbers as labels"
        message = f"{more}{noun}: a task of type regress"
        yield Finding("note", "labels", message, count)
        if count == 1:
            yield Finding(
                "error", "one-label", "numbers in all rows; a regression needs two", 1,
                display_text(next(iter(self._counts["train"]))), advice="name another --label",
            )  # fmt: skip
        for split, counts in self._counts.items():
            unreadable = [label for label in counts if not self._is_readable_number(label)]
            if not unreadable:
                continue
            commas = any(map(has_decimal_comma, unreadable))
            yield Finding(
                "error", "not-numbers", "labels that cannot be read as a number, in a column of numbers",
                len(unreadable),
                ", ".join(map(display_text, unreadable[:_LISTED])),
                self._first_location(split, unreadable[0]),
                _COMMA_ADVICE if commas else "correct or remove these rows",
            )  # fmt: skip

    def _is_readable_number(self, label: str) -> bool:
        return is_number(label) or (self._has_decimal_commas and has_decimal_comma(label))

    def _are_quantities(self) -> bool:
        """Return whether labels are numbers, or fractions with a few exceptions; whole ones may be codes."""
        numbers = (label for label in self._counts["train"] if is_number(label) or has_decimal_comma(label))
        is_fractional = any(not label.strip("+-").isdecimal() for label in numbers)
        share = _MIN_NUMBER_SHARE if is_fractional else 1.0
        return self._num_numbers >= share * self._num_labels

    def _are_unreadable_numbers(self) -> bool:
        """Return whether all labels are numbers, and some have a decimal comma that is not read."""
        if self._is_multi_label or self._num_numbers < self._num_labels:
            return False
        return not all(map(self._is_readable_number, self._counts["train"]))

    def _joined_label(self, train: Counter[str]) -> tuple[str, str] | None:
        """Return a label that seems to be several, and the separator between them; None without one."""
        if self._is_multi_label or self._num_numbers == self._num_labels:  # 3,5 may be a number
            return None
        return joined_label(train)

    def _joined_finding(self, train: Counter[str], label: str, separator: str) -> Finding:
        joined = [other for other in train if separator in other]
        count = sum(other.partition(separator)[0].strip() in train for other in joined)
        return Finding(
            "note", "joined-labels",
            "labels made up of others" if count else "labels that share their parts", count or len(joined),
            display_text(label), self._first_location("train", label),
            f"for several labels in a cell (--task multi-label), give --label-separator \"{separator}\"",
        )  # fmt: skip

    def _class_findings(self, train: Counter[str], separator: str | None) -> Iterable[Finding]:
        total = self._total(train)
        common = ", ".join(
            f"{display_text(label)} {percent(count, total)}" for label, count in train.most_common(_LISTED)
        )
        others = f" and {len(train) - _LISTED:,} more" if len(train) > _LISTED else ""
        yield Finding("note", "labels", f"labels in train: {common}{others}", len(train))
        if not self._is_multi_label:  # in multi-label data, all rows may have the same label
            yield from self._balance_findings(train)
        rare = sorted(
            (count, label)
            for label, count in train.items()
            # If it is several labels, each of them may be frequent.
            if count < _MIN_EXAMPLES and (separator is None or separator not in label)
        )
        if rare:
            listed = ", ".join(f"{display_text(label)} ({count})" for count, label in rare[:_LISTED])
            advice = "add examples, join classes, or fix the spelling"
            yield Finding(
                "warning", "rare-labels", f"labels with fewer than {_MIN_EXAMPLES} examples", len(rare),
                listed, self._first_location("train", rare[0][1]),
                f"{advice}; {_NUMBER_ADVICE}" if _are_amounts(train) else advice,
            )  # fmt: skip

    def _total(self, train: Counter[str]) -> int:
        """Return of what the counts are shares: of the words if each has a tag, otherwise of the rows."""
        return train.total() if self._are_tags else self._rows["train"]

    def _balance_findings(self, train: Counter[str]) -> Iterable[Finding]:
        total = self._total(train)
        label, count = train.most_common(1)[0]
        if len(train) == 1:
            yield Finding(
                "error", "one-label", "labels in all rows; a classifier needs two", 1, display_text(label),
                self._first_location("train", label),
                "add examples of another class, or name another --label",
            )  # fmt: skip
        elif count > _MAX_COMMON_SHARE * total:
            yield Finding(
                "warning", "unbalanced-labels",
                f"rows have the same label, {percent(count, total)}: always predicting it is right as often",
                count, display_text(label), self._first_location("train", label),
                "judge by F1 or Matthews correlation instead of accuracy, or add rare examples",
            )  # fmt: skip


def _spelling_findings(labels: Collection[str]) -> Iterable[Finding]:
    if alike := labels_alike(labels):
        yield Finding(
            "warning", "labels-alike", "labels that differ only in capitals or the form of accents",
            sum(map(len, alike)), " and ".join(map(display_text, alike[0])),
            advice="write them alike if they mean the same",
        )  # fmt: skip
    if marks := missing_marks(labels):
        yield Finding(
            "warning", "missing-mark", "labels that may mark a missing one, read as classes", len(marks),
            ", ".join(map(display_text, marks)), advice="remove these rows if they have no label",
        )  # fmt: skip


def _are_amounts(labels: Collection[str]) -> bool:
    """Return whether most labels are numbers, some of them with a currency sign."""
    bare = ["".join(sign for sign in label if unicodedata.category(sign) != "Sc").strip() for label in labels]
    num_amounts = sum(_AMOUNT.fullmatch(text) is not None for text in bare)
    return bare != [*labels] and num_amounts >= _MIN_NUMBER_SHARE * len(labels)
