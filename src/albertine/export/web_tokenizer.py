"""Compares the ids of the tokenizer in JavaScript with those of the model's tokenizer, on hard texts."""

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from albertine.display import display_text
from albertine.errors import InputError, WorkError
from albertine.tasks.sequences import SequenceBuilder
from albertine.text.tokenizer import Tokenizer

_NUM_TEXTS = 1_000
_TIMEOUT = 300  # seconds
_PARTS = (
    *(
        "the",
        "Ida",
        "put",
        "it's",
        "don't",
        "1,000,000",
        "3.14",
        "``x''",
        "a/b",
        "(b)",
        "x-(y)",
        "«naïve»",
        "Ça",
    ),
    *("STRASSE", "ß", "ẞ", "İSTANBUL", "ıI", "ΟΔΟΣ", "Σ", "σς", "ﬁne", "½", "①", "ℌ", "Å", "Å", "Ａ", "ﷺ"),
    *("e\u0301", "q\u0323\u0307", "\u0301", "a\u0300\u0301\u0302", "n\u0303o", "\u1e9b\u0323", "é\u0301"),
    *(
        "漢字かな交じり文",
        "ガギグ",
        "ｶﾞｷﾞ",
        "한국어",
        "텍스트",
        "\u1112\u1161\u11ab",
        "𠀀𠀁",
        "中国 人",
        "你好，世界。",
    ),
    *(
        "हिन्दी",
        "में",
        "ภาษาไทย",
        "العربية",
        "עִבְרִית",
        "தமிழ்",
        "বাংলা",
        "ქართული",
        "Ქართული",
        "Ελλάδα",
        "Юникод",
        "ѐ",
    ),
    *(
        "🙂",
        "👩‍👩‍👧",
        "🇩🇪",
        "👍🏽",
        "❤️",
        "𝔘𝔫𝔦",
        "☃",
        "€",
        "£",
        "→",
        "—",
        "…",
        "“q”",
        "‘s’",
        "′",
        "\ufe0f",
        "ⓐ",
    ),
    *(
        "\t",
        "\n",
        "\r\n",
        "\x00",
        "\x07",
        "\x0b",
        "\x1c",
        "\x7f",
        "\x85",
        "\u00a0",
        "\u2028",
        "\u3000",
        "\u200b",
    ),
    *(
        "\u200d",
        "\ufeff",
        "\u00ad",
        "\u2060",
        "\ufffd",
        "\ue000",
        "▁",
        "▁a",
        "a▁b",
        "##ing",
        "<0x41>",
        "<unk>",
    ),
    *(
        "[MASK]",
        "[CLS]",
        "[SEP]",
        "<pad>",
        "[mask]",
        "[PAD]",
        "[UNK]",
        " [MASK].",
        "x[MASK]y",
        "[MASK",
        "MASK]",
    ),
    *(
        "a" * 101,
        "Donaudampfschiffahrtsgesellschaft" * 5,
        "é" * 60,
        "漢" * 80,
        "🙂" * 30,
        "-" * 40,
        "",
        " ",
        "  ",
    ),
)


def hard_texts(count: int = _NUM_TEXTS) -> list[str]:
    """Return texts on which tokenizers may differ: accents, scripts, emoji, controls, long words."""
    rng = random.Random(0)
    texts = ["", " ", "\n", *_PARTS]
    while len(texts) < count:
        parts = rng.choices(_PARTS, k=rng.randint(1, 9))
        texts.append(rng.choice(("", " ", " ")).join(parts))
    return texts[:count]


def find_node() -> str:
    """Return the path of Node.js; raise `InputError` if it is not installed."""
    node = shutil.which("node")
    if node is None:
        raise InputError("export to web needs node, which checks the page's tokenizer; install Node.js")
    return node


def check_web_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    """Raise `WorkError` if the tokenizer in the folder of a web export gives other ids than the model's.

    Args:
        folder: the folder, with the scripts of the page and of the libraries.
        tokenizer: tokenizer of the model.
    """
    texts = hard_texts()
    answers = run_web_tokenizer(find_node(), folder, texts)
    for text, answer, expected in zip(texts, answers, expected_ids(tokenizer, texts), strict=True):
        for use, ids in expected.items():
            if answer[use] != ids:
                raise WorkError(
                    f"{tokenizer.source}: the page's tokenizer gives other ids for {display_text(text)}; "
                    "nothing was written; export it with --to onnx"
                )


def run_web_tokenizer(node: str, folder: Path, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return the ids and the offsets that the tokenizer of a page gives for texts."""
    with TemporaryDirectory() as name:
        copy = Path(name)
        (copy / "lib").mkdir()
        for file in ("tokenizer.js", "lib/tokenizers.js", "tokenizer.json", "page.json"):
            shutil.copy(folder / file, copy / file)
        (copy / "ids.js").write_bytes((files("albertine.export") / "web" / "ids.js").read_bytes())
        (copy / "package.json").write_text('{"type": "module"}', encoding="utf-8")  # for Node.js
        try:
            result = subprocess.run(
                [node, "ids.js"],
                cwd=copy,
                input=json.dumps(texts),
                capture_output=True,
                encoding="utf-8",
                timeout=_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise WorkError(f"{folder}: the tokenizer for browsers takes more than {_TIMEOUT} s") from None
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if "Error" in line] or ["no message"]
        raise WorkError(f"{folder}: the tokenizer for browsers fails: {display_text(lines[0])}")
    answers: list[dict[str, Any]] = json.loads(result.stdout)
    return answers


def expected_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[dict[str, list[int]]]:
    """Return the ids of texts for each use: as ordinary text, with special tokens, and as a passage."""
    builder = SequenceBuilder(tokenizer, 512)
    ordinary = [ids.tolist() for ids in builder.encode(texts)]
    special = tokenizer.encode_batch(texts)
    literal = tokenizer.with_split_special_tokens()
    passages = [
        builder.without_special_tokens(np.array(ids, np.int32)).tolist()
        for ids, _ in literal.encode_with_offsets(texts)
    ]
    return [
        {"ids": ids, "special": with_special, "passage": passage}
        for ids, with_special, passage in zip(ordinary, special, passages, strict=True)
    ]
