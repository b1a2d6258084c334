"""What `albertine tokenizer show` shows: pieces and ids of a text, and how well a vocabulary fits one."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from albertine import progress
from albertine.errors import InputError
from albertine.text.documents import Troubles, documents
from albertine.text.settings import ReadingSettings
from albertine.text.sources import find_sources, portions_of
from albertine.text.tokenizer import Tokenizer
from albertine.text.words import WordEncoder


@dataclass(frozen=True)
class Fit:
    """How well a vocabulary fits a text."""

    words: int
    pieces: int
    unknown: int

    @property
    def pieces_per_word(self) -> float:
        """How many pieces a word takes; near 1 is a vocabulary that knows the words."""
        return self.pieces / max(1, self.words)

    @property
    def unknown_share(self) -> float:
        """Share of the pieces that are the unknown one."""
        return self.unknown / max(1, self.pieces)


def fit(tokenizer: Tokenizer, texts: Sequence[str], reading: ReadingSettings) -> Fit:
    """Count words, pieces and unknown pieces over files."""
    encoder = WordEncoder(tokenizer)
    words = pieces = unknown = 0
    troubles = Troubles(skip=reading.on_error == "skip")
    if any(text in ("-", "/dev/stdin") for text in texts):
        raise InputError("--over: takes files, folders and globs; save standard input to a file first")
    found = [portion for source in find_sources(texts) for portion in portions_of(source)]
    for document in chain.from_iterable(
        documents(portion, reading, troubles)
        for portion in progress.track(found, "Encoding", unit="portions")
    ):
        ids, _ = encoder.encode(document)
        words += sum(len(sentence.split()) for sentence in document)
        pieces += len(ids)
        unknown += int((ids == tokenizer.special.unknown).sum())
    return Fit(words, pieces, unknown)


def show(folder: Path, tokenizer: Tokenizer, text: str | None, over: Fit | None, *, as_json: bool) -> None:
    """Print what was asked for: pieces of a text, fit over files, or what the tokenizer is."""
    ids = tokenizer.ids(text) if text is not None else []
    if as_json:
        report: dict[str, object] = {"size": len(tokenizer), "fingerprint": tokenizer.fingerprint}
        if text is not None:
            report |= {"pieces": [tokenizer.pieces[one] for one in ids], "ids": ids}
        if over:
            shares = {"pieces_per_word": over.pieces_per_word, "unknown_share": over.unknown_share}
            report["over"] = asdict(over) | shares
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return
    out = progress.results()
    if text is not None:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("piece")
        table.add_column("id", justify="right")
        for one in ids:
            style = "red" if one == tokenizer.special.unknown else ""
            table.add_row(
                f"[{style}]{escape(tokenizer.pieces[one])}[/]" if style else escape(tokenizer.pieces[one]),
                str(one),
            )
        out.print(table)
    if over:
        out.print(
            f"{over.words:,} words, {over.pieces:,} pieces: {over.pieces_per_word:.3f} pieces per word, "
            f"{over.unknown_share:.4%} unknown",
            highlight=False,
        )
    if text is None and over is None:
        special = ", ".join(f"{tokenizer.pieces[one]} {one}" for one in vars(tokenizer.special).values())
        out.print(
            f"{folder}: {len(tokenizer):,} pieces, fingerprint {tokenizer.fingerprint}", highlight=False
        )
        out.print(f"special: {special}", highlight=False, markup=False)
