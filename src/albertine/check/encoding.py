"""Damaged characters: bytes that are not UTF-8, text decoded with a wrong encoding, control characters."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable

from albertine.check.findings import DataItem, Finding, Severity, Tally
from albertine.display import counted
from albertine.json_input import RECODE

# The characters that Windows-1252 and Latin-1 show for the continuation bytes of UTF-8, 0x80 to 0xBF.
_CONTINUATION = "".join(
    sorted(
        {bytes([code]).decode("cp1252", "ignore") for code in range(0x80, 0xC0)}
        | set(map(chr, range(0x80, 0xC0)))
    )
)
_CONTINUATION_CLASS = f"[{re.escape(_CONTINUATION)}]"
# "Ã¼" for ü, "Â°" for °, "â€œ" for a quotation mark, ð and Ÿ with two more for an emoji, or at least two such
# characters of any script in a row. One Chinese character is not enough: it can look like the French "é »".
# After a capital, Ã may be the last letter of a word in capitals: AMANHÃ».
_MOJIBAKE = re.compile(
    f"(?:(?<![A-ZÀ-Þ])[ÃÂ]{_CONTINUATION_CLASS}|â[\u20ac\u201a\u201e\x80\x82\x84]{_CONTINUATION_CLASS}"
    f"|ð[Ÿ\x9d\x9f]{_CONTINUATION_CLASS}{{2}}"
    f"|(?:[Ä-ô]{_CONTINUATION_CLASS}{{1,3}}){{2,}})+"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1b\x7f-\x84\x86-\x9f]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"

# Severity, kind, what was found, and what to do.
_FINDINGS: tuple[tuple[Severity, str, str, str], ...] = (
    ("error", "utf-16", "UTF-16 files, expected UTF-8", "save them as UTF-8"),
    ("error", "not-utf-8", "lines that are not UTF-8", RECODE),
    (
        "error",
        "mojibake",
        "texts decoded with a wrong encoding",
        "read the original again as UTF-8, or repair it with a program such as ftfy",
    ),
    (
        "warning",
        "replacement-character",
        "texts with U+FFFD, where characters were lost",
        "get the original again; what was there cannot be recovered",
    ),
    (
        "warning",
        "control-character",
        "texts with control characters",
        "remove them; tokenizers drop or replace them",
    ),
    (
        "warning",
        "inner-byte-order-mark",
        "texts with a byte order mark inside",
        "remove it; it is left from joining files that each began with one",
    ),
    ("note", "byte-order-mark", "files with a byte order mark", "nothing to do: it is ignored"),
)


def find_mojibake(text: str) -> tuple[str, str] | None:
    """Return the first wrongly decoded characters of a text and what they were, or None.

    Only characters that become valid UTF-8 count: the Ã of an ordinary word is followed by a letter.
    """
    if text.isascii():
        return None
    text = unicodedata.normalize("NFC", text)  # a letter and its combining accent as one character
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


class EncodingCheck:
    """Counts texts with damaged characters, and lines and files that are not UTF-8."""

    def __init__(self) -> None:
        self._tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self._num_files_not_utf_8 = 0  # files with a line that is not UTF-8
        self._is_file_counted = False  # whether the current file is one of them

    def observe(self, item: DataItem) -> None:
        """Look at the texts of an item."""
        for text in item.all_texts:
            self._observe_text(text, item.location)

    def observe_file(self, beginning: bytes, location: str) -> bool:
        """Look at the first bytes of a file; return whether it is UTF-16, which has no lines to look at."""
        self._is_file_counted = False
        is_utf_16 = beginning[:2] in (b"\xff\xfe", b"\xfe\xff")
        if is_utf_16:
            self._tallies["utf-16"].add(location, "a byte order mark of UTF-16")
        elif beginning.startswith(b"\xef\xbb\xbf"):
            self._tallies["byte-order-mark"].add(location, "EF BB BF")
        return is_utf_16

    def observe_line(self, line: bytes, location: str) -> None:
        """Look at a line of a file, without the byte order mark of the file."""
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            example = line[max(0, error.start - 20) : error.end + 20]
            self._num_files_not_utf_8 += not self._is_file_counted
            self._is_file_counted = True
            self._tallies["not-utf-8"].add(location, example.decode("cp1252", "replace").strip())
        else:
            self._observe_text(text.rstrip("\r\n"), location)

    def _observe_text(self, text: str, location: str) -> None:
        if found := find_mojibake(text):
            self._tallies["mojibake"].add(location, f"{found[0]} for {found[1]}")
        if match := _CONTROL.search(text):
            self._tallies["control-character"].add(location, f"U+{ord(match.group()):04X}")
        if _REPLACEMENT in text:
            index = text.index(_REPLACEMENT)
            self._tallies["replacement-character"].add(location, text[max(0, index - 20) : index + 20])
        if _BYTE_ORDER_MARK in text:
            self._tallies["inner-byte-order-mark"].add(location, "U+FEFF")

    def findings(self) -> Iterable[Finding]:
        """Yield a finding for each kind of damage."""
        for severity, kind, message, advice in _FINDINGS:
            if tally := self._tallies.get(kind):
                if kind == "not-utf-8":
                    message += f", in {counted(self._num_files_not_utf_8, 'file')}"
                yield Finding(severity, kind, message, tally.count, tally.example, tally.location, advice)
