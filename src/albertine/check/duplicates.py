"""Equal texts: within train, between train and dev, and with different labels.

Texts are compared as hashes of their normalized form. If there are more than `MAX_HASHES`, only every second
hash is kept, then every fourth, and so on: the same text is kept or dropped in both splits.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from albertine.check.findings import DataItem, Finding, Severity
from albertine.display import display_text, percent
from albertine.tasks.formats.decimals import has_decimal_comma
from albertine.tasks.formats.headers import is_number

MAX_HASHES = 1 << 19
_MANY = 0.01  # of the texts


@dataclass
class _Seen:
    location: str
    labels: frozenset[str] | None
    num_rows: int = 1  # of train
    conflicts: frozenset[str] = frozenset()  # "numbers" if a row has another number, "labels" for others


class DuplicateCheck:
    """Counts equal texts.

    Args:
        normalize: what a tokenizer sees of a text.
    """

    def __init__(self, normalize: Callable[[str], str] = str):
        self._normalize = normalize
        self._seen: dict[int, _Seen] = {}
        self._step = 1  # hashes that are multiples of it are kept
        self._repeated = self._shared = self._rows = self._dev_rows = 0
        self._repeated_example = self._shared_example = ("", "")
        self._conflict_examples: dict[str, tuple[str, str]] = {}
        self._has_fractions = False
        self._label_noun = "label"

    def observe(self, item: DataItem) -> None:
        """Look at an item; items of train come before those of dev."""
        self._has_fractions = self._has_fractions or any(map(_is_fraction, item.labels or ()))
        if not any(text.strip() for text in item.all_texts):
            return
        key = self._key(item)
        if key % self._step:
            return
        is_dev = item.split == "dev"
        self._rows += not is_dev
        self._dev_rows += is_dev
        seen = self._seen.get(key)
        if seen is None:
            if not is_dev:
                self._add(key, item)
            return
        example = (display_text(item.all_texts[0]), f"{seen.location} and {item.location}")
        if is_dev:
            self._shared_example = self._shared_example if self._shared else example
            self._shared += 1
        else:
            self._repeated_example = self._repeated_example if self._repeated else example
            self._repeated += 1
            seen.num_rows += 1
        labels = _label_set(item)
        self._label_noun = "label" if item.has_label else "answer"
        if labels is not None and seen.labels is not None and labels != seen.labels:
            kind = "numbers" if None not in map(_number, labels | seen.labels) else "labels"
            both = f"{self._labels_text(seen.labels)} and {self._labels_text(labels)}"
            self._conflict_examples.setdefault(kind, (f"{example[0]}: {both}", example[1]))
            seen.conflicts |= {kind}

    def _labels_text(self, labels: frozenset[str]) -> str:
        return display_text(", ".join(sorted(labels)) or f"no {self._label_noun}")

    def _key(self, item: DataItem) -> int:
        normalize = str if item.sentences else self._normalize  # `corpus build` compares documents unchanged
        texts = [" ".join(normalize(text).split()) for text in item.all_texts]
        content = "\x1f".join(texts).encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big")

    def _add(self, key: int, item: DataItem) -> None:
        self._seen[key] = _Seen(item.location, _label_set(item))
        if len(self._seen) > MAX_HASHES:
            self._step *= 2
            self._seen = {key: seen for key, seen in self._seen.items() if key % self._step == 0}
            self._rows = sum(seen.num_rows for seen in self._seen.values())
            self._repeated = self._rows - len(self._seen)

    def findings(self) -> Iterable[Finding]:
        """Yield what was found."""
        sampled = f" (in a sample of one text in {self._step})" if self._step > 1 else ""
        # In a column with fractions, numbers are measurements, which may differ.
        kinds = {"labels"} if self._has_fractions else {"labels", "numbers"}
        if conflicting := sum(not seen.conflicts.isdisjoint(kinds) for seen in self._seen.values()):
            severity: Severity = "error" if conflicting >= _MANY * self._rows else "warning"
            example = next(one for kind, one in self._conflict_examples.items() if kind in kinds)
            yield Finding(
                severity, "conflicting-labels", f"texts with different {self._label_noun}s{sampled}",
                conflicting, *example, f"keep one {self._label_noun}, or remove these rows",
            )  # fmt: skip
        if self._shared:
            severity = "error" if self._shared >= _MANY * self._dev_rows else "warning"
            share = percent(self._shared, self._dev_rows)
            yield Finding(
                severity, "train-in-dev", f"texts of dev that are also in train, {share} of dev{sampled}",
                self._shared, *self._shared_example, "the score on dev is too high; remove them from train",
            )  # fmt: skip
        if self._repeated:
            share = percent(self._repeated, self._rows)
            yield Finding(
                "warning" if self._repeated >= _MANY * self._rows else "note", "duplicates",
                f"repetitions of texts, {share} of all{sampled}", self._repeated,
                *self._repeated_example, "remove them, unless the frequency of a text matters",
            )  # fmt: skip


def _label_set(item: DataItem) -> frozenset[str] | None:
    return None if item.labels is None else frozenset(item.labels)


def _number(label: str) -> float | None:
    """Return the number that a label is, maybe with a decimal comma; None if it is none."""
    text = label.replace(",", ".") if has_decimal_comma(label) else label
    return float(text) if is_number(text) else None


def _is_fraction(label: str) -> bool:
    number = _number(label)
    return number is not None and not number.is_integer()
