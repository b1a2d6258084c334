"""Damaged characters: bytes that are not UTF-8, text decoded with a wrong encoding, control characters."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from albertine.check.findings import DataItem, Finding, Severity
from albertine.display import display_text

# The characters that Windows-1252 and Latin-1 show for the bytes 0x80 to 0xBF, which continue a character.
_CONTINUATION = "".join(
    sorted(
        {bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xC0)}
        | set(map(chr, range(0x80, 0xC0)))
    )
)
_CLASS = f"[{re.escape(_CONTINUATION)}]"
# "Ã¼" for ü, "Â°" for °, "â€œ" for a quotation mark, or two characters of any script in a row. After a
# capital, Ã may be the last letter of a word in capitals: AMANHÃ».
_MOJIBAKE = re.compile(
    f"(?:(?<![A-ZÀ-Þ])[ÃÂ]{_CLASS}|â[\u20ac\u201a\u201e]{_CLASS}|(?:[Ä-ßà-ô]{_CLASS}{{1,3}}){{2,}})+"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1b\x7f-\x84\x86-\x9f]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
RECODE = "find the encoding of the original and convert it, as in: iconv -f WINDOWS-1252 -t UTF-8"


@dataclass
class _Tally:
    """How many texts have a problem, and the first of them."""

    count: int = 0
    example: str = ""
    location: str = ""

    def add(self, location: str, example: str) -> None:
        if not self.count:
            self.example, self.location = display_text(example), location
        self.count += 1


def repaired_mojibake(text: str) -> tuple[str, str] | None:
    """Return the first damaged characters of a text and what they were, or None.

    Only characters that become valid UTF-8 count: the Ã of an ordinary word is followed by a letter.
    """
    if text.isascii():
        return None
    for match in _MOJIBAKE.finditer(text):
        damaged = match.group()
        try:
            return damaged, b"".join(map(_single_byte, damaged)).decode()
        except (UnicodeDecodeError, UnicodeEncodeError):
            continue
    return None


def _single_byte(character: str) -> bytes:
    code = ord(character)
    return bytes([code]) if code < 0x100 else character.encode("cp1252")


@dataclass
class EncodingCheck:
    """Counts texts with damaged characters; `observe_bytes` counts lines that are not UTF-8."""

    _mojibake: _Tally = field(default_factory=_Tally)
    _control: _Tally = field(default_factory=_Tally)
    _replaced: _Tally = field(default_factory=_Tally)
    _inner_mark: _Tally = field(default_factory=_Tally)
    _first_mark: _Tally = field(default_factory=_Tally)
    _invalid: _Tally = field(default_factory=_Tally)
    _wide: _Tally = field(default_factory=_Tally)

    def observe(self, item: DataItem) -> None:
        """Look at the texts of an item."""
        for text in item.texts:
            self.observe_text(text, item.location)

    def observe_text(self, text: str, location: str) -> None:
        """Look at a text."""
        if damaged := repaired_mojibake(text):
            self._mojibake.add(location, f"{damaged[0]} for {damaged[1]}")
        if match := _CONTROL.search(text):
            self._control.add(location, f"U+{ord(match.group()):04X}")
        if _REPLACEMENT in text:
            index = text.index(_REPLACEMENT)
            self._replaced.add(location, text[max(0, index - 20) : index + 20])
        if _BYTE_ORDER_MARK in text:
            self._inner_mark.add(location, "U+FEFF")

    def observe_line(self, line: bytes, location: str, *, is_first: bool) -> str | None:
        """Look at a line of a file; return it decoded, or None if it is not UTF-8."""
        if is_first and line[:2] in (b"\xff\xfe", b"\xfe\xff"):
            self._wide.add(location, "a byte order mark of UTF-16")
            return None
        if is_first and line.startswith(b"\xef\xbb\xbf"):
            self._first_mark.add(location, "EF BB BF")
            line = line[3:]
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            start = max(0, error.start - 20)
            self._invalid.add(location, line[start : error.end + 20].decode("cp1252", "replace").strip())
            return None
        self.observe_text(unicodedata.normalize("NFC", text).rstrip("\r\n"), location)
        return text

    def findings(self) -> Iterable[Finding]:
        """Yield a finding for each kind of damage."""
        yield from _finding(
            "error", "utf-16", "UTF-16 files, expected UTF-8", self._wide, "save them as UTF-8"
        )
        yield from _finding("error", "not-utf-8", "lines that are not UTF-8", self._invalid, RECODE)
        yield from _finding(
            "error", "mojibake", "texts decoded with a wrong encoding", self._mojibake,
            "read the original again as UTF-8, or repair it with a program such as ftfy",
        )  # fmt: skip
        yield from _finding(
            "warning", "replacement-character", "texts with U+FFFD, where characters were lost",
            self._replaced, "get the original again; what was there cannot be recovered",
        )  # fmt: skip
        yield from _finding(
            "warning", "control-character", "texts with control characters", self._control,
            "remove them; tokenizers drop or replace them",
        )  # fmt: skip
        yield from _finding(
            "warning", "inner-byte-order-mark", "texts with a byte order mark inside", self._inner_mark,
            "remove it; files were joined that each began with one",
        )  # fmt: skip
        yield from _finding(
            "note", "byte-order-mark", "files with a byte order mark", self._first_mark,
            "nothing: it is ignored",
        )  # fmt: skip


def _finding(severity: Severity, kind: str, message: str, tally: _Tally, advice: str) -> Iterator[Finding]:
    if tally.count:
        yield Finding(severity, kind, message, tally.count, tally.example, tally.location, advice)
